"""A state is written as it is, though it looks almost like the one before, which was described already."""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wilkins.tasks.checkpoint import Shard
from wilkins.tasks.checkpoint.engine.capture import Job
from wilkins.tasks.checkpoint.engine.state_plan import EAGER, Planner
from wilkins.tasks.checkpoint.state import watch

BIG = EAGER // 4


def base() -> dict[Any, Any]:
    """Some large arrays, some small ones, some values."""
    return {
        "a": np.arange(2.0 * BIG),
        "b": {
            "c": np.arange(BIG * 2).reshape(2, BIG),
            "d": np.arange(3.0),
            "e": Shard(np.ones((2, 3)), (4, 3), (0, 0)),
        },
        "list": [1, 2.5, None, np.zeros(BIG), (True, "x", b"y")],
        "ordered": collections.OrderedDict(x=1, y=np.float32(0.5)),
        5: 7,
    }


def changed(change: Callable[[dict[Any, Any]], object]) -> dict[Any, Any]:
    state = base()
    change(state)
    return state


def with_metadata(version: Any) -> dict[Any, Any]:
    state = base()
    state["ordered"]._metadata = {"": {"version": version}}
    return state


def tied() -> dict[Any, Any]:
    state = base()
    state["list"][3] = state["a"][:BIG]
    return state


NUMPY: dict[str, Callable[[], dict[Any, Any]]] = {
    "as it is": base,
    "another number": lambda: changed(lambda state: state.update({5: 8})),
    "a number's kind": lambda: changed(lambda state: state.update({5: 7.0})),
    "true for one": lambda: changed(lambda state: state["list"].__setitem__(0, True)),
    "not a number": lambda: changed(lambda state: state["list"].__setitem__(1, float("nan"))),
    "minus zero": lambda: changed(lambda state: state["list"].__setitem__(1, -0.0)),
    "another scalar": lambda: changed(lambda state: state["ordered"].update(y=np.float32(0.25))),
    "a key's kind": lambda: changed(lambda state: state.update({5.0: state.pop(5)})),
    "another key": lambda: changed(lambda state: state.update(z=state.pop("a"))),
    "another order": lambda: changed(lambda state: state.update(a=state.pop("a"))),
    "a list for a tuple": lambda: changed(lambda state: state["list"].__setitem__(4, [True, "x", b"y"])),
    "one more": lambda: changed(lambda state: state["list"].append(None)),
    "one level deeper": lambda: changed(lambda state: state["list"].__setitem__(4, ((True, "x", b"y"),))),
    "a dict for an ordered one": lambda: changed(lambda state: state.update(ordered=dict(state["ordered"]))),
    "metadata": lambda: with_metadata(1),
    "other metadata": lambda: with_metadata(True),
    "a dtype": lambda: changed(lambda state: state.update(a=state["a"].astype(np.float32))),
    "a byte order": lambda: changed(lambda state: state.update(a=state["a"].astype(">f8"))),
    "a shape": lambda: changed(lambda state: state.update(a=state["a"].reshape(2, -1))),
    "a size": lambda: changed(lambda state: state.update(a=np.arange(3.0 * BIG))),
    "a large one small": lambda: changed(lambda state: state.update(a=np.arange(3.0))),
    "a small one large": lambda: changed(lambda state: state["b"].update(d=np.arange(2.0 * BIG))),
    "no elements": lambda: changed(lambda state: state.update(a=np.zeros(0))),
    "columns first": lambda: changed(lambda state: state["b"].update(c=np.asfortranarray(state["b"]["c"]))),
    "every second": lambda: changed(lambda state: state.update(a=np.arange(4.0 * BIG)[::2])),
    "two at one place": tied,
    "another box": lambda: changed(lambda state: state["b"].update(e=Shard(np.ones((2, 3)), (4, 3), (2, 0)))),
    "no box": lambda: changed(lambda state: state["b"].update(e=np.ones((2, 3)))),
}


def written(job: Job) -> tuple[str, bytes]:
    """A rank's index, and its stream."""
    stream = captured(job)
    assert not job.trouble
    return job.plan.index.filled(job.plain), stream


def captured(job: Job) -> bytes:
    """A rank's stream; the job knows then of changes that came too early."""
    job.describe()
    assert not job.trouble
    stream = bytearray(job.plan.length)
    view = np.frombuffer(stream, np.uint8)
    for number, parts in enumerate(job.plan.blocks):
        for part in parts:
            job.sources[part.array].fill(view.ctypes.data + number * EAGER + part.offset, part.start, part.length)
    job.check()
    return bytes(stream)


def planner() -> Planner:
    return Planner(0, 2, replicated=("b",), eager=("list",), vote=True, block=EAGER)


@pytest.mark.usual("as it is", "a dtype", "another order")
@pytest.mark.parametrize("first", NUMPY)
def test_a_state_like_the_one_before(first: str) -> None:
    """Each after each other one, with its small arrays and those that `eager` names changed before it is captured."""
    for second, make in NUMPY.items():
        used, state = planner(), make()
        for _ in range(2):
            written(used.plan(1, NUMPY[first](), 0.0))
        expected = written(planner().plan(1, state, 0.0))
        job = used.plan(1, state, 0.0)
        state["b"]["d"][: EAGER // 8] += state["b"]["d"].nbytes <= EAGER
        if second != "two at one place":
            state["list"][3][:] += 1
        state[5], state["new"] = "changed", 1
        state["list"][0] = "changed"
        assert written(job) == expected, f"{second} after {first}"


@pytest.mark.nightly
@pytest.mark.needs("python:torch")
def test_a_tensor_like_the_one_before() -> None:
    torch: Any = importlib.import_module("torch")

    def of(tensor: Any, small: Any = None) -> dict[Any, Any]:
        return {"t": tensor, "same": tensor, "small": torch.ones(3) if small is None else small}

    def plain() -> Any:
        return torch.arange(2.0 * BIG)

    kinds: dict[str, Callable[[], dict[Any, Any]]] = {
        "as it is": lambda: of(plain()),
        "a parameter": lambda: of(torch.nn.Parameter(plain())),
        "a frozen parameter": lambda: of(torch.nn.Parameter(plain(), requires_grad=False)),
        "needs a gradient": lambda: of(plain().requires_grad_()),
        "a result": lambda: of(plain().requires_grad_() * 1),
        "a dtype": lambda: of(plain().int()),
        "a shape": lambda: of(plain().reshape(2, -1)),
        "transposed": lambda: of(plain().reshape(2, -1).t()),
        "complex": lambda: of(torch.complex(plain(), plain())),
        "conjugated": lambda: of(torch.complex(plain(), plain()).conj()),
        "negated": lambda: of(torch.complex(plain(), plain()).conj().imag),
        "a small one conjugated": lambda: of(plain(), torch.complex(torch.ones(3), torch.ones(3)).conj()),
        "a small one negated": lambda: of(plain(), torch.complex(torch.ones(3), torch.ones(3)).conj().imag),
        "every second": lambda: of(plain(), torch.arange(6.0)[::2]),
        "not tied": lambda: of(plain()) | {"same": plain()},
        "an array": lambda: of(np.arange(2.0 * BIG)),
    }
    for first, before in kinds.items():
        for second, make in kinds.items():
            used, state = planner(), make()
            written(used.plan(1, before(), 0.0))
            expected = written(planner().plan(1, state, 0.0))
            job = used.plan(1, state, 0.0)
            state["small"].zero_()
            assert written(job) == expected, f"{second} after {first}"


def test_a_state_of_the_same_form_is_not_described_while_the_program_waits() -> None:
    used = planner()
    assert used.plan(1, base(), 0.0).planned.is_set()
    job = used.plan(2, base(), 0.0)
    assert not job.planned.is_set() and not job.sources
    job.describe()
    assert job.planned.is_set() and job.sources


@pytest.mark.needs("python:torch")
@pytest.mark.parametrize("watched", [True, False])
def test_what_changes_before_it_is_captured_is_found(monkeypatch: pytest.MonkeyPatch, watched: bool) -> None:
    """In place, whether or not the kernel tells which pages were written. What gets other memory leaves what it had."""
    if not watched:
        monkeypatch.setattr(watch, "supported", lambda: False)
    torch: Any = importlib.import_module("torch")

    def in_place(parameter: Any) -> None:
        with torch.no_grad():
            parameter.add_(1)

    def other_memory(parameter: Any) -> None:
        parameter.data = torch.zeros(BIG * 2)

    for change in (in_place, other_memory):
        used, state = planner(), {"t": torch.nn.Parameter(torch.ones(BIG * 2)), "n": 1}
        written(used.plan(1, state, 0.0))
        job = used.plan(2, state, 0.0)
        change(state["t"])
        found = np.frombuffer(captured(job), np.float32)
        if change is other_memory:
            assert not job.trouble and (found[: BIG * 2] == 1).all()
        else:
            assert job.trouble.startswith("the state changed while it was captured: t; call wait_captured()")


@pytest.mark.parametrize(("watched", "trusted", "exposed"), [(True, "", False), (False, "", True), (False, "a", False)])
def test_what_can_change_unseen(monkeypatch: pytest.MonkeyPatch, watched: bool, trusted: str, exposed: bool) -> None:
    """It is to be captured before `save` returns, unless the program has promised to leave it alone."""
    if watched and not watch.supported():
        pytest.skip("this kernel does not tell which pages were written")
    if not watched:
        monkeypatch.setattr(watch, "supported", lambda: False)
    used = Planner(0, 1, replicated=(), eager=("eager",), vote=True, block=EAGER, trusted=(trusted,))
    for _ in range(2):
        job = used.plan(1, {"a": np.zeros(2 * BIG), "eager": np.zeros(2 * BIG), "small": np.zeros(3)}, 0.0)
        assert job.exposed is exposed
        captured(job)


@pytest.mark.needs("python:torch")
def test_what_is_no_longer_kept_is_told() -> None:
    torch: Any = importlib.import_module("torch")
    used = planner()
    written(used.plan(1, {"x": torch.eye(3)}, 0.0))
    with pytest.raises(Exception, match=r"x: a torch.sparse_coo tensor is not kept"):
        used.plan(2, {"x": torch.eye(3).to_sparse()}, 0.0)
    job = used.plan(3, {"x": torch.eye(3)}, 0.0)
    assert written(job)[0]
