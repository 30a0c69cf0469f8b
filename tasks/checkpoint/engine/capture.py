"""Copies a state's bytes into the ring while the program computes, and the rest when it waits."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wilkins.tasks.checkpoint.engine.index import IndexText
from wilkins.tasks.checkpoint.engine.ring import Ring
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.state.sources import Bytes, Source
from wilkins.tasks.checkpoint.state.watch import Watch
from wilkins.tasks.checkpoint.storage.checksum import crc32
from wilkins.tasks.checkpoint.storage.layout import Extent

Filled = tuple[int, int, Any]
"""A block's number, its place in the ring, and the event after which a GPU has filled it (or None)."""


@dataclass(slots=True)
class Saved:
    """The outcome of a version."""

    step: int
    blocked: float = 0.0
    """Seconds that `save` and `wait_captured` took of the program's time."""
    durable: float | None = None
    """Seconds from `save` until it was on storage, or had failed; None: it is on its way."""
    trouble: str = ""
    """Why there is none; empty if there is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes where; the same for all states with the same arrays."""

    index: IndexText
    blocks: list[list[Extent]]
    """The blocks of this rank's stream."""
    length: int
    """Bytes of the stream."""
    replicas: int
    """How many arrays are replicated."""
    shares: list[list[Extent]]
    """Which rank writes what of them."""
    own: list[Extent]
    """Where this rank's other arrays stand in its stream."""
    checked: list[tuple[int, list[list[Extent]]]]
    """The other ranks' shares in blocks; this rank makes digests of them for the vote."""
    signature: str
    """Tells whether the replicated arrays are of the same names, kinds and shapes on all ranks."""


NOTHING = Plan(IndexText(None, (), 0, (), ()), [], 0, 0, [], [], [], "")
"""The plan of a state that could not be described."""


@dataclass(slots=True)
class Job:
    """A version on its way: what is to be captured, how far that is, and what went wrong."""

    step: int
    began: float
    """When it was handed over, by `time.monotonic`."""
    plain: list[Any] | None
    """The plain values that are filled into the index; None: its own."""
    ready: Any = None
    """A GPU, and an event on its compute stream: what is captured was ready then. None without a GPU."""
    later: Callable[[Job], None] | None = None
    """Finds out what is to be captured and calls `settled`; None if that was called."""
    watch: Watch | None = None
    """Sees what changes before it is captured."""
    exposed: bool = False
    """Set if some of it may change unseen, and must be captured before `save` returns."""
    promised: list[str] = field(default_factory=list)
    """Paths of arrays that may change unseen, which the program has promised to leave alone until it is captured."""
    saved: Saved = field(init=False)
    plan: Plan = field(init=False)
    sources: list[Source] = field(default_factory=list)
    """The replicated ones come first."""
    filled: queue.SimpleQueue[Filled | None] = field(default_factory=queue.SimpleQueue)
    votes: dict[int, list[int]] = field(default_factory=dict)
    """Digests of other ranks' shares, by rank."""
    planned: threading.Event = field(default_factory=threading.Event)
    """`plan` and `sources` are there, or `trouble` says why not."""
    captured: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    """Set when it is a version, or has failed."""
    trouble: str = ""
    released: bool = False
    """The program has waited for the capture: from then on it may change its state."""
    copied: Any = None
    """Event on the private stream of a GPU: everything is captured then."""
    _describing: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: int = 0
    _left: int = 1

    def __post_init__(self) -> None:
        self.saved = Saved(self.step)

    def describe(self) -> None:
        """Find out what is to be captured, unless that is known."""
        with self._describing:
            if self.planned.is_set():
                return
            later, self.later = self.later, None  # it holds on to arrays
            assert later is not None
            try:
                later(self)
            except Exception as error:
                self.note(str(error) if isinstance(error, CheckpointError) else f"the state cannot be read: {error}")
                self.settled(NOTHING, [])

    def settled(self, plan: Plan, sources: list[Source]) -> None:
        """What is to be captured is known."""
        self.plan, self.sources = plan, sources
        self._left = len(plan.blocks) + 1  # the digests for the vote count as one
        self.planned.set()

    @property
    def by_caller(self) -> bool:
        """Whether the program's own thread queues all copies before `save` returns: a GPU makes them, so that a second
        thread would not be of help, and both would wait for the interpreter's lock."""
        return self.exposed and self.ready is not None

    def next_block(self) -> int | None:
        """A block whose copy has not begun."""
        with self._lock:
            if self._next >= len(self.plan.blocks):
                return None
            self._next += 1
            return self._next - 1

    def block_bytes(self, index: int, block: int) -> int:
        """Bytes of the stream in a block."""
        return min(block, self.plan.length - index * block)

    def note(self, trouble: str) -> None:
        """Remember what went wrong first."""
        self.trouble = self.trouble or trouble

    def count(self) -> bool:
        """A piece of work is done, well or badly; returns whether it was the last."""
        with self._lock:
            self._left -= 1
            return self._left == 0

    def check(self) -> None:
        """Note the arrays that changed before they were captured."""
        changed = [one.spec.key for one in self.sources if one.changed()]
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            self.note(
                f"the state changed while it was captured: {', '.join(changed[:3])}{more}; call wait_captured() before "
                "the state is updated (or attach(optimizer)), and name in eager= what forward itself changes"
            )


class Capture:
    """One thread that copies the blocks of one version after the other; `finish` lets a waiting caller copy, too."""

    def __init__(self, ring: Ring, niceness: int, device: Any = None) -> None:
        self._ring = ring
        self._niceness = niceness
        self._scratch: Bytes | None = None
        self._stream: Any = None
        """On the GPU where states are: all copies are queued there, whichever thread makes them."""
        if device is not None:
            import torch

            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._followed: Any = None
        """The last event that the stream was made to wait for."""
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="checkpoint-capture", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Capture it after those before it."""
        self._jobs.put(job)

    def finish(self, job: Job) -> None:
        """Copy what is left in the calling thread as well, as long as the ring has room; then wait for the rest.

        A GPU's compute stream is made to wait; the caller is not.
        """
        job.describe()
        while not job.captured.is_set():
            slot = self._ring.take(wait=job.by_caller)
            if slot is None or not self._copy(job, slot):
                break
        job.captured.wait()
        if job.copied is not None:
            import torch

            torch.cuda.current_stream(self._stream.device).wait_event(job.copied)

    def close(self) -> None:
        """End when all is captured."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        calm(self._niceness)
        while (job := self._jobs.get()) is not None:
            self._capture(job)
            del job  # its tensors must not live until the next one comes

    def _capture(self, job: Job) -> None:
        job.describe()
        self._digests(job)
        while not (job.by_caller or job.captured.is_set()):
            slot = self._ring.take()
            if slot is None or not self._copy(job, slot):
                break
        job.captured.wait()

    def _copy(self, job: Job, slot: int) -> bool:
        """Copy the next block to a place in the ring; returns whether there was one."""
        index = job.next_block()
        if index is None:
            self._ring.give(slot)
            return False
        try:
            event = self._fill(job, job.plan.blocks[index], slot)
        except Exception as error:
            job.note(f"the state cannot be captured: {error}")
            self._ring.give(slot)
        else:
            job.filled.put((index, slot, event))
        self._count(job)
        return True

    def _fill(self, job: Job, extents: list[Extent], slot: int) -> Any:
        """Returns an event after which a GPU has filled the block; None without one."""
        on_device = [extent for extent in extents if job.sources[extent.array].on_device]
        event = self._fill_from_device(job, on_device, slot) if on_device else None
        address = self._ring.address(slot)
        for extent in extents:
            source = job.sources[extent.array]
            if not source.on_device:
                source.fill(address + extent.offset, extent.start, extent.length)
        return event

    def _fill_from_device(self, job: Job, extents: list[Extent], slot: int) -> Any:
        """Queue the copies of some extents of a block.

        A program may be waiting until all of a state is queued: a block takes as few calls of torch as possible, since
        each of them gives up the interpreter's lock, for which other threads wait.
        """
        import torch

        stream = self._private_stream(job)
        with torch.cuda.stream(stream):
            block = self._ring.tensor(slot)
            for extent in extents:
                to = block.narrow(0, extent.offset, extent.length)
                to.copy_(job.sources[extent.array].device_bytes(extent.start, extent.length), non_blocking=True)
            return stream.record_event()

    def _private_stream(self, job: Job) -> Any:
        """Copies wait there for what the compute stream had to do before the state was handed over."""
        event = job.ready[1]
        if self._followed is not event:
            self._stream.wait_event(event)
            self._followed = event
        return self._stream

    def _digests(self, job: Job) -> None:
        """Digests of the replicas that other ranks write, from this rank's memory: for the vote."""
        try:
            if job.plan.checked and self._scratch is None:
                self._scratch = np.zeros(self._ring.block, np.uint8)
            for rank, blocks in job.plan.checked:
                job.votes[rank] = [self._digest(job, extents) for extents in blocks]
        except Exception as error:
            job.note(f"the state cannot be compared with that of other ranks: {error}")
        self._count(job)

    def _digest(self, job: Job, extents: list[Extent]) -> int:
        assert self._scratch is not None
        for extent in extents:
            source = job.sources[extent.array]
            if source.on_device:
                import torch

                with torch.cuda.stream(self._private_stream(job)):
                    piece = source.device_bytes(extent.start, extent.length).cpu().numpy()
                self._scratch[extent.offset : extent.offset + extent.length] = piece
            else:
                source.fill(self._scratch.ctypes.data + extent.offset, extent.start, extent.length)
        return digest(self._scratch.data, extents)

    def _count(self, job: Job) -> None:
        if job.count():
            if job.ready is not None:
                job.copied = self._private_stream(job).record_event()
            if job.watch is not None:
                job.watch.close()
            job.check()
            job.captured.set()
            job.filled.put(None)


def digest(memory: memoryview, extents: list[Extent]) -> int:
    """CRC-32 of some extents of a block, one after the other, without what lies between them."""
    value = 0
    for extent in extents:
        value = crc32(memory[extent.offset : extent.offset + extent.length], value)
    return value


def calm(niceness: int) -> None:
    """Let the calling thread step back behind those that compute. On Linux, a thread has a niceness of its own."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def clear(address: int, extents: list[Extent], length: int) -> None:
    """Set to zero what lies between the extents of a block of `length` bytes."""
    end = 0
    for extent in [*extents, Extent(0, 0, 0, length)]:
        if extent.offset > end:
            ctypes.memset(address + end, 0, extent.offset - end)
        end = extent.offset + extent.length
