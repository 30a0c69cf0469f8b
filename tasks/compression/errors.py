"""Errors of compressed copies."""

from wilkins.tasks.errors import TaskError


class CannotCopy(TaskError):
    """The file holds what a copy would not keep; says what. It can still be copied byte for byte."""
