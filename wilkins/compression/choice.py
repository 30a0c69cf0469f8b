"""Whether steps go over a line packed, and how, by how fast it and the packing are: for `compress_when: faster`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import numpy as np

from wilkins.compression.extents import Block
from wilkins.compression.packing import pack, unpack
from wilkins.flow.packing import Packing, quickest

_EVERY = 16
"""Steps from one measurement to the next."""
_SAMPLE = 4 << 20
"""Bytes of a step that are packed to measure it, at most."""


class Choice:
    """Chooses the way in which a step arrives first: as it is, or packed bit by bit, or within its bounds.

    How small and how fast steps are packed is measured on a part of every sixteenth one.

    Args:
        line: the bytes that the line carries per second; None: not known yet.
    """

    def __init__(self, line: Callable[[], float | None]) -> None:
        self._line = line
        self._steps = 0
        self._exact = self._bounded = Packing()

    @property
    def measures(self) -> bool:
        """Whether the next step is measured."""
        return self._steps % _EVERY == 0

    @property
    def packs(self) -> bool:
        """Whether the next step is packed, as far as is known."""
        return self._way() > 0

    def measure(self, step: memoryview, blocks: Sequence[Block], finding: float, threads: Executor) -> None:
        """Measure a part of a step.

        Args:
            blocks: what can be packed of it.
            finding: seconds that it took to find them.
            threads: in which blocks are packed.
        """
        stride = max(1, -(-sum(block.end - block.begin for block in blocks) // _SAMPLE))
        some = blocks[:: min(stride, max(1, len(blocks)))]
        self._exact = _measured(step, [block._replace(bound=0.0) for block in some], blocks, finding, threads)
        self._bounded = self._exact
        if any(block.bound for block in some):
            self._bounded = _measured(step, some, blocks, finding, threads)

    def of(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """The blocks of the next step that are packed, and within which bounds."""
        self._steps += 1
        way = self._way()
        return blocks if way == 2 else [block._replace(bound=0.0) for block in blocks] if way else ()

    def passed(self) -> None:
        """The next step crosses as it is, without a look at what it holds."""
        self._steps += 1

    def _way(self) -> int:
        """0: as it is; 1: bit by bit; 2: within its bounds, also as long as nothing is known of the line."""
        line = self._line()
        return 2 if line is None else quickest((Packing(), self._exact, self._bounded), line)


def _measured(
    step: memoryview, some: Sequence[Block], blocks: Sequence[Block], finding: float, threads: Executor
) -> Packing:
    """What packing makes of a step, by some of its blocks."""
    taken = sum(block.end - block.begin for block in some)
    if not taken:
        return Packing()
    began = time.monotonic()
    left = sum(threads.map(lambda block: _there_and_back(step, block), some))
    seconds = (time.monotonic() - began) / taken
    share = sum(block.end - block.begin for block in blocks) / len(step)
    return Packing(1 - share * (1 - left / taken), share * seconds + finding / len(step))


def _there_and_back(step: memoryview, block: Block) -> int:
    """The bytes of a packed block, which is unpacked, too."""
    elements = np.frombuffer(step[block.begin : block.end], block.kind).reshape(block.shape)
    packed = pack(elements, block.bound)
    if packed is None:
        return block.end - block.begin
    unpack(packed.data, memoryview(bytearray(block.end - block.begin)))
    return len(packed.data)
