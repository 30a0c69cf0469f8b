"""Ranks of a task of which no process is left, while the task's other ranks run: nothing more comes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wilkins.launch.programs import process
from wilkins.transport.plan_table import RANK_VARIABLES


class Ranks:
    """The ranks that an mpiexec runs, as their processes show."""

    def __init__(self, task: int, nprocs: int, mpiexec: int) -> None:
        self._task = str(task)
        self._nprocs = nprocs
        self._mpiexec = mpiexec
        self._seen: set[int] = set()

    def gone(self, parents: Mapping[int, int]) -> dict[int, bool]:
        """Ranks that have no process, and of each whether it was seen to have one before; others may not have begun.

        Args:
            parents: of each process below this one, its parent.
        """
        left = ranks_left(self._mpiexec, parents, dict(self._ranks(parents)))
        if left is None:
            return {}
        self._seen |= left
        return {rank: rank in self._seen for rank in range(self._nprocs) if rank not in left}

    def _ranks(self, parents: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        for pid in parents:
            known = process.environment(pid)
            if known.get("WILKINS_TASK") == self._task:
                yield from [(pid, int(known[name])) for name in RANK_VARIABLES if known.get(name, "").isdigit()][:1]


def ranks_left(mpiexec: int, parents: Mapping[int, int], ranks: Mapping[int, int]) -> set[int] | None:
    """The ranks that have a process; None if there is one below the mpiexec that may be of any rank.

    Args:
        mpiexec: the process that has started them.
        parents: of each process, its parent.
        ranks: of each process of which it is known, its rank.
    """
    above = {above for pid in ranks for above in _way_up(pid, parents)}
    unknown = (pid for pid in parents if pid not in ranks and pid not in above)
    return None if any(mpiexec in (pid, *_way_up(pid, parents)) for pid in unknown) else set(ranks.values())


def _way_up(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) != 0:
        yield pid
