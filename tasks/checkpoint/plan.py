"""From a state to a plan: its arrays, where their bytes go in this rank's stream, which are copied at once."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wilkins.tasks.checkpoint.capture import Job, Saved
from wilkins.tasks.checkpoint.errors import CheckpointError, Unsupported
from wilkins.tasks.checkpoint.index import IndexText
from wilkins.tasks.checkpoint.layout import Part, append, blocks, share_bytes, shares
from wilkins.tasks.checkpoint.outline import Outline, aliases, is_lazy, looks, outline
from wilkins.tasks.checkpoint.sources import Shard, Source, Spec, source_of
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


@dataclass(frozen=True, slots=True)
class _Known:
    """A state that was described: what is the same for the next one that looks like it. It keeps no array alive."""

    seen: tuple[list[Any], list[tuple[Any, ...]], list[int]] | None
    """Its form, its arrays' looks and aliases; None if it is to be described anew each time."""
    specs: list[Spec]
    """The replicated ones first, each array once."""
    leaves: list[int]
    """Where each of them stands among the outline's arrays."""
    eager: list[int]
    """Numbers of those that are copied at once."""
    replicas: int
    device: Any
    """The GPU that has arrays of it, or None."""
    layout: _Layout
    index: IndexText

    def fits(self, found: Outline) -> bool:
        """Whether a state differs from this one in values and addresses only."""
        if self.seen is None:
            return False
        form, looked, same = self.seen
        return found.form == form and looks(found.arrays) == looked and aliases(found.arrays) == same

    def sources(self, arrays: list[Any]) -> list[Source]:
        """The same of a state that fits."""
        return [
            Source(spec, arrays[leaf].detach(), arrays[leaf]._version)
            if spec.library == "torch"
            else Source(spec, arrays[leaf], None)
            for spec, leaf in zip(self.specs, self.leaves, strict=True)
        ]


class Planner:
    """Plans the versions of one rank."""

    def __init__(
        self, rank: int, size: int, *, replicated: Sequence[str], eager: Sequence[str], vote: bool, block: int
    ) -> None:
        self._rank, self._size = rank, size
        self._replicated, self._eager = tuple(replicated), tuple(eager)
        self._vote, self._block = vote, block
        self._known: _Known | None = None

    def plan(self, step: int, state: Any, began: float) -> Job:
        """What is to be captured of a state.

        Raises:
            Unsupported: the state holds what cannot be kept exactly.
        """
        if not isinstance(step, int) or step < 0:
            raise CheckpointError(f"step {step!r} cannot be saved; number steps 0, 1, ...")
        known, found = self._known, outline(state)
        plain: list[Any] | None = None
        if known is not None and found is not None and known.fits(found):
            sources, plain = known.sources(found.arrays), found.plain
        else:
            known, sources = self._describe(state, found)
            self._known = known
        for number in known.eager:
            sources[number].freeze()
        laid = known.layout
        ready = None
        if known.device is not None:
            import torch

            ready = (known.device, torch.cuda.current_stream(known.device).record_event())
        return Job(
            step,
            Saved(step),
            known.index,
            plain,
            sources,
            laid.blocks,
            laid.length,
            known.replicas,
            laid.shares,
            laid.own,
            laid.checked,
            began,
            ready,
        )

    def _describe(self, state: Any, found: Outline | None) -> tuple[_Known, list[Source]]:
        """Name, describe and lay out a state's arrays."""
        sources: list[Source] = []
        leaves: list[int] = []
        references: list[dict[str, int]] = []
        met: list[Any] = []
        numbers: dict[Any, int] = {}

        def leaf(key: str, value: Any) -> dict[str, int]:
            source = source_of(key, value, replica=bool(self._replicated) and matches(key, self._replicated))
            same = _identity(source)
            number = len(sources) if same is None else numbers.setdefault(same, len(sources))
            if number == len(sources):
                sources.append(source)
                leaves.append(len(met))
            met.append(value.array if isinstance(value, Shard) else value)
            references.append({"array": number})
            return references[-1]

        tree = encode(state, leaf)
        order = sorted(range(len(sources)), key=lambda one: sources[one].spec.placement != "replica")
        final = {old: new for new, old in enumerate(order)}
        for reference in references:
            reference["array"] = final[reference["array"]]
        sources, leaves = [sources[one] for one in order], [leaves[one] for one in order]
        specs = [one.spec for one in sources]
        replicas = sum(one.placement == "replica" for one in specs)
        before = self._known
        laid = before.layout if before is not None and before.specs == specs else self._lay_out(specs, replicas)
        devices = {one.value.device for one in sources if one.on_device}
        if len(devices) > 1:
            names = ", ".join(sorted(map(str, devices)))
            raise Unsupported(f"the state is on several devices ({names}); give each a Checkpointer")
        eager = [
            number
            for number, one in enumerate(specs)
            if one.nbytes <= EAGER or (self._eager and matches(one.key, self._eager))
        ]
        index = IndexText(tree, specs, self._rank, laid.shares, laid.own)
        seen = _seen(found, met)
        return _Known(seen, specs, leaves, eager, replicas, next(iter(devices), None), laid, index), sources

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


def _seen(found: Outline | None, met: list[Any]) -> tuple[list[Any], list[tuple[Any, ...]], list[int]] | None:
    """What to recognise a state by, whose arrays were `met` when it was described; None if that is not safe."""
    if (
        found is None
        or len(found.arrays) != len(met)
        or any(a is not b for a, b in zip(found.arrays, met, strict=True))
    ):
        return None
    looked = looks(met)
    if looked is None or any(map(is_lazy, looked)):
        return None
    return found.form, looked, aliases(met)


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
