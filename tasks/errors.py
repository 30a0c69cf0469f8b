"""What goes wrong in a ready-made task and its user can mend."""


class TaskError(ValueError):
    """Shown as it is, without a traceback: what was attempted, why it is wrong, how to mend it."""
