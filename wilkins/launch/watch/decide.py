"""The outcome of a task whose program has ended: started again, done, ended with its stream, or failed. Pure."""

from __future__ import annotations

import signal
from typing import Literal

from wilkins.transport.report_table import FailedOpen
from wilkins.values import dataclass


@dataclass(frozen=True, slots=True)
class Exit:
    """How a program ended."""

    code: int
    """Exit code; negative for the number of the signal that killed it."""

    @property
    def clean(self) -> bool:
        """Exit code 0."""
        return self.code == 0

    @property
    def by_signal(self) -> int | None:
        """The signal that ended the program; shells and ``mpiexec`` report one as 128 + its number."""
        number = -self.code if self.code < 0 else self.code - 128
        return number if 0 < number < signal.NSIG else None

    def __str__(self) -> str:
        number = self.by_signal
        if number is None:
            return f"exit code {self.code}"
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"killed by {name}" if self.code < 0 else f"exit code {self.code} ({name})"


def met_end(vain: FailedOpen | None, *, before: int, now: int) -> bool:
    """Whether a program that fails after a failed open has reached the end of its stream, as a loop does.

    Args:
        before: steps that the task read in the run that this one goes on with,
        now: and in this one.
    """
    if vain is None or vain.went_on != "no":
        return False
    if vain.sought == "only step":
        return vain.steps > 0 and before + vain.steps > 1
    # Names that were read in the run before are unknown here.
    return vain.sought in ("next name", "next step") or (vain.sought == "strange" and before > 0 and not now)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a task whose program has just ended."""

    rerun: Literal["auto", "always", "never"]
    strict_end: bool
    takes_filename: bool
    """Started with the name of a step."""
    in_ports: int
    """Memory in-ports."""
    opened: int
    """Most steps of one source that a rank opened since this start."""
    read: int
    """Steps the task read in all, over its starts."""
    listed: Literal["no", "some", "all"]
    """``some``: since this start, its programs read only files that a listing had shown before; ``all``: a listing has
    shown all steps of the stream."""
    at_end: bool
    """Its last failed open since this start is how a loop over a stream ends (`met_end`)."""
    met_failure: bool
    """An error that no program can mend has occurred, such as a full disk when its file was stored."""
    untouched: tuple[str, ...]
    """Patterns of memory ports no start of the task ever used."""
    retries_left: int = 0
    """How often it may be started again after a failure."""


Final = Literal["done", "ended at end of stream", "ended while polling", "failed", "untouched"]
Verdict = Literal["again", "retry"] | Final
"""``again``: to be started once more as soon as its streams bring another step; ``retry``: since it has failed."""


def after_exit(ended: Exit, facts: Facts) -> Verdict:
    """The rules of "one step or a loop" and of "end of stream"."""
    if facts.met_failure:
        return "failed"
    if not ended.clean:
        at_end = facts.in_ports > 0 and facts.read > 0 and facts.at_end and ended.by_signal is None
        if at_end and not facts.strict_end:
            return "ended at end of stream"
        return "retry" if facts.retries_left else "failed"
    goes_on = facts.rerun == "always" or _read_one_step(facts) or has_read_listed(facts)
    if facts.in_ports and facts.rerun != "never" and goes_on:
        return "again"
    return after_last_exit(facts)


_LONGEST_DELAY = 60.0
"""Seconds."""


def delay(first: float, failures: int) -> float:
    """Seconds before a program is started again that has failed so many times."""
    return min(first * 2.0 ** (failures - 1), max(first, _LONGEST_DELAY))


def _read_one_step(facts: Facts) -> bool:
    return facts.listed != "all" and (facts.opened == 1 or (facts.takes_filename and facts.read > 0))


def has_read_listed(facts: Facts) -> bool:
    """Whether the program has listed its files, read some, and ended: later files are for its next start."""
    return facts.rerun == "auto" and facts.listed == "some" and facts.opened > 0


def after_last_exit(facts: Facts) -> Final:
    """The verdict on a task that succeeded and will not be started again."""
    return "untouched" if facts.untouched else "done"
