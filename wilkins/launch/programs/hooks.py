"""Runs hooks: commands that make ready what programs are restarted from."""

from __future__ import annotations

from wilkins.errors import WilkinsError
from wilkins.launch.programs import environment as env
from wilkins.plan.plan import Plan, TaskPlan


def run_hooks(plan: Plan) -> None:
    """Run the hook of each task of a resumed run that has one, one after the other.

    Raises:
        WilkinsError: one cannot be started, or fails.
    """
    for task in plan.tasks:
        if trouble := run_hook(task):
            raise WilkinsError(f"{trouble}; nothing was started; mend it, and resume the same run again")


def run_hook(task: TaskPlan) -> str:
    """Run the hook of a task that has one, in its folder; what went wrong, if something did."""
    import subprocess

    if task.resumed is None or not task.resumed.hook:
        return ""
    words = list(task.resumed.hook)
    variables = {**env.user_environment(), **env.started_env(task, None)}
    try:
        code = subprocess.run(words, cwd=task.cwd, env=variables, check=False).returncode
        trouble = f"ended with exit code {code}" if code else ""
    except OSError as error:
        trouble = f"cannot be started: {error.strerror}"
    return f"{task.origin}: {task.name}: the hook of its 'restart', {env.shown(words)}, {trouble}" if trouble else ""
