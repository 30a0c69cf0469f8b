"""Python and C++ see the same structures in what the launcher tells the native layer, and notice where they do not."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from wilkins.plan.plan import PortPlan
from wilkins.schema.reading import key_of, keys_of
from wilkins.spec.reference import json_schema
from wilkins.spec.workflow import InPort
from wilkins.transport import board, plan_table
from wilkins.transport.plan_table import ARRAYS, AccessKeys, Arrays, BoardPort, BoardTask, ReadKeys
from wilkins.values import fields


def test_members_lie_where_the_compiler_puts_them(tmp_path: Path) -> None:
    checks: list[tuple[str, type[ctypes.Structure]]] = [("plan::Arrays", Arrays)]
    checks.append(("AccessKeys", plan_table.structure(AccessKeys)))
    checks += [(f"plan::{kind.__name__}", plan_table.structure(kind)) for kind in ARRAYS.values()]
    lines = ['#include "plan_table.hpp"', "#include <cstddef>", "using namespace wilkins;"]
    for name, structure in checks:
        lines.append(f'static_assert(sizeof({name}) == {ctypes.sizeof(structure)}, "{name}");')
        for member, *_ in structure._fields_:
            offset = getattr(structure, member).offset
            lines.append(f'static_assert(offsetof({name}, {member}) == {offset}, "{name}.{member}");')
    assert len(lines) > 40
    (tmp_path / "plan_table.hpp").write_text(plan_table.source())
    (tmp_path / "check.cpp").write_text("\n".join(lines))
    compiler = os.environ.get("CXX", "c++")
    ran = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", "check.cpp"], cwd=tmp_path, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()


def test_values_arrive_in_their_members(tmp_path: Path) -> None:
    port = BoardPort(0, "out", "a*.h5", publish="write", publish_dset="x/y", reorder=3, listing="end", poll_end=0.25)
    tasks = [BoardTask.starting_in("sim", 2, tmp_path), BoardTask.starting_in("other", 1, tmp_path / "missing")]
    whole = Arrays.of(tmp_path, None, True, tasks=tasks, ports=[port], channels=(), begins=(), first_steps=())
    (made,) = whole.kept[1]
    assert (made.direction, made.pattern, made.keys.publish, made.keys.publish_dset) == (1, b"a*.h5", 3, b"x/y")
    assert (made.keys.reorder, made.keys.reorder_given) == (3, 1)
    assert (made.keys.listing, made.keys.poll_end_ms, made.keys.opens_per_step) == (1, 250, 1)
    assert [task.inode for task in whole.kept[0]] == [tmp_path.stat().st_ino, 0]


def test_a_text_that_is_too_long(tmp_path: Path) -> None:
    port = BoardPort(0, "out", "a*.h5", publish="write", publish_dset="x" * 256)
    with pytest.raises(OSError, match="publish_dset: File name too long"):
        Arrays.of(tmp_path, None, False, tasks=(), ports=[port], channels=(), begins=(), first_steps=())


def test_a_library_of_another_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "_library", None)
    monkeypatch.setattr(board, "VERSION", board.VERSION + 1)
    with pytest.raises(OSError, match="built from another version of this package"):
        board._native()


def test_keys_of_the_table_are_keys_of_the_file_and_of_its_records() -> None:
    names = {key_of(item) for item in keys_of(ReadKeys)}
    assert names >= {"reorder", "listing", "poll_end"}
    assert names <= {key_of(item) for item in keys_of(InPort)}
    assert names <= set(json_schema()["$defs"]["InPort"]["properties"])
    assert names <= {item.name for item in fields(PortPlan)}
