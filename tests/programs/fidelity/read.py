"""Looks at the file of every case in every way, and writes what it saw to a JSON file."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import h5py
from programs.fidelity.cases import CASES, attempt, failure
from programs.fidelity.view import file_view


def look(name: str) -> None:
    h5py.File(name, "r").close()


def size(name: str) -> int:
    return Path(name).stat().st_size


def raw(name: str) -> str:
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


for module in "objects", "handling":  # in this order: the file left open comes last
    importlib.import_module(f"programs.fidelity.{module}")
only = sys.argv[2].split(",") if len(sys.argv) > 2 else None
seen: dict[str, Any] = {}
for case in CASES:
    if only and case.name not in only:
        continue
    view: dict[str, Any] = {}
    for name in case.files:
        view[name] = {
            "first": attempt(look, name),
            "is hdf5": attempt(h5py.is_hdf5, name),
            "size": attempt(size, name),
            "bytes": case.times or attempt(raw, name),
        }
        try:
            view[name]["view"] = file_view(name, case.times)
        except Exception as error:
            view[name]["view"] = failure(error)
    if case.consume:
        view["consumer"] = attempt(case.consume, case.file)
    seen[case.name] = view
with Path(sys.argv[1]).open("w", encoding="utf-8", errors="surrogateescape") as out:
    json.dump(seen, out, indent=1)
