"""Whatever writes to a state between `save` and its capture, a version holds what was handed over, or there is none."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs.same_state import same

from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
from wilkins.tasks.checkpoint.state import watch
from wilkins.tasks.checkpoint.storage import files, versions

from .conftest import Opener

SIZE = 150_000
"""Elements of an array: far more than the ring holds."""
SAVES = 4
SLOW: dict[str, Any] = {"ring": 1, "rate": 20e6, "keep": 100}
"""Arrays are captured as storage takes them, which is not at once."""


@pytest.fixture(params=["watched", "copied"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How changes are kept out of versions: found by the kernel, or made after everything was copied."""
    if request.param == "watched" and not watch.supported():
        pytest.skip("this kernel does not tell which pages were written")
    if request.param == "copied":
        monkeypatch.setattr(watch, "supported", lambda: False)
    return str(request.param)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def plain(state: Any) -> Any:
    """A state of arrays, whether of NumPy or torch."""
    if isinstance(state, dict):
        return {name: plain(one) for name, one in state.items()}
    if isinstance(state, (list, tuple)):
        return [plain(one) for one in state]
    return np.array(state.detach().numpy()) if hasattr(state, "detach") else copy.deepcopy(state)


def run(checkpointer: Checkpointer, folder: Path, state: Callable[[], Any], write: Callable[[], object]) -> int:
    """Save and write, again and again; compare what there is of it then. Returns how many versions there are not."""
    expected, told = {}, 0
    for step in range(SAVES):
        checkpointer.save(step, state())
        expected[step] = plain(state())
        write()
        try:
            checkpointer.wait()
        except CheckpointError as error:
            assert "changed while it was captured" in str(error)
            told += 1
    there = [one.step for one in versions.versions(folder)]
    assert len(there) + told == SAVES
    for step in there:
        restored = checkpointer.restore(step=step)
        assert restored is not None and same(plain(restored.state), expected[step]), f"step {step} was never the state"
    return told


def by_system_call(array: Any) -> None:
    """As reading a file into it does."""
    with Path("/dev/urandom").open("rb") as file:
        os.readv(file.fileno(), [memoryview(array).cast("B")[-5_000:]])


NUMPY: dict[str, Callable[[Any], object]] = {
    "in place": lambda array: np.add(array, 1, out=array),
    "its end": lambda array: array[-1:].fill(7),
    "every page": lambda array: array[::512].fill(7),
    "by a library in C": lambda array: ctypes.memset(array.ctypes.data + array.nbytes // 2, 9, 100_000),
    "by a system call": by_system_call,
}


@pytest.mark.usual("watched-in place", "watched-by a system call", "copied-every page", "copied-by a library in C")
@pytest.mark.parametrize("write", NUMPY)
def test_numpy(opened: Opener, tmp_path: Path, way: str, write: str) -> None:
    state = {"x": np.zeros(SIZE), "y": np.arange(SIZE), "small": np.arange(9)}

    def change() -> None:
        for array in state.values():
            array[-3:] += 1
            NUMPY[write](array) if array.nbytes > 1000 else array.fill(1)

    assert run(opened(**SLOW), tmp_path, lambda: state, change) == 0 or way == "watched"


def by_average(torch: Any, averages: list[Any], values: list[Any]) -> None:
    torch._foreach_lerp_([one.data for one in averages], [one.data for one in values], 0.5)


TORCH: dict[str, Callable[[Any, Any, Any], object]] = {
    "average by .data": lambda _, mine, other: mine.data.mul_(0.5).add_(other.data, alpha=0.5),
    "average by .numpy()": lambda _, mine, other: np.add(
        mine.detach().numpy(), other.detach().numpy(), out=mine.detach().numpy()
    ),
    "average by foreach": lambda torch, mine, other: by_average(torch, [mine], [other]),
    "other memory": lambda _, mine, other: setattr(mine, "data", other.data.clone()),
    "in place": lambda _, mine, other: mine.detach().add_(other.detach()),
    "by a library in C": lambda _, mine, other: ctypes.memmove(mine.data_ptr(), other.data_ptr(), mine.nbytes),
}


@pytest.mark.usual(
    "watched-average by .data", "watched-average by .numpy()", "copied-average by foreach", "copied-in place"
)
@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("write", TORCH)
def test_torch(torch: Any, opened: Opener, tmp_path: Path, way: str, write: str) -> None:
    mine = [torch.nn.Parameter(torch.randn(SIZE)), torch.nn.Parameter(torch.randn(600, 700)[:, :650].t())]

    def change() -> None:
        for one in mine:
            TORCH[write](torch, one, torch.nn.Parameter(torch.randn(one.shape)))

    told = run(opened(**SLOW), tmp_path, lambda: {"mine": dict(enumerate(mine)), "n": 1}, change)
    assert told == 0 or way == "watched"


OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "fused": lambda torch, model: torch.optim.Adam(model.parameters(), fused=True),
    "foreach": lambda torch, model: torch.optim.Adam(model.parameters(), foreach=True),
    "compiled": lambda torch, model: torch.optim.SGD(model.parameters(), lr=0.1),
    "one by one": lambda torch, model: torch.optim.SGD(model.parameters(), momentum=0.9, foreach=False),
}


@pytest.mark.usual("watched-fused", "copied-foreach")
@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_waits_though_nobody_has_attached_it(
    torch: Any, opened: Opener, tmp_path: Path, way: str, kind: str
) -> None:
    model = torch.nn.Linear(600, 500)
    optimizer = OPTIMIZERS[kind](torch, model)

    update = torch.compile(optimizer.step, backend="eager") if kind == "compiled" else optimizer.step

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(4, 600)).square().mean().backward()
        update()

    def state() -> Any:
        return {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()["state"]}

    step()
    assert run(opened(**SLOW), tmp_path, state, step) == 0, way


@pytest.mark.needs("python:torch")
def test_a_fused_update_that_no_hook_sees(torch: Any, opened: Opener, tmp_path: Path, way: str) -> None:
    """As an optimizer of another library makes, or a step that is compiled."""
    one, gradient, first, second = (torch.rand(SIZE) for _ in range(4))
    count = torch.tensor(1.0)

    def update() -> None:
        torch._fused_adam_(
            [one], [gradient], [first], [second], [], [count],
            lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    told = run(opened(**SLOW), tmp_path, lambda: {"one": one, "moments": [first, second], "count": count}, update)
    assert told == 0 or way == "watched"


def test_a_change_is_told_with_the_arrays_name(opened: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Storage takes nothing before the change is made; a version that was not is no obstacle to the next."""
    if not watch.supported():
        pytest.skip("this kernel does not tell which pages were written")
    gate = threading.Event()
    monkeypatch.setattr(files.Pace, "wait", lambda *_: gate.wait(60))
    checkpointer = opened(ring=1)
    state = {"x": np.zeros(SIZE), "y": np.ones(SIZE)}
    checkpointer.save(1, state)
    state["y"][-1000] = 5
    gate.set()
    with pytest.raises(CheckpointError, match=r"the state changed while it was captured: y; call wait_captured\(\)"):
        checkpointer.wait()
    assert not versions.versions(tmp_path)
    checkpointer.save(2, state)
    restored = checkpointer.restore()
    assert restored is not None and same(restored.state, state)


def test_what_stands_beside_an_array_may_change(opened: Opener, tmp_path: Path, way: str) -> None:
    """Arrays rarely fill their pages."""
    heap = np.zeros(SIZE)
    state = {"x": heap[100:120_100], "y": heap[120_101:]}

    def change() -> None:
        heap[:100] += 1
        heap[120_100] += 1

    assert run(opened(**SLOW), tmp_path, lambda: state, change) == 0, way


def test_a_thread_writes_all_the_time(opened: Opener, tmp_path: Path) -> None:
    """Through two large arrays and a small one, from begin to end: what is saved is what was there at one moment."""
    if not watch.supported():
        pytest.skip("this kernel does not tell which pages were written")
    state = {"a": np.zeros(SIZE), "b": np.zeros(SIZE), "c": np.zeros(100)}
    ended, round_ended = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            for array in state.values():
                array.fill(number)
            round_ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    checkpointer, told = opened(keep=100), 0
    try:
        for step in range(20):
            round_ended.clear()
            try:
                checkpointer.save(step, state)
                round_ended.wait(60)
                checkpointer.wait()
            except CheckpointError as error:
                assert "changed while it was captured" in str(error) or "changes it all the time" in str(error)
                told += 1
    finally:
        ended.set()
        thread.join()
    there = versions.versions(tmp_path)
    assert len(there) + told == 20
    for one in there:
        restored = checkpointer.restore(step=one.step)
        assert restored is not None
        written = np.concatenate([restored.state[name] for name in state])
        assert set(np.diff(written)) <= {0.0, -1.0} and written[0] - written[-1] <= 1


@pytest.mark.needs("python:torch")
def test_memory_that_others_may_write_is_copied_at_once(torch: Any, opened: Opener, tmp_path: Path) -> None:
    """Another process writes to memory that it shares: nobody sees it there."""
    shared = torch.zeros(SIZE).share_memory_()

    def change() -> None:
        child = os.fork()
        if child == 0:
            shared.numpy()[:] += 1
            os._exit(0)
        os.waitpid(child, 0)

    assert run(opened(**SLOW), tmp_path, lambda: {"shared": shared, "own": torch.zeros(SIZE)}, change) == 0


@pytest.mark.usual("watched")
def test_a_process_that_was_forked_meanwhile(opened: Opener, tmp_path: Path, way: str) -> None:
    """It holds on to descriptors, and writes to memory of its own; neither is anything to the versions."""
    state, children, ends = {"x": np.zeros(SIZE)}, [], os.pipe()

    def change() -> None:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.close(ends[1])
                state["x"].fill(9)
                os.read(ends[0], 1)
            os._exit(0)
        children.append(child)

    try:
        assert run(opened(**SLOW), tmp_path, lambda: state, change) == 0, way
    finally:
        os.close(ends[1])
        for child in children:
            os.waitpid(child, 0)
        os.close(ends[0])


def test_a_promise_is_believed(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where changes cannot be found, `save` returns before storage has taken anything only if it is told so."""
    gate = threading.Event()
    monkeypatch.setattr(watch, "supported", lambda: False)
    monkeypatch.setattr(files.Pace, "wait", lambda *_: gate.wait(60))
    checkpointer = opened(ring=1, trusted=("x",))
    state = {"x": np.arange(SIZE)}
    checkpointer.save(1, state)
    assert not gate.is_set()
    gate.set()
    checkpointer.wait_captured()
    state["x"][:] = 0
    restored = checkpointer.restore()
    assert restored is not None and same(restored.state, {"x": np.arange(SIZE)})


@pytest.mark.parametrize("waits", [True, False], ids=["the program waits", "nobody waits"])
def test_a_promise_that_nobody_saw_kept(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, waits: bool
) -> None:
    """The next `save` says which version may be a mixture, and of what, if the program has not waited."""
    monkeypatch.setattr(watch, "supported", lambda: False)
    checkpointer = opened(trusted=("model",))
    arrays = {str(name): np.arange(SIZE) for name in range(5)}
    state = {"model": arrays, "small": np.zeros(3)}
    for step in (1, 2, 3):  # the first state is described at once, the second one behind the program
        checkpointer.save(step, state)
        if waits:
            checkpointer.wait_captured()
        for array in arrays.values():
            array += 1
    said = [record.getMessage() for record in caplog.records if "mixture" in record.getMessage()]
    if waits:
        assert not said
    else:
        assert [line.split("the checkpoint of ")[1].split(" may")[0] for line in said] == ["step 1", "step 2"]
        assert "trusted= names model/0, model/1, model/2 and 2 more" in said[0]
        assert "was not called from then to the save of step 2; call it before the state is updated" in said[0]
