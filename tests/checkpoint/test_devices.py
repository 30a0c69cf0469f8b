"""States on a GPU: a version is what was handed over, whatever the program does to it at once."""

from __future__ import annotations

import copy
import importlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from wilkins.tasks.checkpoint import CheckpointError

from .conftest import Opener

pytestmark = pytest.mark.needs("python:torch")
ON_A_GPU = pytest.mark.parametrize("torch_device", [pytest.param("cuda:0", marks=pytest.mark.gpu)], indirect=True)

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "adam": lambda torch, parameters: torch.optim.Adam(parameters, fused=False),
    "fused adam": lambda torch, parameters: torch.optim.AdamW(parameters, fused=True),
    "for each": lambda torch, parameters: torch.optim.Adam(parameters, foreach=True, amsgrad=True),
    "momentum": lambda torch, parameters: torch.optim.SGD(parameters, 0.01, momentum=0.9, nesterov=True),
}


@pytest.fixture
def torch() -> Any:
    return importlib.import_module("torch")


class Trainer:
    """A model with dropout, running statistics and layers of several types, its optimizer and its random numbers."""

    def __init__(self, torch: Any, device: str, optimizer: str, seed: int = 0, width: int = 256) -> None:
        self.torch, self.device = torch, torch.device(device)
        torch.manual_seed(seed)
        nn = torch.nn
        self.model = nn.Sequential(
            nn.Linear(64, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 8),
        ).to(device)  # fmt: skip
        self.optimizer = OPTIMIZERS[optimizer](torch, self.model.parameters())

    def step(self) -> None:
        """One step of training."""
        self.optimizer.zero_grad()
        x = self.torch.randn(32, 64, device=self.device)
        self.model(x).square().mean().backward()
        self.optimizer.step()

    def generators(self) -> list[Any]:
        """torch's random state, here and on the device."""
        here = [self.torch.get_rng_state()]
        return [*here, self.torch.cuda.get_rng_state(self.device)] if self.device.type == "cuda" else here

    def state(self) -> dict[str, Any]:
        """What a restart needs."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": self.generators(),
        }

    def load(self, state: Any) -> None:
        """Go on from there."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.torch.set_rng_state(state["random"][0])
        if self.device.type == "cuda":
            self.torch.cuda.set_rng_state(state["random"][1], self.device)


def same(torch: Any, one: Any, other: Any) -> bool:
    """Bit by bit; a tensor may have come to main memory meanwhile."""
    if isinstance(one, torch.Tensor):
        whole = torch.contiguous_format
        raw = [each.detach().cpu().clone(memory_format=whole).view(-1).view(torch.uint8) for each in (one, other)]
        return one.dtype == other.dtype and one.shape == other.shape and bool(torch.equal(*raw))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(torch, one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(torch, *pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


@pytest.mark.usual("cpu-fused adam-trusted")
@pytest.mark.parametrize("trusted", [False, True], ids=["copied", "trusted"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_goes_on_from_the_same_bits(
    torch: Any, opened: Opener, torch_device: str, optimizer: str, trusted: bool
) -> None:
    """The optimizer waits by itself; what is restored is what was saved, and trains on to the same bits."""
    trainer = Trainer(torch, torch_device, optimizer)
    checkpointer = opened(trusted=trusted)
    for step in range(5):
        trainer.step()
        expected = copy.deepcopy(trainer.state())
        checkpointer.save(step, trainer.state())
    trainer.step()
    trainer.step()
    restored = checkpointer.restore()
    assert restored is not None and restored.step == 4
    assert same(torch, restored.state, expected)
    again = Trainer(torch, torch_device, optimizer, seed=9)
    again.step()
    again.load(restored.state)
    again.step()
    again.step()
    assert same(torch, again.state(), trainer.state())


def test_the_first_version_is_whole_though_the_program_goes_on_at_once(
    torch: Any, opened: Opener, torch_device: str
) -> None:
    """Two threads copy the first state: the program's own, and the one that was just started."""
    size = 1_000_000
    for number in range(5 if torch_device == "cpu" else 40):
        checkpointer = opened(block=65536)
        state = {name: torch.full((size,), float(number), device=torch_device) for name in "abc"}
        checkpointer.save(number, state)
        checkpointer.wait_captured()
        for one in state.values():
            one.add_(1)
        restored = checkpointer.restore(step=number)
        assert restored is not None
        for name, one in restored.state.items():
            assert bool((one == number).all()), (number, name)


def test_random_states_and_random_changes(torch: Any, opened: Opener, torch_device: str) -> None:
    """Of all types, scattered, shared, reduced, empty; overwritten, freed and made anew as soon as `save` returns."""
    chance = random.Random(7)
    names = ["float32", "float16", "bfloat16", "float64", "int32", "uint8", "bool", "complex64", "float8_e4m3fn"]

    def tensor() -> Any:
        kind = getattr(torch, chance.choice(names))
        shape = [chance.choice([0, 1, 3, 17, 600]) for _ in range(chance.randint(1, 3))]
        top = 2 if kind is torch.bool else 256
        raw = torch.randint(0, top, (*shape, kind.itemsize), dtype=torch.uint8, device=torch_device)
        made = raw.view(kind).squeeze(-1)
        how = chance.randint(0, 3)
        if how == 1 and made.dim() > 1:
            return made.transpose(0, 1)
        return made[::2] if how == 2 else made

    def change(one: Any) -> None:
        raw = one.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)
        one.copy_((raw ^ 1).view(one.dtype).view(one.shape))

    checkpointer = opened()
    for number in range(20 if torch_device == "cpu" else 150):
        state: dict[str, Any] = {str(one): tensor() for one in range(chance.randint(1, 8))}
        state |= {"again": state["0"], "part": state["0"][:1], "number": number}
        expected = {name: one.clone() if isinstance(one, torch.Tensor) else one for name, one in state.items()}
        checkpointer.save(number, state)
        if torch_device == "cpu" or chance.random() < 0.3:
            checkpointer.wait_captured()
        if chance.random() < 0.5:
            for name in list(state)[:-3]:
                change(state[name])
        else:
            state.clear()
            for _ in range(4):
                torch.full((300_000,), 7, dtype=torch.uint8, device=torch_device)
        restored = checkpointer.restore()
        assert restored is not None and restored.step == number
        assert same(torch, expected, restored.state), number


@ON_A_GPU
def test_a_state_made_on_another_stream(torch: Any, opened: Opener, torch_device: str) -> None:
    """What the stream that is current at `save` had been given by then is in the version, and nothing later."""
    checkpointer, stream = opened(), torch.cuda.Stream()
    heavy = torch.randn(4000, 4000, device=torch_device)
    x = torch.zeros(2_000_000, device=torch_device)
    for number in range(1, 11):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(5):
                heavy @ heavy
            x.fill_(number)
            checkpointer.save(number, {"x": x})
            x.fill_(-1)
        restored = checkpointer.restore()
        assert restored is not None and bool((restored.state["x"] == number).all()), number


def test_tensors_on_the_device_are_filled_in_place(torch: Any, opened: Opener, torch_device: str) -> None:
    """Contiguous or not; their memory stays where it is."""
    images = torch.randn(4, 3, 90, 70, device=torch_device)
    state = {"plain": images, "last": images.to(memory_format=torch.channels_last), "half": images.half()}
    checkpointer = opened()
    checkpointer.save(1, state)
    target = {name: torch.zeros_like(one) for name, one in state.items()}
    addresses = {name: one.data_ptr() for name, one in target.items()}
    checkpointer.restore(target)
    assert same(torch, state, target)
    assert {name: one.data_ptr() for name, one in target.items()} == addresses
    assert all(one.stride() == state[name].stride() for name, one in target.items())


@ON_A_GPU
def test_a_state_that_moved_is_refused(torch: Any, opened: Opener, torch_device: str) -> None:
    checkpointer = opened()
    checkpointer.save(0, {"x": torch.ones(100_000)})
    with pytest.raises(CheckpointError, match=r"first state was in main memory, this one is on cuda:0; give it a"):
        checkpointer.save(1, {"x": torch.ones(100_000, device=torch_device)})
