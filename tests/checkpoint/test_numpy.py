"""A program with NumPy state: what it gets back, what it is told, and what damage to the files does."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs.same_state import same

from support.running import run_tree
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Shard, Unsupported, When
from wilkins.tasks.checkpoint.engine import state_plan
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.group import Group

from .conftest import Opener, arrays

PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"


def test_a_state_comes_back_as_it_was(opened: Opener) -> None:
    state = {
        "arrays": [
            np.arange(12, dtype=">i4").reshape(3, 4), np.zeros((0, 3)), np.array(1.5, np.float16),
            np.array(["2026-11-21"], "M8[D]"), np.array([b"ab", b"c"]), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.arange(20.0)[::3], np.array([1 + 2j]),
        ],
        "plain": [None, True, 1, -(2**80), 0.1, float("inf"), float("nan"), -0.0, 1 + 2j, "ä", b"\x00", (1, (2,)), {}],
        "scalars": [np.float32(0.1), np.int8(-3), np.bool_(True)],
        3: {1.5: "float key", None: 1, ("a", 2): 2, True: 3},
        "ordered": collections.OrderedDict(z=1, a=2),
        "counted": collections.Counter({3: 2, 1: 5}),
        "random": {"numpy": np.random.default_rng(3).bit_generator.state, "python": random.getstate()},
    }  # fmt: skip
    with_ring = opened()
    with_ring.save(7, state)
    restored = with_ring.restore()
    assert restored is not None and restored.step == 7 and not restored.missing and not restored.skipped
    assert same(restored.state, state)


def test_arrays_in_fortran_s_order_come_back_in_it(opened: Opener) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    state = {"f": np.asfortranarray(values), "turned": values.transpose(1, 0, 2), "back": values[::-1], "c": values}
    checkpointer = opened()
    checkpointer.save(1, state)
    restored = checkpointer.restore()
    assert restored is not None and same(restored.state, state)
    assert all(restored.state[name].strides == one.copy(order="K").strides for name, one in state.items())


def test_what_cannot_be_kept_exactly_is_refused_by_its_path(opened: Opener) -> None:
    checkpointer = opened()
    for value, words in (
        (object(), "a/0: a builtins.object is not kept"),
        (np.array([object()]), "a/0: an array of dtype object"),
        (Shard(np.zeros(3), (4,), (2,)), "a/0: a box of shape"),
        ({object(): 1}, "a/0: a dict key"),
    ):
        with pytest.raises(Unsupported, match=words):
            checkpointer.save(0, {"a": [value]})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Unsupported, match="holds itself"):
        checkpointer.save(0, endless)
    assert checkpointer.restore() is None


def test_arrays_may_change_once_they_are_captured(opened: Opener) -> None:
    """Through a ring of two blocks; small arrays may change at once."""
    checkpointer = opened(ring=1)
    state = arrays(1) | {"small": np.arange(100), "eager": np.arange(50_000)}
    expected = {name: np.copy(one) for name, one in state.items() if name != "b"}
    expected_c = state["b"]["c"].copy()
    checkpointer = opened(ring=1, eager=("eager",))
    checkpointer.save(1, state)
    state["small"][:] = 0
    state["eager"][:] = 0
    checkpointer.wait_captured()
    state["a"][:] = 0
    state["b"]["c"][:] = 0
    state["b"]["n"] = 0
    restored = checkpointer.restore()
    assert restored is not None
    assert same(restored.state, {"a": expected["a"], "b": {"c": expected_c, "n": 1}} | {
        name: expected[name] for name in ("small", "eager")
    })  # fmt: skip


def test_arrays_of_the_program_are_filled_in_place(opened: Opener) -> None:
    checkpointer = opened()
    checkpointer.save(1, arrays(1))
    target: dict[str, Any] = {
        "a": np.zeros(200_000),
        "b": {"c": np.zeros((3, 200_000), int)[:, ::2]},
        "new": np.ones(2),
    }
    with pytest.raises(CheckpointError, match=r"state does not fit; the version does not hold for it: new\. Give a"):
        checkpointer.restore(target)
    assert not target["a"].any()
    restored = checkpointer.restore(target, allow_missing=("new",))
    assert restored is not None and restored.missing == ("new",)
    assert same({"a": target["a"], "b": {"c": target["b"]["c"], "n": 1}}, arrays(1))
    assert restored.state["a"] is target["a"]
    for wrong, words in (
        (np.zeros(3), "saved with shape"),
        (np.zeros(200_000, np.float32), "saved as numpy <f8"),
    ):
        with pytest.raises(CheckpointError, match=words):
            checkpointer.restore({"a": wrong}, only=("a",))


def test_what_has_no_place_is_told(opened: Opener) -> None:
    """Arrays of a version that the program has none for, unless it says that these may be left."""
    checkpointer = opened()
    checkpointer.save(1, arrays(1) | {"x": {"y": np.arange(3)}})
    target = {"a": np.zeros(200_000)}
    with pytest.raises(CheckpointError, match=r"it has no place for: b/c, x/y\. Give a state with the same arrays"):
        checkpointer.restore(target)
    with pytest.raises(CheckpointError, match=r"it has no place for: b/c\. "):
        checkpointer.restore(target, allow_missing=("x",))
    assert not target["a"].any()
    restored = checkpointer.restore(target, allow_missing=("x", "*/c"))
    assert restored is not None and not restored.missing
    assert same(restored.state, arrays(1) | {"x": {"y": np.arange(3)}}) and restored.state["a"] is target["a"]
    assert checkpointer.restore({"a": target["a"]}, only=("a",)) is not None


def test_parts_of_a_state(opened: Opener) -> None:
    checkpointer = opened()
    checkpointer.save(1, arrays(1) | {"x": [1, np.arange(3)]})
    for only, names in ((("b",), {"b": {"c", "n"}}), (("*/c", "a"), {"a": None, "b": {"c"}})):
        restored = checkpointer.restore(only=only)
        assert restored is not None
        assert {name: set(one) if isinstance(one, dict) else None for name, one in restored.state.items()} == names
    assert checkpointer.restore(only=("nothing",)).state is None  # type: ignore[union-attr]


def test_the_newest_of_those_kept(opened: Opener, tmp_path: Path) -> None:
    """A step may be saved again, by a job that resumed at an earlier one; the clock is of no account."""
    checkpointer = opened(keep=2)
    for step in (10, 20, 30):
        checkpointer.save(step, {"x": step})
    checkpointer.wait()
    assert [one.name for one in versions.versions(tmp_path)] == ["000002-step-20", "000003-step-30"]
    restored = checkpointer.restore(step=20)
    assert restored is not None and restored.state == {"x": 20}
    with pytest.raises(CheckpointError, match="no version of step 10"):
        checkpointer.restore(step=10)
    checkpointer.save(20, {"x": "again"})
    restored = checkpointer.restore()
    assert restored is not None and (restored.step, restored.state) == (20, {"x": "again"})
    assert (tmp_path / "latest").readlink() == Path("000004-step-20")


def test_a_clock_that_jumps(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpointer = opened()
    for step, clock in enumerate((2e9, 1.0, -5.0)):
        monkeypatch.setattr(time, "time", lambda clock=clock: clock)
        checkpointer.save(step, {"x": step})
        checkpointer.wait()
    restored = checkpointer.restore()
    assert restored is not None and restored.step == 2


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a byte of data": lambda path: flip(path / "data-0.bin", 300_000),
    "the first byte of data": lambda path: flip(path / "data-0.bin", 0),
    "data cut short": lambda path: os.truncate(path / "data-0.bin", 400_000),
    "data that is longer": lambda path: os.truncate(path / "data-0.bin", 10**8),
    "no data": lambda path: (path / "data-0.bin").unlink(),
    "a byte of an index": lambda path: flip(path / "index-0.json", 30),
    "no index": lambda path: (path / "index-0.json").unlink(),
    "a byte of the manifest": lambda path: flip(path / "manifest.json", 200),
    "an empty manifest": lambda path: os.truncate(path / "manifest.json", 0),
    "no manifest": lambda path: (path / "manifest.json").unlink(),
    "nothing in its files": lambda path: [one.write_bytes(b"") for one in path.iterdir()],
    "a manifest that is a list": lambda path: (path / "manifest.json").write_text("[]"),
}


def flip(path: Path, at: int) -> None:
    """Change one bit."""
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_version_is_left_out(
    opened: Opener, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpointer = opened()
    for step in (1, 2):
        checkpointer.save(step, arrays(step))
    checkpointer.wait()
    DAMAGE[damage](tmp_path / "000002-step-2")
    restored = checkpointer.restore()
    assert restored is not None and restored.step == 1 and same(restored.state, arrays(1))
    assert len(restored.skipped) == 1 and "000002-step-2" in caplog.text
    assert (tmp_path / "latest").readlink() == Path("000001-step-1")
    with pytest.raises(CheckpointError, match="000002-step-2"):
        checkpointer.restore(step=2)
    DAMAGE[damage](tmp_path / "000001-step-1")
    with pytest.raises(CheckpointError, match=r"no version in .* verifies: .*; to begin anew, remove the folder, or"):
        checkpointer.restore()
    checkpointer.save(3, arrays(3))
    restored = checkpointer.restore()
    assert restored is not None and restored.step == 3 and same(restored.state, arrays(3))


def test_an_index_that_leads_astray(opened: Opener, tmp_path: Path) -> None:
    """Sealed with right digests, and wrong all the same: whoever made it, nothing is read that is not there."""
    checkpointer = opened()
    checkpointer.save(1, arrays(1))
    checkpointer.wait()
    path = tmp_path / "000001-step-1"
    index = json.loads((path / "index-0.json").read_text())
    manifest = versions.read_manifest(path)
    changes: list[dict[str, Any]] = [
        {"parts": [[0, 0, 0, 10**12]]},
        {"parts": [[5, 0, 0, 8]]},
        {"parts": []},
        {"dtype": "|O"},
    ]
    for change in changes:
        changed = {**index, "arrays": [{**index["arrays"][0], **change}, *index["arrays"][1:]]}
        text = json.dumps(changed)
        (path / "index-0.json").write_text(text)
        (path / "manifest.json").write_text(resealed(manifest, text))
        with pytest.raises(CheckpointError, match=r"not there|were written|objects"):
            checkpointer.restore()


def resealed(manifest: versions.Manifest, index: str) -> str:
    """The manifest with another index."""
    import dataclasses
    import hashlib

    stream = dataclasses.replace(
        manifest.streams[0], index_bytes=len(index), index_sha256=hashlib.sha256(index.encode()).hexdigest()
    )
    return dataclasses.replace(manifest, streams=(stream,)).text()


def test_one_writer_at_a_time(opened: Opener, tmp_path: Path) -> None:
    """A lock file that nobody holds any more is none."""
    (tmp_path / ".lock").write_text("process 1 on elsewhere\n")
    opened()
    with pytest.raises(CheckpointError, match="written by this process already"):
        Checkpointer(tmp_path)
    done = run_tree([sys.executable, PROGRAM, "run", tmp_path, "1"], 60, tmp_path)
    assert done.code and f"being written by process {os.getpid()} on" in done.err


def test_what_a_killed_job_left_is_removed(opened: Opener, tmp_path: Path) -> None:
    opened().save(1, {"x": 1})
    for name in (".000002-step-5.0a1b2c3d.new", ".000000-step-0.old"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "data-0.bin").write_bytes(b"x")
    (tmp_path / "mine.txt").write_text("not a checkpoint")
    opened()
    assert sorted(one.name for one in tmp_path.iterdir()) == [".lock", "000001-step-1", "latest", "mine.txt"]


def test_a_disk_that_is_full(opened: Opener, tmp_path: Path) -> None:
    """As a limit on the size of files; what is there stays, and the next that fits is written."""
    checkpointer = opened()
    checkpointer.save(1, arrays(1, 1000))
    checkpointer.wait()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        checkpointer.save(2, arrays(2))
        with pytest.raises(CheckpointError, match=r"step 2 was not written: cannot write .*: File too large; .*ulimit"):
            checkpointer.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(one.name for one in tmp_path.iterdir()) == [".lock", "000001-step-1", "latest"]
    checkpointer.save(3, arrays(3))
    restored = checkpointer.restore()
    assert restored is not None and restored.step == 3 and same(restored.state, arrays(3))


def test_trouble_in_the_background_is_told_at_a_next_call(opened: Opener, tmp_path: Path) -> None:
    checkpointer = opened()
    checkpointer.save(1, {"x": 1})
    checkpointer.wait()
    tmp_path.rename(tmp_path.with_name("away"))
    try:
        checkpointer.save(2, {"x": 2})
        with pytest.raises(CheckpointError, match=r"step 2 was not written: cannot write .*No such file"):
            for step in (3, 4, 5):
                checkpointer.save(step, {"x": step})
    finally:
        tmp_path.with_name("away").rename(tmp_path)
    with contextlib.suppress(CheckpointError):  # of step 3, if it came before the folder was back
        checkpointer.wait()
    checkpointer.save(6, {"x": 6})
    checkpointer.wait()


def test_ranks_that_answer_no_more_are_told_at_each_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the state of a version that will not be is still to be described."""

    class Silent(Group):
        def dup(self) -> Group:
            return Lost()

    class Lost(Group):
        def allgather(self, value: Any) -> list[Any]:
            raise OSError(f"rank 1 does not get {value}")

    settle = state_plan._settle

    def slowly(*given: Any, **named: Any) -> None:
        time.sleep(0.05)
        settle(*given, **named)

    monkeypatch.setattr(state_plan, "_settle", slowly)
    checkpointer = Checkpointer(tmp_path, ranks=Silent(), block=65536)
    for step in range(4):
        checkpointer.save(step, arrays(step, 20_000))
        with pytest.raises(CheckpointError, match="the ranks cannot agree on a version: rank 1 does not get"):
            checkpointer.wait()
    checkpointer.close()


def test_storage_is_written_at_most_so_fast(opened: Opener) -> None:
    checkpointer = opened(rate=4e6)
    checkpointer.save(1, arrays(1, 150_000))  # 3.6 MB
    checkpointer.wait()
    took = checkpointer.history[0].durable
    assert took is not None and took > 0.8


def test_when_is_kept(opened: Opener) -> None:
    checkpointer = opened(when=When(steps=3), keep=5)
    saved = [step for step in range(1, 8) if checkpointer.save_if_due(step, lambda: {"x": 1})]
    assert saved == [3, 6]
    with pytest.raises(CheckpointError, match="cannot be followed"):
        When(steps=0)


@pytest.mark.parametrize("step", [True, np.True_, -1, np.int64(-1), 2.0, np.float32(2), "2", None])
def test_what_is_no_step_is_refused(opened: Opener, step: Any) -> None:
    checkpointer = opened(when=When(steps=2))
    with pytest.raises(CheckpointError, match=r"is no number of a step; give 0, 1, \.\.\., as an int"):
        checkpointer.save(step, {"x": 1})
    with pytest.raises(CheckpointError, match="is no number of a step"):
        checkpointer.save_if_due(step, dict)
    assert checkpointer.restore() is None
    if step is not None:
        with pytest.raises(CheckpointError, match="is no number of a step"):
            checkpointer.restore(step=step)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.int16])
def test_steps_are_ints_of_python_or_numpy(opened: Opener, tmp_path: Path, kind: Any) -> None:
    checkpointer = opened(when=When(steps=2))
    assert checkpointer.save_if_due(kind(4), lambda: {"x": 4}) and not checkpointer.save_if_due(kind(5), dict)
    checkpointer.save(kind(6), {"x": 6})
    for step in (4, 6):
        restored = checkpointer.restore(step=kind(step))
        assert restored is not None and restored.step == step and type(restored.step) is int
        assert restored.state == {"x": step}
    assert [one.name for one in versions.versions(tmp_path)] == ["000001-step-4", "000002-step-6"]
