"""The head's first message to the keeper of a host of a job."""

from __future__ import annotations

from wilkins.launch.hosts.messages import Setup
from wilkins.launch.job.programs import Worlds
from wilkins.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetup(Setup):
    """As for any keeper, and more."""

    widest: str
    """The longest of all labels under which ranks print."""
    worlds: Worlds
    """Of the host's own tasks."""
