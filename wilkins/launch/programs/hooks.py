"""Runs the hooks of a resumed run: commands that make ready what programs are restarted from."""

from __future__ import annotations

from wilkins.errors import WilkinsError
from wilkins.launch.programs import environment as env
from wilkins.plan.plan import Plan


def run_hooks(plan: Plan) -> None:
    """Run the hook of each task that has one, in its folder, one after the other.

    Raises:
        WilkinsError: one cannot be started, or fails.
    """
    import subprocess

    for task in plan.tasks:
        if task.resumed is None or not task.resumed.hook:
            continue
        words = list(task.resumed.hook)
        variables = {**env.user_environment(), **env.started_env(task, None)}
        trouble = ""
        try:
            code = subprocess.run(words, cwd=task.cwd, env=variables, check=False).returncode
            trouble = f"ended with exit code {code}" if code else ""
        except OSError as error:
            trouble = f"cannot be started: {error.strerror}"
        if trouble:
            raise WilkinsError(
                f"{task.origin}: {task.name}: the hook of its 'restart', {env.shown(words)}, {trouble}; nothing was "
                f"started; mend it, and resume the same run again"
            )
