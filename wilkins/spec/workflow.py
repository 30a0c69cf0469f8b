"""The workflow file as values: every key with its type, default and meaning, declared here and nowhere else."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import yaml

from wilkins.flow.placement import Rule
from wilkins.flow.policy import FlowPolicy
from wilkins.flow.publish import PublishRule
from wilkins.flow.restart import RestartRule
from wilkins.names import own_form, text_of
from wilkins.schema.compress import Compress, rules
from wilkins.schema.file_names import FileNames, has_pieces, names_of
from wilkins.schema.kinds import (
    Container,
    Flow,
    FlowValue,
    Function,
    Image,
    ListOf,
    Publish,
    Scalar,
    TextMap,
    Words,
    boolean,
    choice,
    device,
    duration,
    integer,
    number,
    size,
    text,
    time_span,
)
from wilkins.schema.patterns import is_folder, is_wild
from wilkins.schema.reading import Where, key
from wilkins.schema.sections import Section, SectionList, SectionMap
from wilkins.spec.ensemble import INSTANCE, Arguments, Instances, Numbers, PerInstance
from wilkins.spec.placements import Placement
from wilkins.spec.restarts import Restart
from wilkins.spec.sweep import Sweep, filled_node, holds_placeholder
from wilkins.tasks.registry import PREFIX, all_tasks, sections
from wilkins.transport.plan_table import ReadKeys
from wilkins.values import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Dset:
    """A dataset of a port."""

    name: str = key(
        text(), doc="Path of the dataset in the file; a group stands for all in it, and wildcards may be used."
    )
    memory: bool | None = key(
        boolean(),
        default=None,
        doc="1: exchange in memory; 0, with `file: 1`: through files; both 1: the port's mode is `both`.",
    )
    file: bool | None = key(boolean(), default=None, doc="1: the file is on disk too; with `memory: 0`, only there.")
    metadata: bool | None = key(boolean(), default=None, doc="Another name of `memory`.")
    passthru: bool | None = key(boolean(), default=None, doc="Another name of `file`.")
    zerocopy: bool | None = key(
        boolean(), default=None, doc="A hint.", unused="readers copy once, straight from shared memory"
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """Files that a task writes or reads."""

    filename: str = key(
        FileNames(),
        doc="Name or shell pattern (`*`, `?`, `[...]`; `**/`: any folders) of the files, matched on the last "
        "components of the names that the program gives. With a `/` at its end (`t*.zarr/`): of folders, each of which "
        "is a step with all that is in it. A list (`[x*.xdmf, x*.h5]`): of files that are one step if they have one "
        "number (`wilkins help folders`).",
    )
    dsets: tuple[Dset, ...] = key(
        SectionList(
            Dset, "dset", lambda context, texts: f"{context}, dset {texts['name']!r}" if "name" in texts else ""
        ),
        default=(),
        doc="Datasets that the port is for; left out: all. A step always holds its whole file.",
    )
    mode: Literal["memory", "both", "file"] | None = key(
        choice("memory", "both", "file"),
        default=None,
        doc="Where the files are: `memory` (default); `both`, in memory, and on disk as the program alone would have "
        "written them; `file`, on disk only, under the same policies.",
    )
    metadata: bool | None = key(boolean(), default=None, doc="1: exchange in memory.")
    passthru: bool | None = key(
        boolean(), default=None, doc="1: files on disk; with `metadata: 1`, the mode is `both`, else `file`."
    )
    file: bool | None = key(boolean(), default=None, doc="Another name of `passthru`.")
    zerocopy: bool | None = key(
        boolean(), default=None, doc="A hint.", unused="readers copy once, straight from shared memory"
    )
    device: str | None = key(
        device(),
        default=None,
        doc="Where the task's arrays of these files are: `host` (default); `pinned`, host memory that GPUs copy from "
        "at full rate; `cuda`, the first GPU that the task sees, or `cuda:k`, the one of number k; `auto`, `cuda` if "
        "`gpus` gives the task one, else `host`. `wilkins plan` shows the path of each channel "
        "(`wilkins help launching`).",
    )
    queue: int | None = key(
        integer(1),
        default=None,
        doc="Steps that may wait for their readers (default 2). On an in-port it overrides the out-port's.",
    )
    range: tuple[int, ...] | None = key(
        Numbers(),
        default=None,
        doc="Of an ensemble: the numbers that stand for `{instance}` in the file name, one for each instance; left "
        "out: 0, 1, 2, ...",
    )
    where: Where
    instances: Instances = field(default=Instances())
    """Those of the task."""

    def pattern(self, instance: int) -> str:
        """The names of one instance's files."""
        return self.of_instance(self.filename.rstrip("/"), instance)

    @property
    def is_folder(self) -> bool:
        """Each step is a folder."""
        return is_folder(self.filename)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of a list, of which the first names the step."""
        return names_of(self.filename)

    @property
    def is_set(self) -> bool:
        """Each step is a folder, or several files."""
        return self.is_folder or len(self.names) > 1

    def beside(self, instance: int) -> tuple[str, ...]:
        """The other names of a list, within their folder, of one instance's files."""
        return tuple(self.of_instance(posixpath.basename(name), instance) for name in self.names[1:])

    def of_instance(self, name: str, instance: int) -> str:
        """A name with the number and the parameters of an instance in it."""
        number = self.range[instance] if self.range and INSTANCE in self.filename else instance
        return self.instances.fill(name, instance, number)

    @property
    def differs(self) -> bool:
        """Whether each instance has names of its own."""
        return self.instances.differs(self.filename)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutPort(Port):
    """Files that a task writes."""

    memory: int | None = key(
        size(), default=None, doc="Most shared memory that the port's steps may take, such as `1GiB`; 0: no limit."
    )
    compress: tuple[Compress, ...] = key(
        rules(),
        default=(),
        doc="Datasets that are compressed on their way to readers on other hosts, within an error bound or without "
        "loss (`wilkins help compression`); the first entry that fits a dataset counts. Steps of the port then cross "
        "whole. Readers on the producer's host, and files on disk, have every bit.",
    )
    compress_when: str = key(
        choice("always", "faster"),
        default="always",
        doc="`always`: each step is compressed; `faster`: it crosses as it is, with every bit, or within the bounds of "
        "`compress`, whichever arrives first by what was measured of the network and of compression.",
    )
    checked: bool = key(
        boolean(),
        default=False,
        doc="Steps have checksums, made when they are published and compared when they are read, also on other hosts: "
        "bits that change in memory meanwhile are mended from a copy, or end the run; no program reads them. Steps "
        "cross whole.",
    )
    publish: PublishRule = key(
        Publish(),
        default=PublishRule(),
        doc="When a step is complete: `close`, at the last close of the file; n, at every n-th close; `next`, when the "
        "program turns to another name, creates the name anew, or ends; `flush`, at every flush; `{write: n, dset: "
        "PATH}`, after every n-th write to the dataset. A file that is reopened before that is continued. Of a folder: "
        "`next` (default), when all that wrote in it have turned to another one; `{file: PATTERN}`, when such a file "
        "in it was closed; `end`, when the task has ended (a fixed name's default). Of a list the same, and `close` "
        "(default): when a file of each name is there and closed.",
    )

    @property
    def rule(self) -> PublishRule:
        """When a step is complete, also where the workflow file does not say."""
        if not self.is_set or "publish" in self.where:
            return self.publish
        if not is_wild(self.filename):
            return PublishRule("end")
        return PublishRule("next" if self.is_folder or has_pieces(self.names) else "close")


@dataclass(frozen=True, slots=True, kw_only=True)
class InPort(ReadKeys, Port):
    """Files that a task reads."""

    memory: bool | None = key(boolean(), default=None, doc="Another name of `metadata`.")
    as_: str | None = key(
        text(),
        default=None,
        doc="The one name by which the program calls all these files, whatever their producers call them, matched on "
        "its last components: each open of it is the next step. Left out: the program calls them by their `filename` "
        "(`wilkins help graphs`).",
    )
    io_freq: FlowValue | None = key(
        Flow(short=True),
        default=None,
        doc="Which steps are kept: 1 or `all` (default); n for the n-th, the 2n-th and so on, counted from 1; `latest` "
        "or -1.",
    )
    flow: FlowValue | None = key(
        Flow(short=False),
        default=None,
        doc="The same in full: `all`, `latest`, `{some: n}` or `{every: n, offset: k, queue: q, when_full: "
        "block|drop-oldest|drop-newest}`, which keeps the steps k, k + n, ..., counted from 0 (k is 0 if left out).",
    )
    from_: tuple[str, ...] = key(
        ListOf(text()),
        default=(),
        doc="Tasks whose files these are; left out: all that write such files, or the nearest stage before this task, "
        "and none that this stage has read (`wilkins help stages`).",
    )
    nreaders: int | None = key(
        integer(1),
        default=None,
        doc="Ranks of the task that read the files, the first ones; left out: all, or those that open a file "
        "together over MPI-IO.",
    )
    looks: Literal["wait", "now"] | None = key(
        choice("wait", "now"),
        default=None,
        doc="Whether `stat`, `access` and kin wait for the file as an open would (`wait`), or say at once whether it "
        "is there (`now`); left out: `wait`, but `now` where the port closes a cycle, and where it drops steps and its "
        "first was published.",
    )

    def called(self, instance: int) -> str:
        """What one instance's program calls the files: a name or a pattern."""
        return self.pattern(instance) if self.as_ is None else posixpath.normpath(self.of_instance(self.as_, instance))

    def policy(self, queue: int | None) -> FlowPolicy:
        """The flow of this port on a channel from an out-port whose own ``queue`` is given."""
        policy, has_queue = self.flow or self.io_freq or (FlowPolicy(), False)
        depth = self.queue or queue
        if has_queue or depth is None or policy.when_full != "block":
            return policy
        return replace(policy, queue=depth)


_NUMBERED = Instances()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskModel:
    """What `wilkins simulate` takes a task to do."""

    step: float | None = key(
        time_span(),
        default=None,
        doc="Time that each rank computes per step. Left out, it must come from a run: `wilkins simulate --from RUN`.",
    )
    steps: int | None = key(
        integer(1),
        default=None,
        doc="Steps that the task makes; left out: as many as it is given to read, one of each in-port at a time.",
    )
    size: int = key(size("a number of bytes such as 8MiB"), default=0, doc="Bytes of a step on each out-port.")
    start: float = key(time_span(), default=0, doc="Time from the start of the program to its first step.")
    files: Literal["shared", "per-rank"] = key(
        choice("shared", "per-rank"),
        default="shared",
        doc="Whether the task's ranks write one parallel file per step, or each rank files of its own.",
    )
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a task is expected to take."""

    memory: int = key(
        size("a number of bytes such as 500MB or 16GiB"),
        default=0,
        doc="The most memory of each rank, without the steps in shared memory.",
    )
    walltime: float | None = key(
        duration(), default=None, doc="The most time that the program runs; `timeout` is what ends it."
    )
    where: Where


_VENV = (
    "A Python virtual environment, as a path: the program runs as if it were active, and `.py` runs under its Python "
    "(`wilkins help environments`)."
)
_CONDA = (
    "A conda environment, by its name or, with a `/` in it, by its path: the program runs as if it were active, and "
    "`.py` runs under its Python."
)
_MODULES = (
    "Environment modules that are loaded, in this order, before the program starts, such as `[gcc/12, hdf5]`; with "
    "`purge` as the first word, after all others were unloaded."
)
_CONTAINER = (
    "What the program runs in: an image (`image.sif`, `docker://NAME`) or a folder with a root file system; with "
    "folders of this machine to be seen in it: `{image: image.sif, binds: [/data, ./input:/input]}`."
)
_OF_ALL = "The `{}` of tasks that give none of `venv`, `conda`, `modules` and `container`."

ENVIRONMENT_KEYS = ("venv", "conda", "modules", "container")
"""Keys of a task that say in which environment its program runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A program of the workflow."""

    func: str = key(
        text(),
        doc="Program: a command on PATH, or a path relative to the workflow file. `.py` runs under the "
        "Python that runs Wilkins, unless it is executable and its first line has the path of another one "
        "(`#!/usr/bin/python3`); `x.hx` stands for the executable `x` or `x.py`; `file.py:name` and "
        "`module:name` are functions, called with the task's ports (`wilkins help python-functions`); "
        "`wilkins.tasks.NAME` is a ready-made task, whose options stand in the section `NAME`.",
    )
    name: str | None = key(
        text(), default=None, doc="Name of the task; left out: the program's, without folder and suffix."
    )
    nprocs: int = key(integer(1), default=1, doc="Ranks of the task.")
    taskCount: int = key(
        integer(1, 100_000),
        default=1,
        doc="Instances of the task (an ensemble). n writing and m reading instances are joined in "
        "contiguous, balanced blocks.",
    )
    sweep: Instances | None = key(
        Sweep(),
        default=None,
        doc="An ensemble with parameters (`wilkins help sweeps`), instead of `taskCount`: `{name}` stands for the "
        "instance's value wherever `{instance}` may stand. `{grid: {dt: [0.1, 0.2], seed: [1, 2, 3]}}`: each value "
        "with each; `{zip: {dt: [0.1, 0.2], seed: [1, 2]}}`: the first values, then the second ones; `{list: [{dt: "
        "0.1, seed: 1}, ...]}`; `{csv: params.csv}`: a row for each instance; `{random: {count: 24, seed: 7, lr: "
        "{loguniform: [1e-5, 1e-1]}}}`: drawn by `uniform`, `loguniform`, `integer` or `choice`.",
    )
    args: tuple[str | PerInstance, ...] = key(
        Arguments(),
        default=(),
        doc="Arguments. `{filename}` is the name of the step to be read, `{instance}` the number of the "
        "instance, from 0; a list among them, `[--temp, [1.0, 2.0, 3.0]]`, gives each instance its own value.",
    )
    inports: tuple[InPort, ...] = key(
        SectionList(InPort, "inport", lambda context, texts: _port_label(context, "inport", texts)),
        default=(),
        doc="Files that the program reads.",
    )
    outports: tuple[OutPort, ...] = key(
        SectionList(OutPort, "outport", lambda context, texts: _port_label(context, "outport", texts)),
        default=(),
        doc="Files that the program writes.",
    )
    env: dict[str, str] | None = key(TextMap(), default=None, doc="Environment variables of the program.")
    cwd: str | None = key(
        text(),
        default=None,
        doc="Folder the program runs in; left out: the workflow file's. If it holds `{instance}`, a run makes it.",
    )
    stdin: str | None = key(text(), default=None, doc="File given to the program as standard input.")
    mpiexec: tuple[str, ...] | None = key(
        Words(),
        default=None,
        doc="Launcher of an MPI task and its options, when launched alone; left out: that of the MPI the program uses.",
    )
    prefix: tuple[str, ...] = key(
        Words(), default=(), doc="Words before the program on every rank, such as `numactl -N 0`."
    )
    venv: str | None = key(text(), default=None, doc=_VENV)
    conda: str | None = key(text(), default=None, doc=_CONDA)
    modules: tuple[str, ...] = key(ListOf(text()), default=(), doc=_MODULES)
    container: Image | None = key(Container(), default=None, doc=_CONTAINER)
    threads: int | None = key(
        integer(1), default=None, doc="Threads per rank, given to the program as `OMP_NUM_THREADS`."
    )
    timeout: float | None = key(duration(), default=None, doc="Time after which the task is stopped and the run fails.")
    resources: Resources | None = key(
        Section(Resources),
        default=None,
        doc="What the task is expected to take, for batch jobs (`wilkins help submit`) and the report, which shows it "
        "beside what it took.",
    )
    on_failure: Literal["stop", "continue", "restart"] = key(
        choice("stop", "continue", "restart"),
        default="stop",
        doc="What a failure of the task does: `stop` ends the run; `continue` leaves the others at work, and the run "
        "fails at its end; `restart` starts the program again while the others wait (`wilkins help surviving`).",
    )
    retries: int | None = key(
        integer(1),
        default=None,
        doc="With `on_failure: restart`: how often a program that has failed is started again (default 3) before the "
        "run stops. A program that is started for each step has as many for each.",
    )
    retry_delay: float | None = key(
        time_span(),
        default=None,
        doc="With `on_failure: restart`: time before the first such start (default 1s); twice as long before each "
        "further one, and at most a minute or what is given here.",
    )
    min_instances: int | None = key(
        integer(1),
        default=None,
        doc="Of an ensemble: how many instances must not fail. While at least that many are left, a failed one is left "
        "out, and the run does not fail.",
    )
    after: tuple[str, ...] = key(
        ListOf(text()),
        default=(),
        doc="Tasks that must have ended well before this one is started; no files need join them.",
    )
    rerun: Literal["auto", "always", "never"] = key(
        choice("auto", "always", "never"),
        default="auto",
        doc="Whether a program that ends is started again for the next step; `auto`: if it has read exactly one (of "
        "each rank that writes files of its own).",
    )
    enough: bool = key(
        boolean(),
        default=False,
        doc="The program ends before its input does on purpose: unread steps are not reported.",
    )
    restart: RestartRule | None = key(
        Restart(),
        default=None,
        doc="What `wilkins run --resume` restarts the program from (`wilkins help restarting`): `{files: PATTERN}`, "
        "its newest checkpoint, with `args` instead of its own and after the command `hook`, where `{file}` stands for "
        "the checkpoint; `each-step`, with the step after the last it finished, if it keeps no state between steps; "
        "`points`, if it reports its restart points itself.",
    )
    strict_end: bool = key(
        boolean(), default=False, doc="Whether an error of the program after the end of its input fails the run."
    )
    model: TaskModel | None = key(
        Section(TaskModel),
        default=None,
        doc="Durations and sizes for `wilkins simulate`, such as `{step: 0.2s, steps: 10, size: 8MiB}`; a run does "
        "not look at them.",
    )
    placement: Rule = key(
        Placement(),
        default=Rule(),
        doc="On which hosts the ranks run (`wilkins help hosts`): `together`, hosts filled in the order of the file; "
        "`spread`, each rank on the host with the most room; a list of hosts to use; a list of numbers of ranks, by "
        "host; `{with: TASK}`, rank by rank on the hosts of another task, so that its steps stay in shared memory.",
    )
    nwriters: int | None = key(
        integer(1), default=None, doc="Ranks that write.", unused="Wilkins sees which ranks write"
    )
    start_proc: int | None = key(
        integer(0), default=None, doc="First rank in the job.", unused="ranks are assigned in the order of the tasks"
    )
    cmdline: str | None = key(Words(), default=None, doc="A command line.", unused="write 'func' and 'args'")
    actions: tuple[str, str] | None = key(
        Function(),
        default=None,
        doc="For a Python program: a module and a function that is called as `function(vol, rank)` before the program "
        "begins, to set callbacks and to say when files are served (`wilkins help actions`). `publish` of an "
        "out-port needs no code.",
    )
    gpus: int | None = key(
        integer(0),
        default=None,
        doc="GPUs that each instance sees, all its ranks the same ones, by `CUDA_VISIBLE_DEVICES`; 0 hides all; left "
        "out: the variable is as it was.",
    )
    where: Where
    sections: Mapping[str, Any] = field(default_factory=dict)
    """Options of ready-made tasks, by name; of a sweep, those of its first instance."""
    variants: tuple[Mapping[str, Any], ...] = field(default=())
    """By instance of a sweep: its options, if parameters stand in them."""

    @property
    def label(self) -> str:
        """The task in messages."""
        return f"task {self.name!r}"

    def arguments(self, instance: int) -> tuple[str, ...]:
        """The arguments of one instance."""
        words = (word.values[instance] if isinstance(word, PerInstance) else word for word in self.args)
        return tuple(self.instances.fill(word, instance) for word in words)

    @property
    def instances(self) -> Instances:
        """What its placeholders stand for."""
        return self.sweep or _NUMBERED

    def options(self, instance: int) -> Mapping[str, Any]:
        """Options of ready-made tasks for one instance, by name."""
        return self.variants[instance] if self.variants else self.sections

    @staticmethod
    def variants_of(values: Mapping[str, Any], nodes: Mapping[str, yaml.Node]) -> Iterator[Mapping[str, yaml.Node]]:
        """The sections as they are in each instance, once if they are the same in all."""
        instances = values.get("sweep") or _NUMBERED
        if not any(holds_placeholder(node, instances) for node in nodes.values()):
            yield nodes
            return
        for instance in range(len(instances.rows)):
            yield {name: filled_node(node, instances, instance) for name, node in nodes.items()}

    @staticmethod
    def more_sections() -> Mapping[str, type]:
        """The options of ready-made tasks."""
        return sections()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A value that the file leaves to its user."""

    default: bool | int | float | str = key(
        Scalar(), doc="Its value if `--set` gives no other; also says whether it is a whole number, a number or a text."
    )
    doc: str | None = key(text(), default=None, doc="What it means.")
    min: float | None = key(number(), default=None, doc="The least that a number may be.")
    max: float | None = key(number(), default=None, doc="The most that a number may be.")
    choices: tuple[bool | int | float | str, ...] = key(ListOf(Scalar()), default=(), doc="All that it may be.")
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow file."""

    tasks: tuple[Task, ...] = key(
        SectionList(
            Task,
            "task",
            lambda _, texts: f"task {texts.get('name') or default_name(texts['func'])!r}" if texts.get("func") else "",
            minimum=1,
        ),
        doc="The programs.",
    )
    name: str | None = key(text(), default=None, doc="Name of the workflow; left out: the file's, without suffix.")
    doc: str | None = key(text(), default=None, doc="What the workflow does, in a line.")
    memory: int = key(size(), default=0, doc="The `memory` of out-ports that do not give their own; 0: no limit.")
    venv: str | None = key(text(), default=None, doc=_OF_ALL.format("venv"))
    conda: str | None = key(text(), default=None, doc=_OF_ALL.format("conda"))
    modules: tuple[str, ...] = key(ListOf(text()), default=(), doc=_OF_ALL.format("modules"))
    container: Image | None = key(Container(), default=None, doc=_OF_ALL.format("container"))
    parameters: dict[str, Parameter] | None = key(
        SectionMap(Parameter, "parameter"),
        default=None,
        doc="Values left to the user: `${name}` stands for them in the tasks, and `--set name=value` sets them.",
    )
    where: Where


def default_name(func: str) -> str:
    """A task's name from its program: no folder, no suffix, only characters that suit file names."""
    if func.startswith(PREFIX):
        func = func.rpartition(".")[2]
    elif _is_function(func):
        func = func.replace(":", ".").rpartition(".")[2]
    base = text_of(func).rstrip("/").rpartition("/")[2]
    stem = base.rpartition(".")[0] or base if base.endswith((".py", ".hx", ".sh", ".exe", ".x")) else base
    name = "".join(letter if letter.isalnum() or letter in "_-.+" else "-" for letter in stem).strip(".-")
    return own_form(name) or "task"


def ready_made(task: Task) -> str | None:
    """The name of the ready-made task that a task is; None for a program of the user's."""
    return task.func[len(PREFIX) :] if task.func.startswith(PREFIX) and not task.func.endswith(".py") else None


def needs_of(task: Task) -> dict[str, str]:
    """The modules that a ready-made task needs beyond the package's own, each with the extra that brings it."""
    name = ready_made(task)
    ready = all_tasks().get(name) if name else None
    if ready is None:
        return {}
    every = [one[ready.key] for one in task.variants or (task.sections,)]
    return {module: extra for options in every for module, extra in ready.needs(options).items()}


def function_of(task: Task) -> str | None:
    """The function that a task is, as ``file.py:name`` or ``module:name``; None for a program."""
    return task.func if _is_function(task.func) else None


def _is_function(func: str) -> bool:
    place, _, name = func.rpartition(":")
    module = place.endswith(".py") or all(part.isidentifier() for part in place.split("."))
    return module and all(part.isidentifier() for part in name.split("."))


def _port_label(context: str, noun: str, texts: dict[str, str]) -> str:
    return f"{context}, {noun} {texts['filename']!r}" if texts.get("filename") else ""
