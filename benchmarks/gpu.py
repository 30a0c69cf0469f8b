"""All that wants a GPU, one stage after the other, going on after one that fails: tests, then measurements.

Results go to one JSON file, written after each stage, and to one page. With `--stand-in` the stages run without a GPU,
as far as they can: tests and channels on a mock of the CUDA driver, the rest on the CPU, all of it small.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import gpu_channels


@dataclass(frozen=True, slots=True)
class Stage:
    """A command that a machine with a GPU runs."""

    name: str
    seconds: int
    """When it is ended."""
    tests: tuple[str, ...] = ()
    """What pytest is given; for a measurement, nothing."""
    measure: tuple[str, ...] = ()
    """A measurement: the module of `benchmarks` and its arguments. It writes its results to `--out FILE`."""


def stages(*, stand_in: bool) -> list[Stage]:
    """What is run, the most informative stage first."""
    device = "cpu" if stand_in else "cuda:0"
    steps, mib = ("6", "4") if stand_in else ("20", "128")
    state = ("--mib", "4", "--tensors", "8") if stand_in else ("--mib", "256", "--tensors", "64", "--batch", "98304")
    course = ("--step-ms", "5", "--sample-bytes", "8192") if stand_in else ("--step-ms", "10")
    return [
        Stage("devices and channels", 150, tests=("tests/devices",)),
        Stage("checkpoints", 150, tests=("tests/checkpoint/test_devices.py",)),
        Stage("buffers, learners, trainers", 150, tests=("tests/continual/test_devices.py",)),
        Stage(
            "channels", 150, measure=("gpu_channels", "--steps", steps, "--mib", mib)
        ),
        Stage(
            "checkpoint", 240,
            measure=("checkpoint", "--device", device, "--steps", "3" if stand_in else "4", *state),
        ),
        Stage(
            "rehearsal", 150,
            measure=("rehearsal", "--device", device, "--ranks", "1", "--rounds", "5", "--steps", "50", *course),
        ),
    ]  # fmt: skip


def ran(stage: Stage, folder: Path, *, stand_in: bool) -> dict[str, Any]:
    """Run a stage and return its result."""
    out = folder / "out"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m"]
    if stage.tests:
        # With the mock driver, those that need no GPU.
        command += ["pytest", "-q", "--timeout", "60", "-m", "not gpu" if stand_in else "gpu", f"--junitxml={out}"]
        command += stage.tests
    else:
        module, *words = stage.measure
        command += [f"benchmarks.{module}", *words, "--out", str(out)]
    print(f"== {stage.name}: {' '.join(command[1:])}", flush=True)
    began = time.monotonic()
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            code, late = process.wait(stage.seconds), False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code, late = process.wait(), True
    found: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1), "code": code}
    if late:
        found["trouble"] = f"ended after {stage.seconds} s"
    elif code:
        found["trouble"] = f"exit code {code}"
    if out.exists():
        found |= counted(out) if stage.tests else {"measured": json.loads(out.read_text())}
    if stage.tests and not code and not found.get("passed"):
        found |= {"code": 1, "trouble": "no test was run"}
    return found


def counted(file: Path) -> dict[str, Any]:
    """How many tests passed, and which did not."""
    cases = list(ElementTree.parse(file).getroot().iter("testcase"))
    left_out = sum(case.find("skipped") is not None for case in cases)
    failed = [
        case.attrib["name"] for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    return {"passed": len(cases) - left_out - len(failed), "left out": left_out, "failed": failed}


def page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    machine, found = results["machine"], results["parts"]
    text = [
        "# On one GPU",
        "",
        f"Measured {results['date']} by `make gpu` on {machine['device']}, CUDA driver {machine['driver']}, "
        f"Python {machine['python']}, torch {machine['torch']}, {machine['cores']} cores.",
        "",
    ]
    rows = []
    for name, one in found.items():
        result = one.get("trouble", "")
        if "passed" in one:
            failed = f", failed: {', '.join(one['failed'])}" if one["failed"] else ""
            left_out = f", {one['left out']} left out" if one["left out"] else ""
            result = f"{one['passed']} tests passed{left_out}{failed}" + (f"; {result}" if result else "")
        rows.append((name, result or "measured", f"{one['seconds']:.0f}"))
    text += table(("part", "result", "seconds"), rows)
    for name, section in SECTIONS.items():
        if "measured" in found.get(name, {}):
            text += ["", *section(found[name]["measured"])]
    return "\n".join(text) + "\n"


def channels(found: dict[str, Any]) -> list[str]:
    """The figures of channels."""
    head = ["## Channels", "", f"{found['steps']} steps of {found['mib']} MiB, medians without the first 3.", ""]
    return [*head, *table(("what", "figure"), gpu_channels.rows(found))]


def checkpoints(found: dict[str, Any]) -> list[str]:
    """The figures of checkpoints."""
    head = [
        "## Checkpoints",
        "",
        "Of a model and its Adam in every iteration; medians, in seconds; the words are [explained](checkpoint.md).",
        "",
    ]
    names = {"blocked": "blocked", "slower": "slower", "both": "both", "durable": "durable", "wall": "iteration"}
    rows = [(way, *(f"{one[name]:.4f}" for name in names)) for way, one in found.items()]
    return [*head, *table(("way", *names.values()), rows)]


def rehearsal(found: dict[str, Any]) -> list[str]:
    """The figures of rehearsal."""
    head = ["## Rehearsal", "", "An epoch's time by that of incremental training; b = 56, c = 14, r = 8.", ""]
    rows = [
        (
            kept,
            f"{one['incremental_ms']:.2f} ms",
            f"{one['ratio_larger']:.3f}",
            f"{one['ratio']:.3f}",
            f"{one['wait_share']:.2%}",
        )
        for kept, one in found.items()
    ]
    return [*head, *table(("samples kept", "incremental step", "incremental, b + r", "rehearsal", "waits"), rows)]


SECTIONS = {"channels": channels, "checkpoint": checkpoints, "rehearsal": rehearsal}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    import torch

    from wilkins.transport.devices.driver import driver

    calls = driver()
    return {
        "device": calls.name_of(0),
        "driver": calls.number("cuDriverGetVersion"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
    }


def main(arguments: Sequence[str]) -> None:
    """Run the stages, print the page and write what was found; exit code 1 if a stage failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__)
    parser.add_argument("--stand-in", action="store_true", help="without a GPU, small")
    names = [one.name for one in stages(stand_in=True)]
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", help=f"of these: {', '.join(names)}")
    parser.add_argument("--out", type=Path, required=True, help="where the page goes; the results beside it, as .json")
    options = parser.parse_args(arguments)
    chosen = [one for one in stages(stand_in=options.stand_in) if not options.only or one.name in options.only]
    results: dict[str, Any] = {"date": str(datetime.date.today()), "machine": machine(), "parts": {}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for stage in chosen:
        results["parts"][stage.name] = ran(stage, options.out.parent, stand_in=options.stand_in)
        options.out.with_suffix(".json").write_text(json.dumps(results, indent=1))
        options.out.write_text(page(results))
    print(options.out.read_text())
    sys.exit(int(any(one["code"] for one in results["parts"].values())))
