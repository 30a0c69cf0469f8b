"""Workflows of a source of samples and a trainer whose ranks go on without each other."""

from __future__ import annotations

import contextlib
import re
import textwrap
from pathlib import Path

from support.running import processes_in

SOURCE = """
    import h5py, numpy, pathlib, time
    chance = numpy.random.default_rng(0)
    centres = numpy.random.default_rng(7).normal(size=(4, 8))
    for step in range(6):
        y = chance.integers(4, size=200)
        with h5py.File(f"s{step}.h5", "w") as file:
            file["x"] = (centres[y] + chance.normal(size=(200, 8))).astype("f4")
            file["y"] = y
        while step == 2 and not pathlib.Path("killed").exists():
            time.sleep(0.05)
"""
NETWORK = """
    import torch

    def net():
        layers = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
        return torch.nn.Sequential(*layers)
"""
FILE = """
    tasks:
      - func: source.py
        outports: [{{filename: "s*.h5"}}]
      - func: wilkins.tasks.continual
        nprocs: {nprocs}
        inports: [{{filename: "s*.h5"}}]
        outports: [{{filename: "model-*.h5", mode: both}}]
        train: {{model: "net.py:net", inputs: x, label: y, batch: 16, optimizer: {{name: adam, lr: 0.01}}, {more}}}
"""


def write(folder: Path, more: str, nprocs: int = 2) -> None:
    """A workflow of a source, which waits after three steps for a file ``killed``, and a trainer."""
    file = FILE.format(more=more, nprocs=nprocs)
    for name, text in (("source.py", SOURCE), ("net.py", NETWORK), ("workflow.yaml", file)):
        (folder / name).write_text(textwrap.dedent(text))


def ranks_of(folder: Path) -> dict[int, int]:
    """The processes of the trainer's ranks, by rank."""
    found = {}
    for pid in processes_in(folder):
        with contextlib.suppress(OSError):
            said = re.search(rb"WILKINS_ELASTIC_RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
            if said and b"tasks/__main__.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found[int(said[1])] = pid
    return found


def parent_of(pid: int) -> int:
    """The parent of a process."""
    found = re.search(r"PPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])
