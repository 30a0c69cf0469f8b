"""When a file that a program writes is complete as a step, and the ways a workflow file can say so."""

from __future__ import annotations

from typing import Literal

from wilkins.values import dataclass

PublishWhen = Literal["close", "next", "flush", "write", "file", "end"]


@dataclass(frozen=True, slots=True)
class PublishRule:
    """When a step is published. Until then its program may reopen and continue it, and no consumer sees it."""

    when: PublishWhen = "close"
    """``close``: at the last close. ``next``: when the program turns to another name, creates the name anew, or ends.
    ``flush``: at every flush, as a copy of what the file then holds. ``write``: likewise, after writes to a dataset.
    ``file``: a folder, when a file in it has been closed. ``end``: a folder, when its task has ended."""
    count: int = 1
    """``close`` and ``write``: at every n-th."""
    dset: str | None = None
    """``write``: the dataset whose writes count; None: any."""
    file: str | None = None
    """``file``, of a folder: the name or pattern, in it, of the file whose close publishes it."""

    @property
    def defers(self) -> bool:
        """Whether a closed file may stay unpublished: it becomes a step at a later event."""
        return self.when in ("next", "file", "end") or (self.when == "close" and self.count > 1)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"it counts from 1, not {self.count}")

    def __str__(self) -> str:
        if self.when == "close" and self.count == 1:
            return "close"
        if self.when in ("next", "flush", "end"):
            return self.when
        if self.when == "file":
            return f"{{file: {self.file}}}"
        what = "close" if self.when == "close" else f"write to {self.dset}" if self.dset else "write"
        return f"every {self.count}. {what}" if self.count > 1 else f"every {what}"
