"""What the trace of a run costs a fast stream: its events counted in instructions, and timed in pairs."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wilkins.transport.board import Board
from wilkins.transport.plan_table import BoardChannel, BoardPort, BoardTask

SOURCE = Path(__file__).parents[1] / "tests" / "programs" / "guest" / "step_often.c"
BYTES = 1024
FEW, MANY = 150, 350
"""Steps of the runs whose instructions are counted: the difference leaves out start and end."""


@dataclass(frozen=True, slots=True)
class Cost:
    """A step that is written and read, with a trace and without."""

    events: float
    """Per step."""
    instructions: tuple[float, float]
    """Per step, of the whole process: without, with."""
    seconds: tuple[float, float]
    """CPU time per step, of the quickest run of many: without, with."""


def built(folder: Path) -> Path:
    """The program, which writes a file and reads it, and so on."""
    program = folder / "step_often"
    subprocess.run(["h5cc", "-shlib", "-O2", str(SOURCE), "-o", str(program)], check=True, cwd=folder)
    return program


def _run(
    folder: Path, program: Path, steps: int, *, traced: bool, prefix: Sequence[str] = ()
) -> tuple[float, int, str]:
    """CPU seconds of the program's process, the events that were written, and what it said."""
    trace = folder / "trace.txt"
    trace.unlink(missing_ok=True)
    board = Board.create(
        [BoardTask("loop", 1)],
        [BoardPort(0, "out", "step-*.h5"), BoardPort(0, "in", "step-*.h5")],
        [BoardChannel(0, 1, 1, 2, "block", 1)],
        log=folder / "layer.log",
        trace=trace if traced else None,
    )
    try:
        process = subprocess.Popen(
            [*prefix, str(program), str(steps), str(BYTES)],
            cwd=folder,
            env={**os.environ, **board.environment(0, 0)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{program} failed: exit code {process.returncode}\n{said}")
        board.report()  # whoever asks writes the events that are left
    finally:
        board.remove()
    events = len(trace.read_bytes().splitlines()) if traced else 0
    return used.ru_utime + used.ru_stime, events, said


def counted(folder: Path, program: Path, *, traced: bool) -> float:
    """Instructions of a step, by valgrind."""

    def instructions(steps: int) -> int:
        prefix = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        said = _run(folder, program, steps, traced=traced, prefix=prefix)[2]
        found = re.search(r"I +refs: +([\d,]+)", said)
        assert found, said
        return int(found[1].replace(",", ""))

    return (instructions(MANY) - instructions(FEW)) / (MANY - FEW)


def measure(folder: Path, steps: int, rounds: int) -> Cost:
    """Count and time the program; raises RuntimeError if it fails."""
    program = built(folder)
    events = _run(folder, program, FEW, traced=True)[1] / FEW
    instructions = (counted(folder, program, traced=False), counted(folder, program, traced=True))
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        for traced in (False, True) if number % 2 else (True, False):
            times[traced].append(_run(folder, program, steps, traced=traced)[0] / steps)
    return Cost(events, instructions, (min(times[False]), min(times[True])))


def main(arguments: Sequence[str]) -> None:
    """A table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks tracing",
        description="a step of 1 KiB that is written and read, with and without trace",
    )
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        cost = measure(Path(folder), options.steps, options.rounds)
    print(
        f"a step of 1 KiB, written and read by a program of C, {cost.events:.1f} events; instructions as valgrind\n"
        f"counts them, CPU time of the quickest of {options.rounds} runs of {options.steps} steps, with and without by "
        "turns"
    )
    print(f"{'':<18}  {'without trace':>13}  {'with':>9}  {'more':>6}")
    without, with_trace = cost.instructions
    print(f"{'instructions':<18}  {without:13.0f}  {with_trace:9.0f}  {with_trace - without:6.0f}")
    without, with_trace = (1e6 * one for one in cost.seconds)
    print(f"{'CPU time, us':<18}  {without:13.1f}  {with_trace:9.1f}  {with_trace - without:6.1f}")
    print(f"of the CPU time: {100 * (with_trace / without - 1):.1f}%")
