"""A trainer's state: models, optimizers, every dtype; what may change when; several ranks of torch.distributed."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from support.kill_points import kill_at
from support.running import must_run, run_tree
from wilkins.tasks.checkpoint import CheckpointError, Unsupported

from .conftest import Opener

pytestmark = pytest.mark.needs("python:torch")
PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed_torch.py"
FULL = "WILKINS_TEST_KILLS" in os.environ
"""`make soak`: each number of ranks restores what each other number has saved."""
DTYPES = [
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "int64", "int32", "int16",
    "int8", "uint8", "uint16", "bool",
]  # fmt: skip


@pytest.fixture
def torch() -> Any:
    return importlib.import_module("torch")


def trained(torch: Any, steps: int = 2) -> tuple[Any, Any]:
    """A model with running statistics and tied weights, and its optimizer."""
    torch.manual_seed(steps)
    model = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.BatchNorm1d(200), torch.nn.Linear(200, 200))
    model[2].weight = model[0].weight
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        step(torch, model, optimizer)
    return model, optimizer


def step(torch: Any, model: Any, optimizer: Any) -> None:
    """One step of training."""
    optimizer.zero_grad()
    model(torch.randn(16, 200)).square().mean().backward()
    optimizer.step()


def same(torch: Any, one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape and one.requires_grad == other.requires_grad
        return alike and bytes_of(torch, one) == bytes_of(torch, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(torch, one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(torch, *pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def bytes_of(torch: Any, tensor: Any) -> bytes:
    """The values of a tensor of any dtype."""
    return bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(torch: Any, opened: Opener, dtype: str) -> None:
    """Contiguous or not, with no elements or one, negated and conjugated lazily."""
    kind = getattr(torch, dtype)
    bits = torch.randint(0, 2 if dtype == "bool" else 256, (60, 40, kind.itemsize), dtype=torch.uint8)
    values = bits.view(kind).squeeze(-1)
    state = {"t": values.t(), "whole": values, "part": values[3:50:7, 2:], "none": values[:0], "one": values[0, 0]}
    if dtype == "complex64":
        state |= {"conjugate": values.conj(), "negative": values.conj().imag}
    checkpointer = opened()
    checkpointer.save(1, state)
    restored = checkpointer.restore()
    assert restored is not None
    assert all(same(torch, state[name].clone(), restored.state[name]) for name in state)


def test_tensors_at_one_place(torch: Any, opened: Opener) -> None:
    """Those that are read alike come back as one; one that needs a gradient, and its `detach()`, as two."""
    values = torch.randn(40, 30, dtype=torch.complex64)
    leaf = torch.randn(30, requires_grad=True)
    state = {
        "plain": values, "conjugate": values.conj(), "same": values.conj(), "part": values.conj()[:, 1:],
        "negative": values.conj().imag, "again": values.conj().imag, "imag": values.imag,
        "leaf": leaf, "detached": leaf.detach(), "also": leaf.detach(), "last": leaf,
    }  # fmt: skip
    checkpointer = opened()
    checkpointer.save(1, state)
    restored = checkpointer.restore()
    assert restored is not None
    found = restored.state
    assert all(same(torch, value.detach().clone(), found[name].detach()) for name, value in state.items())
    assert [found[name].requires_grad for name in ("leaf", "detached", "also", "last")] == [True, False, False, True]
    first: dict[int, str] = {}
    alike = {name: first.setdefault(id(found[name]), name) for name in state}
    assert {name: other for name, other in alike.items() if name != other} == {
        "same": "conjugate", "again": "negative", "also": "detached", "last": "leaf",
    }  # fmt: skip


def test_a_trainer_comes_back(torch: Any, opened: Opener) -> None:
    """Model, optimizer and random state, while training goes on: what is saved is what was when it was handed over."""
    model, optimizer = trained(torch)
    checkpointer = opened(ring=1)
    checkpointer.attach(optimizer)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
    expected = importlib.import_module("copy").deepcopy(state)
    checkpointer.save(2, state)
    for _ in range(3):
        step(torch, model, optimizer)
    restored = checkpointer.restore()
    assert restored is not None
    assert same(torch, restored.state, expected)
    assert restored.state["model"]._metadata == expected["model"]._metadata
    assert restored.state["model"]["0.weight"].data_ptr() == restored.state["model"]["2.weight"].data_ptr()
    wanted = {name: value.clone() for name, value in model.state_dict().items()}
    other, other_optimizer = trained(torch, 1)
    other.load_state_dict(restored.state["model"])
    other_optimizer.load_state_dict(restored.state["optimizer"])
    torch.set_rng_state(restored.state["random"])
    for _ in range(3):
        step(torch, other, other_optimizer)
    assert all(torch.equal(value, wanted[name]) for name, value in other.state_dict().items())


@pytest.mark.nightly
@pytest.mark.filterwarnings("error:Dynamo detected")
@pytest.mark.parametrize("attached", [False, True])
def test_an_optimizer_whose_step_is_compiled(torch: Any, opened: Opener, attached: bool) -> None:
    """It waits as any other, and what it waits for is not compiled with it, which took seconds and warned."""
    model, optimizer = trained(torch)
    checkpointer = opened(keep=9)
    if attached:
        checkpointer.attach(optimizer)
    compiled, versions = torch.compile(optimizer.step, backend="eager"), []
    for number in range(6):
        optimizer.zero_grad()
        model(torch.randn(16, 200)).square().mean().backward()
        versions.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        checkpointer.save(number, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        compiled()
    torch.compiler.reset()
    checkpointer.wait()
    for number, model_then in enumerate(versions):
        restored = checkpointer.restore(step=number)
        assert restored is not None
        assert all(torch.equal(restored.state["model"][name], tensor) for name, tensor in model_then.items())


def test_parameters_are_filled_in_place(torch: Any, opened: Opener) -> None:
    model, _ = trained(torch)
    checkpointer = opened()
    checkpointer.save(1, {"model": model.state_dict(), "loose": torch.nn.Parameter(torch.ones(3))})
    other, _ = trained(torch, 1)
    assert not same(torch, dict(model.state_dict()), dict(other.state_dict()))
    restored = checkpointer.restore({"model": other.state_dict()}, allow_missing=("loose",))
    assert restored is not None and not restored.missing
    assert same(torch, dict(model.state_dict()), dict(other.state_dict()))
    assert isinstance(restored.state["loose"], torch.nn.Parameter)


def test_a_change_before_the_capture_is_found(torch: Any, opened: Opener) -> None:
    """Who forgets to wait is told; no version is made of a mixture."""
    checkpointer = opened(ring=1, rate=20e6)
    state = {"x": torch.zeros(2_000_000), "y": torch.zeros(10)}
    checkpointer.save(1, state)
    state["y"].add_(1)
    state["x"].add_(1)
    with pytest.raises(CheckpointError, match=r"changed while it was captured: x; call wait_captured\(\)"):
        checkpointer.wait()
    checkpointer.save(2, state)
    checkpointer.wait_captured()
    state["x"].add_(1)
    restored = checkpointer.restore()
    assert restored is not None and restored.step == 2 and bool((restored.state["x"] == 1).all())


@pytest.mark.parametrize("again", [False, True], ids=["first", "recognised"])
def test_memory_formats_come_back(torch: Any, opened: Opener, again: bool) -> None:
    """What a model's layers are made for: a tensor's axes lie in memory in the order in which they did."""
    images = torch.randn(2, 3, 40, 50)
    last = images.to(memory_format=torch.channels_last)
    state = {
        "last": last,
        "three axes": torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
        "one channel": images[:, :1].to(memory_format=torch.channels_last),
        "one pixel": images[:, :, :1, :1].to(memory_format=torch.channels_last),
        "turned": images.permute(3, 1, 0, 2),
        "parameter": torch.nn.Parameter(last.clone()),
        "conjugate": torch.randn(40, 50, dtype=torch.complex64).t().conj(),
        "part": images[:, :, ::2].transpose(1, 3),
        "plain": images,
        "none": last[:0],
        "number": torch.tensor(1.5),
    }
    checkpointer = opened()
    for step in range(1 + again):
        checkpointer.save(step, state)
    restored = checkpointer.restore()
    assert restored is not None
    for name, saved in state.items():
        found = restored.state[name]
        assert same(torch, saved.clone().detach(), found.detach()), name
        assert name == "none" or found.stride() == saved.clone().stride(), name
    assert restored.state["last"].is_contiguous(memory_format=torch.channels_last)
    assert isinstance(restored.state["parameter"], torch.nn.Parameter)


def test_what_is_filled_keeps_its_memory_format(torch: Any, opened: Opener) -> None:
    """Also where a tensor is conjugated or negated when it is read: it has the values then, not their opposites."""
    images, numbers = torch.randn(2, 3, 40, 50), torch.randn(6, 7, dtype=torch.complex64)
    state = {"a": images, "b": images.to(memory_format=torch.channels_last), "c": numbers, "d": numbers.imag}
    target = {
        "a": torch.zeros_like(images, memory_format=torch.channels_last),
        "b": torch.zeros_like(images),
        "c": torch.zeros_like(numbers).conj(),
        "d": torch.zeros(6, 7)._neg_view(),
    }
    before = {name: one.stride() for name, one in target.items()}
    checkpointer = opened()
    checkpointer.save(1, state)
    checkpointer.restore(target)
    assert all(torch.equal(target[name].resolve_conj().resolve_neg(), one) for name, one in state.items())
    assert {name: one.stride() for name, one in target.items()} == before
    with pytest.raises(CheckpointError, match=r"a cannot be restored to this tensor: .*single memory location"):
        checkpointer.restore({"a": torch.zeros(2, 3, 40, 1).expand(2, 3, 40, 50)}, allow_missing=("b", "c", "d"))


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_tensors_that_cannot_be_kept_are_refused(torch: Any, opened: Opener) -> None:
    for tensor, words in (
        (torch.eye(3).to_sparse(), "torch.sparse_coo tensor"),
        (torch.empty(3, device="meta"), "meta tensor"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantised tensor is not kept; .*dequantize"),
        (torch.eye(3).to_sparse_csr(), "torch.sparse_csr tensor is not kept; .*crow_indices"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested tensor is not kept; .*unbind"),
        (torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "nested tensor is not kept; .*unbind"),
        (torch.nn.UninitializedParameter(), "parameter that is not initialised is not kept; .*first batch"),
        (torch._efficientzerotensor(3), "tensor without memory is not kept; .*clone"),
    ):
        checkpointer = opened()
        with pytest.raises(Unsupported, match=f"^a/x: a {words}"):
            checkpointer.save(0, {"a": {"x": tensor}})
        checkpointer.save(1, {"a": {"x": torch.ones(3)}})
        with pytest.raises(CheckpointError, match=f"a/x: a {words}"):
            checkpointer.restore({"a": {"x": tensor}})


@pytest.mark.parametrize("elements", [4, 40_000])
def test_a_tensor_whose_storage_was_taken_away_is_refused(torch: Any, opened: Opener, elements: int) -> None:
    """As trainers do that shard a model; also in a state that was saved before, and when a state is filled."""
    checkpointer, kept = opened(), torch.ones(elements)
    checkpointer.save(1, {"x": kept, "y": torch.ones(elements)})
    checkpointer.wait()
    kept.untyped_storage().resize_(0)
    for attempt in (checkpointer.save, lambda _, state: checkpointer.restore(state)):
        with pytest.raises(CheckpointError, match=r"x: a tensor whose storage was taken away is not kept"):
            attempt(2, {"x": kept, "y": torch.ones(elements)})
    checkpointer.wait()
    restored = checkpointer.restore()
    assert restored is not None
    assert restored.step == 1


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("saved", "others"),
    [(2, (2, 3, 4)), (4, (2, 3, 4))] if FULL else [(2, (2,)), (4, (3,))],
)
def test_ranks_of_torch_distributed(tmp_path: Path, saved: int, others: tuple[int, ...]) -> None:
    """Processes over gloo: replicas and DTensors saved, and restored by other numbers of processes."""
    counts = [str(one) for one in (saved, *others)]
    out = must_run(tmp_path, sys.executable, PROGRAM, tmp_path / "versions", "some", *counts, timeout=170)
    expected = [f"rank {rank} of {saved} saved" for rank in range(saved)]
    expected += [f"rank {rank} of {size} restored" for size in others for rank in range(size)]
    assert sorted(out.splitlines()) == sorted([*expected, "alone: all right"])


@pytest.mark.nightly
@pytest.mark.parametrize(("saved", "other"), [(2, 3), (3, 2)])
def test_a_model_that_torch_shards(tmp_path: Path, saved: int, other: int) -> None:
    """On more ranks than saved it: a new rank's count of updates is that of the others. What does not fit is told."""
    words: list[str | Path] = [sys.executable, PROGRAM, tmp_path / "versions", "fsdp", str(saved), str(other)]
    told = must_run(tmp_path, *words, timeout=170)
    assert [f"rank {rank} of {saved} saved" in told for rank in range(saved)] == [True] * saved
    trouble = f"rank {other - 1}: the state does not fit; the version does not hold for it: own. "
    for rank in range(other):
        line = f"rank {rank} of {other} restored: the checkpoint 000001-step-3 cannot be restored: {trouble}"
        assert line in told, told


@pytest.mark.nightly
@pytest.mark.needs("python:pyeclib")
def test_a_node_of_torch_distributed_is_lost(tmp_path: Path) -> None:
    """Parity over gloo: three processes, each on a node of its own, save to memory; two restore without the third."""
    words: list[str | Path] = [sys.executable, PROGRAM, tmp_path / "versions", "lost"]
    told = must_run(tmp_path, *words, timeout=170).splitlines()
    expected = [f"rank {rank} of 3 saved" for rank in range(3)] + [f"rank {rank} of 2 restored" for rank in range(2)]
    assert sorted(told) == sorted([*expected, "alone: all right; 0 folders in memory"])


@pytest.mark.nightly
@pytest.mark.parametrize(("point", "rank"), [("flush.synced", 1), ("commit.renamed", 0)])
def test_one_of_two_is_killed(tmp_path: Path, point: str, rank: int) -> None:
    """torch ends nobody: the other one is told, and what is there is whole."""
    words: list[str | Path] = [sys.executable, PROGRAM, tmp_path / "versions", "killed"]
    done = run_tree(words, 170, tmp_path, kill_at(point, 3, rank))
    assert done.code == 0, done.out + done.err
    assert f"rank {1 - rank} was told: the checkpoint of step" in done.out
    assert "the ranks cannot agree on a version" in done.out
    step = re.search(r"^step (\d+): (\d+)$", done.out, re.MULTILINE)
    assert step is not None and step[1] == step[2]
