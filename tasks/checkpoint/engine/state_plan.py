"""From a state to a plan: its arrays, where their bytes go in this rank's stream, which are copied at once."""

from __future__ import annotations

import fnmatch
import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from wilkins.tasks.checkpoint.engine.capture import Job, Plan
from wilkins.tasks.checkpoint.engine.index import IndexText
from wilkins.tasks.checkpoint.errors import CheckpointError, Unsupported
from wilkins.tasks.checkpoint.state.copies import Chosen, Copies, Pool, chosen
from wilkins.tasks.checkpoint.state.garbage import uncollected
from wilkins.tasks.checkpoint.state.outline import Outline, outline
from wilkins.tasks.checkpoint.state.sources import (
    Shard,
    Source,
    Spec,
    address_of,
    is_tensor,
    source_of,
)
from wilkins.tasks.checkpoint.state.survey import Form, addresses_if, aliases, is_lazy, look, survey
from wilkins.tasks.checkpoint.state.tree import array_references, encode
from wilkins.tasks.checkpoint.state.watch import Watch
from wilkins.tasks.checkpoint.storage.layout import append, blocks, share_bytes, shares

EAGER = 65536
"""Arrays up to this size in bytes are copied at `save`: running statistics, counters, random state."""

TRIES = 10
"""Attempts to copy a small array that a thread is changing."""

Leaf = tuple[str, Any]
"""Path and value of an array, a tensor or a `Shard`."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A state that was described: what is the same for the next one that looks like it. It keeps no array alive.

    All but `firsts`, `specs` and `plan` is of arrays as they are met in the state, one after the other.
    """

    outline: list[Any]
    form: Form
    addresses: list[int]
    aliases: list[int]
    """Of the addresses."""
    devices: set[Any]
    keys: list[str]
    """Paths."""
    chosen: Chosen
    trusted: set[int]
    """The arrays that `trusted` names."""
    firsts: list[int]
    """Where each array of the plan is met first."""
    specs: list[Spec]
    plan: Plan


class _Taken(NamedTuple):
    """How `save` sees to it that what is captured later is what it was handed: of each array, by its place."""

    addresses: list[int]
    copies: dict[int, Any]
    """Copies of the arrays that may change at once: addresses in the planner's pool, or arrays."""
    watch: Watch
    """Watches the other arrays, as far as that is possible."""
    exposed: bool
    """Some array has neither, and the program has not promised to leave it alone."""
    promised: set[int]
    """Arrays with neither, if the program has promised to leave all of them unchanged."""

    def place(self, source: Source, place: int) -> None:
        """Let it be read where it is."""
        address = self.addresses[place]
        source.stand(address, self.watch if self.watch.covers(address, source.spec.nbytes) else None)


class _Held(NamedTuple):
    """A state that is captured by the plan of a known one: of its arrays that are not copied, by their places."""

    arrays: dict[int, Any]
    """Views of the program's own: what it makes of those, another shape or type, or other memory, is not seen here."""
    versions: dict[int, int | None]
    """torch's counts of changes in place."""
    taken: _Taken


class Planner:
    """Plans the versions of one rank.

    A state of the same form as the one before is captured by the plan of that one.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        replicated: Sequence[str],
        eager: Sequence[str],
        vote: bool,
        block: int,
        trusted: Sequence[str] = (),
    ) -> None:
        self._rank, self._size = rank, size
        self._replicated, self._eager, self._trusted = tuple(replicated), tuple(eager), tuple(trusted)
        self._vote, self._block = vote, block
        self._known: _Known | None = None
        self._planned: tuple[list[Spec], Plan] | None = None
        self._pool = Pool()

    @uncollected()
    def plan(self, step: int, state: Any, began: float) -> Job:
        """What is to be captured of a state; the one before must have been captured.

        Raises:
            Unsupported: the state holds what cannot be kept exactly.
            CheckpointError: a thread changes the state while this looks at it.
        """
        known, found = self._known, outline(state)
        if known is not None and found is not None and known.outline == found.form:
            held = _hold(known, found.arrays, self._pool)
            if held is not None:
                later = partial(_settle, known=known, held=held)
                job = Job(step, began, found.plain, _ready(known.devices), later, held.taken.watch, held.taken.exposed)
                job.promised = [known.keys[place] for place in sorted(held.taken.promised)]
                return job

        leaves: list[Leaf] = []

        def leaf(key: str, value: Any) -> dict[str, int]:
            leaves.append((key, value))
            return {"array": -1}

        tree = encode(state, leaf)
        sources, firsts, plan = self._describe(tree, leaves)
        self._remember(found, leaves, firsts, sources, plan)
        keys = [one.spec.key for one in sources]
        try:
            eager, trusted = _named(keys, self._eager), _named(keys, self._trusted)
            arrays = [one.value for one in sources]
            at = survey(arrays)
            taken = _take(arrays, at.addresses, chosen(at, eager, EAGER), trusted, self._pool)
        except CheckpointError:
            self._known = None  # nothing is captured of it, so that the next state is the first one again
            raise
        for place, source in enumerate(sources):
            if place in taken.copies:
                source.take(taken.copies[place])
            else:
                taken.place(source, place)
        ready = _ready({one.value.device for one in sources if one.on_device})
        job = Job(step, began, None, ready, None, taken.watch, taken.exposed)
        job.promised = [keys[place] for place in sorted(taken.promised)]
        job.settled(plan, sources)
        return job

    def _describe(self, tree: Any, leaves: list[Leaf]) -> tuple[list[Source], list[int], Plan]:
        """Name, describe and lay out a state's arrays, and number them in its tree.

        Returns each array once, the replicated ones first; where each is met first; and the plan.
        """
        sources: list[Source] = []
        firsts: list[int] = []
        numbers: list[int] = []
        known: dict[Any, int] = {}
        keys: set[str] = set()
        for place, (key, value) in enumerate(leaves):
            if key in keys:
                raise Unsupported(
                    f"{key}: two arrays have this path, as by keys with a slash, or 1 beside '1'; rename one"
                )
            keys.add(key)
            source = source_of(key, value, replica=bool(self._replicated) and matches(key, self._replicated))
            same = _identity(source)
            numbers.append(len(sources) if same is None else known.setdefault(same, len(sources)))
            if numbers[-1] == len(sources):
                sources.append(source)
                firsts.append(place)
        devices = {one.value.device for one in sources if one.on_device}
        if len(devices) > 1:
            names = ", ".join(sorted(map(str, devices)))
            raise Unsupported(f"the state is on several devices ({names}); give each a Checkpointer")
        order = sorted(range(len(sources)), key=lambda one: sources[one].spec.placement != "replica")
        final = {old: new for new, old in enumerate(order)}
        for reference, number in zip(array_references(tree), numbers, strict=True):
            reference["array"] = final[number]
        sources = [sources[one] for one in order]
        return sources, [firsts[one] for one in order], self._plan(tree, [one.spec for one in sources])

    def _plan(self, tree: Any, specs: list[Spec]) -> Plan:
        if self._planned is None or self._planned[0] != specs:
            self._planned = specs, self._lay_out(tree, specs)
        plan = self._planned[1]
        return replace(plan, index=IndexText(tree, specs, self._rank, plan.shares, plan.own))

    def _lay_out(self, tree: Any, specs: list[Spec]) -> Plan:
        replicas = sum(one.placement == "replica" for one in specs)
        parts = shares([one.nbytes for one in specs[:replicas]], self._size)
        mine = parts[self._rank]
        own, end = append(share_bytes(mine), [(n, one.nbytes) for n, one in enumerate(specs) if n >= replicas])
        length = max(end, share_bytes(mine))
        checked = [
            (rank, blocks(share, share_bytes(share), self._block))
            for rank, share in enumerate(parts)
            if self._vote and rank != self._rank
        ]
        index = IndexText(tree, specs, self._rank, parts, own)
        replicated = [(one.key, one.dtype, one.shape) for one in specs[:replicas]]
        signature = f"{replicas} arrays, {hashlib.sha256(repr(replicated).encode()).hexdigest()[:12]}"
        laid = blocks([*mine, *own], length, self._block)
        return Plan(index, laid, length, replicas, parts, own, checked, signature)

    def _remember(
        self, found: Outline | None, leaves: list[Leaf], firsts: list[int], sources: list[Source], plan: Plan
    ) -> None:
        """Remember a state, to recognise the next one by it if that is safe."""
        self._known = None
        arrays = [value.array if isinstance(value, Shard) else value for _, value in leaves]
        if found is None or list(map(id, found.arrays)) != list(map(id, arrays)):
            return
        looked = look(arrays)
        if looked is None or is_lazy(looked[0]):
            return
        at, keys = survey(arrays), [key for key, _ in leaves]
        self._known = _Known(
            found.form,
            *looked,
            aliases(looked[1]),
            {one.device for one in arrays if type(one) is not np.ndarray},
            keys,
            chosen(at, _named(keys, self._eager), EAGER),
            _named(keys, self._trusted),
            firsts,
            [one.spec for one in sources],
            plan,
        )


def _hold(known: _Known, arrays: list[Any], pool: Pool) -> _Held | None:
    """Hold on to arrays, and copy those that may change at once; None if they are other ones than those known."""
    which, addresses = known.chosen, addresses_if(known.form, arrays)
    if addresses is None:
        return None
    if addresses != known.addresses and (
        aliases(addresses) != known.aliases
        or any(nbytes and not address for address, nbytes in zip(addresses, which.nbytes, strict=True))
    ):
        return None
    others = [(one, arrays[one]) for one in which.others]
    views = {place: one.view() if type(one) is np.ndarray else one.detach() for place, one in others}
    versions = {place: None if type(one) is np.ndarray else one._version for place, one in others}
    return _Held(views, versions, _take(arrays, addresses, which, known.trusted, pool))


@uncollected()
def _settle(job: Job, known: _Known, held: _Held) -> None:
    """Tell what is to be captured of a state that was held on to."""
    taken, sources = held.taken, []
    for spec, first in zip(known.specs, known.firsts, strict=True):
        source = Source(spec, held.arrays.get(first), held.versions.get(first))
        if first in taken.copies:
            source.take(taken.copies[first])
        else:
            taken.place(source, first)
        sources.append(source)
    job.settled(known.plan, sources)


def _take(arrays: list[Any], addresses: list[int], which: Chosen, trusted: set[int], pool: Pool) -> _Taken:
    """Copy the arrays that may change at once, and watch the others.

    All are taken as they are at one moment, even if a thread writes: after the last of the large ones is watched, and
    before the small ones are found to be what their copies are.

    Raises:
        CheckpointError: small arrays change all the time.
    """
    copies = Copies(arrays, addresses, which, pool)
    pinned = _may_be_pinned()
    watch = Watch(
        (addresses[place], which.nbytes[place])
        for place in which.others
        if which.in_main_memory[place] and not (pinned and is_tensor(arrays[place]) and arrays[place].is_pinned())
    )
    for _ in range(TRIES):
        if not (watch.moved() or copies.differ()):
            break
        copies.renew()
    else:
        raise CheckpointError(
            "the state cannot be saved: a thread of the program changes it all the time; let it wait until save returns"
        )
    unseen = {place for place in which.others if not watch.covers(addresses[place], which.nbytes[place])}
    exposed = not trusted.issuperset(unseen)
    return _Taken(addresses, copies.of, watch, exposed, set() if exposed else unseen)


def _may_be_pinned() -> bool:
    """Whether a GPU may write to main memory by itself, unseen."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def _named(keys: Sequence[str], patterns: tuple[str, ...]) -> set[int]:
    return {place for place, key in enumerate(keys) if matches(key, patterns)} if patterns else set()


def _ready(devices: Iterable[Any]) -> Any:
    """The GPU among the devices, and an event on its compute stream; None if there is none."""
    for device in devices:
        if device.type != "cpu":
            import torch

            return device, torch.cuda.current_stream(device).record_event()
    return None


@lru_cache(maxsize=100_000)
def matches(key: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path matches a pattern, or stands below a name."""
    return any(fnmatch.fnmatchcase(key, one) or key.startswith(f"{one}/") for one in patterns)


def _identity(source: Source) -> Any:
    """A key that is the same for two references to the same values, such as tied weights; None without an address."""
    spec, value = source.spec, source.value
    if spec.placement == "shard" or not spec.nbytes:
        return None
    strides = value.stride() if spec.library == "torch" else value.strides
    place = source.origin or (address_of(value), strides)
    return (place, spec.dtype, spec.shape, spec.placement, spec.parameter, spec.grad)
