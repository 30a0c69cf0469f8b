"""The states from which a program can be restarted, and their keys in a workflow file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from wilkins.values import dataclass, replace

RestartHow = Literal["files", "points", "each-step"]

KEEP = 3

FILE = "{file}"
"""Stands for the checkpoint in a restarted program's arguments and in its hook."""


@dataclass(frozen=True, slots=True)
class RestartRule:
    """The state to which a task of a resumed run goes back."""

    how: RestartHow
    """``files``: a checkpoint that it wrote. ``points``: one that it reported (`wilkins.transport.points`).
    ``each-step``: it keeps no state between steps, and goes on with the one after the last that it finished."""
    files: str = ""
    """``files``: the pattern of its checkpoints, as that of a port."""
    keep: int = KEEP
    """``files``: this number of the newest stays available, also if the program overwrites them."""
    args: tuple[str, ...] | None = None
    """Its arguments when it is restarted; None: the same as always."""
    hook: tuple[str, ...] = ()
    """A command that is run before, in its folder."""

    def replaced(self, fill: Callable[[str], str]) -> RestartRule:
        """The rule with its placeholders filled in everywhere."""
        return replace(
            self,
            files=fill(self.files),
            args=None if self.args is None else tuple(map(fill, self.args)),
            hook=tuple(map(fill, self.hook)),
        )

    def __str__(self) -> str:
        if self.how == "files":
            return f"its newest file {self.files!r}"
        return "a point that it tells" if self.how == "points" else "the step after the last that it finished"
