"""What scripts of the original Wilkins import from `wilkins.utils`, for its `actions` to run as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal


def setup_passthru_callbacks(
    vol: Any,  # noqa: ARG001 - as are pl_con and keep, what the original's function is given
    role: Literal["producer", "consumer"],
    pl_con: Mapping[str, int] | Sequence[Any] = (),  # noqa: ARG001
    keep: bool = True,  # noqa: ARG001
) -> None:
    """Let a task exchange files on disk: `mode: file` (`passthru: 1`) of its ports does that, so nothing is left to do.

    Args:
        vol: what a function of `actions` is given.
        role: of the task.
        pl_con: in-ports by pattern.
        keep: files stay on disk after they were read; they do in any case.

    Raises:
        ValueError: `role` is neither of the two.
    """
    if role not in ("producer", "consumer"):
        raise ValueError(f"setup_passthru_callbacks: the role is {role!r}; give it 'producer' or 'consumer'")
