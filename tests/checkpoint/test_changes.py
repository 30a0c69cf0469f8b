"""Whatever a program does to a state right after `save`: a version is what was handed over, or there is none.

``WILKINS_FUZZ_CHANGES=n`` runs so many random states and changes with fresh seeds; ``WILKINS_FUZZ_SEED=7`` one again.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.running import must_run, write_program
from wilkins.tasks.checkpoint import CheckpointError
from wilkins.tasks.checkpoint.state.copies import Copies

from .conftest import Opener

pytestmark = pytest.mark.needs("python:torch")
LARGE, SMALL = 200_000, 300
CASES = 20
"""Of random states, if nothing else is said."""


@pytest.fixture
def torch() -> Any:
    return importlib.import_module("torch")


def form_changes(torch: Any) -> dict[str, Callable[[Any], object]]:
    """What can be done to a tensor or an array that leaves its bytes alone, and makes something else of them."""
    nn = torch.nn

    def with_data(one: Any, data: Any) -> None:
        one.data = data

    return {
        "half a module": lambda one: nn.ParameterList([one]).half(),
        "half its data": lambda one: with_data(one, one.data.half()),
        "transposed in place": lambda one: one.detach_().t_() if one.dim() == 2 else None,
        "no gradient": lambda one: one.requires_grad_(False),
        "a gradient": lambda one: one.requires_grad_(one.is_floating_point() and one.is_leaf),
        "other memory": lambda one: with_data(one, torch.zeros_like(one)),
        "set to another": lambda one: one.data.set_(torch.zeros(7)),
        "storage given up": lambda one: one.data.untyped_storage().resize_(0),
        "storage grown": lambda one: one.data.untyped_storage().resize_(8 * LARGE),
        "resized": lambda one: one.data.resize_(3 * LARGE),
        "written": lambda one: one.data.add_(1),
        "left alone": type,
    }


def array_changes() -> dict[str, Callable[[Any], object]]:
    """The same of NumPy's."""

    def to(name: str, value: Any) -> Callable[[Any], object]:
        return lambda one: setattr(one, name, value(one))

    return {
        "a shape": to("shape", lambda one: one.shape[::-1]),
        "a dtype": to("dtype", lambda one: "i4" if one.dtype == "f4" else one.dtype),
        "grown": lambda one: one.resize((one.size * 3,), refcheck=False) if one.base is None else None,
        "shrunk": lambda one: one.resize((1,), refcheck=False) if one.base is None else None,
        "written": lambda one: one.fill(7),
        "left alone": type,
    }


def tensor(torch: Any, chance: random.Random) -> Any:
    """One of some type, size and kind; NumPy's or torch's."""
    size = chance.choice([SMALL, LARGE])
    shape = (size // 100, 100) if chance.random() < 0.5 else (size,)
    if chance.random() < 0.3:
        return np.random.default_rng(chance.randrange(99)).random(shape).astype(chance.choice(["f4", "f8"]))
    made = torch.rand(shape, dtype=chance.choice([torch.float32, torch.float64, torch.bfloat16]))
    return torch.nn.Parameter(made, requires_grad=chance.random() < 0.8) if chance.random() < 0.5 else made


def image(torch: Any, one: Any) -> Any:
    """All that a version must give back of it."""
    if isinstance(one, np.ndarray):
        return one.dtype.str, one.shape, one.tobytes()
    raw = one.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)
    return type(one), one.dtype, tuple(one.shape), one.requires_grad, bytes(raw.numpy())


def seed() -> int:
    """Of this run: one that is asked for, a fresh one for many cases, or always the same."""
    fresh = "WILKINS_FUZZ_CHANGES" in os.environ
    return int(os.environ.get("WILKINS_FUZZ_SEED", random.SystemRandom().randrange(10**9) if fresh else 0))


@pytest.mark.parametrize("trusted", [False, True], ids=["watched", "trusted"])
@pytest.mark.timeout(3600)
def test_random_states_and_what_becomes_of_them(torch: Any, opened: Opener, trusted: bool) -> None:
    """Saved for the first time, and recognised; changed before, while and after it is captured."""
    first = seed()
    print(f"again with: WILKINS_FUZZ_SEED={first} python -m pytest tests/checkpoint/test_changes.py")
    cases = int(os.environ.get("WILKINS_FUZZ_CHANGES", CASES))
    made = refused = 0
    for case in range(cases):
        chance = random.Random(first * 1_000_003 + case)
        torch.manual_seed(chance.randrange(10**6))
        tensors, arrays = form_changes(torch), array_changes()
        state = {str(number): tensor(torch, chance) for number in range(chance.randint(1, 5))}
        state["tied"] = state["0"]
        checkpointer = opened(block=65536, ring=chance.choice([None, 1]), trusted=trusted)
        saves = chance.randint(1, 3)
        for step in range(case * 10, case * 10 + saves):
            expected = {name: image(torch, one) for name, one in state.items()}
            checkpointer.save(step, state)
            if chance.random() < 0.2 or step < case * 10 + saves - 1:
                checkpointer.wait_captured()
        if trusted:  # it has promised to leave the values alone
            for name in ("written", "storage given up", "storage grown", "resized"):
                del tensors[name]
            for name in ("written", "grown", "shrunk"):
                del arrays[name]
        for one in [one for name, one in state.items() if name != "tied"]:
            kinds: dict[str, Any] = arrays if isinstance(one, np.ndarray) else tensors
            change = chance.choice(sorted(kinds))
            try:
                kinds[change](one)
            except (RuntimeError, ValueError, TypeError, AttributeError):
                continue  # this one cannot be changed so
        try:
            restored = checkpointer.restore()
        except CheckpointError as error:
            assert "changed while it was captured" in str(error), (case, error)
            refused += 1
            continue
        assert restored is not None and restored.step == step
        for name, one in restored.state.items():
            assert image(torch, one) == expected[name], (case, name)
        made += 1
    assert made > cases // 3
    assert trusted or refused > 0


@pytest.mark.usual("eager tensor")
@pytest.mark.parametrize("kind", ["strided array", "strided tensor", "eager tensor"])
def test_copies_of_what_a_thread_writes_are_of_one_moment(torch: Any, opened: Opener, kind: str) -> None:
    """Arrays that `save` copies itself, and that another thread writes all the time: of one moment, or no version."""
    size = 300_000
    torch.set_num_threads(1)
    if kind == "strided array":
        whole: Any = np.zeros((size, 2))
        part = whole[:, 0]
    elif kind == "strided tensor":
        whole = torch.zeros(size, 2)
        part = whole[:, 0]
    else:
        whole = part = torch.zeros(2 * size)
    checkpointer = opened(eager=("x",) if kind == "eager tensor" else ())
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            whole[...] = number  # without the interpreter's lock
            ended.wait(0.002 * (number % 3))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    versions = 0
    try:
        for step in range(30):
            try:
                checkpointer.save(step, {"x": part})
                checkpointer.wait()
            except CheckpointError as error:
                assert "changes it all the time" in str(error) or "changed while" in str(error)
                continue
            restored = checkpointer.restore(step=step)
            assert restored is not None
            found = np.asarray(restored.state["x"])
            # It is written from its beginning on: newer values in front are what was in memory at that moment.
            assert (np.diff(found) <= 0).all() and found[0] - found[-1] <= 1, f"{kind}: {sorted(set(found.tolist()))}"
            versions += 1
    finally:
        ended.set()
        writer.join()
    print(f"{kind}: {versions} versions of 30")


def test_after_a_first_save_that_failed_the_next_is_the_first(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a thread changes the state all the time just then."""
    checkpointer = opened()
    with monkeypatch.context() as patched:
        patched.setattr(Copies, "differ", lambda _: True)
        with pytest.raises(CheckpointError, match="changes it all the time"):
            checkpointer.save(1, {"x": np.ones(3)})
    checkpointer.save(2, {"x": np.ones(3)})
    checkpointer.wait()
    restored = checkpointer.restore()
    assert restored is not None and restored.step == 2


def test_memory_that_is_gone_is_an_answer(tmp_path: Any) -> None:
    """Reading it with the kernel does not end the process, whatever is missing: all of it, or a part."""
    program = write_program(
        tmp_path / "gone.py",
        """
import ctypes, mmap
import numpy as np
from wilkins.tasks.checkpoint.state.own_memory import copy
memory = mmap.mmap(-1, 16 * 4096)
view = np.frombuffer(memory, np.uint8)
view[...] = np.arange(16 * 4096) % 251
address = view.ctypes.data
out = np.zeros(16 * 4096, np.uint8)
assert copy(out.ctypes.data, address, 16 * 4096) and (out == view).all()
libc = ctypes.CDLL(None, use_errno=True)
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
assert not libc.munmap(address + 8 * 4096, 4096)
assert not copy(out.ctypes.data, address, 16 * 4096) and not copy(out.ctypes.data, address + 8 * 4096, 10)
assert copy(out.ctypes.data, address, 8 * 4096) and not copy(out.ctypes.data, 0, 1) and copy(out.ctypes.data, 0, 0)
print("all right", flush=True)
import os
os._exit(0)  # its end would unmap the memory again
""",
    )
    assert must_run(tmp_path, sys.executable, program) == "all right\n"
