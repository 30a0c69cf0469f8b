"""The rehearsal buffer as a training loop sees it: offer a batch, go on training, take representatives a step later."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from wilkins.tasks.continual.errors import BadSample, CheckpointError, RehearsalError
from wilkins.tasks.continual.rehearsal import saved_buffer
from wilkins.tasks.continual.rehearsal.arrays import Array, Kind, describe, empty_like, kind_of, labels_of, pack, unpack
from wilkins.tasks.continual.rehearsal.buffer_options import RehearsalOptions
from wilkins.tasks.continual.rehearsal.draws import Ints
from wilkins.tasks.continual.rehearsal.exchange import make_group
from wilkins.tasks.continual.rehearsal.rounds import Drawn, Offer, play
from wilkins.tasks.continual.rehearsal.sample_store import Streams
from wilkins.tasks.continual.rehearsal.shard import Shard
from wilkins.tasks.continual.rehearsal.statistics import Statistics

if TYPE_CHECKING:
    from mpi4py import MPI

FAREWELL_SECONDS = 5.0
"""How long a rank that stops with an error tries to notify the others."""


class RehearsalBuffer:
    """Samples of a stream, kept by all ranks of a task together, of which each gets some back in every step.

        with RehearsalBuffer(options, MPI.COMM_WORLD) as buffer:
            for batch in stream:                       # {"x": array, "y": array}
                representatives = buffer.update(batch)
                train(concatenate(batch, representatives))

    All ranks of `comm` make the buffer together, offer equally many batches and close it together; without `comm` the
    process is alone. `port` is where batches come from, for messages.
    """

    def __init__(self, options: RehearsalOptions, comm: MPI.Intracomm | None = None, *, port: str = "") -> None:
        self.options = options
        self.port = port
        self._group = make_group(comm, threads=options.background)
        self._shard = Shard(options, self._group.rank, self._group.size)
        self._streams = Streams()
        self._thread = ThreadPoolExecutor(1, "rehearsal") if options.background else None
        self._round: Future[tuple[Drawn | None, Statistics]] | None = None
        self._kinds: dict[str, Kind] = {}
        self._step = 0
        self._first = True
        self._ended = ""
        self._waited = 0.0
        self._statistics = Statistics()

    @property
    def step(self) -> int:
        """Batches offered so far, also before a restart."""
        return self._step

    def update(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Take the representatives drawn in the step before and offer this batch: one call per step.

        The batch's arrays have the samples along their first axis; it may be shorter than usual, or empty. The result
        has the same names and kinds of arrays, and as many samples as were drawn: none in the first step, r once
        all ranks together hold as many.

        Raises:
            BadSample: the batch does not fit; or one before held NaN, which is found in the background.
            RankFailed: another rank stopped, or does not do the same.
        """
        if isinstance(batch, Mapping):
            self._kinds = {name: kind_of(array) for name, array in batch.items()}
        drawn = self.take()
        self.offer(batch)
        return drawn or empty_like(batch)

    def take(self) -> dict[str, Array]:
        """Representatives drawn since the last offer; waits for them. Nothing before the first offer.

        Raises:
            BadSample, RankFailed: as for `update`.
        """
        if self._round is None:
            return {}
        began = time.perf_counter()
        drawn = self._result()
        waited = self._waited + time.perf_counter() - began
        self._round, self._waited = None, 0.0
        then = self._statistics
        self._statistics = replace(
            then,
            waits=then.waits + 1,
            wait_seconds=then.wait_seconds + waited,
            longest_wait=max(then.longest_wait, waited),
        )
        if drawn is None:
            return {}
        arrays = drawn.arrays
        if drawn.kinds != self._kinds and self._kinds.keys() == drawn.kinds.keys():
            assert self._shard.layout is not None
            arrays = unpack(drawn.rows, self._shard.layout, self._kinds)
        self._streams.hand_over(list(arrays.values()))
        return arrays

    def offer(self, batch: Mapping[str, Array]) -> None:
        """Choose candidates of a batch, copy them, and begin to draw the next representatives.

        The batch may be changed as soon as this returns. `update` does this too; by itself it serves strategies that
        keep what only a forward pass tells, such as logits.

        Raises:
            BadSample: the batch does not fit.
            RehearsalError: the representatives drawn before were not taken, or the buffer is closed.
        """
        if self._ended:
            raise RehearsalError(f"the rehearsal buffer takes no more batches: {self._ended}")
        if self._round is not None:
            raise RehearsalError("take() the representatives of the step before, then offer() the next batch")
        try:
            offer = self._prepare(batch)
        except BadSample as error:
            placed = error.at(self.port, self._step)
            self._fail(str(placed))
            raise placed from None
        except BaseException as error:
            self._fail(f"{type(error).__name__}: {error}")
            raise
        self._begin(offer)
        self._step += 1
        self._first = False

    def _prepare(self, batch: Mapping[str, Array]) -> Offer:
        if not isinstance(batch, Mapping):
            raise BadSample(f"a batch is a mapping of names to arrays, not a {type(batch).__name__}")
        layout, samples = describe(batch)
        label = self.options.label
        if label is not None and label not in batch:
            raise BadSample(f"the batch has no such tensor, but holds {', '.join(sorted(batch))}", tensor=label)
        labels = labels_of(batch[label], self.options.classes, label) if label is not None else np.zeros(samples, int)
        groups = self._groups(batch, labels)
        self._shard.adopt(layout)
        self._kinds = {name: kind_of(array) for name, array in batch.items()}
        chosen = self._shard.candidates(samples)
        return Offer(
            self._step,
            first=self._first,
            port=self.port,
            rows=pack(batch, layout, chosen),
            chosen=chosen,
            labels=labels[chosen].astype(np.int64),
            groups=groups[chosen].astype(np.int64),
            kinds=dict(self._kinds),
        )

    def _groups(self, batch: Mapping[str, Array], labels: Ints) -> Ints:
        """What shares the room, for each sample."""
        name = self.options.group
        if name is None:
            return np.zeros(len(labels), np.int64)
        if name == self.options.label:
            return labels
        if name not in batch:
            reason = f"'balance: {name}' goes by this tensor, but the batch holds {', '.join(sorted(batch))}"
            raise BadSample(reason, tensor=name)
        return labels_of(batch[name], None, name)

    def _begin(self, offer: Offer) -> None:
        devices = {kind.device for kind in offer.kinds.values() if kind.library == "torch" and "cuda" in kind.device}
        if self.options.device.startswith("cuda"):
            devices |= {self._shard.store.device} if self._shard.layout is not None else set()
        events = self._streams.mark(devices)

        def work() -> tuple[Drawn | None, Statistics]:
            with self._streams.following(devices, events):
                return play(self._shard, self._group, offer, self._statistics)

        if self._thread is not None:
            self._round = self._thread.submit(work)
            return
        began = time.perf_counter()
        self._round = Future()
        try:
            self._round.set_result(work())
        except Exception as error:
            self._round.set_exception(error)
        self._waited = time.perf_counter() - began

    def _result(self) -> Drawn | None:
        """What the round in flight gives, without taking it."""
        assert self._round is not None
        try:
            drawn, after = self._round.result()
        except Exception as error:
            self._ended, self._round = str(error) or type(error).__name__, None
            raise
        then = self._statistics
        self._statistics = replace(
            after, waits=then.waits, wait_seconds=then.wait_seconds, longest_wait=then.longest_wait
        )
        return drawn

    def statistics(self) -> Statistics:
        """What was done up to the representatives taken last."""
        return self._statistics

    def state_dict(self) -> dict[str, Any]:
        """This rank's part: arrays and plain values. Waits for what is being drawn, on all ranks.

        Raises:
            CheckpointError: nothing was offered yet, or the buffer is closed.
        """
        drawn = self._result() if self._round is not None else None
        if self._ended or self._shard.layout is None:
            raise CheckpointError(f"there is nothing to save: {self._ended or 'no batch was offered yet'}")
        return saved_buffer.state_of(saved_buffer.Saved(self._step, drawn, self._kinds, self._statistics), self._shard)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict` of this rank's, before the first offer, with as many ranks and the same options.

        Raises:
            CheckpointError: it does not fit this buffer, which is empty as before.
        """
        self._check_new()
        try:
            loaded = saved_buffer.restored(state, self._shard)
        except CheckpointError:
            self._shard = Shard(self.options, self._group.rank, self._group.size)
            raise
        self._step, self._kinds, self._statistics = loaded.step, dict(loaded.kinds), loaded.statistics
        if loaded.drawn is not None:
            self._round = Future()
            self._round.set_result((loaded.drawn, loaded.statistics))

    def _check_new(self) -> None:
        if self._step or self._ended:
            raise CheckpointError("a saved buffer is loaded before the first batch is offered")

    def save(self, folder: str | os.PathLike[str], *, keep: int = 2) -> None:
        """Make this buffer's state a version in a folder, all ranks together: samples, generators, what is drawn.

        The newest `keep` versions stay. A kill at any moment leaves a complete one.

        Raises:
            CheckpointError: a rank cannot write, or nothing was offered yet.
        """
        saved_buffer.save(Path(folder), self._step, self.state_dict(), self._group, keep)

    def load(self, folder: str | os.PathLike[str], step: int | None = None) -> int:
        """Continue from the newest version in a folder, or that of a step; returns its step.

        Comes before the first offer, on all ranks together, with as many of them and the same options as then.

        Raises:
            CheckpointError: there is none, or it does not fit this buffer, which is empty as before.
        """
        self._check_new()
        saved_buffer.load(Path(folder), step, self.load_state_dict, self._group)
        return self._step

    def close(self) -> None:
        """End the buffer, all ranks together. Representatives that nobody took are lost.

        Raises:
            BadSample, RankFailed: as for `update`.
        """
        if self._ended:
            self._stop_thread()
            return
        try:
            if self._round is not None:
                self._result()
            self._begin(Offer(self._step, intent="close"))
            self._result()
            self._ended = "it is closed"
            self._group.free()
        finally:
            self._round = None
            self._stop_thread()

    def _fail(self, reason: str) -> None:
        """Tell the other ranks, in the round they are about to begin, that this one stops."""
        self._ended = reason
        self._group.give_up_after(FAREWELL_SECONDS)
        self._begin(Offer(self._step, intent="fail", reason=reason))

    def _stop_thread(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()

    def __enter__(self) -> RehearsalBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        self._group.give_up_after(FAREWELL_SECONDS)
        if not self._ended and self._round_went_well():
            self._fail(f"{type(error).__name__}: {error}")
        self._stop_thread()

    def _round_went_well(self) -> bool:
        """Whether the other ranks will come to another round: not if the one in flight ends with an error."""
        return self._round is None or self._round.exception() is None
