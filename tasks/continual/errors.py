"""What can go wrong in learning on a stream, in words that a user can act on."""

from __future__ import annotations

from wilkins.tasks.checkpoint.errors import CheckpointError as CheckpointError  # of saved learners and buffers, too
from wilkins.tasks.errors import TaskError


class LearningError(TaskError):
    """Training cannot go on: data, model and loss do not fit each other, or a saved state does not fit the model."""


class BadBatch(LearningError):
    """A batch does not fit the model, the loss or the batches before; names the port, the step and the tensor."""

    def __init__(self, reason: str, *, port: str = "", step: int | None = None, tensor: str = "") -> None:
        super().__init__(_message("training", reason, port, step, tensor))
        self.reason = reason
        self.port = port
        self.step = step
        self.tensor = tensor


class RehearsalError(TaskError):
    """The rehearsal buffer cannot go on."""


class BadSample(RehearsalError):
    """A batch does not fit the buffer; names the port, the step and the tensor."""

    def __init__(self, reason: str, *, port: str = "", step: int | None = None, tensor: str = "") -> None:
        where = _message("rehearsal buffer", reason, port, step, tensor)
        super().__init__(where if port or step is not None or tensor else reason)
        self.reason = reason
        self.port = port
        self.step = step
        self.tensor = tensor

    def at(self, port: str, step: int) -> BadSample:
        """The same error, with the place where it happened."""
        return BadSample(self.reason, port=port, step=step, tensor=self.tensor)


class RankFailed(RehearsalError):
    """Another rank stopped, closed its part of the buffer, or does not agree with this one."""


def _message(who: str, reason: str, port: str, step: int | None, tensor: str) -> str:
    where = [f"port {port!r}"] if port else []
    where += [] if step is None else [f"step {step}"]
    where += [f"tensor {tensor!r}"] if tensor else []
    return f"{', '.join([who, *where])}: {reason}"
