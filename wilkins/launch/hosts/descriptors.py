"""How many files a head may have open: two for each host, where many systems allow 1,024 unless asked for more."""

from __future__ import annotations

import resource

_given = resource.getrlimit(resource.RLIMIT_NOFILE)
"""What this process was started with."""


def raise_limit() -> None:
    """Allow this process as many as the system does."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_given[1], _given[1]))


def given_back() -> None:
    """In a child: allow it what this process was started with, which programs are used to."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _given)
