"""A small stream to learn from in tests, and models for it; torch is imported by what makes them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from wilkins.tasks.continual import RehearsalOptions
from wilkins.tasks.continual.scenarios import Experience, class_incremental

CLASSES, FEATURES = 6, 8
BATCH = 10


def torch() -> Any:
    """The torch module, with one thread: test machines are busy."""
    module = importlib.import_module("torch")
    module.set_num_threads(1)
    return module


def blobs(seed: int, per_class: int = 40, *, experiences: int = 3) -> list[Experience]:
    """Experiences of two classes each; samples of a class lie about one point, close to others."""
    rng = np.random.default_rng(seed)
    centres = 2.0 * np.random.default_rng(1).standard_normal((CLASSES, FEATURES))
    y = np.repeat(np.arange(CLASSES), per_class)
    x = (centres[y] + rng.standard_normal((len(y), FEATURES))).astype(np.float32)
    return class_incremental(x, y, experiences, shuffle=seed)


def perceptron(seed: int, outputs: int = CLASSES) -> Any:
    """A model with one hidden layer."""
    nn = torch().nn
    torch().manual_seed(seed)
    return nn.Sequential(nn.Linear(FEATURES, 24), nn.ReLU(), nn.Linear(24, outputs))


def sgd(model: Any, rate: float = 0.05) -> Any:
    """Its optimizer."""
    return torch().optim.SGD(model.parameters(), rate)


def buffer_options(**changes: Any) -> RehearsalOptions:
    """A buffer for the stream."""
    given: dict[str, Any] = {"batch": BATCH, "candidates": BATCH, "representatives": BATCH, "samples": 60, "label": "y"}
    return RehearsalOptions(**given | changes)


def weights(model: Any) -> Any:
    """All parameters, one after the other."""
    return torch().cat([one.detach().flatten() for one in model.parameters()])


def on_mistakes() -> Any:
    """A strategy of a user's own: what the model gets wrong goes to the buffer; recalled samples weigh less."""
    continual = importlib.import_module("wilkins.tasks.continual")

    class OnMistakes(continual.Strategy):  # type: ignore[misc, name-defined]
        keeps_outputs = True

        def __init__(self, *given: Any, weight: float = 0.5, **named: Any) -> None:
            super().__init__(*given, **named)
            self.weight, self.often = weight, torch().zeros(CLASSES, dtype=torch().int64)

        def remember(self, samples: Any) -> None:
            wrong = samples["logits"].argmax(1) != samples["y"]
            self.often += torch().bincount(samples["y"][wrong], minlength=CLASSES)
            super().remember({name: tensor[wrong] for name, tensor in samples.items()})

        def terms(self, new: int, recalled: int) -> Any:
            weight = self.weight / (1 + int(self.often.max()))
            return continual.Term(0, new), continual.Term(new, new + recalled, weight)

        def state_dict(self) -> Any:
            return {"often": self.often}

        def load_state_dict(self, state: Any) -> None:
            self.often = state["often"]

    return OnMistakes
