"""Channels: the time from a step to an array or a tensor over its memory, what is copied, and what publishing costs."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Views:
    """Medians over the steps, in seconds."""

    first: float
    """From the step object to its first array; opens the file by HDF5."""
    second: float
    """Another array of the same step."""
    reading: float
    """One pass over the array."""
    fastest: float
    """As `first`, but of the step that took least."""
    copied: int
    """Most bytes that the layer copied for the two arrays of any step."""


@dataclass(frozen=True, slots=True)
class Publishing:
    """Medians over the steps, in seconds."""

    memcpy: float
    publish: float
    create: float
    """A step that is filled in place, less the filling."""
    copied: int
    """Most bytes that the layer copied for a step that was filled in place."""


def measure(folder: Path, *, torch: bool, steps: int = 15, mib: int = 128, warm: int = 5) -> tuple[Publishing, Views]:
    """Run a producer and a consumer written for channels.

    Args:
        folder: where to work; must be empty.
        torch: tensors, not NumPy arrays.
        steps: of either kind, the first `warm` of which do not count (an arena's first use is slow).
        mib: size of a step.

    Raises:
        RuntimeError: a program failed, as it does if an array does not lie in the step's memory.
    """
    tasks = [
        {
            "name": "writer",
            "func": str(PROGRAMS / "publish_arrays.py"),
            "args": [str(steps), str(mib)],
            "outports": [{"filename": "array-*.h5"}],
        },
        {
            "name": "reader",
            "func": str(PROGRAMS / "view_arrays.py"),
            "args": ["torch" if torch else "numpy"],
            "inports": [{"filename": "array-*.h5"}],
        },
    ]
    (folder / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    command = [sys.executable, "-m", "wilkins", "run", "workflow.yaml", "--timeout", "300"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(ran.stdout + ran.stderr)
    logs = folder / "wilkins-runs" / "latest"
    written, read = (
        list(zip(*json.loads((logs / f"{task}.log").read_text().strip().splitlines()[-1])[skip:], strict=True))
        for task, skip in (("writer", warm), ("reader", 2 * warm))
    )
    memcpy, publish, create = (statistics.median(times) for times in written[:3])
    first, second, reading = (statistics.median(times) for times in read[:3])
    views = Views(first, second, reading, min(read[0]), max(read[3]))
    return Publishing(memcpy, publish, create, max(written[3])), views


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks channels", description="arrays over steps: times and bytes copied"
    )
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--mib", type=int, default=128, help="size of a step")
    parser.add_argument("--torch", action="store_true", help="tensors, too")
    options = parser.parse_args(arguments)
    print(f"steps of {options.mib} MiB; medians of {options.steps - 5}")
    for torch in (False, True) if options.torch else (False,):
        with tempfile.TemporaryDirectory() as folder:
            publishing, views = measure(Path(folder), torch=torch, steps=options.steps, mib=options.mib)
        print(
            f"{'torch tensor' if torch else 'NumPy array'}: {views.first * 1e3:.2f} ms from the step, another "
            f"{views.second * 1e3:.2f} ms, bytes copied {views.copied}; one pass over it {views.reading * 1e3:.1f} ms"
        )
        print(
            f"  publish {publishing.publish * 1e3:.1f} ms (a memcpy {publishing.memcpy * 1e3:.1f} ms); create, without "
            f"the filling, {publishing.create * 1e3:.2f} ms, bytes copied {publishing.copied}"
        )
