"""What a save was trained with, so that another training does not take it for its own."""

from __future__ import annotations

import ast
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wilkins.tasks import code
from wilkins.tasks.continual.options import NAMING
from wilkins.tasks.continual.sections import is_code

_LEFT_OUT: Mapping[str, Any] = {"optimizer": {"name": "sgd", "lr": 0.01}, "alpha": 0.5, "beta": 0.5}
"""What options are that are left out, if they are anything."""
_APART = ("stop", "publish", "save", "held_out", "results", "device", "error", "on_failure")
"""Options for the end of training, for measures and for places: they do not change the model."""


def trained_with(options: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, str]:
    """The options that shape a model, and digests of the files of its code, by what a user calls them."""
    found: dict[str, str] = {}
    for name, value in options.items():
        if name not in _APART:
            given = _LEFT_OUT.get(name) if value is None else value
            inner = (
                {f"{name}: {key}": one for key, one in given.items()} if isinstance(given, Mapping) else {name: given}
            )
            found |= {f"'{key}'": str(one) for key, one in inner.items() if one is not None}
    for key, name in _named(options):
        found[f"the code of '{key}: {name}'"] = _digest(code.source(name, folders))
    return found


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What a save was trained with that is otherwise now; an option that is left out is None."""
    found = []
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            values = f" (it was {before.get(name)}, and is {now.get(name)})" if name.startswith("'") else ""
            found.append(name + values)
    return found


def digest_of(samples: Mapping[str, Tensor]) -> int:
    """The digest of the samples of a step."""
    value = 0
    for name in sorted(samples):
        # (One or no sample counts as contiguous with any strides.)
        flat = samples[name].clone(memory_format=torch.contiguous_format).reshape(-1)
        value = zlib.crc32(flat.view(torch.uint8).numpy().data, value)
    return value


def _named(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The user's functions and classes, and the options that name them."""
    for key, within in NAMING.items():
        name = (options[key] or {}).get(within) if within else options[key]
        if name and is_code(name):
            yield key, name


def _digest(file: Path | None) -> str:
    """The digest of a Python file without comments and layout; empty if there is no text."""
    return "" if file is None else hashlib.sha256(ast.dump(ast.parse(file.read_bytes())).encode()).hexdigest()
