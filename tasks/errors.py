"""Errors of a ready-made task that its user can mend."""

from wilkins.errors import WilkinsError


class TaskError(WilkinsError, ValueError):
    """Shown as it is, without a traceback: what was attempted, why it is wrong, how to mend it."""


class ReportedElsewhere(TaskError):
    """An error of another rank, which reports it; this rank cannot go on either."""
