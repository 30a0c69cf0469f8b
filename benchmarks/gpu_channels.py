"""Measurements on one GPU: a step as a CUDA tensor against the raw copy, CUDA IPC, and libraries on one buffer."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
GOAL = 0.9
"""Share of the raw pinned rate that a step must reach as a CUDA tensor."""

_TASKS = """
tasks:
- {{name: make, func: {python}, args: {make}, gpus: 1, outports: [{{filename: "{pattern}", device: {out}}}]}}
- {{name: use, func: {python}, args: {use}, gpus: 1, inports: [{{filename: "{pattern}", device: cuda}}]}}
"""
_LIBRARIES = """
tasks:
- {{name: make, func: {python}, args: {make}, gpus: 1, outports: [{{filename: "h*.h5"}}, {{filename: "p*.h5"}}]}}
- {{name: use, func: {python}, args: {use}, gpus: 1, inports: [{{filename: "h*.h5"}}, {{filename: "p*.h5"}}]}}
"""


def run(folder: Path, workflow: str) -> dict[str, float]:
    """Run a workflow; what its tasks measured."""
    (folder / "workflow.yaml").write_text(workflow)
    command = [sys.executable, "-m", "wilkins", "run", "workflow.yaml", "--timeout", "150"]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=180)
    logs = [log.read_text() for log in sorted((folder / "wilkins-runs" / "latest").glob("*.log"))]
    if finished.returncode:
        raise SystemExit(f"a measurement failed:\n{finished.stderr}\n" + "\n".join(logs))
    found: dict[str, float] = {}
    for line in re.findall(r"measured (\{.*\})", "\n".join(logs)):
        found.update(json.loads(line))
    return found


def steps(make: str, use: str, out: str, count: int, mib: int) -> dict[str, float]:
    """One producer and one consumer of steps of `mib` MiB."""
    program = str(PROGRAMS / "gpu.py")
    workflow = _TASKS.format(
        python=sys.executable,
        make=json.dumps([program, make, str(count), str(mib)]),
        use=json.dumps([program, use, str(count), str(mib)]),
        out=out,
        pattern="s*.h5",
    )
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), workflow)


def libraries() -> str:
    """torch, CuPy and h5py on one buffer: what was shown, or why it was left out."""
    look = "import cupy, torch; assert torch.cuda.is_available() and cupy.cuda.is_available()"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    if found.returncode:
        return f"left out: {found.stderr.strip().splitlines()[-1]}"
    program = str(PROGRAMS / "gpu_libraries.py")
    workflow = _LIBRARIES.format(
        python=sys.executable, make=json.dumps([program, "write"]), use=json.dumps([program, "read"])
    )
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), workflow)
    return "equal values"


def measure(count: int, mib: int) -> dict[str, Any]:
    """All measurements: milliseconds, and counts."""
    return {
        "steps": count,
        "mib": mib,
        "read": steps("write", "read", "host", count, mib),
        "written": steps("publish", "read", "pinned", count, mib),
        "shared": steps("publish", "share", "cuda", count, mib),
        "libraries": libraries(),
    }


def rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What was measured, as the rows of a table."""
    read, written, shared = found["read"], found["written"], found["shared"]
    ratio, bound = read["raw"] / read["step"], read["raw from the arena"] / read["step"]
    how = "torch tensor" if read["as a torch tensor"] else "device buffer (torch sees no GPU)"
    host_bytes = shared["host bytes of the reader"] + shared["host bytes of the writer"]
    return [
        (
            "raw copy, pinned host memory to device",
            f"{read['raw']:.2f} ms, {found['mib'] / 1024 / read['raw'] * 1e3:.1f} GiB/s",
        ),
        ("raw copy, the arena's registered memory to device", f"{read['raw from the arena']:.2f} ms"),
        (
            f"a step as a {how}",
            f"{read['step']:.2f} ms, {ratio:.2f} of the raw rate (goal {GOAL}), {bound:.2f} of the arena's",
        ),
        ("of this, until the program goes on", f"{read['asked']:.2f} ms"),
        ("mappings of arenas that CUDA refused to register", f"{read['not registered']:.0f}"),
        ("raw copy, device to pinned host memory", f"{written['raw to the host']:.2f} ms"),
        ("publishing a device array through the host", f"{written['publish']:.2f} ms"),
        ("two processes by CUDA IPC: host bytes copied", f"{host_bytes:.0f}"),
        ("two processes by CUDA IPC: publishing", f"{shared['publish']:.2f} ms"),
        ("two processes by CUDA IPC: from `publish` to the reader's own copy", f"{shared['latency']:.2f} ms"),
        (
            "torch and CuPy on one copy, CuPy to and from h5py, device pointers in H5Dwrite and H5Dread",
            str(found["libraries"]),
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write what was found as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_channels", description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--mib", type=int, default=128, help="size of a step")
    parser.add_argument("--out", type=Path, required=True, help="file for the results")
    options = parser.parse_args(arguments)
    options.out.write_text(json.dumps(measure(options.steps, options.mib)))


if __name__ == "__main__":
    main()
