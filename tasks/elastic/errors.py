"""What ends an elastic training, or one of its groups."""

from __future__ import annotations

from wilkins.errors import WilkinsError
from wilkins.tasks.errors import TaskError


class ElasticError(TaskError):
    """This rank cannot take part in the training any more."""


class GroupLost(WilkinsError):
    """A rank of the group has died or left, so the present step cannot be finished in this group."""
