"""The plan of a run: ranks, commands, channels and memory, decided before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import wilkins.tasks
from wilkins.errors import WilkinsError
from wilkins.flow.placement import Host, Rule, Share
from wilkins.flow.policy import FlowPolicy
from wilkins.flow.publish import PublishRule
from wilkins.flow.restart import RestartRule
from wilkins.transport.plan_table import DevicePath, Looks, ReadKeys, values_of
from wilkins.values import dataclass, field

START = Path(str(wilkins.tasks.__file__)).with_name("__main__.py")
"""The module that a ready-made task executes, with the task's name as first argument."""

ELASTIC = START.with_name("elastic") / "__main__.py"
"""The module that starts the ranks of a task that go on without those that die,"""
ELASTIC_NAME = "wilkins.tasks.elastic"
"""and its name for Python's ``-m``."""

FUNCTION = START.with_name("function.py")
"""The module that a task executes that is a Python function, with the function as first argument."""

Kind = Literal["plain", "mpi"]
Launch = Literal["alone", "one-job"]
Mode = Literal["memory", "both", "file", "plain"]
"""Where a port's files are: in memory; in memory and on disk; on disk, under the same policies; or, without channels,
on disk and ignored by the layer."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The start of a task in a resumed run."""

    anew: bool = False
    """It starts from the beginning."""
    ended: bool = False
    """It has done all its work, and is not started."""
    args: tuple[str, ...] | None = None
    """Arguments in place of its own."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables on top of its own."""
    hook: tuple[str, ...] = ()
    """A command to be run before, in its folder."""
    consumed: int = 0
    """Steps that it has consumed in earlier runs."""
    loops: bool = False
    """It reads steps in a loop: if it reads one step and ends, it is not a program that handles one step per start."""


@dataclass(frozen=True, slots=True)
class Back:
    """Where a task goes on after a failure, while its run goes on."""

    shown: str
    """In words: `from the beginning`."""
    begins: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """By out-port (its index) and rank: the number of the step that it makes next."""
    resumed: Resumed | None = None
    """The start of its program, if not as the first time."""


class CannotGoBackError(WilkinsError):
    """A task that has failed cannot be started again while its run goes on; the message says why."""


@dataclass(frozen=True, slots=True)
class PortRef:
    """A port of an entry of the workflow file."""

    task: int
    direction: Literal["in", "out"]
    port: int


@dataclass(frozen=True, slots=True)
class Link:
    """An out-port and an in-port that are joined, and which of their tasks' instances."""

    outport: PortRef
    inport: PortRef
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Activation:
    """What is activated on a host before a program starts: modules, then a virtual or a conda environment."""

    modules: tuple[str, ...] = ()
    """To be loaded; ``purge`` as the first word unloads all others before."""
    modulecmd: tuple[str, ...] = ()
    """The program of the modules system."""
    modulepath: str = ""
    """Where modules are looked for, if a host has no ``MODULEPATH``."""
    venv: Path | None = None
    conda: Path | None = None
    conda_name: str = ""
    """What ``CONDA_DEFAULT_ENV`` is."""


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """What starts a program in an image or in a folder with a root file system."""

    runtime: Literal["apptainer", "podman", "bwrap"]
    program: str
    """That of the runtime."""
    image: str
    folders: tuple[str, ...] = ()
    """Folders of this machine that are seen in it under their own paths: the workflow's."""
    binds: tuple[str, ...] = ()
    """Others: ``PATH``, or ``PATH:PATH`` with the path in the container."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a task's program, beside its variables."""

    shown: str
    """In words."""
    activation: Activation | None = None
    variables: dict[str, str] = field(default_factory=dict)
    """What the activation sets on `host`; a variable that it removes is empty."""
    host: str = ""
    """Where it was computed; other hosts compute their own."""
    container: ContainerPlan | None = None


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task instance, ready to start."""

    index: int
    """Position in ``Plan.tasks``; also the task's index in the step store."""
    name: str
    """Unique among instances: ``freeze``; with ``taskCount: 3``, ``freeze[0]`` to ``freeze[2]``; in a sweep,
    ``freeze[dt=0.1]`` and so on."""
    instance: int
    """0-based number among the instances of one entry of the workflow file."""
    nprocs: int
    """Ranks of this task."""
    kind: Kind
    """``plain``: one ordinary process. ``mpi``: ranks started by an ``mpiexec`` (alone) or in the one job."""
    executable: Path
    """Absolute path of what is executed (the Python interpreter for ``.py`` tasks)."""
    args: tuple[str, ...]
    """Arguments after the executable (for ``.py`` tasks the script comes first). May hold ``{filename}``."""
    cwd: Path
    env: dict[str, str]
    """Variables set for the task on top of the launcher's environment."""
    makes_cwd: bool = False
    """The launcher makes the folder if it is missing: it is the instance's own."""
    prefix: tuple[str, ...] = ()
    """Words put before the executable on every rank (``numactl ...``, ``valgrind ...``)."""
    mpiexec: tuple[str, ...] = ()
    """The launcher of this task and its options, for ``kind == "mpi"`` when launched alone; in one job, of a task that
    may be started again, which is an MPI job of its own then (empty if there is none on this machine)."""
    stdin: Path | None = None
    timeout: float | None = None
    """Seconds after which the task is stopped and the run fails."""
    expected_memory: int = 0
    """Bytes that each rank is expected to take at most; 0: not given."""
    expected_walltime: float | None = None
    """Seconds that it is expected to run at most."""
    on_failure: Literal["stop", "continue", "restart"] = "stop"
    retries: int = 0
    """How often its program is started again when it has failed."""
    retry_delay: float = 0.0
    """Seconds before the first of these starts."""
    entry: int = 0
    """Number of its entry in the workflow file, from 0; its instances share it."""
    spares: int = 0
    """Instances of the entry that may fail."""
    after: tuple[int, ...] = ()
    """Tasks that must have ended well before it is started."""
    rerun: Literal["auto", "always", "never"] = "auto"
    strict_end: bool = False
    enough: bool = False
    """It leaves steps of its input on purpose."""
    first_rank: int = 0
    """First rank of this task in the one job."""
    gpus: tuple[str, ...] | None = None
    """The GPUs that all its ranks see, as ``CUDA_VISIBLE_DEVICES`` in ``env`` names them; None if it is left alone."""
    origin: str = ""
    """``file:line:column`` of the task in the workflow file, for messages."""
    restart: RestartRule | None = None
    """What it can be restarted from, by the workflow file; None: nothing."""
    saves: bool = False
    """Whether it is a ready-made task whose options ask for checkpoints."""
    resumed: Resumed | None = None
    """In a resumed run: the restart point of the task."""
    placement: Rule = Rule()
    """In a run on several hosts: where it is to run."""
    share: Share = ()
    """In a plan for several hosts: hosts and numbers of ranks, in the order of ranks."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Of an instance of a sweep: its parameters, as they are written."""
    carries: str = ""
    """For a half of a relay: the steps that it carries to another host, in words. Empty for other tasks."""
    is_part: bool = False
    """Other ranks of the task run on other hosts."""
    environment: Environment | None = None
    """None: the launcher's."""

    @property
    def container(self) -> ContainerPlan | None:
        """What its program runs in; None: this machine."""
        return self.environment.container if self.environment else None

    @property
    def entry_name(self) -> str:
        """The name of its entry in the workflow file, which its instances share."""
        return self.name.partition("[")[0] if self.name.endswith("]") else self.name

    @property
    def is_elastic(self) -> bool:
        """Whether its ranks go on without those that die; its ``mpiexec`` is their parent then."""
        return str(ELASTIC) in self.mpiexec or ELASTIC_NAME in self.mpiexec

    @property
    def is_relay(self) -> bool:
        """Whether it is a half of a relay."""
        return bool(self.carries)


@dataclass(frozen=True, slots=True)
class PortPlan(ReadKeys):
    """One port of one task instance."""

    index: int
    task: int
    direction: Literal["in", "out"]
    pattern: str
    """As in the workflow file, after expansion."""
    mode: Mode
    cap_bytes: int = 0
    """Out-ports: most bytes of shared memory its steps may occupy; 0 for no cap."""
    origin: str = ""
    publish: PublishRule = PublishRule()
    """Out-ports: when a step is complete."""
    publish_given: bool = False
    """Whether the workflow file has the key `publish`."""
    looks: Looks = "wait"
    """In-ports: whether a look at a name waits for it; ``always``: as the workflow file says, ``wait``: unless that
    holds up other work of the task."""
    closes_cycle: bool = False
    """In-ports: a task that comes later in the workflow file writes for them, and what theirs writes reaches it."""
    keep: int = 0
    """Out-ports: how many of their newest files are kept by hard links, even if the program removes their names."""
    part_of: int = 0
    """Out-ports on one host of several: a number that all parts of one out-port have; 0: it is whole."""
    far_host: int = 0
    """Ports of relays: the host from or to which the relay carries the steps, counted from 1; 0: no relay."""
    on_demand: bool = False
    """Out-ports of relays: a step comes when one of its readers asks for it, and not before."""
    dsets: tuple[str, ...] = ()
    """Paths of the datasets that the port is for; empty: all."""
    compress: tuple[tuple[str, float | None, float | None], ...] = ()
    """Out-ports: the rules by which steps are compressed on their way to other hosts: of each the dataset, the absolute
    and the relative bound."""
    compress_when: str = "always"
    """Out-ports: ``always``, or ``faster``: only where steps arrive earlier by that."""
    checked: bool = False
    """Out-ports: steps have checksums in memory."""
    step_bytes: int = 0
    """Out-ports: bytes of a step, by the task's model; 0: unknown."""
    per_rank: bool = False
    """Out-ports: by that model, each rank publishes steps of its own."""
    begins: tuple[int, ...] = ()
    """Out-ports of a resumed run: by rank, the number of its first step."""
    stands: str = ""
    """In-ports: the name by which the program calls all the files; empty: by their own."""
    is_folder: bool = False
    """Each step is a folder with all that is in it."""
    passes_on: bool = False
    """Out-ports: the task passes on the steps of its in-port of the same pattern."""
    beside: tuple[str, ...] = ()
    """Names, within the pattern's folder, of files that are one step with that of the pattern."""

    @property
    def is_set(self) -> bool:
        """Whether each step is a folder, or several files."""
        return self.is_folder or bool(self.beside)

    @property
    def steps(self) -> str:
        """The names of the steps, as in the workflow file."""
        return ", ".join([self.pattern + "/" * self.is_folder, *self.beside])

    @property
    def called(self) -> str:
        """The name or pattern by which the task's program opens the files."""
        return self.stands or self.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlan(FlowPolicy):
    """An edge: steps of an out-port that go to an in-port, under one policy."""

    outport: int
    inport: int
    readers: int = 1
    """Ranks of the reading task that read (the first ones)."""
    readers_given: bool = False
    """Whether the workflow file gives that number; else the ranks that open a file together are the readers."""
    path: DevicePath = "host"
    """How the data get from one device to another."""
    rests: tuple[tuple[int, int], ...] = ()
    """In a resumed run, by rank of the producer: the first step that the consumer lacks, and how many with names
    for the in-port came before the rank's first step."""
    group: int = 0
    """On one host of several: a number of the channels that drop the same steps, since they lead to ranks of one task
    on different hosts; 0: it is alone."""
    why: str = ""
    """Why they take that path; empty if the workflow file gives neither port a device."""

    @property
    def policy(self) -> FlowPolicy:
        """The policy alone."""
        return FlowPolicy(**values_of(FlowPolicy, self))


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a whole workflow."""

    name: str
    source: Path
    launch: Launch
    tasks: tuple[TaskPlan, ...]
    ports: tuple[PortPlan, ...]
    channels: tuple[ChannelPlan, ...]
    total_ranks: int
    """Ranks a one-job launch needs (``mpiexec -n``)."""
    notes: tuple[str, ...] = field(default=())
    """Notes for the user (keys accepted and unused)."""
    lacking: tuple[str, ...] = field(default=())
    """Why this machine cannot run the plan: GPUs that it does not have."""
    folder: Path | None = None
    """Where records go, if not beside the workflow file: of a packaged workflow, where it was started."""
    digest: str = ""
    """Of the workflow file, by SHA-256."""
    resumes: Path | None = None
    """The directory of the run that this one goes on with."""
    hosts: tuple[Host, ...] = field(default=())
    """On which it runs; empty: on this machine."""
    encrypts: bool = False
    """What crosses between hosts is encrypted, also in runs that go on with this one."""

    @property
    def can_resume(self) -> bool:
        """Whether a run of it records what is needed to resume it."""
        return any(task.restart or task.saves for task in self.tasks)

    @property
    def shown(self) -> str:
        """The workflow in a command: ``wilkins run SHOWN``."""
        return self.source.name if self.folder is None else f"--builtin {self.source.parent.name}"


def reached(readers: Mapping[int, set[int]], task: int) -> set[int]:
    """The tasks that steps of one go to, over others, too. By hand: to import networkx takes longer than to plan."""
    found: set[int] = set()
    todo = {task}
    while todo:
        todo = set().union(*(readers.get(one, ()) for one in todo)) - found
        found |= todo
    return found


def may_read_again(task: TaskPlan) -> bool:
    """Whether a start after a failure may be for the step at which the program has failed."""
    return (task.restart.how == "each-step") if task.restart else task.rerun != "never"


def started_ready_made(task: TaskPlan) -> str:
    """The name of the ready-made task that a task is; empty for a program of the user's."""
    return task.args[1] if task.args[:1] == (str(START),) else ""
