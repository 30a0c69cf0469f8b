"""Steps on their way between hosts: parts of their bytes packed, and put back where they were."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from wilkins.compression.bounds import Rule
from wilkins.compression.choice import Choice
from wilkins.compression.errors import CannotCopy, CannotUnpack
from wilkins.compression.extents import Block, blocks_of
from wilkins.compression.packing import Packed, pack, unpack

_THREADS = 4


class Piece(NamedTuple):
    """Bytes of a step that cross packed."""

    begin: int
    end: int
    stored: int
    """Bytes of what they are packed into."""


class PackedStep(NamedTuple):
    """What crosses packed of a step, in the order of its bytes; the rest of it crosses as it is."""

    pieces: tuple[Piece, ...] = ()
    data: bytes = b""
    error: float = 0.0
    """The largest difference of an element,"""
    part: float = 0.0
    """and the largest part of its bound that such a difference is."""
    seconds: float = 0.0
    """Of CPU time."""
    unfit: tuple[int, ...] | None = None
    """Numbers of the rules that fit no dataset that can be packed, or only such as an earlier rule fits; None: nobody
    has looked."""
    why: str = ""
    """Why nothing of it was packed; empty: something was, or no rule fits what it holds."""


class Packer:
    """Packs the steps of an out-port, and unpacks them."""

    def __init__(self, rules: Iterable[Rule] = (), choice: Choice | None = None) -> None:
        """`rules`: the first one that fits a dataset counts. `choice`: chooses for each step; None: each is packed."""
        self._rules = tuple(rules)
        self._choice = choice
        self._threads = ThreadPoolExecutor(min(_THREADS, len(os.sched_getaffinity(0))))

    def pack(self, step: memoryview) -> PackedStep:
        """The parts of a step that the rules let be packed, where that makes them smaller."""
        began, choice = time.process_time(), self._choice
        if choice and not choice.measures and not choice.packs:
            choice.passed()
            return PackedStep(unfit=())  # any rule may fit it
        finding = time.monotonic()
        try:
            every, used = blocks_of(step, self._rules)
        except CannotCopy as error:
            return PackedStep(seconds=time.process_time() - began, why=str(error))
        blocks: Sequence[Block] = every
        if choice:
            if choice.measures:
                choice.measure(step, every, time.monotonic() - finding, self._threads)
            blocks = choice.of(every)
        packed = list(self._threads.map(lambda block: _packed(step, block), blocks))
        found = [(block, one) for block, one in zip(blocks, packed, strict=True) if one is not None]
        return PackedStep(
            tuple(Piece(block.begin, block.end, len(one.data)) for block, one in found),
            b"".join(one.data for _, one in found),
            max((one.error for _, one in found), default=0.0),
            max((one.error / block.bound for block, one in found if one.error), default=0.0),
            time.process_time() - began,
            tuple(number for number, rule in enumerate(self._rules) if rule not in used),
        )

    def unpack(self, step: memoryview, pieces: Sequence[tuple[int, int, int]], data: memoryview) -> float:
        """Put packed parts where they belong; returns the seconds of CPU time.

        Args:
            pieces: as `Piece` has them.

        Raises:
            CannotUnpack: these are no packed parts of such a step, whose bytes are undefined then.
        """
        began, at, jobs = time.process_time(), 0, []
        for begin, end, stored in pieces:
            if not 0 <= begin < end <= len(step) or not 0 < stored <= len(data) - at:
                raise CannotUnpack("a packed step is damaged: a piece of it is longer than all of it")
            jobs.append((data[at : at + stored], step[begin:end]))
            at += stored
        for _ in self._threads.map(lambda job: unpack(*job), jobs):
            pass
        return time.process_time() - began


def _packed(step: memoryview, block: Block) -> Packed | None:
    elements = np.frombuffer(step[block.begin : block.end], block.kind).reshape(block.shape)
    return pack(elements, block.bound)
