"""`StepDataset(..., epochs=n)`: every sample once an epoch, from the cache or from the disk; saved, resumed."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from support.running import MPIEXEC, WILKINS, must_run, run_tree

pytestmark = pytest.mark.needs("python:torch")

STEPS, EPOCHS = 6, 3
WRITE = f"""\
import h5py
import numpy as np
first = 0
for step in range({STEPS}):
    numbers = np.arange(first, first + 10 + step)
    options = dict(chunks=True, compression="gzip") if step % 3 == 2 else dict()
    with h5py.File(f"plt{{step}}.h5", "w") as file:
        file.create_dataset("x", data=numbers[:, None] * [1.0, 10.0], **options)
        file.create_dataset("y", data=numbers, **options)
    first += len(numbers)
"""
TOTAL = sum(10 + step for step in range(STEPS))
TRAIN = """\
import json, os, sys
from torch.utils.data import DataLoader
from wilkins.tasks import StepDataset

def main():
    own, options = json.loads(sys.argv[1])
    dataset = StepDataset("plt*.h5", {"x": "x", "y": "y"}, epochs=3, seed=5, **own)
    seen = []
    for batch in DataLoader(dataset, batch_size=None, **options):
        assert (batch["x"][:, 0] == batch["y"]).all() and (batch["x"][:, 1] == 10 * batch["y"]).all()
        seen += batch["y"].tolist()
    with open(f"seen-{os.environ['RANK']}.json", "w") as file:
        json.dump(seen, file)

if __name__ == "__main__":
    main()
"""


def _workflow(folder: Path, mode: str, ranks: int = 1, train: str = TRAIN, more: str = "", **own: Any) -> None:
    (folder / "write.py").write_text(WRITE)
    (folder / "train.py").write_text(train)
    options = own.pop("loader", {})
    words = json.dumps(json.dumps([{"batch": 4, "shuffle": 20} | own, options]))
    (folder / "workflow.yaml").write_text(
        f'tasks:\n  - {{func: write.py, outports: [{{filename: "plt*.h5", mode: {mode}}}]}}\n'
        f"  - {{func: train.py, nprocs: {ranks}, threads: 1, args: [{words}], "
        f'inports: [{{filename: "plt*.h5"}}]{more}}}\n'
    )


def _seen(folder: Path, mode: str, ranks: int = 1, **own: Any) -> list[list[int]]:
    _workflow(folder, mode, ranks, **own)
    with tempfile.TemporaryDirectory(prefix="ds-") as temporary:  # short: workers make sockets in it
        done = run_tree([*WILKINS, "run"], 180, folder, {"TMPDIR": temporary})
    assert done.code == 0, done.out + done.err
    return [json.loads((folder / f"seen-{rank}.json").read_text()) for rank in range(ranks)]


def _times(samples: list[int]) -> list[int]:
    """How often each sample came."""
    return [int(count) for count in np.bincount(samples, minlength=TOTAL)]


def _by_files(folder: Path, cache: int | str) -> list[int]:
    """The samples as they come without a run, from files of the same steps."""
    from wilkins.tasks import StepDataset

    (folder / "files").mkdir()
    (folder / "files/write.py").write_text(WRITE)
    must_run(folder / "files", sys.executable, "write.py")
    dataset = StepDataset(folder / "files/plt*.h5", "y", epochs=EPOCHS, seed=5, batch=4, shuffle=20, cache=cache)
    return [one for batch in dataset for one in batch.tolist()]


@pytest.mark.parametrize(("mode", "cache"), [("both", 200), ("memory", "1MB")])
@pytest.mark.nightly
def test_samples_come_again_from_the_disk_and_from_memory(tmp_path: Path, mode: str, cache: int | str) -> None:
    """The same ones in the same order, whatever fits into the cache."""
    order = _seen(tmp_path, mode, cache=cache)[0]
    assert order == _by_files(tmp_path, 0)
    epochs = [order[epoch * TOTAL : (epoch + 1) * TOTAL] for epoch in range(EPOCHS)]
    assert [sorted(epoch) for epoch in epochs] == EPOCHS * [list(range(TOTAL))]
    assert epochs[1] != epochs[2]


def test_without_files_on_the_disk_the_cache_must_hold_all(tmp_path: Path) -> None:
    """What an earlier run has left there is not taken for a step of this one."""
    _workflow(tmp_path, "memory", cache=1000)
    must_run(tmp_path, sys.executable, "write.py")
    (tmp_path / "write.py").write_text(WRITE.replace("first = 0", "first = 1"))
    done = run_tree([*WILKINS, "run"], 180, tmp_path)
    assert done.code == 1
    assert "do not fit into the cache of 1000 bytes" in done.out + done.err
    assert "`mode: both`, and each step a name of its own, or the dataset a larger `cache`" in done.out + done.err


@pytest.mark.needs(MPIEXEC)
@pytest.mark.nightly
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_and_ranks_have_each_sample_once_an_epoch(tmp_path: Path, context: str) -> None:
    loader = {"num_workers": 2, "multiprocessing_context": context}
    parts = _seen(tmp_path, "both", 2, cache=500, loader=loader)
    assert _times([one for part in parts for one in part]) == TOTAL * [EPOCHS]
    assert len({len(part) for part in parts}) <= 2


RESUMED = """\
import json, os, sys
import torch
from torch.utils.data import DataLoader
from wilkins.tasks import StepDataset
from wilkins.transport import points
own, _ = json.loads(sys.argv[1])
dataset, seen = StepDataset("plt*.h5", "y", epochs=3, seed=5, **own), []
if point := points.chosen():
    state = torch.load(point.file, weights_only=False)
    dataset.load_state_dict(state["dataset"])
    seen = state["seen"]
for number, batch in enumerate(DataLoader(dataset, batch_size=None), start=1):
    seen += batch.tolist()
    if number % 3 == 0:
        name = f"state{len(seen)}.pt"
        torch.save({"dataset": dataset.state_dict(), "seen": seen}, name)
        points.tell(name, consumed={"plt*.h5": dataset.state_dict()["steps"]}, file=name)
    if len(seen) > DIES and not os.path.exists("died"):
        open("died", "w").close()
        os._exit(3)
with open("seen-0.json", "w") as file:
    json.dump(seen, file)
"""


@pytest.mark.parametrize("dies", [40, 130])
@pytest.mark.nightly
def test_a_resumed_run_gives_exactly_the_rest(tmp_path: Path, dies: int) -> None:
    """In the first epoch, and in a later one."""
    _workflow(tmp_path, "both", train=RESUMED.replace("DIES", str(dies)), more=", restart: points", cache=300)
    assert run_tree([*WILKINS, "run"], 120, tmp_path).code == 1
    must_run(tmp_path, *WILKINS, "run", "--resume", "latest")
    seen = json.loads((tmp_path / "seen-0.json").read_text())
    assert seen == _by_files(tmp_path, "1MB")
    assert _times(seen) == TOTAL * [EPOCHS]


# Without a run: files on disk.


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "write.py").write_text(WRITE)
    must_run(tmp_path, sys.executable, "write.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _numbers(samples: Any) -> list[int]:
    return [one for sample in samples for one in sample["y"].reshape(-1).tolist()]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("shuffle", [0, 8])
@pytest.mark.parametrize("batch", [None, 7])
@pytest.mark.parametrize("cache", [0, 500, "1 MiB"])
@pytest.mark.usual("500-7-8")
def test_states_in_all_epochs_give_exactly_the_rest(shuffle: int, batch: int | None, cache: int | str) -> None:
    from wilkins.tasks import StepDataset

    def dataset() -> StepDataset:
        options: dict[str, Any] = {"shuffle": shuffle, "batch": batch, "cache": cache, "rank": 1, "world_size": 2}
        return StepDataset("plt*.h5", {"x": "x", "y": "y"}, seed=3, epochs=EPOCHS, **options)

    whole = _numbers(dataset())
    own = list(range(1, TOTAL, 2))
    for epoch in range(EPOCHS):
        part = whole[epoch * len(own) : (epoch + 1) * len(own)]
        assert sorted(part) == own
        assert (part == own) == (shuffle == 0)
    count = len(list(dataset()))
    for stop in (0, 2, count // 3 - 1, count // 3, count // 3 + 1, count - 2, count):
        one = dataset()
        samples = iter(one)
        before = _numbers(next(samples) for _ in range(stop))
        other = dataset()
        other.load_state_dict(one.state_dict())
        assert before + _numbers(other) == whole


@pytest.mark.needs("python:torchdata")
@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 3])
def test_states_of_workers_give_exactly_the_rest(files: Path, workers: int) -> None:
    import torch
    from torchdata.stateful_dataloader import StatefulDataLoader  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from wilkins.tasks import StepDataset

    def loader() -> Any:
        dataset = StepDataset("plt*.h5", {"x": "x", "y": "y"}, shuffle=8, batch=4, epochs=EPOCHS, cache=500)
        return StatefulDataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context="fork")

    whole = _numbers(loader())
    assert _times(whole) == TOTAL * [EPOCHS]
    for stop in (3, 20, 40):
        one = loader()
        batches = iter(one)
        before = _numbers(next(batches) for _ in range(stop))
        torch.save(one.state_dict(), files / "state.pt")
        del batches
        other = loader()
        other.load_state_dict(torch.load(files / "state.pt", weights_only=False))
        assert before + _numbers(other) == whole


@pytest.mark.usefixtures("files")
def test_epochs_do_not_share_batches() -> None:
    from wilkins.tasks import StepDataset

    sizes = [len(batch) for batch in StepDataset("plt*.h5", "y", batch=8, epochs=2, cache=0)]
    assert sizes == 2 * [*([8] * (TOTAL // 8)), *([TOTAL % 8] if TOTAL % 8 else [])]
    sizes = [len(batch) for batch in StepDataset("plt*.h5", "y", batch=8, epochs=2, cache=0, drop_last=True)]
    assert sizes == 2 * [8] * (TOTAL // 8)


@pytest.mark.usefixtures("files")
def test_a_file_that_changes_between_epochs_is_not_read() -> None:
    from wilkins.tasks import StepDataset

    samples = iter(StepDataset("plt*.h5", "y", epochs=2, cache=0))
    for _ in range(TOTAL):
        next(samples)
    with h5py.File("plt3.h5", "a") as file:
        file["y"][0] = 7
    os.utime("plt3.h5", ns=(1, 1))
    with pytest.raises(RuntimeError, match=r"plt3\.h5 was written again since its samples came"):
        list(samples)


@pytest.mark.usefixtures("files")
def test_what_is_wrong() -> None:
    from wilkins.tasks import StepDataset

    with pytest.raises(TypeError, match="`epochs` takes rows of datasets"):
        StepDataset("plt*.h5", samples=list, epochs=2)
    with pytest.raises(ValueError, match="epochs is 0"):
        StepDataset("plt*.h5", "y", epochs=0)
    with pytest.raises(ValueError, match="cache is 'much', but must be a number of bytes"):
        StepDataset("plt*.h5", "y", epochs=2, cache="much")
    dataset = StepDataset("plt*.h5", "y", epochs=2)
    samples = iter(dataset)
    for _ in range(TOTAL + 1):
        next(samples)
    with pytest.raises(RuntimeError, match="the state is that of epoch 2, and the dataset has epochs=1"):
        StepDataset("plt*.h5", "y").load_state_dict(dataset.state_dict())
    once = StepDataset("plt*.h5", "y")
    next(iter(once))
    with pytest.raises(RuntimeError, match="the state is that of one epoch, and the dataset has epochs=2"):
        StepDataset("plt*.h5", "y", epochs=2).load_state_dict(once.state_dict())


@pytest.mark.usual(
    "saved0-given0-one of shuffle=9, and the dataset has shuffle=0-5",
    "saved2-given2-one of world_size=2, and the dataset has world_size=1-80",
)
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("taken", [5, TOTAL + 5])
@pytest.mark.parametrize(
    ("saved", "given", "words"),
    [
        ({"shuffle": 9}, {}, "one of shuffle=9, and the dataset has shuffle=0"),
        ({"shuffle": 9, "seed": 1}, {"shuffle": 9, "seed": 2}, "one of seed=1, and the dataset has seed=2"),
        ({"world_size": 2}, {}, "one of world_size=2, and the dataset has world_size=1"),
        ({"rank": 0, "world_size": 2}, {"rank": 1, "world_size": 2}, "one of rank=0, and the dataset has rank=1"),
    ],
)
def test_a_state_of_a_dataset_with_other_samples_is_refused(
    taken: int, saved: dict[str, int], given: dict[str, int], words: str
) -> None:
    """In each epoch: samples would be left out, and others come twice."""
    from wilkins.tasks import StepDataset

    dataset = StepDataset("plt*.h5", "y", epochs=3, **({"rank": 0, "world_size": 1} | saved))
    samples = iter(dataset)
    for _ in range(taken):
        next(samples)
    with pytest.raises(RuntimeError, match=words):
        StepDataset("plt*.h5", "y", epochs=3, **({"rank": 0, "world_size": 1} | given)).load_state_dict(
            dataset.state_dict()
        )


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"batch": "4"}, TypeError, "batch is '4', but must be a whole number"),
        ({"batch": True}, TypeError, "batch is True"),
        ({"epochs": 1.5}, TypeError, "epochs is 1.5"),
        ({"datasets": []}, ValueError, "names none"),
    ],
)
def test_what_no_option_can_be(options: dict[str, Any], error: type[Exception], words: str) -> None:
    from wilkins.tasks import StepDataset

    with pytest.raises(error, match=words):
        StepDataset("plt*.h5", **({"datasets": "y"} | options))


@pytest.mark.parametrize("state", [{}, None, {"step": 3}])
def test_what_is_no_state(state: Any) -> None:
    from wilkins.tasks import StepDataset

    with pytest.raises(ValueError, match="no state of a StepDataset"):
        StepDataset("plt*.h5", "y").load_state_dict(state)


@pytest.mark.nightly
def test_the_measurements(tmp_path: Path) -> None:
    """Of what is asked for, a cache has a part as large as what came first; of what was used last, much less."""
    from benchmarks import dataset, epochs

    (tmp_path / "small").mkdir()
    dataset.write(tmp_path / "small", 2, 100)
    assert all(speed.by_cpu > 0 for speed in dataset.measure(tmp_path / "small", 10, samples=200, rounds=1).values())
    load = epochs.Load(steps=4, rows=50, width=64, batch=10)
    epochs.write(tmp_path, load)
    with epochs.Storage(1000, 0) as storage:
        plain, _ = epochs.measure(epochs.plain(tmp_path, load, 0), load, storage)
        kept, orders = epochs.measure(epochs.stream(tmp_path, load, 0, 0.25), load, storage)
    assert plain.read == pytest.approx(1, abs=0.05)
    by_first, by_recent = epochs.hits(orders, load.samples // 4)
    assert by_first == 0.25
    assert by_recent < 0.1
    assert kept.seconds > 0
