"""What goes wrong with checkpoints and a user can mend."""

from wilkins.errors import UsageError
from wilkins.tasks.errors import TaskError


class CheckpointError(TaskError):
    """A checkpoint cannot be written, found or read: what was attempted, why it is wrong, how to mend it."""


class Damaged(CheckpointError):
    """A version does not hold what was written."""


class NotThere(CheckpointError):
    """A folder holds no checkpoints, or not the version that is asked for."""

    exit_code = UsageError.exit_code


class Unsupported(CheckpointError):
    """The state holds a value that cannot be kept exactly."""
