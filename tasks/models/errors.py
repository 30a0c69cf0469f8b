"""What goes wrong with stored models and a user can mend."""

from wilkins.errors import UsageError
from wilkins.tasks.errors import TaskError


class ModelError(TaskError):
    """A model cannot be stored, found or read: what was attempted, why it is wrong, how to mend it."""


class DamagedModel(ModelError):
    """A stored model does not hold what was put."""


class NameTaken(ModelError):
    """Another model has the name."""


class NoSuchModel(ModelError):
    """A folder is no model store, or the store has no model of that name."""

    exit_code = UsageError.exit_code
