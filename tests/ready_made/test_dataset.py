"""`wilkins.tasks.StepDataset`: every sample of a stream once, over workers and ranks; shuffled, saved, resumed."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from support.running import MPIEXEC, WILKINS, must_run, run_tree

pytestmark = pytest.mark.needs("python:torch")

STEPS, ROWS = 13, 7
WRITE = f"""\
import h5py
import numpy as np
for step in range({STEPS}):
    rows = {ROWS} + step % 3
    first = sum({ROWS} + one % 3 for one in range(step))
    with h5py.File(f"plt{{step:04}}.h5", "w") as file:
        file["x"] = np.arange(first, first + rows, dtype="f8")[:, None] * [1.0, 10.0]
        file["y"] = np.arange(first, first + rows)
"""
TOTAL = sum(ROWS + step % 3 for step in range(STEPS))
TRAIN = """\
import json, os, sys
from torch.utils.data import DataLoader
from wilkins.tasks import StepDataset

def main():
    options = json.loads(sys.argv[1])
    own = {key: options.pop(key) for key in ("shuffle", "batch") if key in options}
    dataset = StepDataset("plt*.h5", {"x": "x", "y": "y"}, seed=5, **own)
    seen = []
    for batch in DataLoader(dataset, batch_size=None if "batch" in own else 4, **options):
        assert (batch["x"][:, 0] == batch["y"]).all() and (batch["x"][:, 1] == 10 * batch["y"]).all()
        seen += batch["y"].tolist()
    with open(f"seen-{os.environ['RANK']}.json", "w") as file:
        json.dump(seen, file)

if __name__ == "__main__":
    main()
"""


def _seen(folder: Path, ranks: int = 1, write: str = WRITE, **options: Any) -> list[list[int]]:
    """What each rank's samples were, in order."""
    (folder / "write.py").write_text(write)
    (folder / "train.py").write_text(TRAIN)
    (folder / "workflow.yaml").write_text(
        'tasks:\n  - {func: write.py, outports: [{filename: "plt*.h5"}]}\n'
        f"  - {{func: train.py, nprocs: {ranks}, threads: 1, args: [{json.dumps(json.dumps(options))}], "
        'inports: [{filename: "plt*.h5"}]}\n'
    )
    with tempfile.TemporaryDirectory(prefix="ds-") as temporary:  # short: workers make sockets in it
        done = run_tree([*WILKINS, "run"], 180, folder, {"TMPDIR": temporary})
        assert done.code == 0, done.out + done.err
        assert "by turns" not in done.err
        assert not list(Path(temporary).iterdir())
    return [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(ranks)]


def _once(parts: Sequence[Sequence[int]]) -> bool:
    return sorted(one for part in parts for one in part) == list(range(TOTAL))


def test_samples_come_in_order(tmp_path: Path) -> None:
    assert _seen(tmp_path) == [list(range(TOTAL))]


@pytest.mark.nightly
def test_samples_are_shuffled_the_same_way_each_time(tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        runs.append(_seen(tmp_path / name, shuffle=20))
    assert runs[0] == runs[1]
    assert _once(runs[0])
    assert runs[0][0] != list(range(TOTAL))
    assert max(place - one for place, one in enumerate(runs[0][0])) < TOTAL


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.nightly
def test_workers_share_the_steps(tmp_path: Path, workers: int, context: str) -> None:
    assert _once(_seen(tmp_path, num_workers=workers, multiprocessing_context=context, shuffle=5))


@pytest.mark.nightly
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_hand_out_batches(tmp_path: Path, context: str) -> None:
    """The same as those that a DataLoader makes."""
    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": context, "shuffle": 9}
    seen = []
    for name, more in (("by the loader", {}), ("batches", {"batch": 4})):
        (tmp_path / name).mkdir()
        seen.append(_seen(tmp_path / name, **(options | more)))
    assert seen[0] == seen[1]
    assert _once(seen[0])


@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize(("ranks", "workers"), [(2, 0), (3, 0), (2, 2)])
@pytest.mark.usual("2-2")
def test_ranks_share_the_samples(tmp_path: Path, ranks: int, workers: int) -> None:
    options: dict[str, Any] = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    parts = _seen(tmp_path, ranks, **options)
    assert _once(parts)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    if not workers:
        assert parts == [list(range(rank, TOTAL, ranks)) for rank in range(ranks)]


# Without a run: files on disk.


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "write.py").write_text(WRITE)
    must_run(tmp_path, sys.executable, "write.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _numbers(samples: Iterable[Any]) -> list[int]:
    return [int(sample) for sample in samples]


@pytest.mark.usefixtures("files")
def test_files_on_disk() -> None:
    from torch.utils.data import DataLoader

    from wilkins.tasks import StepDataset

    dataset = StepDataset("plt*.h5", "y")
    assert _numbers(dataset) == _numbers(dataset) == list(range(TOTAL))
    loader = DataLoader(dataset, batch_size=None, num_workers=3, multiprocessing_context="fork")
    assert sorted(_numbers(loader)) == list(range(TOTAL))
    parts = [_numbers(StepDataset("plt*.h5", "y", rank=rank, world_size=4)) for rank in range(4)]
    assert parts == [list(range(rank, TOTAL, 4)) for rank in range(4)]


@pytest.mark.usefixtures("files")
def test_what_a_sample_is() -> None:
    import torch

    from wilkins.tasks import StepDataset

    first = next(iter(StepDataset("plt*.h5", ["x", "y"])))
    assert isinstance(first, tuple)
    assert [tuple(one.shape) for one in first] == [(2,), ()]
    assert first[0].dtype == torch.float64
    own = StepDataset(
        "plt*.h5", samples=lambda step: [float(one) + 0.5 for one in step["y"]], transform=lambda x: 2 * x
    )
    assert list(own) == [2 * one + 1.0 for one in range(TOTAL)]


@pytest.mark.usual("15", "1000")
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("shuffle", [0, 2, 15, 1000])
def test_batches_are_those_of_a_data_loader(shuffle: int) -> None:
    """In the same order, over the ends of steps, and also of a part of the samples; with ``batch_size=None``."""
    import torch
    from torch.utils.data import DataLoader

    from wilkins.tasks import StepDataset

    paths = {"x": "x", "y": "y"}
    for size, rank, drop in ((1, 0, False), (4, 1, True), (10, 2, False), (1000, 0, False)):
        options: dict[str, Any] = {"shuffle": shuffle, "seed": 7, "rank": rank, "world_size": 3}
        wanted = list(DataLoader(StepDataset("plt*.h5", paths, **options), batch_size=size, drop_last=drop))
        found = StepDataset("plt*.h5", paths, **options, batch=size, drop_last=drop)
        for once in (list(DataLoader(found, batch_size=None)), list(found)):
            assert len(once) == len(wanted)
            for one, other in zip(once, wanted, strict=True):
                assert one.keys() == other.keys()
                assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.usefixtures("files")
def test_batches_of_workers_are_those_of_a_data_loader() -> None:
    from torch.utils.data import DataLoader

    from wilkins.tasks import StepDataset

    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
    wanted = DataLoader(StepDataset("plt*.h5", "y", shuffle=9), batch_size=4, **options)
    found = DataLoader(StepDataset("plt*.h5", "y", shuffle=9, batch=4), batch_size=None, **options)
    assert [batch.tolist() for batch in found] == [batch.tolist() for batch in wanted]


@pytest.mark.usefixtures("files")
def test_what_a_batch_is() -> None:
    import torch

    from wilkins.tasks import StepDataset

    x, y = next(iter(StepDataset("plt*.h5", ["x", "y"], batch=10)))
    assert x.shape == (10, 2)
    assert x.dtype == torch.float64
    assert y.tolist() == list(range(10))
    assert len(list(StepDataset("plt*.h5", "y", batch=10))) == -(-TOTAL // 10)
    assert len(list(StepDataset("plt*.h5", "y", batch=10, drop_last=True))) == TOTAL // 10
    sums = StepDataset("plt*.h5", "y", batch=10, transform=lambda batch: int(batch.sum()))
    assert sum(sums) == TOTAL * (TOTAL - 1) // 2


@pytest.mark.usual("0-0", "3-15")
@pytest.mark.parametrize("shuffle", [0, 15])
@pytest.mark.parametrize("stop", [0, 1, 3, 10])
def test_a_state_between_batches_gives_exactly_the_rest(files: Path, shuffle: int, stop: int) -> None:
    import torch

    from wilkins.tasks import StepDataset

    def dataset() -> StepDataset:
        return StepDataset("plt*.h5", "y", shuffle=shuffle, seed=3, batch=10)

    whole = [batch.tolist() for batch in dataset()]
    one = dataset()
    batches = iter(one)
    before = [next(batches).tolist() for _ in range(stop)]
    torch.save(one.state_dict(), files / "state.pt")
    other = dataset()
    other.load_state_dict(torch.load(files / "state.pt"))
    assert before + [batch.tolist() for batch in other] == whole


@pytest.mark.usual("0-0", "7-15", "50-0", "102-15")
@pytest.mark.parametrize("shuffle", [0, 15])
@pytest.mark.parametrize("stop", [0, 1, 6, 7, 50, TOTAL - 1])
def test_a_state_gives_exactly_the_rest(files: Path, shuffle: int, stop: int) -> None:
    import torch

    from wilkins.tasks import StepDataset

    whole = _numbers(StepDataset("plt*.h5", "y", shuffle=shuffle, seed=3))
    dataset = StepDataset("plt*.h5", "y", shuffle=shuffle, seed=3)
    samples = iter(dataset)
    before = [int(next(samples)) for _ in range(stop)]
    torch.save(dataset.state_dict(), files / "state.pt")
    other = StepDataset("plt*.h5", "y", shuffle=shuffle, seed=3)
    other.load_state_dict(torch.load(files / "state.pt"))
    assert before + _numbers(other) == whole
    assert _numbers(other) == whole  # once more, from the beginning


@pytest.mark.nightly
@pytest.mark.usefixtures("files")
def test_what_is_wrong() -> None:
    from torch.utils.data import DataLoader

    from wilkins.tasks import StepDataset

    with pytest.raises(TypeError, match="give the paths of datasets"):
        StepDataset("plt*.h5")
    with pytest.raises(TypeError, match="not both"):
        StepDataset("plt*.h5", "y", samples=list)
    with pytest.raises(ValueError, match="rank 2 is none of 2 ranks"):
        StepDataset("plt*.h5", "y", rank=2, world_size=2)
    with pytest.raises(ValueError, match="shuffle is -1"):
        StepDataset("plt*.h5", "y", shuffle=-1)
    with pytest.raises(ValueError, match="batch is 0"):
        StepDataset("plt*.h5", "y", batch=0)
    with pytest.raises(TypeError, match="let the DataLoader make batches"):
        StepDataset("plt*.h5", samples=list, batch=2)
    with pytest.raises(TypeError, match="`drop_last` is of `batch`"):
        StepDataset("plt*.h5", "y", drop_last=True)
    dataset = StepDataset("plt*.h5", "y", shuffle=4, batch=3)
    next(iter(dataset))
    state = dataset.state_dict()
    with pytest.raises(RuntimeError, match=r"the state is one of shuffle=4, and the dataset has shuffle=5"):
        StepDataset("plt*.h5", "y", shuffle=5, batch=3).load_state_dict(state)
    with pytest.raises(RuntimeError, match="the state is one with `batch`"):
        StepDataset("plt*.h5", "y", shuffle=4).load_state_dict(state)
    with h5py.File("plt0001.h5", "a") as file:
        file["w"] = np.zeros((3, 2))
    with h5py.File("plt0000.h5", "a") as file:
        file["w"] = np.zeros((3, 1))
    with pytest.raises(ValueError, match=r"plt0001\.h5: rows of 'w' are float64 of the shape \(2,\), those before"):
        list(StepDataset("plt000[01].h5", "w", batch=4))
    assert len(list(StepDataset("plt000[01].h5", "w"))) == 6
    with h5py.File("plt0000.h5", "a") as file:
        file["z"] = np.zeros(3)
    with pytest.raises(
        ValueError, match=r"plt0000\.h5: the datasets have different numbers of rows: 'y' has 7, 'z' has 3"
    ):
        list(StepDataset("plt*.h5", ["y", "z"]))
    with pytest.raises(KeyError, match="has no 'yy'"):
        list(StepDataset("plt*.h5", "yy"))
    dataset = StepDataset("plt*.h5", "y")
    dataset.load_state_dict(dataset.state_dict())
    with pytest.raises(RuntimeError, match="go on with num_workers=0"):
        list(DataLoader(dataset, num_workers=2, multiprocessing_context="fork"))
    dataset = StepDataset("plt*.h5", "y")
    samples = iter(DataLoader(dataset, num_workers=2, multiprocessing_context="fork"))
    next(samples)
    with pytest.raises(RuntimeError, match="use torchdata's StatefulDataLoader, and save its state_dict"):
        dataset.state_dict()
    with pytest.raises(ValueError, match="there is no state of a StepDataset in this"):
        StepDataset.steps_of({"epoch": 3})


@pytest.mark.nightly
def test_workers_give_samples_in_the_same_order_each_time(tmp_path: Path) -> None:
    """Also where one has large steps and the others small ones, of which they need many for a batch."""
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        uneven = WRITE.replace(f"{ROWS} + step % 3", "1 + 40 * (step % 2)").replace(
            f"{ROWS} + one % 3", "1 + 40 * (one % 2)"
        )
        runs.append(
            _seen(tmp_path / name, write=uneven, num_workers=2, multiprocessing_context="fork", prefetch_factor=1)
        )
    assert runs[0] == runs[1]
    assert sorted(runs[0][0]) == list(range(STEPS + 40 * (STEPS // 2)))


STATEFUL = pytest.mark.needs("python:torchdata")


@STATEFUL
@pytest.mark.nightly
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("shuffle", [0, 9])
@pytest.mark.parametrize("workers", [1, 3])
def test_states_of_workers_give_exactly_the_rest(files: Path, workers: int, shuffle: int, batch: int | None) -> None:
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from wilkins.tasks import StepDataset

    def loader() -> Any:
        dataset = StepDataset("plt*.h5", "y", shuffle=shuffle, seed=3, batch=batch)
        return StatefulDataLoader(
            dataset, batch_size=None if batch else 4, num_workers=workers, multiprocessing_context="fork"
        )

    whole = [batch.tolist() for batch in loader()]
    assert sorted(one for batch in whole for one in batch) == list(range(TOTAL))
    for stop in (1, 4, len(whole) - 1):
        one = loader()
        batches = iter(one)
        before = [next(batches).tolist() for _ in range(stop)]
        torch.save(one.state_dict(), files / "state.pt")
        del batches
        other = loader()
        other.load_state_dict(torch.load(files / "state.pt", weights_only=False))
        assert before + [batch.tolist() for batch in other] == whole


@STATEFUL
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("workers", "context", "batched"), [(2, "fork", False), (3, "spawn", False), (2, "fork", True)]
)
def test_a_resumed_run_with_workers_gives_exactly_the_rest(
    tmp_path: Path, workers: int, context: str, batched: bool
) -> None:
    options = f"num_workers={workers}, multiprocessing_context={context!r}"
    program = RESUMED_WITH_WORKERS.replace("OPTIONS", options)
    _is_resumed_exactly(tmp_path, _in_batches(program, 4) if batched else program)


RESUMED_WITH_WORKERS = """\
import os
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
from wilkins.tasks import StepDataset
from wilkins.transport import points

def main():
    dataset, seen = StepDataset("plt*.h5", "y", shuffle=6, seed=1), []
    loader = StatefulDataLoader(dataset, batch_size=4, OPTIONS)
    if point := points.chosen():
        state = torch.load(point.file, weights_only=False)
        loader.load_state_dict(state["loader"])
        seen = state["seen"]
    for number, batch in enumerate(loader, start=1):
        seen += batch.tolist()
        if number % 3 == 0:
            state, name = loader.state_dict(), f"state{len(seen)}.pt"
            torch.save({"loader": state, "seen": seen}, name)
            points.tell(name, consumed={"plt*.h5": StepDataset.steps_of(state)}, file=name)
        if len(seen) > 50 and not os.path.exists("died"):
            open("died", "w").close()
            os._exit(3)
    print("seen", *seen)

if __name__ == "__main__":
    main()
"""
RESUMED = """\
import os
import torch
from torch.utils.data import DataLoader
from wilkins.tasks import StepDataset
from wilkins.transport import points
dataset, seen = StepDataset("plt*.h5", "y", shuffle=10, seed=1), []
if point := points.chosen():
    state = torch.load(point.file, weights_only=False)
    dataset.load_state_dict(state["dataset"])
    seen = state["seen"]
for number, batch in enumerate(DataLoader(dataset, batch_size=4), start=1):
    seen += batch.tolist()
    if number % 3 == 0:
        name = f"state{len(seen)}.pt"
        torch.save({"dataset": dataset.state_dict(), "seen": seen}, name)
        points.tell(name, consumed={"plt*.h5": dataset.state_dict()["steps"]}, file=name)
    if len(seen) > 50 and not os.path.exists("died"):
        open("died", "w").close()
        os._exit(3)
print("seen", *seen)
"""


RESUMED_RANKS = """\
import os
import torch
from mpi4py import MPI
from torch.utils.data import DataLoader
from wilkins.tasks import StepDataset
from wilkins.transport import points
world = MPI.COMM_WORLD
dataset, seen, number = StepDataset("plt*.h5", "y", shuffle=4, seed=1), [], 0
if point := points.chosen():
    state = torch.load(f"{point.label}-{world.rank}.pt", weights_only=False)
    dataset.load_state_dict(state["dataset"])
    seen, number = state["seen"], state["number"]
batches = iter(DataLoader(dataset, batch_size=2))
while world.allreduce((batch := next(batches, None)) is not None):
    number += 1
    seen += [] if batch is None else batch.tolist()
    state = dataset.state_dict()
    torch.save({"dataset": state, "seen": seen, "number": number}, f"state{number}-{world.rank}.pt")
    steps = world.allgather(state["steps"])
    if world.rank == 0:
        if max(steps) > min(steps):
            open(f"apart{number}", "w").close()
        points.tell(f"state{number}", consumed={"plt*.h5": min(steps)})
    world.Barrier()
    if number == DIES and not os.path.exists("died"):
        world.Barrier()
        if world.rank == 0:
            open("died", "w").close()
        world.Barrier()
        os._exit(3)
seen = world.gather(seen)
if world.rank == 0:
    print("seen", *sum(seen, []))
"""


def test_a_resumed_run_gives_exactly_the_rest(tmp_path: Path) -> None:
    _is_resumed_exactly(tmp_path, RESUMED)


@pytest.mark.nightly
def test_a_resumed_run_of_batches_gives_exactly_the_rest(tmp_path: Path) -> None:
    _is_resumed_exactly(tmp_path, _in_batches(RESUMED, 4))


def _in_batches(program: str, size: int) -> str:
    """A program that lets the dataset make the batches."""
    for own in ("shuffle=10", "shuffle=6", "shuffle=4"):
        program = program.replace(own, f"{own}, batch={size}")
    assert f"batch_size={size}" in program and f"batch={size}" in program
    return program.replace(f"batch_size={size}", "batch_size=None")


@pytest.mark.needs(MPIEXEC, "python:mpi4py")
@pytest.mark.nightly
@pytest.mark.parametrize("dies", [8, 9])
@pytest.mark.parametrize("batched", [False, True])
def test_a_resumed_run_of_ranks_gives_exactly_the_rest(tmp_path: Path, dies: int, batched: bool) -> None:
    """Also where one of them was a step ahead of others when all saved."""
    program = RESUMED_RANKS.replace("DIES", str(dies))
    _is_resumed_exactly(tmp_path, _in_batches(program, 2) if batched else program, ranks=3)
    assert (tmp_path / f"apart{dies}").exists() == (dies == 8)


@STATEFUL
@pytest.mark.nightly
@pytest.mark.needs(MPIEXEC, "python:mpi4py")
@pytest.mark.parametrize("dies", [4, 5, 8])
def test_a_resumed_run_of_ranks_with_workers_gives_exactly_the_rest(tmp_path: Path, dies: int) -> None:
    program = RESUMED_RANKS.replace("DIES", str(dies))
    for plain, stateful in (
        ("from torch.utils.data import DataLoader", "from torchdata.stateful_dataloader import StatefulDataLoader"),
        (
            "batches = iter(DataLoader(dataset, batch_size=2))\n",
            "loader = StatefulDataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context='fork')\n"
            "if point:\n    loader.load_state_dict(state['dataset'])\n"
            "batches = iter(loader)\n",
        ),
        ('    dataset.load_state_dict(state["dataset"])\n', ""),
        ("dataset.state_dict()", "loader.state_dict()"),
        ('state["steps"]', "StepDataset.steps_of(state)"),
    ):
        assert plain in program
        program = program.replace(plain, stateful)
    _is_resumed_exactly(tmp_path, program, ranks=3)


def _is_resumed_exactly(tmp_path: Path, program: str, ranks: int = 1) -> None:
    (tmp_path / "write.py").write_text(WRITE)
    (tmp_path / "train.py").write_text(program)
    (tmp_path / "workflow.yaml").write_text(
        'tasks:\n  - {func: write.py, outports: [{filename: "plt*.h5"}]}\n'
        f'  - {{func: train.py, nprocs: {ranks}, threads: 1, inports: [{{filename: "plt*.h5"}}], restart: points}}\n'
    )
    assert run_tree([*WILKINS, "run"], 120, tmp_path).code == 1
    out = must_run(tmp_path, *WILKINS, "run", "--resume", "latest")
    seen = [int(word) for word in out.partition("| seen ")[2].split()]
    assert sorted(seen) == list(range(TOTAL))
    (tmp_path / "again").mkdir()
    for name in ("write.py", "train.py", "workflow.yaml"):
        (tmp_path / "again" / name).write_text((tmp_path / name).read_text())
    (tmp_path / "again/died").touch()
    whole = must_run(tmp_path / "again", *WILKINS, "run")
    assert seen == [int(word) for word in whole.partition("| seen ")[2].split()]


TRAINERS = {
    "lightning": """\
import lightning
import torch
from torch.utils.data import DataLoader
from wilkins.tasks import StepDataset
seen = []
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1, dtype=torch.float64)
    def training_step(self, batch, number):
        seen.extend(batch["y"].tolist())
        return self.layer(batch["x"]).square().mean() * 1e-9
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Module(), DataLoader(StepDataset("plt*.h5", {"x": "x", "y": "y"}), batch_size=4))
print("seen", *seen)
""",
    "transformers": """\
import torch
from transformers import Trainer, TrainingArguments
from wilkins.tasks import StepDataset
seen = []
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1, dtype=torch.float64)
    def forward(self, x, y):
        seen.extend(y.tolist())
        return {"loss": self.layer(x).square().mean() * 1e-9}
arguments = TrainingArguments("out", max_steps=STEPS, per_device_train_batch_size=4, report_to="none", use_cpu=True,
                              save_strategy="no", disable_tqdm=True, remove_unused_columns=False)
Trainer(Model(), arguments, train_dataset=StepDataset("plt*.h5", {"x": "x", "y": "y"})).train()
print("seen", *seen)
""".replace("STEPS", str(-(-TOTAL // 4))),
}


@pytest.mark.nightly
@pytest.mark.parametrize("trainer", [pytest.param(one, marks=pytest.mark.needs(f"python:{one}")) for one in TRAINERS])
def test_trainers_take_the_samples(tmp_path: Path, trainer: str) -> None:
    (tmp_path / "write.py").write_text(WRITE)
    (tmp_path / "train.py").write_text(TRAINERS[trainer])
    (tmp_path / "workflow.yaml").write_text(
        'tasks:\n  - {func: write.py, outports: [{filename: "plt*.h5"}]}\n'
        '  - {func: train.py, threads: 1, inports: [{filename: "plt*.h5"}]}\n'
    )
    out = must_run(tmp_path, *WILKINS, "run", timeout=180)
    assert [int(word) for word in out.partition("| seen ")[2].split()] == list(range(TOTAL))
