"""The loop of docs/guides/checkpointing.md: stopped and started again, it ends where an undisturbed one does."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("python:torch")
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "checkpointing.md"


def train(folder: Path, steps: int) -> list[Any]:
    """The page's loop, run up to a number of updates: the model's parameters."""
    torch = importlib.import_module("torch")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    code = next(block for block in blocks if "optimizer.step()" in block).replace('"checkpoints"', repr(str(folder)))
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x = torch.arange(12.0).reshape(4, 3)
    exec(code, {"model": model, "optimizer": optimizer, "x": x, "steps": steps, "loss": lambda y: y.square().mean()})
    return [parameter.tolist() for parameter in model.parameters()]


@pytest.mark.nightly
def test_the_loop_of_the_page(tmp_path: Path) -> None:
    undisturbed = train(tmp_path / "a", 6)
    assert train(tmp_path / "b", 3) != undisturbed
    assert train(tmp_path / "b", 6) == undisturbed
    assert train(tmp_path / "b", 6) == undisturbed  # nothing is left to do
