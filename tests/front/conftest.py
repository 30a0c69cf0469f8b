"""Workflow files of their own for each test of the front."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from front.front_case import Case


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """An empty folder with two programs, `./sim` and `./ana`."""
    made = Case(tmp_path)
    made.program("sim")
    made.program("ana")
    return made


@pytest.fixture
def pair(case: Case) -> Callable[..., Case]:
    """A workflow of `./sim` writing plt*.h5 and `./ana` reading it, with lines added to tasks and ports."""

    def write(sim: str = "", out: str = "", ana: str = "", inp: str = "") -> Case:
        def lines(text: str, indent: int) -> str:
            return "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())

        return case.write(
            f"tasks:\n  - func: ./sim\n{lines(sim, 4)}    outports:\n      - filename: 'plt*.h5'\n{lines(out, 8)}"
            f"  - func: ./ana\n{lines(ana, 4)}    inports:\n      - filename: 'plt*.h5'\n{lines(inp, 8)}"
        )

    return write
