"""A learner that was killed goes on from its saved state and buffer: the same draws, the same bits of the model."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from checkpoint.rank_threads import on_ranks
from continual.learning import BATCH, blobs, buffer_options, on_mistakes, perceptron, sgd, torch, weights

from support.kill_points import kill_at
from support.running import MPIEXEC, run_tree
from wilkins.cli import main
from wilkins.tasks import continual
from wilkins.tasks.checkpoint import Checkpointer
from wilkins.tasks.checkpoint.engine.synchronous import save_synchronously
from wilkins.tasks.checkpoint.storage import versions

pytestmark = pytest.mark.needs("python:torch")

PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "rehearsal" / "learner.py"


def train(folder: Path, ranks: int, *words: str, kill: Mapping[str, str] | None = None) -> int:
    """Run the trainer in a folder; its exit code. `kill`: see `kill_at`."""
    folder.mkdir(exist_ok=True)
    launcher = [MPIEXEC, "-n", str(ranks)] if ranks > 1 else []
    command = [*launcher, sys.executable, str(PROGRAM), str(folder), *words]
    return run_tree(command, 150, folder, {"OMP_NUM_THREADS": "1", **(kill or {})}).code


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
@pytest.mark.parametrize(
    ("ranks", "name"),
    [(1, "der++"), (2, "der++"), (2, "from-scratch"), (2, "gdumb"), (2, "rehearsal/ewc"), (2, "incremental/lwf")],
)
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
    assert len(steps_in(killed / "saved")) == 2
    assert sorted(path.name for path in (killed / "saved").glob(".*")) == [".lock"]


@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ranks", [1, 2])
def test_killed_at_every_point_of_a_save(tmp_path: Path, ranks: int) -> None:
    """One after the other, in one folder: by rank 0, which commits, where there are several."""
    unbroken, killed = tmp_path / "unbroken", tmp_path / "killed"
    assert train(unbroken, ranks, "der++") == 0
    for point in ("flush.begun", "flush.synced", "commit.manifest", "commit.renamed", "commit.latest", "prune.hidden"):
        assert train(killed, ranks, "der++", kill=kill_at(point, 1, 0)) != 0, point
    assert train(killed, ranks, "der++") == 0
    for rank in range(ranks):
        assert steps_of(killed, rank) == steps_of(unbroken, rank)
    assert len(steps_in(killed / "saved")) == 2
    assert sorted(path.name for path in (killed / "saved").glob(".*")) == [".lock"]


def steps_in(folder: Path) -> list[int]:
    return [one.step for one in versions.versions(folder)]


def learner_of(name: str = "rehearsal", **options: Any) -> Any:
    model = perceptron(3)
    name, _, regulariser = name.partition("/")
    strategy = continual.make_strategy(on_mistakes() if name == "own" else name, buffer_options(**options))
    added = {"ewc": continual.EWC(30, samples=9), "lwf": continual.LwF()}
    regularise = [added[regulariser]] if regulariser else []
    return continual.Learner(model, strategy, sgd(model), regularise=regularise, seed=3, batch=BATCH)


def saved(folder: Path, name: str = "rehearsal") -> Any:
    """A learner that saved after the first experience, with what came of it in the end."""
    with learner_of(name) as learner:
        learner.experience(blobs(0)[0].as_batch())
        learner.save(folder, {"seen": 1, "note": torch().arange(3)})
        learner.experience(blobs(0)[1].as_batch())
    return weights(learner.model)


STRATEGIES = [
    "incremental",
    "from-scratch",
    "rehearsal",
    "der",
    "der++",
    "gdumb",
    "own",
    "incremental/ewc",
    "rehearsal/lwf",
]


@pytest.mark.usual("der++", "own", "rehearsal/lwf")
@pytest.mark.parametrize("name", STRATEGIES)
def test_between_experiences(tmp_path: Path, name: str) -> None:
    expected = saved(tmp_path, name)
    with learner_of(name) as learner:
        extra = learner.load(tmp_path)
        assert extra["seen"] == learner.position.experience == 1
        assert extra["note"].tolist() == [0, 1, 2]
        learner.experience(blobs(0)[1].as_batch())
    assert torch().equal(weights(learner.model), expected)


@pytest.mark.usual("der++", "own", "rehearsal/lwf")
@pytest.mark.parametrize("name", STRATEGIES)
def test_at_any_step(tmp_path: Path, name: str) -> None:
    """What ends in the middle of an experience, or after its last step, goes on as if it had not ended."""

    class Ended(Exception):
        pass

    def until(learner: Any, last: int) -> None:
        def after(step: Any) -> None:
            if step.number == last:
                learner.save(tmp_path)
                raise Ended

        with learner, contextlib.suppress(Ended):
            learner.load(tmp_path)
            for experience in blobs(0, 15)[learner.position.experience :]:
                learner.experience(experience.as_batch(), 2, after_step=after)

    whole = learner_of(name)
    until(whole, -1)
    for last in (2, 6, 7, 15, -1):
        learner = learner_of(name)
        until(learner, last)
    assert learner.steps == whole.steps
    assert torch().equal(weights(learner.model), weights(whole.model))


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
    assert steps_in(tmp_path) == [4, 5]
    (tmp_path / ".000006-step-6.0123abcd.new").mkdir()  # of a kill while writing
    with learner_of("incremental") as learner:  # from the beginning, in the same folder
        learner.step(blobs(0)[0].as_batch())
        learner.save(tmp_path, {"course": 2})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "000006-step-1", "latest"]
    with learner_of("incremental") as learner:
        assert learner.load(tmp_path) == {"course": 2}


def test_what_does_not_fit(tmp_path: Path) -> None:
    saved(tmp_path)
    with learner_of("from-scratch") as learner, pytest.raises(continual.CheckpointError, match="another strategy"):
        learner.load(tmp_path)
    with (
        learner_of("rehearsal/ewc") as learner,
        pytest.raises(continual.CheckpointError, match=r"saved with the regularisers \[\], and this .* has \['ewc'\]"),
    ):
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


def test_a_course_goes_back_to_an_earlier_save(tmp_path: Path) -> None:
    """What was saved after that one stays until there is a save of the new course; the one it went back to stays on."""
    with learner_of("incremental") as learner:
        for step in range(5):
            learner.step(blobs(step)[0].as_batch())
            learner.save(tmp_path, {"course": 1}, keep=3)
    with learner_of("incremental") as learner:
        assert learner.load(tmp_path, 3) == {"course": 1} and learner.steps == 3
        assert steps_in(tmp_path) == [3, 4, 5]
        learner.step(blobs(3)[0].as_batch())
        learner.save(tmp_path, {"course": 2}, keep=2)
    assert steps_in(tmp_path) == [3, 4]
    with learner_of("incremental") as learner:
        assert learner.load(tmp_path) == {"course": 2} and learner.steps == 4


def test_a_save_that_is_damaged(tmp_path: Path) -> None:
    """No older one stands in for it: what was learned since would be lost unseen."""
    with learner_of("incremental") as learner:
        for step in range(2):
            learner.step(blobs(step)[0].as_batch())
            learner.save(tmp_path)
    data = tmp_path / "latest" / "data-0.bin"
    content = data.read_bytes()
    data.write_bytes(content[: len(content) // 2])
    with (
        learner_of("incremental") as learner,
        pytest.raises(continual.CheckpointError, match=r"no version .* verifies"),
    ):
        learner.load(tmp_path)
    with learner_of("incremental") as learner:
        assert learner.load(tmp_path, 1) == {} and learner.steps == 1


def test_what_is_no_save_of_a_learner(tmp_path: Path) -> None:
    on_ranks(2, lambda ranks: save_synchronously(tmp_path / "of two", ranks, 1, {}, 2))
    with learner_of() as learner, pytest.raises(continual.CheckpointError, match="another number of ranks than 1"):
        learner.load(tmp_path / "of two")
    with Checkpointer(tmp_path / "other") as checkpointer:
        checkpointer.save(1, {"model": {}})
    with learner_of() as learner, pytest.raises(continual.CheckpointError, match="cannot restore a learner from"):
        learner.load(tmp_path / "other")


def test_what_cannot_be_kept_exactly(tmp_path: Path) -> None:
    with learner_of("incremental") as learner:
        learner.save(tmp_path)
        with pytest.raises(continual.CheckpointError, match=r"extra/these: a builtins\.set is not kept"):
            learner.save(tmp_path, {"these": {1, 2}})
        learner.save(tmp_path, {"these": [1, 2]})
    assert len(steps_in(tmp_path)) == 1


@pytest.mark.needs("python:safetensors")
def test_looked_at_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A save is a version like any other: listed, verified, shown, exported and pruned."""
    with learner_of("rehearsal") as learner:
        for step in range(2):
            learner.step(blobs(step)[0].as_batch())
            learner.save(tmp_path / "saved")
        state = learner.model.state_dict()
    folder, file = str(tmp_path / "saved"), tmp_path / "model.safetensors"
    for words in (["list"], ["verify"], ["show"], ["export", str(file), "--root", "model"]):
        assert main(["ckpt", words[0], folder, *words[1:]]) == 0
    out = capsys.readouterr().out
    assert out.count("all right") == 2 and "buffer/arrays/rows" in out and "model/0.weight" in out
    exported = importlib.import_module("safetensors.torch").load_file(file)
    assert exported.keys() == state.keys() and all(torch().equal(exported[name], state[name]) for name in state)
    assert main(["ckpt", "prune", folder, "--keep", "1"]) == 0 and steps_in(tmp_path / "saved") == [2]
    with learner_of("rehearsal") as learner:
        assert learner.load(folder) == {} and learner.steps == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        learner_of("incremental") as learner,
        pytest.raises(continual.CheckpointError, match=r"cannot write .*file: Not a directory"),
    ):
        learner.save(tmp_path / "file")
