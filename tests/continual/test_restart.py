"""A trainer that is killed and started again goes on from its saved model and buffer, with the same draws."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint.rank_threads import on_ranks

from support.running import MPIEXEC, run_tree
from wilkins.tasks.checkpoint.engine.synchronous import save_synchronously
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.continual import CheckpointError, RehearsalBuffer, RehearsalOptions

PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "rehearsal" / "trainer.py"
STEPS = 40


def train(folder: Path, ranks: int, *words: str) -> int:
    """Run the trainer in a folder; its exit code."""
    folder.mkdir(exist_ok=True)
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(PROGRAM), str(folder), str(STEPS), *words]
    return run_tree(command, 60, folder).code


def steps_of(folder: Path, rank: int) -> dict[int, set[str]]:
    """What a rank drew and learned in each step, in every run that came to it."""
    found: dict[int, set[str]] = {}
    for line in (folder / f"log-{rank}").read_text().splitlines():
        step, _, rest = line.partition(" ")
        found.setdefault(int(step), set()).add(rest)
    return found


@pytest.mark.usual("2")
@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(320)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_killed_and_restarted(tmp_path: Path, ranks: int) -> None:
    """Killed in training and between saving buffer and model; every draw and the model are those of an unbroken run."""
    unbroken, killed = tmp_path / "unbroken", tmp_path / "killed"
    assert train(unbroken, ranks) == 0
    for step, where in [(12, "train"), (24, "save"), (33, "train")]:
        assert train(killed, ranks, str(step), str(ranks - 1), where) != 0
    assert train(killed, ranks) == 0
    for rank in range(ranks):
        expected = steps_of(unbroken, rank)
        assert sorted(expected) == list(range(STEPS))
        assert steps_of(killed, rank) == expected
    assert steps_in(killed / "buffer") == [STEPS - 5, STEPS]


def steps_in(folder: Path) -> list[int]:
    return [one.step for one in versions.versions(folder)]


def batch(step: int) -> dict[str, Any]:
    number = np.arange(step * 10, step * 10 + 6)
    more = {"step": np.full(6, step // 7), "task": number % 2}
    return {"x": np.tile(number[:, None], (1, 4)) / 2, "y": number % 3, "number": number, **more}


def options(**changes: Any) -> RehearsalOptions:
    given: dict[str, Any] = {"batch": 6, "candidates": 4, "representatives": 5, "samples": 10, "label": "y"}
    return RehearsalOptions(**given | changes)


def saved(folder: Path, **changes: Any) -> list[list[int]]:
    """Train 20 steps and save in step 10; what was drawn from there on."""
    drawn = []
    with RehearsalBuffer(options(**changes)) as buffer:
        for step in range(20):
            if step == 10:
                buffer.save(folder)
            drawn.append(buffer.update(batch(step))["number"].tolist())
    return drawn[10:]


def old_of_rarest(group: int, held: Mapping[int, int], offered: Mapping[int, int], rng: Any) -> tuple[int, int]:
    """A user's choice."""
    rarest = min(held, key=lambda one: (offered[one], one == group))
    return rarest, int(rng.integers(2)) % held[rarest]


@pytest.mark.parametrize("eviction", ["reservoir", "random", "fifo", old_of_rarest])
@pytest.mark.parametrize("balance", ["class", "step", "task", "proportional"])
def test_every_eviction_goes_on(tmp_path: Path, eviction: Any, balance: str) -> None:
    expected = saved(tmp_path, eviction=eviction, balance=balance)
    with RehearsalBuffer(options(eviction=eviction, balance=balance, seed=77)) as buffer:
        assert buffer.load(tmp_path) == buffer.step == 10
        before = buffer.statistics()
        assert [buffer.update(batch(step))["number"].tolist() for step in range(10, 20)] == expected
        after = buffer.statistics()
    assert before.size == 10
    assert sum(before.classes.values()) == 10
    assert after.candidates > before.candidates > 0


def test_classes_that_did_not_come_in_order(tmp_path: Path) -> None:
    """Which class gives up a sample for a new one is drawn among equals, also after a restart in the same order."""

    def stream(step: int) -> dict[str, Any]:
        return batch(step) | {"y": (7 - step // 4 + np.arange(6) % 2) % 8}

    drawn = []
    with RehearsalBuffer(options(samples=12)) as buffer:
        for step in range(32):
            if step == 12:
                buffer.save(tmp_path)
            drawn.append(buffer.update(stream(step))["number"].tolist())
    with RehearsalBuffer(options(samples=12)) as buffer:
        buffer.load(tmp_path)
        assert [buffer.update(stream(step))["number"].tolist() for step in range(12, 32)] == drawn[12:]


def test_representatives_at_hand_are_saved(tmp_path: Path) -> None:
    """What was drawn but not taken when the buffer was saved is taken after the restart."""
    with RehearsalBuffer(options()) as buffer:
        for step in range(5):
            buffer.update(batch(step))
        buffer.save(tmp_path)
        expected = buffer.take()
    with RehearsalBuffer(options()) as buffer:
        buffer.load(tmp_path)
        taken = buffer.take()
    assert {name: array.tolist() for name, array in taken.items()} == {
        name: array.tolist() for name, array in expected.items()
    }
    assert len(taken["number"]) == 5


def test_older_saves_are_removed(tmp_path: Path) -> None:
    """Two are kept, or as many as asked for; a step can be chosen. Saves of a course that was given up go, too."""
    with RehearsalBuffer(options()) as buffer:
        for step in range(5):
            buffer.update(batch(step))
            buffer.save(tmp_path, keep=3)
    assert steps_in(tmp_path) == [3, 4, 5]
    (tmp_path / ".000006-step-6.0123abcd.new").mkdir()  # of a kill while writing
    with RehearsalBuffer(options()) as buffer:
        assert buffer.load(tmp_path, step=3) == 3
        buffer.update(batch(3))
        buffer.save(tmp_path)
    assert steps_in(tmp_path) == [3, 4]
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".lock"]


def test_a_version_of_another_rank_count_or_step(tmp_path: Path) -> None:
    saved(tmp_path / "of one")
    with RehearsalBuffer(options()) as buffer, pytest.raises(CheckpointError, match="no version of step 4"):
        buffer.load(tmp_path / "of one", step=4)
    on_ranks(3, lambda ranks: save_synchronously(tmp_path / "of three", ranks, 10, {"buffer": {}}, 2))
    with (
        RehearsalBuffer(options()) as buffer,
        pytest.raises(CheckpointError, match="another number of ranks than 1: give it as many, 3"),
    ):
        buffer.load(tmp_path / "of three")
    with RehearsalBuffer(options()) as buffer, pytest.raises(CheckpointError, match="holds no rehearsal buffer"):
        buffer.load(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eviction": "fifo"}, "saved with eviction='reservoir', this buffer has 'fifo'"),
        ({"eviction": old_of_rarest}, "this buffer has '.*test_restart:old_of_rarest'"),
        ({"balance": "step"}, "saved with balance='class', this buffer has 'step'"),
        ({"label": "number"}, "saved with label='y'"),
        ({"samples": 11}, "room for 10 samples, this one for 11"),
    ],
)
def test_other_options(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    saved(tmp_path)
    with RehearsalBuffer(options(**changes)) as buffer, pytest.raises(CheckpointError, match=message):
        buffer.load(tmp_path)


def test_a_damaged_version(tmp_path: Path) -> None:
    """No older one stands in for it."""
    with RehearsalBuffer(options()) as buffer:
        for step in range(2):
            buffer.update(batch(step))
            buffer.save(tmp_path)
    path = tmp_path / "latest" / "data-0.bin"
    content = bytearray(path.read_bytes())
    content[0] ^= 0xFF
    path.write_bytes(content)
    with RehearsalBuffer(options()) as buffer, pytest.raises(CheckpointError, match="do not match their digest"):
        buffer.load(tmp_path)
    path.write_bytes(content[: len(content) // 2])
    with RehearsalBuffer(options()) as buffer:
        with pytest.raises(CheckpointError, match=r"no version .* verifies: 000002-step-2"):
            buffer.load(tmp_path)
        for step in range(3):
            drawn = buffer.update(batch(step))  # from the beginning, as if nothing had been loaded
        assert set(drawn["number"].tolist()) <= set(batch(0)["number"].tolist())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with RehearsalBuffer(options()) as buffer:
        buffer.update(batch(0))
        with pytest.raises(CheckpointError, match=r"cannot write .*file: Not a directory"):
            buffer.save(tmp_path / "file")


def test_nothing_to_save_and_too_late_to_load(tmp_path: Path) -> None:
    with RehearsalBuffer(options()) as buffer:
        with pytest.raises(CheckpointError, match="no batch was offered yet"):
            buffer.save(tmp_path)
        buffer.update(batch(0))
        with pytest.raises(CheckpointError, match="before the first batch"):
            buffer.load(tmp_path)
