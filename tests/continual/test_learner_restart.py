"""A learner that was killed goes on from its saved state and buffer: the same draws, the same bits of the model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from continual.learning import BATCH, blobs, buffer_options, perceptron, sgd, torch, weights

from support import MPIEXEC, run_tree
from wilkins.tasks import continual

pytestmark = pytest.mark.needs("python:torch")

PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "rehearsal" / "learner.py"


def train(folder: Path, ranks: int, *words: str) -> int:
    """Run the trainer in a folder; its exit code."""
    folder.mkdir(exist_ok=True)
    launcher = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    command = [*launcher, sys.executable, str(PROGRAM), str(folder), *words]
    return run_tree(command, 150, folder, {"OMP_NUM_THREADS": "1"}).code


def steps_of(folder: Path, rank: int) -> dict[int, set[str]]:
    """What happened in each step, in every run that came to it."""
    found: dict[int, set[str]] = {}
    for line in (folder / f"log-{rank}").read_text().splitlines():
        step, _, rest = line.partition(" ")
        found.setdefault(int(step), set()).add(rest)
    return found


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("ranks", "name"), [(1, "der++"), (2, "der++"), (2, "from-scratch")])
def test_killed_and_restarted(tmp_path: Path, ranks: int, name: str) -> None:
    """By SIGKILL, in training and while saving. Momentum, batch statistics, dropout, the order of samples and the
    buffer's draws all show in the bits of the model after every step."""
    unbroken, killed = tmp_path / "unbroken", tmp_path / "killed"
    assert train(unbroken, ranks, name) == 0
    for step, where in [(7, "train"), (12, "save")]:
        assert train(killed, ranks, name, str(step), str(ranks - 1), where) != 0
    assert train(killed, ranks, name) == 0
    for rank in range(ranks):
        expected = steps_of(unbroken, rank)
        assert max(expected) >= 18
        assert steps_of(killed, rank) == expected
    saved = sorted(path.name for path in (killed / "saved").glob("*.pt"))
    assert len(saved) == 2 + 2 * ranks  # two saves, each of one file for all and one per rank
    assert not list((killed / "saved").glob(".*.part"))


def learner_of(name: str = "rehearsal", **options: Any) -> Any:
    model = perceptron(3)
    strategy = continual.make_strategy(name, buffer_options(**options))
    return continual.Learner(model, strategy, sgd(model), seed=3, batch=BATCH)


def saved(folder: Path, name: str = "rehearsal") -> Any:
    """A learner that saved after the first experience, with what came of it in the end."""
    with learner_of(name) as learner:
        learner.experience(blobs(0)[0].as_batch())
        learner.save(folder, {"seen": 1, "note": torch().arange(3)})
        learner.experience(blobs(0)[1].as_batch())
    return weights(learner.model)


@pytest.mark.parametrize("name", ["incremental", "from-scratch", "rehearsal", "der", "der++"])
def test_between_experiences(tmp_path: Path, name: str) -> None:
    expected = saved(tmp_path, name)
    with learner_of(name) as learner:
        extra = learner.load(tmp_path)
        assert extra["seen"] == learner.position.experience == 1
        assert extra["note"].tolist() == [0, 1, 2]
        learner.experience(blobs(0)[1].as_batch())
    assert torch().equal(weights(learner.model), expected)


def test_state_dict_alone(tmp_path: Path) -> None:
    """Without a buffer it is all there is; `torch.save` takes it, and reads it without running code."""
    with learner_of("incremental") as learner:
        learner.experience(blobs(0)[0].as_batch())
        torch().save(learner.state_dict(), tmp_path / "state.pt")
        learner.experience(blobs(0)[1].as_batch())
    with learner_of("incremental") as other:
        other.load_state_dict(torch().load(tmp_path / "state.pt", weights_only=True))
        other.experience(blobs(0)[1].as_batch())
    assert torch().equal(weights(learner.model), weights(other.model))


def test_nothing_saved(tmp_path: Path) -> None:
    with learner_of() as learner:
        before = weights(learner.model)
        assert learner.load(tmp_path / "none") is None
        assert torch().equal(before, weights(learner.model))


def test_before_the_first_step(tmp_path: Path) -> None:
    """There is no buffer yet, but a model that may have taken long to make."""
    with learner_of() as learner:
        learner.save(tmp_path)
        before = weights(learner.model)
    with learner_of() as learner:
        with torch().no_grad():
            for parameter in learner.model.parameters():
                parameter.zero_()
        assert learner.load(tmp_path) == {}
        assert torch().equal(before, weights(learner.model))


def test_saves_of_a_course_that_was_given_up_go(tmp_path: Path) -> None:
    with learner_of("incremental") as learner:
        for step in range(5):
            learner.step(blobs(step)[0].as_batch())
            learner.save(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("learner*")) == ["learner.step-4.pt", "learner.step-5.pt"]
    for name in ("learner.step-6", "own-0-of-1.step-6"):  # of a kill while writing
        (tmp_path / f".{name}.pt.part").write_bytes(b"half of it")
    with learner_of("incremental") as learner:  # from the beginning, in the same folder
        learner.step(blobs(0)[0].as_batch())
        learner.save(tmp_path, {"course": 2})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["learner.step-1.pt", "own-0-of-1.step-1.pt"]
    with learner_of("incremental") as learner:
        assert learner.load(tmp_path) == {"course": 2}


def test_what_does_not_fit(tmp_path: Path) -> None:
    saved(tmp_path)
    with learner_of("from-scratch") as learner, pytest.raises(continual.CheckpointError, match="another strategy"):
        learner.load(tmp_path)
    model = perceptron(3, outputs=7)
    with (
        continual.Learner(model, continual.Incremental(), sgd(model)) as learner,
        pytest.raises(continual.CheckpointError, match=r"cannot restore .*does not fit this model.*size mismatch"),
    ):
        learner.load(tmp_path)
    with learner_of(eviction="fifo") as learner, pytest.raises(continual.CheckpointError, match="eviction='reservoir'"):
        learner.load(tmp_path)
    with learner_of() as learner:
        learner.step(blobs(0)[0].as_batch())
        with pytest.raises(continual.CheckpointError, match="before its first step"):
            learner.load(tmp_path)


def test_damaged_or_missing_files(tmp_path: Path) -> None:
    saved(tmp_path)
    shared, own = next(tmp_path.glob("learner.*")), next(tmp_path.glob("own-*"))
    content = shared.read_bytes()
    shared.write_bytes(content[: len(content) // 2])
    with learner_of() as learner, pytest.raises(continual.CheckpointError, match="cannot restore a learner from"):
        learner.load(tmp_path)
    shared.write_bytes(content)
    own.rename(own.with_name(own.name.replace("of-1", "of-2")))
    with learner_of() as learner, pytest.raises(continual.CheckpointError, match="another number of ranks than 1"):
        learner.load(tmp_path)


def test_a_file_that_would_run_code(tmp_path: Path) -> None:
    saved(tmp_path)
    path = next(tmp_path.glob("learner.*"))
    torch().save({"format": 1, "model": print}, path)
    with learner_of() as learner, pytest.raises(continual.CheckpointError, match="cannot restore"):
        learner.load(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with learner_of("incremental") as learner, pytest.raises(continual.CheckpointError, match=r"cannot use .*file"):
        learner.save(tmp_path / "file")
