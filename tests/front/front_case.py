"""A folder with a workflow file and programs in it, and what the front says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from wilkins.errors import WorkflowError
from wilkins.plan.plan import Plan
from wilkins.plan.planner import plan_file


class Case:
    """A workflow file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "workflow.yaml"

    def program(self, name: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
        """Put a program beside the workflow file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def write(self, text: str | bytes) -> Case:
        """Write the workflow file."""
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)
        return self

    def plan(self, *overrides: str, files: bool = False) -> Plan:
        """The plan; the workflow must be right."""
        return plan_file(self.path, overrides, files=files)

    def errors(self, *overrides: str) -> list[str]:
        """The lines reported, each without the folder; the workflow must be wrong."""
        with pytest.raises(WorkflowError) as caught:
            plan_file(self.path, overrides)
        assert caught.value.exit_code == 2
        lines = str(caught.value).splitlines()
        assert len(lines) == len(caught.value.problems), "one line for each problem"
        return [line.replace(f"{self.folder}/", "") for line in lines]

    def error(self, *overrides: str) -> str:
        """The only line reported."""
        lines = self.errors(*overrides)
        assert len(lines) == 1, lines
        return lines[0]
