"""Writes the file of every case, and what was observed meanwhile to a JSON file."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import h5py
from programs.fidelity.cases import CASES, failure

h5py._errors.silence_errors()
for module in "objects", "handling":  # in this order: the file left open comes last
    importlib.import_module(f"programs.fidelity.{module}")
only = sys.argv[2].split(",") if len(sys.argv) > 2 else None
with h5py.File("plain-file.h5", "w") as plain:  # no port's: links lead to it
    plain["x"] = range(5)
seen = {}
for case in CASES:
    if only and case.name not in only:
        continue
    try:
        seen[case.name] = case.produce(case.file)
    except Exception as error:
        seen[case.name] = failure(error)
with Path(sys.argv[1]).open("w", encoding="utf-8", errors="surrogateescape") as out:
    json.dump(seen, out, indent=1)
