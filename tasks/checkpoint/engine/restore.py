"""Restoring: the newest version that verifies on all ranks, whole or in part, onto any number of ranks."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wilkins.tasks.checkpoint.engine.state_plan import matches
from wilkins.tasks.checkpoint.errors import CheckpointError, Damaged
from wilkins.tasks.checkpoint.state.garbage import uncollected
from wilkins.tasks.checkpoint.state.sources import (
    Bytes,
    Shard,
    Spec,
    bytes_of,
    empty,
    finished,
    fits_plainly,
    is_tensor,
    numpy_dtype,
    source_of,
)
from wilkins.tasks.checkpoint.state.tree import MISSING, arrays_in, decode, leaves
from wilkins.tasks.checkpoint.storage.clearing import misnamed
from wilkins.tasks.checkpoint.storage.contents import Contents, Entry, Index
from wilkins.tasks.checkpoint.storage.versions import Version, versions
from wilkins.tasks.group import Group, first_trouble

_LOG = logging.getLogger("wilkins.checkpoint")


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored.

    On as many ranks as saved it, each rank gets what it saved. On another number of ranks, a rank gets the plain
    values of the rank of its number (modulo the old number), replicas, the whole of shards, and its own arrays if a
    rank of its number saved some, or all ranks saved the same, such as an optimizer's count of steps; what it does not
    get is in `missing`. With a state to be filled, shards fill the boxes that are asked for.
    """

    step: int
    path: Path
    """The version's folder: in memory, or on storage."""
    state: Any
    """As it was handed to `save`; holds the arrays of the state that was given to be filled, where there was one."""
    missing: tuple[str, ...]
    """Paths of arrays that this rank would have and that the version does not hold for it.

    Of a state that is to be filled, `allow_missing` names them.
    """
    skipped: tuple[str, ...]
    """Newer versions that do not verify, and why."""
    ranks: int
    """How many saved it."""


class Elsewhere(Protocol):
    """A version that is not in a folder that all ranks see."""

    name: str
    serial: int
    step: int
    where: str
    """In which words it is told where the version is: in memory."""

    def fetch(self) -> tuple[Version | None, str]:
        """Bring it to storage; returns it, or why that cannot be. Collective."""


def _order(one: tuple[int, int, Any]) -> tuple[int, int]:
    return one[:2]


def restore(
    folders: Sequence[Path],
    ranks: Group,
    state: Any = None,
    *,
    step: int | None = None,
    only: Sequence[str] | None = None,
    allow_missing: Sequence[str] = (),
    elsewhere: Sequence[Elsewhere] = (),
    older: bool = True,
) -> Restored | None:
    """The newest version that verifies on all ranks, or that of a step. Collective.

    Args:
        folders: those of the levels, the one to be preferred first.
        elsewhere: versions that have to be brought to the last of these first; the same on all ranks.
        ranks: those that restore; each gets its part.
        state: arrays, tensors and shards to be filled in place, in dicts, lists and tuples like those that were saved.
        step: this version and no other.
        only: patterns of paths; all else is left out.
        allow_missing: patterns of paths of arrays that only `state` or only the version may hold. The former stay as
            they are and are listed in `missing`, the latter are in the state that is returned.
        older: whether an older version stands in for a newer one that does not verify.

    Raises:
        CheckpointError: there are versions and none verifies; there is none of that step; `state` has arrays of other
            kinds or shapes, or some array is in it or in the version only: then nothing of it was filled.
    """
    folder = folders[-1]
    # Oldest first; of one number, the version of the level that is preferred comes last.
    every = [(one.serial, -level, one) for level, where in enumerate(folders) for one in versions(where)]
    if len(set(ranks.allgather(tuple(str(one.path) for _, _, one in sorted(every, key=_order))))) > 1:
        raise CheckpointError(f"ranks do not see the same versions in {folder}; give a folder that all of them share")
    away = [(one.serial, -len(folders), one) for one in elsewhere]
    both: list[tuple[int, int, Version | Elsewhere]] = [*every, *away]
    found = [one for _, _, one in sorted(both, key=_order)]
    if step is not None:
        found = [one for one in found if one.step == step]
        if not found:
            raise CheckpointError(f"{folder} holds no version of step {step}; `wilkins ckpt list {folder}` lists them")
    if not older:
        found = [one for one in found if one.serial == found[-1].serial]
    skipped: list[str] = []
    for one in reversed(found):
        version, trouble = (one, "") if isinstance(one, Version) else one.fetch()
        with contextlib.ExitStack() as stack:
            contents, made = None, None
            if version is not None:
                try:
                    contents = stack.enter_context(Contents(version.path))
                    misnamed(version, contents)
                    # What is made anew is read before it is known whether all of the version is whole: it is read once.
                    made = _made(contents, ranks, only) if state is None else None
                    _verify(contents, ranks)
                except Damaged as error:
                    trouble = str(error)
                trouble = first_trouble(ranks.allgather(trouble))
            if version is not None and contents is not None and not trouble:
                return _load(version, contents, ranks, state, only, tuple(allow_missing), tuple(skipped), made)
        if version is not None and any(ranks.allgather(not version.path.exists())):
            # It was pruned since it was listed: who does that has newer ones.
            return restore(
                folders, ranks, state,
                step=step, only=only, allow_missing=allow_missing, elsewhere=elsewhere, older=older,
            )  # fmt: skip
        skipped.append(f"{one.name}: {trouble}")
        if ranks.rank == 0:
            where = one.path if isinstance(one, Version) else version.path if version else f"{one.name} {one.where}"
            _LOG.warning("the checkpoint %s is left out: %s", where, trouble)
    if skipped:
        cure = ""
        if step is None and older:
            others = " and those ".join(sorted({one.where for one in elsewhere}))
            what = f"the folder, and those {others}," if elsewhere else "the folder,"
            cure = f"; to begin anew, remove {what} or save into another"
        elif step is None:
            cure = "; remove it to go on from an older one"
        raise CheckpointError(f"no version in {folder} verifies: {'; '.join(skipped)}{cure}")
    return None


def read_rank(path: Path, rank: int, only: Sequence[str] | None = None) -> Any:
    """What a rank saved in a version, read by whoever asks; every byte of it is compared with its digest.

    Raises:
        Damaged: it is not what was written.
    """
    with Contents(path) as contents:
        return _Loader(contents, rank, contents.ranks, None, only).load()[0]


def _made(contents: Contents, ranks: Group, only: Sequence[str] | None) -> tuple[Any, tuple[str, ...]] | None:
    """A rank's new state, and what it lacks; None if it cannot be made for another reason than damage.

    Raises:
        Damaged: what it takes is not what was written.
    """
    try:
        return _Loader(contents, ranks.rank, ranks.size, None, only).load()
    except Damaged:
        raise
    except CheckpointError:
        return None  # `_load` comes to it again, and all ranks hear of it


def _verify(contents: Contents, ranks: Group) -> None:
    """Verify what was not read yet; ranks share it.

    Raises:
        Damaged: something is not what was written.
    """
    mine = range(ranks.rank, contents.ranks, ranks.size)
    contents.verify(mine)
    for rank in mine:
        contents.index(rank)


def _load(
    version: Version,
    contents: Contents,
    ranks: Group,
    state: Any,
    only: Sequence[str] | None,
    allowed: tuple[str, ...],
    skipped: tuple[str, ...],
    made: tuple[Any, tuple[str, ...]] | None,
) -> Restored:
    trouble, loader = "", None
    found, missing = made or (None, ())
    try:
        loader = _Loader(contents, ranks.rank, ranks.size, state, only)
        trouble = "" if state is None else loader.misfit(allowed)
    except CheckpointError as error:
        trouble = str(error)
    trouble = first_trouble(ranks.allgather(trouble))  # before any rank has changed anything
    if not trouble and loader is not None:
        try:
            if made is None:
                found, missing = loader.load()
        except CheckpointError as error:
            trouble = str(error)
        trouble = first_trouble(ranks.allgather(trouble))
    if trouble:
        raise CheckpointError(f"the checkpoint {version.name} cannot be restored: {trouble}")
    return Restored(version.step, version.path, found, missing, skipped, contents.ranks)


def _by_path(pairs: Iterable[tuple[str, Any]], what: str) -> dict[str, Any]:
    """Arrays by their paths.

    Raises:
        CheckpointError: two have the same.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise CheckpointError(
                f"{key}: two arrays of {what} have this path (keys with a slash, or 1 beside '1'); restore without "
                "a state, and take them from what is returned"
            )
        found[key] = value
    return found


class _Loader:
    """Makes one rank's state."""

    def __init__(self, contents: Contents, rank: int, size: int, state: Any, only: Sequence[str] | None) -> None:
        self._contents = contents
        self._rank = rank
        self._same = size == contents.ranks
        self._only = only
        self._index = contents.index(rank % contents.ranks)
        self._targets = {} if state is None else _by_path(arrays_in(state), "the state")
        if state is not None:
            saved = ((key, one) for key, one in leaves(self._index.tree) if isinstance(one, dict) and "array" in one)
            _by_path(saved, "the version")
        self._missing: list[str] = []
        self._reads: list[tuple[Entry, Bytes]] = []
        """What is to be read, all at once."""
        self._later: list[Callable[[], None]] = []
        """What is to be done then."""
        self._alike: dict[str, bool] = {}
        self._plain: dict[str, Bytes] = {}
        """The memory of those of the state's arrays that take what was saved as it stands in the file."""
        self._given: dict[str, Spec] = {}
        """What the others are."""
        self._places = [(key, target, self._found(key)) for key, target in self._targets.items() if self._wanted(key)]
        """The state's arrays, and what was saved of each, if anything was."""

    @uncollected()
    def misfit(self, allowed: tuple[str, ...]) -> str:
        """Why the state cannot be filled: arrays of other kinds, or in it or in the version only; empty if it can."""
        for key, target, entry in self._places:
            if entry is None:
                continue
            if fits_plainly(entry.spec, target):
                self._plain[key] = bytes_of(target)
            else:
                self._given[key] = source_of(key, target, replica=False).spec
                _compare(key, entry.spec, self._given[key])
        entries, paths = self._index.entries, self._index.paths
        absent = [key for key, _, entry in self._places if entry is None]
        placed = {paths[key] for key in self._targets if key in paths}
        left = [
            key
            for key, number in paths.items()
            if number not in placed and self._wanted(key) and self._has(entries[number])
        ]
        misfits = [
            f"{what}: {', '.join(bad[:5])}{f' and {len(bad) - 5} more' if len(bad) > 5 else ''}"
            for what, keys in (("the version does not hold for it", absent), ("it has no place for", left))
            if (bad := [key for key in keys if not matches(key, allowed)])
        ]
        if not misfits:
            return ""
        return (
            f"the state does not fit; {'; '.join(misfits)}. Give a state with the same arrays as the "
            "one that was saved, or name in allow_missing= what may be in one of them only"
        )

    def load(self) -> tuple[Any, tuple[str, ...]]:
        """What this rank gets, and the paths of what it does not get; of a state that is filled, after `misfit`."""
        state = self._laid_out()
        self._contents.read_all(self._reads)
        for finish in self._later:
            finish()
        return state, tuple(self._missing)

    @uncollected()
    def _laid_out(self) -> Any:
        """What this rank gets, but for what is in `_reads` and `_later`."""
        filled: dict[int, Any] = {}
        for key, target, entry in self._places:
            if entry is None:
                self._missing.append(key)
                continue
            if (memory := self._plain.get(key)) is not None:
                self._reads.append((entry, memory))
            else:
                self._fill(key, entry, target)
            if key in self._index.paths:
                filled[self._index.paths[key]] = target

        def leaf(number: int) -> Any:
            if number not in filled:
                filled[number] = self._new(self._index.entries[number])
            return filled[number]

        return decode(self._index.tree, leaf, self._wanted)

    def _wanted(self, key: str) -> bool:
        if self._only is None:
            return True
        return matches(key, tuple(self._only))

    def _found(self, key: str) -> Entry | None:
        """What this rank gets under a path: of its own, or its box of what other ranks hold."""
        number = self._index.paths.get(key)
        if number is not None:
            entry = self._index.entries[number]
            return entry if self._has(entry) else None
        for index in map(self._contents.index, range(self._contents.ranks)):
            if key in index.paths and (entry := index.entries[index.paths[key]]).spec.placement == "shard":
                return entry
        return None

    def _has(self, entry: Entry) -> bool:
        """Whether this rank may get the array: a rank's own array is for it alone, unless all ranks had the same."""
        if entry.spec.placement != "local" or self._rank < self._contents.ranks:
            return True
        key = entry.spec.key
        if key not in self._alike:
            self._alike[key] = self._is_alike(key, entry)
        return self._alike[key]

    def _is_alike(self, key: str, entry: Entry) -> bool:
        """Whether all ranks saved the same values."""
        others = []
        for index in map(self._contents.index, range(self._contents.ranks)):
            if key not in index.paths or index.entries[index.paths[key]].spec != entry.spec:
                return False
            others.append(index.entries[index.paths[key]])
        mine = self._contents.read(entry)
        return all(np.array_equal(mine, self._contents.read(one)) for one in others)

    def _new(self, entry: Entry) -> Any:
        spec = entry.spec
        if not self._has(entry):
            self._missing.append(spec.key)
            return MISSING
        if spec.placement == "shard" and not self._same:
            check_boxes(self._contents, spec.key, spec)
            array, memory = empty(spec, spec.whole)
            fill_box(self._contents, spec.key, spec, _elements(memory, spec, spec.whole), (0,) * len(spec.whole))
            return finished(spec, array)
        array, memory = empty(spec, spec.shape)
        if spec.order:  # its axes are put in order when its bytes are there
            self._contents.read(entry, memory)
        else:
            self._reads.append((entry, memory))
        array = finished(spec, array)
        return Shard(array, spec.whole, spec.offsets) if spec.placement == "shard" else array

    def _fill(self, key: str, entry: Entry, target: Any) -> None:
        """Write what was saved to an array that the program has."""
        spec, given = entry.spec, self._given[key]
        array = _array_of(target)
        direct = array if is_tensor(array) and array.device.type == "cpu" and _is_plain(array) else None
        if direct is None and isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable:
            direct = array
        memory = np.empty(given.nbytes, np.uint8) if direct is None else bytes_of(direct)
        if spec.placement == "shard" and (given.shape, given.offsets) != (spec.shape, spec.offsets):
            fill_box(self._contents, key, spec, _elements(memory, spec, given.shape), given.offsets)
        else:
            self._reads.append((entry, memory))
        if direct is None:
            self._later.append(partial(_copy_back, array, memory, spec, given.shape))


def check_boxes(contents: Contents, key: str, spec: Spec) -> None:
    """See whether ranks saved enough of a sharded array to fill all of it, before memory is taken for that.

    Raises:
        CheckpointError: they did not.
    """
    saved = 0
    for rank in range(contents.ranks):
        index = contents.index(rank)
        if key in index.paths:
            saved += math.prod(index.entries[index.paths[key]].spec.shape)
    if saved < math.prod(spec.whole):
        raise CheckpointError(f"{key}: the ranks saved {saved} elements of an array of shape {spec.whole}, not all")


def _compare(key: str, spec: Spec, given: Spec) -> None:
    """Raise if what was saved cannot be written to an array that the program has."""
    if (given.library, given.dtype) != (spec.library, spec.dtype):
        raise CheckpointError(
            f"{key} was saved as {spec.library} {spec.dtype}, and is to be restored to {given.library} "
            f"{given.dtype}; give an array of the same type"
        )
    if given.whole != spec.whole:
        raise CheckpointError(f"{key} was saved with shape {spec.whole}, and is to be restored to {given.whole}")
    if spec.placement != "shard" and given.shape != spec.shape:
        raise CheckpointError(
            f"{key} was saved whole, with shape {spec.shape}, and is to be restored to a box of {given.shape}; save it "
            "as a Shard"
        )


def fill_box(contents: Contents, key: str, spec: Spec, box: NDArray[Any], offsets: Sequence[int]) -> None:
    """Fill a box of an array from the boxes that the ranks saved of it; `box` has elements of the right size.

    Raises:
        CheckpointError: ranks did not save all of it.
        Damaged: ranks saved other arrays under this name.
    """
    covered = np.zeros(box.shape, bool)
    for rank in range(contents.ranks):
        index: Index = contents.index(rank)
        if key not in index.paths:
            continue
        entry = index.entries[index.paths[key]]
        if entry.spec.placement != "shard" or entry.spec.whole != spec.whole or entry.spec.dtype != spec.dtype:
            raise Damaged(f"{key} was not saved alike by all ranks")
        cut = _overlap(offsets, box.shape, entry.spec.offsets, entry.spec.shape)
        if cut is None or covered[cut[0]].all():
            continue
        saved = np.empty(entry.spec.shape, box.dtype)
        contents.read(entry, saved.reshape(-1).view(np.uint8))
        box[cut[0]] = saved[cut[1]]
        covered[cut[0]] = True
    if not covered.all():
        raise CheckpointError(f"{key}: no rank saved all of the box of shape {box.shape} at {tuple(offsets)}")


def _overlap(
    offsets: Sequence[int], shape: Sequence[int], others: Sequence[int], other_shape: Sequence[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where two boxes meet, as slices of each; None if they do not."""
    mine, theirs = [], []
    for begin, size, other, other_size in zip(offsets, shape, others, other_shape, strict=True):
        low, high = max(begin, other), min(begin + size, other + other_size)
        if low >= high:
            return None
        mine.append(slice(low - begin, high - begin))
        theirs.append(slice(low - other, high - other))
    return tuple(mine), tuple(theirs)


def _elements(memory: Bytes, spec: Spec, shape: Sequence[int]) -> NDArray[Any]:
    """Bytes as elements of the right size, without regard to their type."""
    return memory.view(np.dtype(f"V{spec.itemsize}")).reshape(tuple(shape))


def _array_of(target: Any) -> Any:
    """The memory that a target of a restore stands for."""
    if isinstance(target, Shard):
        return _array_of(target.array)
    if is_tensor(target):
        target = target.detach()
        return target.to_local() if type(target).__name__ == "DTensor" else target
    return target


def _is_plain(tensor: Any) -> bool:
    """Whether its values are its memory's, one after the other; not if they are conjugated or negated when read."""
    return bool(tensor.is_contiguous()) and not tensor.is_conj() and not tensor.is_neg()


def _copy_back(array: Any, memory: Bytes, spec: Spec, shape: Sequence[int]) -> None:
    """Copy to memory that is not contiguous, or on a GPU."""
    if is_tensor(array):
        whole, data = empty(spec, shape)
        data[...] = memory
        try:
            array.copy_(whole)
        except RuntimeError as error:
            text = str(error).partition("\n")[0]
            raise CheckpointError(f"{spec.key} cannot be restored to this tensor: {text}") from error
    else:
        if not array.flags.writeable:
            raise CheckpointError(f"{spec.key} is to be restored to an array that may not be written; give another")
        array[...] = memory.view(numpy_dtype(spec.dtype)).reshape(tuple(shape))
