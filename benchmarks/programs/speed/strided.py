"""What parallel.c does in columns, by hand: `strided.py WRITERS READERS BYTES SHEET STEPS WARM PACED`.

Each rank is a process that copies its columns to or from one array in shared memory by NumPy.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.synchronize import Barrier

import numpy as np

from benchmarks.programs.speed.sheet import BEGIN, READ, RELEASED, Sheet

ROWS = 8192


def rank(number: int, ranks: int, writes: bool, size: int, words: list[str], together: Barrier) -> None:
    """Copy one rank's columns in each step; all wait for each other before and after each copy."""
    sheet = Sheet(words)
    whole = np.memmap(f"{sheet.path}.array", np.float64, "r+", shape=(ROWS, size // 8 // ROWS))
    width = whole.shape[1] // ranks
    columns = whole[:, number * width : (number + 1) * width]
    mine = np.zeros(columns.shape)
    for step in range(sheet.steps):
        mine[0, 0] = mine[-1, -1] = step if writes else -1
        if writes and number == 0:
            sheet.pace(step, has_consumer=False)  # (others wait for it below)
        together.wait()
        if writes and number == 0:
            sheet.note(step, BEGIN)
        if writes:
            np.copyto(columns, mine)
        together.wait()
        if writes and number == 0:
            sheet.note(step, RELEASED)
        if not writes:
            np.copyto(mine, columns)
        together.wait()
        if writes and number == 0:
            sheet.note(step, READ)
        if mine[0, 0] != step or mine[-1, -1] != step:
            raise SystemExit(f"step {step}: read {mine[0, 0]}")


def main() -> None:
    """Start the ranks, and wait for them."""
    writers, readers, size = map(int, sys.argv[1:4])
    words = sys.argv[4:]
    np.memmap(f"{words[0]}.array", np.uint8, "w+", shape=(size,))
    context = multiprocessing.get_context("fork")
    together = context.Barrier(writers + readers)
    processes = [
        context.Process(target=rank, args=(number, ranks, writes, size, words, together))
        for ranks, writes in ((writers, True), (readers, False))
        for number in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a rank failed")


if __name__ == "__main__":
    main()
