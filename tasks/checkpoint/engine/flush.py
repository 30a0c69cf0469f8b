"""From the ring to storage: blocks are digested and written, ranks vote, a version is committed. In the background."""

from __future__ import annotations

import hashlib
import math
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wilkins.atomic import sync
from wilkins.tasks.checkpoint.engine.capture import NOTHING, Filled, Job, calm, clear, digest
from wilkins.tasks.checkpoint.engine.folders import Folders
from wilkins.tasks.checkpoint.engine.ring import Ring
from wilkins.tasks.checkpoint.engine.vote import Dissent, compare, explain
from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.storage import levels, versions
from wilkins.tasks.checkpoint.storage.checksum import crc32
from wilkins.tasks.checkpoint.storage.clearing import make_room
from wilkins.tasks.checkpoint.storage.files import File, Pace, cannot, tidied
from wilkins.tasks.checkpoint.storage.layout import PAGE, Place, blocks, names_of, places, share_bytes, up
from wilkins.tasks.checkpoint.storage.regular_files import INDICES
from wilkins.tasks.checkpoint.storage.versions import Manifest, Stream
from wilkins.tasks.group import Group, first_trouble

WRITERS = 2
"""Threads that digest and write: one writes while the other digests."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How versions are written, and how many are kept; see `Checkpointer`."""

    every: int
    files: int | None
    leaders: bool
    keep: int
    rate: float | None
    niceness: int


class Flush:
    """The thread that writes captured states as versions, one after the other."""

    def __init__(
        self,
        ranks: Group,
        ring: Ring,
        writing: Writing,
        report: Callable[[Job, str], None],
        folders: Folders,
    ) -> None:
        self._storage, self._memory, self._ranks, self._ring = folders.storage, folders.memory, ranks, ring
        self._folder, self._memories = folders.memory or folders.storage, folders.memories
        self._archive, self._spreads = folders.archive, folders.spreads
        self._every, self._count, self._newest = writing.every, 0, ""
        self._files, self._leaders, self._keep = writing.files or ranks.size, writing.leaders, writing.keep
        self._pace = Pace(writing.rate)
        self._niceness = writing.niceness
        self._report = report
        self._broken = ""
        self._failed = False
        """The previous version was given up, maybe for lack of space."""
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="checkpoint-flush", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Make it a version after those before it."""
        self._jobs.put(job)

    def close(self) -> None:
        """End when all are versions, or have failed."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        calm(self._niceness)
        while (job := self._jobs.get()) is not None:
            trouble = self._broken
            try:
                trouble = trouble or self._flush(job)
            except Exception as error:
                # Ranks that do not answer any more cannot agree on later versions either.
                trouble = self._broken = f"the ranks cannot agree on a version: {error}"
            self._failed = bool(trouble)
            self._drain(job)
            job.sources.clear()
            self._report(job, trouble)
            job.done.set()
            del job

    def _drain(self, job: Job) -> None:
        """Free captured blocks that will not be written, so that no thread waits for space in the ring."""
        job.planned.wait()
        while job.plan.blocks and (found := self._next(job)) is not None:
            self._ring.give(found[1])

    def _next(self, job: Job) -> Filled | None:
        """The next captured block; None after the last, for every thread that asks."""
        found = job.filled.get()
        if found is None:
            job.filled.put(None)
            return None
        if found[2] is not None:
            found[2].synchronize()
        return found

    def _flush(self, job: Job) -> str:
        """Returns why there is no version, or nothing. Collective: ranks meet here three times, whatever happens."""
        job.planned.wait()
        newest, trouble = self._elsewhere()
        plan: dict[str, Any] = {
            "step": job.step, "bytes": job.plan.length, "replicas": job.plan.signature,
            "trouble": job.trouble if job.plan is NOTHING else trouble, "newest": newest,
        }  # fmt: skip
        plans = self._ranks.allgather(plan)
        if trouble := first_trouble([one["trouble"] for one in plans]):
            return trouble
        for name, what in (("step", "steps"), ("replicas", "replicated state")):
            if len({one[name] for one in plans}) > 1:
                values = ", ".join(f"rank {rank}: {one[name]}" for rank, one in enumerate(plans))
                return f"ranks gave different {what} ({values}); give the same state and step on all ranks"
        if self._memories is not None:
            each = [math.inf if self._failed else up(one["bytes"], PAGE) for one in plans]
            self._memories.make_room(each, self._ranks, self._keep)
        begun, trouble = ("", 0), ""
        if self._ranks.rank == 0:
            try:
                if self._memories is None:
                    size = math.inf if self._failed else sum(up(one["bytes"], PAGE) for one in plans)
                    make_room(self._folder, self._keep, size, names_of(len(plans)))
                serial, path = versions.begin(self._folder, job.step, max(one["newest"] for one in plans))
                begun = path.name, serial
            except Exception as error:
                trouble = cannot(error, self._folder)
        begun, trouble = self._ranks.allgather((begun, trouble))[0]
        if trouble:
            return trouble
        path = self._folder / begun[0]
        files = self._files if self._memories is None else self._ranks.size
        where, sizes = places([one["bytes"] for one in plans], files)
        answers = self._ranks.allgather(self._write(job, path, where[self._ranks.rank]))
        return self._commit(job, path, begun[1], answers, sizes)

    def _write(self, job: Job, path: Path, place: Place) -> dict[str, Any]:
        """Write this rank's stream and index; returns what the others must know."""
        rank, digests, votes = self._ranks.rank, [0] * len(job.plan.blocks), [0] * len(job.plan.blocks)
        trouble, stream = "", None
        name, index = f"data-{place.file}.bin", f"index-{rank}.json"
        try:
            if self._memories is not None:  # rank 0 has made it on its own node only
                path.mkdir(mode=0o700, exist_ok=True)
            file = File(path / name, place, job.plan.length)
            try:
                self._write_blocks(job, file, digests, votes)
                file.sync()
            finally:
                file.close()
            text = job.plan.index.filled(job.plain)
            raw = text.encode()
            if len(raw) > INDICES:
                raise CheckpointError(
                    f"what the state holds beside its arrays takes {len(raw):,} bytes as JSON, and may "
                    f"take {INDICES:,}; give what is large as arrays"
                )
            versions.write_synced(path / index, text)
            sync(path)
            stream = Stream(
                name, place.offset, job.plan.length, tuple(digests), index, len(raw), hashlib.sha256(raw).hexdigest()
            )
        except Exception as error:
            trouble = cannot(error, path)
        if not job.released:  # a program that did not wait may have been changing the state when the capture ended
            job.check()
        if job.plan.checked:
            job.votes[rank] = votes[
                : len(blocks(job.plan.shares[rank], share_bytes(job.plan.shares[rank]), self._ring.block))
            ]
        voted = [job.votes.get(one, []) for one in range(self._ranks.size)]
        return {"trouble": trouble or job.trouble, "stream": stream, "votes": voted}

    def _write_blocks(self, job: Job, file: File, digests: list[int], votes: list[int]) -> None:
        troubles: list[Exception] = []

        def work() -> None:
            calm(self._niceness)
            while (found := self._next(job)) is not None:
                index, slot, _ = found
                try:
                    if not troubles:
                        self._write_block(job, file, index, slot, digests, votes)
                except Exception as error:
                    troubles.append(error)
                finally:
                    self._ring.give(slot)

        others = [threading.Thread(target=work, name="checkpoint-write", daemon=True) for _ in range(WRITERS - 1)]
        for other in others:
            other.start()
        work()
        for other in others:
            other.join()
        if troubles:
            raise troubles[0]

    def _write_block(self, job: Job, file: File, index: int, slot: int, digests: list[int], votes: list[int]) -> None:
        size, parts = job.block_bytes(index, self._ring.block), job.plan.blocks[index]
        padded = up(size, PAGE)
        clear(self._ring.address(slot), parts, padded)
        view = self._ring.view(slot, padded)
        digests[index] = crc32(view[:size])
        if job.plan.checked:
            votes[index] = digest(view, [part for part in parts if part.array < job.plan.replicas])
        if self._memory is None:
            self._pace.wait(padded)
        file.write(view, index * self._ring.block)

    def _commit(self, job: Job, path: Path, serial: int, answers: list[dict[str, Any]], sizes: list[int]) -> str:
        """Rank 0 decides and tells the others."""
        trouble, manifest = "", None
        if self._ranks.rank == 0:
            trouble = first_trouble([one["trouble"] for one in answers])
            if not trouble and (dissents := compare([one["votes"] for one in answers])):
                trouble = explain(dissents, _disputed(job, dissents, self._ring.block))
            if not trouble:
                streams = tuple(one["stream"] for one in answers)
                files = {f"data-{number}.bin": size for number, size in enumerate(sizes)}
                manifest = Manifest(serial, job.step, versions.now(), self._ring.block, files, streams)
            if manifest is not None and self._memories is None:
                try:
                    versions.commit(path, manifest)
                except Exception as error:
                    trouble = cannot(error, self._folder)
                else:
                    tidied(self._folder, self._keep)
            if trouble and self._memories is None:
                versions.drop(path)
        trouble, text = self._ranks.allgather((trouble, _text(manifest, self._memories)))[0]
        if self._memories is not None:
            if trouble and self._memories.nodes.is_agent:
                versions.drop(path)
            if not trouble:
                manifest = versions.parsed(text, path / versions.MANIFEST)
                trouble = self._memories.commit(path, manifest, self._ranks, self._pace, self._keep)
        if trouble or self._memory is None:
            return trouble or self._spread(versions.name_of(serial, job.step))
        self._newest = versions.name_of(serial, job.step)
        self._count += 1
        return self.copy() if self._count % self._every == 0 else ""

    def _elsewhere(self) -> tuple[int, str]:
        """The number of the newest version that is not in rank 0's first folder, and why that cannot be found out."""
        try:
            behind = versions.newest(self._storage) if self._ranks.rank == 0 else 0
            behind = max(behind, self._archive.newest() if self._archive is not None else 0)
            return max(behind, self._memories.newest() if self._memories is not None else 0), ""
        except OSError as error:
            return 0, cannot(error, self._storage)

    def copy(self) -> str:
        """Copy the newest version in memory to storage, if it is not there; returns why that failed. Collective."""
        name, self._newest = self._newest, ""
        if self._memory is None or not name:
            return ""
        trouble = levels.copy(
            name, self._memory, self._storage, self._ranks, self._pace, self._keep,
            files=self._files, leaders=self._leaders, failed=self._failed,
        )  # fmt: skip
        return f"it is in memory only: {trouble}" if trouble else self._spread(name)

    def _spread(self, name: str) -> str:
        """Spread a version that is on storage over the places of the archive; returns why that failed. Collective."""
        if not self._spreads:
            return ""
        trouble = ""
        if self._archive is not None:
            try:
                path = self._storage / name
                manifest = versions.read_manifest(path)
                self._archive.add(versions.Version(path, manifest.serial, manifest.step))
            except Exception as error:
                trouble = f"it is in {self._storage} only: {cannot(error, self._storage)}"
        return self._ranks.allgather(trouble)[0]


def _text(manifest: Manifest | None, memories: object | None) -> str:
    """The facts of a version that other nodes must know."""
    return manifest.text() if manifest is not None and memories is not None else ""


def _disputed(job: Job, dissents: list[Dissent], block: int) -> list[str]:
    """The arrays in the blocks that ranks do not agree on."""
    found: dict[str, None] = {}
    for one in dissents:
        share = job.plan.shares[one.owner]
        for part in blocks(share, share_bytes(share), block)[one.block]:
            found[job.sources[part.array].spec.key] = None
    return list(found)
