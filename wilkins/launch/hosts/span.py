"""Starts tasks whose ranks are on several hosts: one MPI job of them all, each rank with its host's variables.

The keeper of the host of rank 0 starts the job. A shell in the place of each rank waits for a file with the variables
of the ranks on its host, which their keeper writes when such shells run on all hosts of the task: MPICH's mpiexec never
ends where a signal ends a rank before all its launch agents have connected to it. On the other hosts a placeholder
process runs until the job has ended.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.launch.hosts import remote
from wilkins.launch.hosts.control import Control
from wilkins.launch.hosts.messages import JobEnded, RanksCame
from wilkins.launch.programs import environment as env
from wilkins.launch.programs import process
from wilkins.launch.programs.guard import VARIABLE, end_members
from wilkins.launch.programs.process import GRACE, Program
from wilkins.launch.records.rundir import RunDirectory
from wilkins.launch.watch.boardmap import BoardPorts
from wilkins.launch.watch.decide import Exit
from wilkins.plan.mpi import launcher_family
from wilkins.plan.plan import ELASTIC, ELASTIC_NAME, Plan, TaskPlan
from wilkins.plan.relayrules import lead_host, ranks_on, spans
from wilkins.plan.split import HostPart
from wilkins.transport import far_files
from wilkins.transport.board import Board, BoardHeldError
from wilkins.transport.listening import address_in, listen

PLACEHOLDER = ("/bin/sh", "-c", "read -r code && case $code in -*) kill $code $$ ;; *) exit $code ;; esac")
"""The command of a placeholder: the task's program on a host that does not start the job. It reads its exit code from
standard input, or a negative number, the signal that ends it."""

_WAIT = """
echo $$ >> "$0.waits"
tries=0
while [ ! -r "$0" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 6000 ]; then echo "wilkins: no keeper of this host has written $0" >&2; exit 1; fi
    sleep 0.1
done
"""
"""Lets the keeper know its process, and waits for the keeper's file."""
_TAKE = '. "$0"'
"""Takes the variables of that file."""
_BECOME = 'exec "$@"'
"""Becomes the program."""

_LOOKS_EVERY = 0.05
"""Seconds between a keeper's looks at the shells of a task that starts."""
_LEFT_EVERY = 0.5
"""Seconds between its looks whether ranks that go on without each other have all died here."""
_GONE_FOR = 10.0
"""Seconds after which the process that serves them is not coming to its end, but was killed."""


def settings_path(run: Path, host: str, task: TaskPlan) -> Path:
    """The file with the variables of the ranks of a task on a host."""
    return run / "hosts" / host / f"{task.name}.sh"


def write_settings(path: Path, variables: Mapping[str, str], folder: Path) -> None:
    """Write the variables and the folder of the ranks of a task on this host."""
    lines = [f"cd {shlex.quote(str(folder))} || exit 1"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items() if name.isidentifier()]
    hidden = path.with_suffix(".new")
    hidden.touch(mode=0o600)
    hidden.write_text("\n".join([*lines, ""]))
    hidden.rename(path)


def _shells_path(settings: Path) -> Path:
    return settings.with_name(f"{settings.name}.waits")


def _left_path(settings: Path) -> Path:
    """A file that is made when ranks that go on without each other have all died on this host."""
    return settings.with_name(f"{settings.name}.left")


def _shells(settings: Path) -> list[int]:
    """The shells that wait for these settings, or waited."""
    with contextlib.suppress(FileNotFoundError):
        return [int(pid) for pid in _shells_path(settings).read_text().splitlines()]
    return []


def write_agent(run: Path, host: str) -> Path:
    """Write the launch agent: a program that an mpiexec calls in place of ssh. It has the PATH of this process.

    It is written once: the mpiexec of another task may be about to execute it, and could not while it is open.
    """
    path = run / "hosts" / host / "reach"
    if path.exists():
        return path
    words = [sys.executable, "-m", "wilkins.launch.hosts.remote", str(run)]
    where = shlex.quote(os.environ.get("PATH", os.defpath))
    path.write_text(f'#!/bin/sh\nPATH={where} exec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)
    return path


def mpi_words(
    plan: Plan, task: TaskPlan, run: Path, world: Mapping[str, str], agent: Path, filename: str | None
) -> list[str]:
    """The command that starts all ranks of a task of `plan`, for the step of a name if its program is told that.

    Raises:
        ResourceError: it is not known how its mpiexec takes hosts.
    """
    if task.is_elastic:
        return _elastic_words(plan, task, run, world, agent)
    family = launcher_family(task.mpiexec[0])
    if family is None:
        raise ResourceError(
            f"{task.origin}: {task.name}: {task.mpiexec[0]} is neither of MPICH nor of Open MPI, so how to start ranks "
            "on several hosts with it is not known; name another one with 'mpiexec:', or give the task "
            "`placement: [HOST]`"
        )
    parts: list[list[str]] = []
    for host, count in task.share:
        name = plan.hosts[host].name
        settings = str(settings_path(run, name, task))
        words = ["-n", str(count), *env.pass_on_rank(), *_shell(_WAIT, _TAKE, settings)]
        words += _program_words(task, world, filename)
        parts.append(words if family == "mpich" else ["--host", f"{name}:{count}", *words])
    contexts = [word for part in parts for word in (":", *part)][1:]
    return [*task.mpiexec, *_options(family, plan, task, agent), *contexts]


def _elastic_words(plan: Plan, task: TaskPlan, run: Path, world: Mapping[str, str], agent: Path) -> list[str]:
    """The same for ranks that go on without those that die: their parent, which starts a process on each host, which
    starts the ranks."""
    module = next(at for at, word in enumerate(task.mpiexec) if word in (str(ELASTIC), ELASTIC_NAME))
    words = [*task.mpiexec, "--agent", str(agent)]
    for host, count in task.share:
        name = plan.hosts[host].name
        settings = settings_path(run, name, task)
        server = [*_shell(_WAIT, str(settings)), *task.mpiexec[: module + 1], "--serve", str(_left_path(settings))]
        ranks = [*env.pass_on_rank(), *_shell(_TAKE, str(settings)), *_program_words(task, world, None)]
        words += ["--on", name, remote.address(name), str(count), shlex.join([*server, *ranks])]
    return words


def _shell(*words: str) -> list[str]:
    """A shell that runs some of the scripts above with a file, and becomes what comes next."""
    *scripts, settings = words
    return ["/bin/sh", "-c", "\n".join([*scripts, _BECOME]), settings]


def _program_words(task: TaskPlan, world: Mapping[str, str], filename: str | None) -> list[str]:
    return ["/usr/bin/env", *(f"{key}={value}" for key, value in world.items()), *env.program_words(task, filename)]


def _options(family: str, plan: Plan, task: TaskPlan, agent: Path) -> Sequence[str]:
    if family == "mpich":
        hosts = ",".join(f"{plan.hosts[host].name}:{count}" for host, count in task.share)
        return "-launcher", "ssh", "-launcher-exec", str(agent), "-hosts", hosts
    settings = {
        "plm": "rsh",
        "plm_rsh_agent": str(agent),
        "plm_rsh_no_tree_spawn": "1",
        "orte_leave_session_attached": "1",
        "ras": "^slurm,tm,lsf",
    }
    return [word for name, value in settings.items() for word in ("--mca", name, value)]


def ranks_here(task: TaskPlan, host: int) -> str:
    """``first:count`` of the ranks on a host, as the layer reads it."""
    ranks = ranks_on(task, host)
    return f"{ranks.start}:{len(ranks)}"


def needed_servers(plan: Plan, part: HostPart) -> list[str]:
    """The servers of files that ranks on a host ask, its own among them, by what all hosts call them."""
    tasks = [plan.tasks[task] for task in part.tasks if spans(plan.tasks[task])]
    return [_service(task, host) for task in tasks for host, _ in task.share]


class Spanning:
    """This host's share of tasks that have ranks on several hosts."""

    def __init__(self, plan: Plan, part: HostPart, run: Path) -> None:
        self._plan = plan
        self._part = part
        self._run = run
        self._name = plan.hosts[part.host].name
        self.tasks = {place: plan.tasks[whole] for place, whole in enumerate(part.tasks) if spans(plan.tasks[whole])}
        """By task of this host's part: the task in the plan for all hosts."""
        self._listeners = {place: listen(self._name) for place in self.tasks}
        self._placeholders: dict[int, int] = {}
        self._clean: dict[int, bool] = {}
        self._settings: dict[int, Path] = {}
        """By task: the file with the variables of its ranks here."""
        self._ready: dict[int, dict[str, str]] = {}
        """By task: those variables."""
        self._starting: set[int] = set()
        """Tasks whose ranks here do not run yet."""
        self._coming: set[int] = set()
        """Those of which no shell has come here."""
        self._jobs: dict[int, Program] = {}
        """By task that this host starts."""
        self._may_be_left = {place: 0.0 for place, task in self.tasks.items() if task.is_elastic}
        """Tasks whose ranks here may all die while others go on, and since when what serves them here has been gone."""
        self._servers: dict[int, Program] = {}
        """By task."""

    def leads(self, place: int) -> bool:
        """Whether this host starts the task."""
        return lead_host(self.tasks[place]) == self._part.host

    def addresses(self) -> dict[str, str]:
        """The addresses of this host's servers of files, by what all hosts call them."""
        listeners = self._listeners.items()
        return {_service(self.tasks[place], self._part.host): address_in(listener) for place, listener in listeners}

    def others(self, addresses: Mapping[str, str]) -> dict[str, str]:
        """By other host that has ranks of tasks that are here, too: where one of its servers of files listens."""
        pairs = [(task, host) for task in self.tasks.values() for host, _ in task.share if host != self._part.host]
        return {self._plan.hosts[host].name: addresses[_service(task, host)] for task, host in pairs}

    def serve(self, board: Board, ports: BoardPorts, token: str, addresses: Mapping[str, str]) -> None:
        """Start the servers, and have the variables of the ranks here."""
        self._board = board
        base = {**env.user_environment(), VARIABLE: token}
        base = {name: value for name, value in base.items() if not name.startswith("SLURM_")}
        for place, task in self.tasks.items():
            layer: dict[str, str] = {}
            if ports.of(place):
                listener = self._listeners[place].detach()
                here = {far_files.ADDRESS: addresses[_service(task, self._part.host)]}
                served = env.merged(base, {}, {**board.environment(place, 0), **here, far_files.LISTENS: str(listener)})
                words = [sys.executable, str(far_files.__file__)]
                self._servers[place] = process.start(words, served, task.cwd, pass_fds=[listener], capture=False)
                os.close(listener)
                ranks = ranks_here(task, self._part.host)
                others = [addresses[_service(task, host)] for host, _ in task.share if host != self._part.host]
                elsewhere = {far_files.ELSEWHERE: ",".join(others), "WILKINS_RANKS": ranks}
                layer = {**board.environment(place, None), **here, **elsewhere}
            self.hand_out(place, base, layer)

    def own_variables(self, task: TaskPlan) -> dict[str, str]:
        """A task's own, for its ranks on any host."""
        return env.started_env(task, RunDirectory(self._run).points_path(task.name) if self._plan.can_resume else None)

    def hand_out(self, place: int, base: dict[str, str], layer: dict[str, str]) -> None:
        """Have the variables of the ranks of a task here: those of all programs, and the layer's."""
        task = self.tasks[place]
        self._settings[place] = settings_path(self._run, self._name, task)
        self._ready[place] = env.merged(base, self.own_variables(task), layer)

    def look_at_shells(self, control: Control) -> float | None:
        """Report tasks whose shells have come here, and end those of which one has died; seconds until the next look,
        or None where none is due."""
        for place in sorted(self._starting):
            shells = _shells(self._settings[place])
            if shells and place in self._coming:
                self._coming.remove(place)
                control.send(RanksCame(self._part.tasks[place]))
            if not all(map(process.environment, shells)):  # one that has ended has none
                self._starting.remove(place)
                self._fail(place)
        for place in sorted(self._may_be_left):
            if self._is_left(place) and self._leave(place):
                del self._may_be_left[place]
        return _LOOKS_EVERY if self._starting else _LEFT_EVERY if self._may_be_left else None

    def _is_left(self, place: int) -> bool:
        settings, now = self._settings[place], time.monotonic()
        if place in self._starting or all(map(process.environment, _shells(settings))):
            self._may_be_left[place] = now
        return _left_path(settings).exists() or now - self._may_be_left[place] > _GONE_FOR

    def _leave(self, place: int) -> bool:
        """No rank of a task here reads on: steps that come are for those on other hosts. Whether that is known now."""
        if not self.leads(place):
            self.end_placeholder(place, 0)
            return True
        with contextlib.suppress(BoardHeldError):
            self._board.task_exited(place, final=True, clean=True)
            return True
        return False

    def _fail(self, place: int) -> None:
        """End a job that may not end by itself."""
        if place in self._jobs:
            process.send([self._jobs[place].pid], signal.SIGKILL)
        self.end_placeholder(place, -signal.SIGKILL)

    def let_start(self, whole: int) -> None:
        """The shells of a task have come on all its hosts: let those here go on."""
        place = self._part.tasks.index(whole)
        self._starting.discard(place)
        write_settings(self._settings[place], self._ready[place], self.tasks[place].cwd)

    def prints_elsewhere(self, task: TaskPlan) -> bool:
        """Whether other hosts, too, write what the task prints."""
        return task.is_part and not self.leads(task.index)

    def starts(self, task: TaskPlan) -> bool:
        """Whether the task's program is started by this class, not by the host alone."""
        return task.is_part

    def start_placeholder(self, task: TaskPlan) -> Program:
        """Start a placeholder for a program that another host has started."""
        reads, self._placeholders[task.index] = os.pipe()
        program = process.start(PLACEHOLDER, {}, task.cwd, Path(f"/proc/self/fd/{reads}"))
        os.close(reads)
        return program

    def end_placeholder(self, place: int, code: int) -> None:
        """End the placeholder with an exit code, or by the signal of a negative one."""
        if (pipe := self._placeholders.pop(place, None)) is not None:
            with contextlib.suppress(BrokenPipeError):  # it was stopped meanwhile
                os.write(pipe, b"%d\n" % code)
            os.close(pipe)

    def start(self, task: TaskPlan, filename: str | None) -> Program:
        """Start the task's job, or its placeholder on this host; `filename`: the step that its program is told."""
        whole = self.tasks[task.index]
        self._starting.add(task.index)
        self._coming.add(task.index)
        if not self.leads(task.index):
            return self.start_placeholder(task)
        base = {**env.MPIEXEC_DEFAULTS, **env.user_environment(), **env.started_env(whole, None)}
        host = self._plan.hosts[self._part.host].name
        world = env.world_variables(whole.nprocs, rank=None, local_rank=None, port=env.free_port(), host=host)
        words = mpi_words(self._plan, whole, self._run, world, write_agent(self._run, self._name), filename)
        self._jobs[task.index] = process.start(words, base, whole.cwd, whole.stdin)
        return self._jobs[task.index]

    def over(self, whole: int, *, clean: bool) -> None:
        """The job of a task that another host has started has ended."""
        place = self._part.tasks.index(whole)
        self._clean[place] = clean
        self.end_placeholder(place, 0)

    def start_over(self, place: int) -> None:
        """A start of the task has ended well: what told its ranks here to go on is not for those of the next one."""
        self._settings[place].unlink(missing_ok=True)
        _shells_path(self._settings[place]).unlink(missing_ok=True)
        self.end_placeholder(place, 0)

    def is_over(self, place: int) -> bool:
        """Whether the job of a task that another host has started has ended for good."""
        return place in self._clean

    def ended(self, control: Control, place: int, *, clean: bool) -> bool:
        """Report the end of a task's program here to hosts that have ranks of it. Whether all of it was clean."""
        self._starting.discard(place)
        self._may_be_left.pop(place, None)
        if place not in self.tasks:
            return clean
        if not self.leads(place):
            return clean and self.was_clean(place)
        control.send(JobEnded(self._part.tasks[place], clean))
        return clean

    def was_clean(self, place: int) -> bool:
        """Whether the job of a task that another host has started has not failed."""
        return self._clean.get(place, True)

    def family(self) -> list[int]:
        """The processes of this host's programs, whoever has started them."""
        own = process.descendants(os.getpid())
        return [*own, *process.members(remote.MARK, remote.mark_of(self._run, self._name))] if self.tasks else own

    @property
    def serves(self) -> bool:
        """Whether other hosts may still read bytes of ranks here, also when all programs here have ended."""
        return bool(self._servers)

    def ended_server(self) -> tuple[int, Exit] | None:
        """A server that has ended: without it, ranks on other hosts wait for ever."""
        ended = process.reap(server.pid for server in self._servers.values())
        for place, server in self._servers.items():
            if server.pid in ended:
                return place, Exit(ended[server.pid])
        return None

    def end(self) -> None:
        """End all of it, also what an mpiexec on another host has started here and can no longer end."""
        for path in self._settings.values():
            path.unlink(missing_ok=True)
            _shells_path(path).unlink(missing_ok=True)
            _left_path(path).unlink(missing_ok=True)
        servers = [server.pid for server in self._servers.values()]
        self._servers.clear()
        process.send(servers, signal.SIGKILL)
        process.reap(servers)
        if self.tasks:
            end_members(remote.mark_of(self._run, self._name), variable=remote.MARK, leave_within=GRACE)


def _service(task: TaskPlan, host: int) -> str:
    """The name, among all hosts, of the server of a task's files on a host."""
    return f"files:{task.index}:{host}"
