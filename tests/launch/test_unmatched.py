"""Names that programs ask for, that match no port, and that may be meant for a step."""

from __future__ import annotations

import glob
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wilkins.launch.watch.similarnames import is_one_letter_off, nearest
from wilkins.launch.watch.unmatched import UnmatchedNames, only_one, others_wait
from wilkins.schema.patterns import intersect
from wilkins.transport.report_table import Report
from wilkins.values import restored


@pytest.mark.parametrize(
    ("name", "step", "off"),
    [
        ("ouput3.h5", "output3.h5", True),
        ("outptu3.h5", "output3.h5", True),
        ("Output3.h5", "out/output3.h5", True),
        ("output_3.h5", "output3.h5", True),
        ("output3.h5", "output3.h5", False),
        ("output4.h5", "output3.h5", False),
        ("output03.h5", "output3.h5", False),
        ("start.h5", "state.h5", False),
        ("output.h5", "output3.h5", False),
    ],
)
def test_one_letter_off(name: str, step: str, off: bool) -> None:
    assert is_one_letter_off(name, step) == off


def report(uses: int, **changes: Any) -> Report:
    """What a board says of a writer that waits for room, and of a reader that has asked for a misspelt name."""
    writer = {
        "name": "sim",
        "state": "running",
        "nprocs": 1,
        "waits": [{"what": "room", "rank": 0}],
        "unmatched_names": [],
    }
    asked = [{"name": changes.get("asked", "ouput0.h5"), "uses": uses}]
    reader = {"name": "ana", "state": "running", "nprocs": 1, "waits": [], "unmatched_names": asked}
    ports = [
        {"task": 0, "pattern": "output*.h5", "steps": changes.get("steps", 2), "bytes": 8, "touched": True},
        {"task": 1, "pattern": "output*.h5", "steps": changes.get("read", 0), "bytes": 0, "touched": False},
    ]
    told = {
        "tasks": [{**writer, **changes.get("writer", {})}, reader],
        "ports": [ports[0], {**ports[1], "touched": changes.get("touched", False)}],
        "channels": [{"outport": 0, "inport": 1, "next": changes.get("next", "output0.h5")}],
    }
    return restored(Report, told)


@pytest.mark.parametrize(
    ("changes", "sure"),
    [
        ({}, True),
        ({"writer": {"state": "ended", "waits": []}}, True),
        ({"writer": {"waits": []}}, False),
        ({"touched": True}, False),
        ({"next": ""}, False),
        ({"asked": "calibration.h5"}, False),
    ],
)
def test_only_a_task_that_nothing_else_can_help_is_sure_to_be_mistaken(changes: dict[str, Any], sure: bool) -> None:
    told = report(5, **changes)
    assert bool(only_one(told, 1) and others_wait(told, 1)) == sure


def names(there: bool = False) -> UnmatchedNames:
    """Of the two tasks of `report`."""
    plan: Any = SimpleNamespace(tasks=[SimpleNamespace(cwd=Path("/one")), SimpleNamespace(cwd=Path("/two"))])
    return UnmatchedNames(plan, lambda path: there and path == Path("/two/ouput0.h5"))


def after(found: UnmatchedNames, *reports: Report) -> list[str]:
    """What is told of the reader after reports, one a second, with a patience of three seconds."""
    for second, one in enumerate(reports):
        found.follow(one, float(second))
    return list(found.messages(reports[-1], 1, 3.0, float(len(reports) - 1)))


def test_who_asks_again_and_again_is_told_what_it_may_mean() -> None:
    assert after(names(), *(report(uses) for uses in (1, 2, 3, 7))) == [
        "task ana asks again and again for 'ouput0.h5' (6 times in 3 s), which matches no port and is not there, and "
        "reads nothing meanwhile: did you mean 'output0.h5', which sim has published, or another file of "
        "'output*.h5'? Mend the name in the program"
    ]


def test_as_comes_first_for_a_name_without_numbers_alone() -> None:
    assert "give the in-port `as: input.h5`" in after(names(), *(report(n, asked="input.h5") for n in range(1, 9)))[0]
    told = after(names(), *(report(n, asked="input7.h5") for n in range(1, 9)))[0]
    assert "begins with 'output0.h5', which sim has published; compare their letters and numbers; only if every" in told


def test_nothing_is_told_of_who_reads_or_has_asked_long_ago_or_finds_the_file() -> None:
    assert not after(names(), *(report(uses, read=uses) for uses in range(1, 9)))
    assert not after(names(), *(report(min(uses, 4)) for uses in range(1, 9)))
    assert not after(names(there=True), *(report(uses) for uses in range(1, 9)))
    free = {"writer": {"waits": []}, "asked": "calibration.h5"}
    assert not after(names(), *(report(uses, **free) for uses in range(1, 9)))


def test_a_pattern_is_proposed_that_matches() -> None:
    """A bracket of a folder's name is no wildcard."""
    names = [f"data [1]/out{step}.h5" for step in range(3)]
    meant = nearest("data [1]/out*.h5", names)
    assert meant == "data [[]*]/out*.h5"
    assert all(intersect(meant, glob.escape(name)) for name in names)
