"""From a state to a plan: its arrays, where their bytes go in this rank's stream, which are copied at once."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wilkins.tasks.checkpoint.capture import Job, Saved
from wilkins.tasks.checkpoint.errors import CheckpointError, Unsupported
from wilkins.tasks.checkpoint.layout import Part, append, blocks, share_bytes, shares
from wilkins.tasks.checkpoint.sources import Source, Spec, source_of
from wilkins.tasks.checkpoint.tree import encode

EAGER = 65536
"""Arrays of at most so many bytes are copied when they are handed over: running statistics, counters, random state."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where bytes go; the same for all states with the same arrays."""

    shares: list[list[Part]]
    own: list[Part]
    length: int
    blocks: list[list[Part]]
    checked: list[tuple[int, list[list[Part]]]]


class Planner:
    """Plans the versions of one rank."""

    def __init__(
        self, rank: int, size: int, *, replicated: Sequence[str], eager: Sequence[str], vote: bool, block: int
    ) -> None:
        self._rank, self._size = rank, size
        self._replicated, self._eager = tuple(replicated), tuple(eager)
        self._vote, self._block = vote, block
        self._planned: tuple[list[Spec], _Layout] | None = None

    def plan(self, step: int, state: Any, began: float) -> Job:
        """What is to be captured of a state.

        Raises:
            Unsupported: the state holds what cannot be kept exactly.
        """
        if not isinstance(step, int) or step < 0:
            raise CheckpointError(f"step {step!r} cannot be saved; number steps 0, 1, ...")
        tree, sources = self._sources(state)
        specs = [one.spec for one in sources]
        replicas = sum(one.placement == "replica" for one in specs)
        if self._planned is None or self._planned[0] != specs:
            self._planned = specs, self._lay_out(specs, replicas)
        for source in sources:
            if source.spec.nbytes <= EAGER or (self._eager and matches(source.spec.key, self._eager)):
                source.freeze()
        laid = self._planned[1]
        job = Job(
            step,
            Saved(step),
            tree,
            sources,
            laid.blocks,
            laid.length,
            replicas,
            laid.shares,
            laid.own,
            laid.checked,
            began,
        )
        devices = {one.value.device for one in sources if one.on_device}
        if len(devices) > 1:
            names = ", ".join(sorted(map(str, devices)))
            raise Unsupported(f"the state is on several devices ({names}); give each a Checkpointer")
        for device in devices:
            import torch

            job.ready = (device, torch.cuda.current_stream(device).record_event())
        return job

    def _sources(self, state: Any) -> tuple[Any, list[Source]]:
        """The state as JSON, and its arrays: the replicated ones first, each once."""
        sources: list[Source] = []
        references: list[dict[str, int]] = []
        known: dict[Any, int] = {}

        def leaf(key: str, value: Any) -> dict[str, int]:
            source = source_of(key, value, replica=bool(self._replicated) and matches(key, self._replicated))
            same = _identity(source)
            number = len(sources) if same is None else known.setdefault(same, len(sources))
            if number == len(sources):
                sources.append(source)
            references.append({"array": number})
            return references[-1]

        tree = encode(state, leaf)
        order = sorted(range(len(sources)), key=lambda one: sources[one].spec.placement != "replica")
        number = {old: new for new, old in enumerate(order)}
        for reference in references:
            reference["array"] = number[reference["array"]]
        return tree, [sources[one] for one in order]

    def _lay_out(self, specs: list[Spec], replicas: int) -> _Layout:
        parts = shares([one.nbytes for one in specs[:replicas]], self._size)
        mine = parts[self._rank]
        own, end = append(share_bytes(mine), [(n, one.nbytes) for n, one in enumerate(specs) if n >= replicas])
        length = max(end, share_bytes(mine))
        checked = [
            (rank, blocks(share, share_bytes(share), self._block))
            for rank, share in enumerate(parts)
            if self._vote and rank != self._rank
        ]
        return _Layout(parts, own, length, blocks([*mine, *own], length, self._block), checked)


@lru_cache(maxsize=100_000)
def matches(key: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path matches a pattern, or stands below a name."""
    return any(fnmatch.fnmatchcase(key, one) or key.startswith(f"{one}/") for one in patterns)


def _identity(source: Source) -> Any:
    """What is the same for two references to the same values, such as tied weights; None for what has no address."""
    spec, value = source.spec, source.value
    if spec.placement == "shard" or not spec.nbytes:
        return None
    torch = spec.library == "torch"
    where = value.data_ptr() if torch else value.ctypes.data
    return (where, spec.dtype, spec.shape, value.stride() if torch else value.strides, spec.placement, spec.parameter)
