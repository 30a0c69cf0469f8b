"""The request for a batch job, from a plan and the options of ``wilkins submit``. No I/O."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from wilkins.errors import ResourceError, UsageError, count_of
from wilkins.plan.plan import Plan

MINUTES = 60
"""The time of a job that is given none."""

LEAST_MEMORY = 1 << 20
"""Bytes; schedulers count in whole KiB or MiB, and 0 is to some all that there is."""

JOBS = "wilkins-jobs"
"""Holds the scripts and the output of batch jobs, beside the records of runs."""

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@%=:,/-]*")
"""A name that every scheduler takes as it stands in a line of its options."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of ``wilkins submit`` about the job; None: left out."""

    minutes: int | None = None
    nodes: int | None = None
    cores: int | None = None
    """On all nodes."""
    memory: int | None = None
    """Bytes on each node."""
    queue: str | None = None
    account: str | None = None
    name: str | None = None
    setup: tuple[str, ...] = ()
    """Lines of bash before the run."""
    lines: tuple[str, ...] = ()
    """Options of the scheduler, as they stand."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A batch job, decided."""

    name: str
    words: tuple[str, ...]
    """The command that it runs."""
    folder: Path
    """Where it runs that."""
    output: Path
    """The folder of its script and its output."""
    cores: int
    """On all nodes."""
    minutes: int = MINUTES
    nodes: int = 1
    gpus: int = 0
    """On each node."""
    memory: int | None = None
    """Bytes on each node; None: `expected_memory` of schedulers that deal memory out, or what they give."""
    expected_memory: int | None = None
    """Bytes on each node that the tasks are expected to take."""
    queue: str | None = None
    account: str | None = None
    setup: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def cores_per_node(self) -> int:
        """Cores on each node."""
        return math.ceil(self.cores / self.nodes)

    @property
    def size(self) -> str:
        """The requested resources, in words."""
        parts = [count_of(self.cores, "core")]
        if self.gpus:
            parts.append(count_of(self.gpus, "GPU"))
        hours, minutes = divmod(self.minutes, 60)
        time = f"{hours} h {minutes:02d} min" if hours and minutes else f"{hours} h" if hours else f"{minutes} min"
        return f"{' and '.join(parts)} on {count_of(self.nodes, 'node')}, {time} at most"


def job_request(plan: Plan, options: Options, words: tuple[str, ...], folder: Path, gpus: int) -> JobRequest:
    """The job that runs a plan.

    Args:
        words: the command to run.
        folder: where to run it.
        gpus: what the plan was made for.

    Raises:
        ResourceError: the plan wants GPUs that the job does not get.
        UsageError: an option has a value that no scheduler takes, or the nodes have too few cores.
    """
    if plan.lacking:
        gives = count_of(gpus, "GPU") if gpus else "no GPU"
        raise ResourceError("\n".join([*plan.lacking, f"the job asks for {gives}; --gpus N lets it ask for N"]))
    for option, value in (("--name", options.name), ("--queue", options.queue), ("--account", options.account)):
        if value is not None and not _WORD.fullmatch(value):
            raise UsageError(f"{option} {value!r}: a scheduler takes letters, digits and _.+@%=:,/- only; change it")
    for line in options.lines:
        if not line.isprintable() or not line.strip():
            raise UsageError(f"--option {line!r}: it must be one line of options; repeat --option for each line")
    nodes = options.nodes or 1
    if nodes > 1 and options.cores is not None and options.cores < plan.total_ranks:
        raise UsageError(
            f"--cores {options.cores}: on several nodes each of the {count_of(plan.total_ranks, 'rank')} needs a core; "
            "ask for more, or leave out --cores"
        )
    return JobRequest(
        name=options.name or job_name(plan.name),
        words=words,
        folder=folder,
        output=records(plan) / JOBS,
        cores=options.cores or cores(plan),
        minutes=options.minutes or minutes(plan) or MINUTES,
        nodes=nodes,
        gpus=gpus,
        memory=options.memory,
        expected_memory=memory(plan, nodes),
        queue=options.queue,
        account=options.account,
        setup=options.setup,
        lines=options.lines,
    )


def records(plan: Plan) -> Path:
    """The folder in which the runs of a plan leave their records."""
    return plan.folder or plan.source.parent


def cores(plan: Plan) -> int:
    """Ranks times threads of all tasks."""
    return sum(task.nprocs * _threads(task.env.get("OMP_NUM_THREADS", "")) for task in plan.tasks)


def minutes(plan: Plan) -> int | None:
    """The time that the tasks are expected to take, each after those of its `after`; None unless all tasks say so."""
    until: dict[int, float] = {}
    for index in TopologicalSorter({task.index: task.after for task in plan.tasks}).static_order():
        task = plan.tasks[index]
        if task.expected_walltime is None:
            return None
        until[index] = task.expected_walltime + max((until[one] for one in task.after), default=0.0)
    return math.ceil(max(until.values(), default=0.0) / 60) or None


def memory(plan: Plan, nodes: int) -> int | None:
    """Bytes of each node for what all ranks are expected to take, dealt evenly; None unless all tasks say so."""
    if not plan.tasks or not all(task.expected_memory for task in plan.tasks):
        return None
    return max(LEAST_MEMORY, math.ceil(sum(task.nprocs * task.expected_memory for task in plan.tasks) / nodes))


def gpus_dealt(plan: Plan) -> int:
    """How many GPUs the tasks were given, where several may share one."""
    return len({gpu for task in plan.tasks for gpu in task.gpus or ()})


def job_name(workflow: str) -> str:
    """The name of a workflow in letters that every scheduler takes."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", workflow).lstrip("_.-") or "wilkins"


def _threads(value: str) -> int:
    """The threads by OMP_NUM_THREADS: a number, or one for each nested level of parallel regions."""
    numbers = [int(part) for part in value.split(",") if part.strip().isdecimal()]
    return max(1, math.prod(numbers))
