"""What can go wrong with a rehearsal buffer, in words that a user can act on."""

from __future__ import annotations

from wilkins.tasks.errors import TaskError


class RehearsalError(TaskError):
    """The rehearsal buffer cannot go on."""


class BadSample(RehearsalError):
    """A batch does not fit the buffer; tells the port, the step and the tensor."""

    def __init__(self, reason: str, *, port: str = "", step: int | None = None, tensor: str = "") -> None:
        where = [f"port {port!r}"] if port else []
        where += [] if step is None else [f"step {step}"]
        where += [f"tensor {tensor!r}"] if tensor else []
        super().__init__(f"rehearsal buffer, {', '.join(where)}: {reason}" if where else reason)
        self.reason = reason
        self.port = port
        self.step = step
        self.tensor = tensor

    def at(self, port: str, step: int) -> BadSample:
        """The same error, with the place where it happened."""
        return BadSample(self.reason, port=port, step=step, tensor=self.tensor)


class RankFailed(RehearsalError):
    """Another rank stopped, closed its part of the buffer, or does not agree with this one."""


class CheckpointError(RehearsalError):
    """A saved buffer cannot be written, or cannot be restored here."""
