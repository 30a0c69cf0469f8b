"""Makes the folders that instances run in, before anything is started."""

from __future__ import annotations

from wilkins.errors import ResourceError
from wilkins.plan.plan import Plan


def make_folders(plan: Plan) -> None:
    """Make every instance's own folder that is missing.

    Raises:
        ResourceError: the system refuses one.
    """
    for task in plan.tasks:
        if task.makes_cwd:
            try:
                task.cwd.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ResourceError(
                    f"{task.origin}: {task.name}: cannot make its folder {task.cwd}: {error.strerror}; mend 'cwd', or "
                    "what the system refuses"
                ) from error
