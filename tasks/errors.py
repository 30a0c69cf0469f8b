"""What goes wrong in a ready-made task and its user can mend."""

from wilkins.errors import WilkinsError


class TaskError(WilkinsError, ValueError):
    """Shown as it is, without a traceback: what was attempted, why it is wrong, how to mend it."""


class ToldElsewhere(TaskError):
    """What keeps this rank from going on, and another rank tells."""
