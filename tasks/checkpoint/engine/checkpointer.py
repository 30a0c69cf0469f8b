"""The checkpointer: hands a state over, waits for its capture, and restores it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from wilkins.tasks.checkpoint.engine.capture import Capture, Job, Saved
from wilkins.tasks.checkpoint.engine.flush import Flush, Writing
from wilkins.tasks.checkpoint.engine.folders import Folders
from wilkins.tasks.checkpoint.engine.restore import Restored, restore
from wilkins.tasks.checkpoint.engine.ring import Ring
from wilkins.tasks.checkpoint.engine.schedule import Schedule, When, step_number
from wilkins.tasks.checkpoint.engine.state_plan import Planner
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.placement.places import Place, Storage, storage_of
from wilkins.tasks.checkpoint.ranks import make_ranks
from wilkins.tasks.checkpoint.storage import levels, versions
from wilkins.tasks.checkpoint.storage.erasure import Partners
from wilkins.tasks.checkpoint.storage.files import Pace
from wilkins.tasks.checkpoint.storage.layout import BLOCK, PAGE, up

_LOG = logging.getLogger("wilkins.checkpoint")
IN_FLIGHT = 2
"""Versions on their way at most: `save` waits for the one before the last."""


def _check_without_memory(leaders: bool, partners: Partners | None) -> None:
    if leaders:
        raise CheckpointError(
            "leaders=True: leaders take other ranks' streams from memory to storage; give memory=True as well, or "
            "leave it out: each rank then writes its own range of a file"
        )
    if partners is not None:
        raise CheckpointError(f"{partners}: partners keep parity of versions in memory; give memory=True as well")


def _uncompiled(hook: Callable[..., None]) -> Callable[..., None]:
    """A hook that torch's compiler, if it is loaded, leaves as it is: of a compiled `optimizer.step` it would compile
    all that the hook calls, the description of a state, too."""
    torch: Any = sys.modules["torch"]
    found: Callable[..., None] = torch.compiler.disable(hook) if "torch._dynamo" in sys.modules else hook
    return found


class Checkpointer:
    """Saves states of this program's ranks as versions in a folder, behind the program's back::

        ckpt = Checkpointer("checkpoints", keep=2)
        ckpt.attach(optimizer)
        restored = ckpt.restore()
        for step in ...:
            ckpt.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
            loss(model(x)).backward()
            optimizer.step()

    A state is nested dicts, lists and tuples of torch tensors, NumPy arrays, `Shard`s and plain values. Arrays are
    read after `save` has returned, until `wait_captured` returns: what changes in between is found, and costs the
    version. torch's optimizers wait by themselves. Small arrays (64 KiB), and those named by `eager`, are copied by
    `save` itself and may change at once. Where changes cannot be found, all is copied before `save` returns.

    A folder with versions that may only be read is opened for `restore`; `save` then raises.

    Args:
        folder: where the versions are; made if it is missing, shared by all ranks.
        ranks: None for one process, an mpi4py communicator, or `torch` for torch.distributed's default group.
        replicated: patterns of paths (`model*`; a name stands for all below it) whose arrays are the same on all
            ranks. They are written once, a part by each rank. True: all arrays are.
        vote: whether ranks compare their replicas byte by byte (by digests) before a version is committed.
        eager: patterns of paths that forward or backward change.
        trusted: patterns of paths that the program promises not to change before `wait_captured` has returned, so
            that `save` need not copy them where changes cannot be found. True: all. A broken promise makes mixtures.
        keep: how many versions are kept, on each level.
        memory: a folder in this node's memory, or True for one in /dev/shm of its own. Versions are committed there
            first, at the speed of memory, and restored from there if the program died and the node did not. A program
            that ends well frees it. On several nodes, each has the part of its own ranks.
        partners: with `memory`, how versions there survive the loss of nodes; None: they do not.
        storage: places, such as disks and folders of other hosts, over which versions are spread, too, as pieces; any
            of them may be lost as long as enough are left. A list of them, or a `Storage`. Rank 0 has to see them.
        node: name of this rank's node, if several nodes have the same host name.
        storage_every: with `memory`, which versions are copied to storage: every n-th, and the last one at the end.
        files: how many files the streams of the ranks go into; left out: one per rank.
        leaders: with `memory`, one rank per file takes all of it from memory to storage; else each rank its stream.
        ring: bytes of memory set aside for capturing; left out: what the first state takes on this rank.
        rate: bytes per second and rank that storage is written at and partners are sent to, at most.
        when: which steps `save_if_due` saves.
        block: bytes that are copied, digested and written at once; a multiple of 4096, up to 1 GiB.
        niceness: of the threads that copy and write, on top of the program's.

    Raises:
        CheckpointError: another program writes there; there are too few nodes for `partners`, or no pyeclib.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        ranks: Any = None,
        replicated: Sequence[str] | bool = (),
        vote: bool = True,
        eager: Sequence[str] = (),
        trusted: Sequence[str] | bool = (),
        keep: int = 2,
        memory: bool | str | os.PathLike[str] = False,
        partners: Partners | None = None,
        storage: Storage | Sequence[Place | Mapping[str, Any] | str] | None = None,
        node: str | None = None,
        storage_every: int = 1,
        files: int | None = None,
        leaders: bool = False,
        ring: int | None = None,
        rate: float | None = None,
        when: When = When(),  # noqa: B008 - frozen
        block: int = BLOCK,
        niceness: int = 5,
    ) -> None:
        if not PAGE <= block <= versions.LARGEST_BLOCK or block % PAGE:
            raise CheckpointError(f"block={block}: give a multiple of {PAGE} bytes, up to {versions.LARGEST_BLOCK}")
        if keep < 1 or storage_every < 1 or (files is not None and files < 1) or (rate is not None and rate <= 0):
            raise CheckpointError(
                f"keep={keep}, storage_every={storage_every}, files={files}, rate={rate}: each must be positive"
            )
        if not memory:
            _check_without_memory(leaders, partners)
        self.folder = Path(folder).absolute()
        self._writing = Writing(storage_every, files, leaders, keep, rate, niceness)
        self._ring_bytes, self._block = ring, block
        self._ranks = make_ranks(ranks)
        self._behind = self._ranks.dup()
        self._planner = Planner(
            self._ranks.rank,
            self._ranks.size,
            replicated=("*",) if replicated is True else tuple(replicated or ()),
            eager=eager,
            trusted=("*",) if trusted is True else tuple(trusted or ()),
            vote=vote,
            block=block,
        )
        self._schedule = Schedule(when, time.monotonic())
        self._capture: Capture | None = None
        self._flush: Flush | None = None
        self._ring: Ring | None = None
        self._device: Any = None
        """The GPU where the first state was, if any."""
        self._job: Job | None = None
        self._jobs: deque[Job] = deque()
        self._blocked = 0.0
        self._hooks: list[Any] = []
        self._of_all: Any = None
        """The hook of all optimizers."""
        self._waits: bool | None = None
        """Whether torch's compiler was loaded when it was made."""
        self._releasing = threading.RLock()
        self._last_asked: tuple[float, float] | None = None
        self.history: deque[Saved] = deque(maxlen=1000)
        """The outcomes of the latest versions, in order."""
        in_memory = levels.memory_of(self.folder) if memory is True else Path(memory).absolute() if memory else None
        self._folders = Folders(self.folder, in_memory, self._ranks)
        spread = None if storage is None else storage_of(storage)
        self._folders.open(partners, node, keep=keep, leaders=leaders, block=block)
        if spread is not None:
            self._folders.open_archive(spread, keep, Pace(rate))

    def save(self, step: int, state: Any) -> None:
        """Hand a state over; returns before it is copied, if changes to it are found. Collective.

        It must not change before this returns.

        Raises:
            CheckpointError: an earlier version could not be written, a thread changes the state all the time, the
                folder may only be read, or `step` is no whole number of 0 or more.
            Unsupported: the state holds what cannot be kept exactly.
        """
        step = step_number(step)
        if self._folders.unwritable:
            raise CheckpointError(f"step {step} cannot be saved: {self._folders.unwritable}; give another folder")
        self._warn_of_promises(step)
        self.wait_captured()
        began = time.monotonic()
        while len(self._jobs) >= IN_FLIGHT:
            self._end_first()
        while self._ranks.size == 1 and self._jobs and self._jobs[0].done.is_set():
            self._end_first()
        job = self._planner.plan(step, state, began)
        capture, flush = self._start(job)
        self._job = job
        self._jobs.append(job)
        self.history.append(job.saved)
        self._schedule.begin(began)
        flush.add(job)
        capture.add(job)
        self._let_optimizers_wait()
        if job.exposed:
            self._release(job, capture)
        self._took(job, began)

    def _warn_of_promises(self, step: int) -> None:
        """Nobody has waited for the state before: whether what is trusted has changed meanwhile cannot be found out."""
        job = self._job
        if job is not None and job.promised:
            more = f" and {len(job.promised) - 3} more" if len(job.promised) > 3 else ""
            _LOG.warning(
                "%s: the checkpoint of step %d may be a mixture: trusted= names %s%s, changes to which cannot be found "
                "here, and wait_captured() was not called from then to the save of step %d; call it before the state "
                "is updated (or attach(optimizer)), or take them out of trusted=",
                self.folder, job.step, ", ".join(job.promised[:3]), more, step,
            )  # fmt: skip

    def save_if_due(self, step: int, state: Callable[[], Any]) -> bool:
        """Save what `state` returns if this step is due by `when`; returns whether it was. Collective."""
        if not self.due(step):
            return False
        self.save(step, state())
        return True

    def due(self, step: int) -> bool:
        """Whether this step is to be saved, by `when`; to be asked once per step. Collective if time decides."""
        step = step_number(step)
        now = time.monotonic()
        if self._last_asked is not None:
            busy = any(not job.done.is_set() for job in self._jobs)
            took, blocked = now - self._last_asked[0], self._blocked - self._last_asked[1]
            self._schedule.step_took(took, blocked, busy=busy)
        self._last_asked = (now, self._blocked)
        mine = self._schedule.due(step, now)
        if self._schedule.when.by_time and self._ranks.size > 1:
            return bool(self._ranks.allgather(mine)[0])
        return mine

    def wait_captured(self) -> None:
        """Return when the state that was handed over is copied and may change; copies what is left itself."""
        with self._releasing:  # an optimizer may step in another thread
            job = self._job
            if job is None or self._capture is None:
                return
            began = time.monotonic()
            self._release(job, self._capture)
            self._took(job, began)

    def _release(self, job: Job, capture: Capture) -> None:
        capture.finish(job)
        job.check()
        job.released, self._job = True, None

    def attach(self, optimizer: Any) -> None:
        """Let an optimizer wait for the capture before each of its steps; those of torch do by themselves."""
        self._hooks.append(optimizer.register_step_pre_hook(_uncompiled(lambda *_: self.wait_captured())))

    def _let_optimizers_wait(self) -> None:
        """All of torch's optimizers in this process, from now on; anew when torch's compiler has come, which is at the
        latest when the first of them is made."""
        compiler = "torch._dynamo" in sys.modules
        if "torch" not in sys.modules or self._waits == compiler:
            return
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        found = weakref.ref(self)  # torch holds on to the hook

        def wait(*_: Any) -> None:
            if (one := found()) is not None:
                one.wait_captured()

        if self._of_all is not None:
            self._of_all.remove()
        self._of_all = register_optimizer_step_pre_hook(_uncompiled(wait))
        self._waits = compiler

    def wait(self) -> None:
        """Return when all that was saved is on storage.

        Raises:
            CheckpointError: a version could not be written.
        """
        self.wait_captured()
        while self._jobs:
            self._end_first()

    def restore(
        self,
        state: Any = None,
        *,
        step: int | None = None,
        only: Sequence[str] | None = None,
        allow_missing: Sequence[str] = (),
    ) -> Restored | None:
        """The newest version that verifies on all ranks, or that of a step; None if there is none. Collective.

        With a `state`, its arrays, tensors and shards are filled in place. It must have all those that the version has,
        and no other, but for what `allow_missing` names. See `wilkins.tasks.checkpoint.engine.restore`.
        """
        step = None if step is None else step_number(step)
        self.wait()
        files, pace = self._writing.files or self._ranks.size, Pace(self._writing.rate)
        folders, elsewhere = self._folders.sources(files, pace)
        try:
            restored = restore(
                folders, self._ranks, state, step=step, only=only, allow_missing=allow_missing, elsewhere=elsewhere
            )
        except CheckpointError:
            self._folders.mend(folders)
            raise
        if restored is not None and restored.skipped:
            self._folders.mend(folders)
        return restored

    def close(self, *, failed: bool = False) -> None:
        """Wait until everything is on storage, and free what was set up. Collective.

        After a failure, versions in memory stay there for the next job.

        Raises:
            CheckpointError: a version could not be written.
        """
        try:
            self.wait()
            if self._folders.memory is not None and not failed:
                self._end_memory()
        finally:
            for hook in (*self._hooks, *([self._of_all] if self._of_all else ())):
                hook.remove()
            self._hooks.clear()
            self._of_all = self._waits = None
            if self._capture is not None and self._flush is not None:
                self._capture.close()
                self._flush.close()
                self._capture = self._flush = self._ring = None
            self._folders.unlock()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=kind is not None)

    def _end_memory(self) -> None:
        """All is on storage, or failed: nothing runs behind now."""
        trouble = self._flush.copy() if self._flush is not None else ""
        if trouble:
            raise CheckpointError(f"the newest version is not on storage: {trouble}")
        self._folders.free_memory()

    def _end_first(self) -> None:
        """Wait for the oldest version on its way. All ranks meet its trouble here, in the same call."""
        job = self._jobs.popleft()
        job.done.wait()
        if job.saved.trouble:
            raise CheckpointError(f"the checkpoint of step {job.step} was not written: {job.saved.trouble}")

    def _took(self, job: Job, began: float) -> None:
        seconds = time.monotonic() - began
        job.saved.blocked += seconds
        self._blocked += seconds

    def _report(self, job: Job, trouble: str) -> None:
        job.saved.trouble, job.saved.durable = trouble, time.monotonic() - job.began

    def _start(self, job: Job) -> tuple[Capture, Flush]:
        if self._capture is None or self._flush is None:
            size = self._ring_bytes or up(job.plan.length, self._block)
            self._ring = Ring(size, pinned=job.ready is not None, block=self._block)
            self._device = job.ready[0] if job.ready is not None else None
            self._capture = Capture(self._ring, self._writing.niceness, self._device)
            self._flush = Flush(
                self._behind,
                self._ring,
                self._writing,
                self._report,
                self._folders,
            )
        if job.ready is not None and job.ready[0] != self._device:
            first = "in main memory" if self._device is None else f"on {self._device}"
            raise CheckpointError(f"the first state was {first}, this one is on {job.ready[0]}; give it a Checkpointer")
        return self._capture, self._flush
