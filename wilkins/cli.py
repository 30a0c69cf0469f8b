"""The command line: ``wilkins run FILE`` and its kin. Stays light until it knows what it is asked for."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wilkins import arguments as takes
from wilkins.arguments import GRAPHS, LINEAGES, TIMELINES, Command
from wilkins.errors import Problem, UsageError, WilkinsError, WorkflowError, count_of
from wilkins.terminal import streams
from wilkins.terminal.reporting import report, show_tracebacks
from wilkins.transport.plan_table import RANK_VARIABLES
from wilkins.values import replace

if TYPE_CHECKING:
    from wilkins.flow.placement import Host
    from wilkins.launch.options import Ended, Planned, RunOptions
    from wilkins.plan.plan import Launch, Plan
    from wilkins.profile import Profile

_JOB_VARIABLES = {*RANK_VARIABLES, "SLURM_STEP_NUM_TASKS"} - {"SLURM_PROCID"}
"""Of an MPI job's ranks. (A batch script has a SLURM_PROCID outside of any job step.)"""
_INTERRUPTED = 130
_COMPLETES = "_ARGCOMPLETE"
"""Set by the code that `wilkins completion` gives to a shell, where that asks how a command line may go on."""
_PROFILE = "WILKINS_PROFILE"
"""Names the profile where `--profile` does not."""
_USUAL = Path("workflow.yaml")
"""The workflow file of commands that are given none."""
_GO_BACK = "wilkins.resume.inplace:go_back"
"""Where a task of a run goes on after a failure."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    streams.settle()
    try:
        code = _main(arguments)
    finally:
        cut_short = streams.finish()
    return code or cut_short


def _main(arguments: Sequence[str] | None) -> int:
    try:
        words = sys.argv[1:] if arguments is None else arguments
        if _COMPLETES in os.environ:
            _complete()
        return _obey(_parsed(words))
    except SystemExit as done:  # argparse has said why
        return int(done.code or 0)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        return report(error)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the command line says, with what a profile gives; as `typed`, without."""
    parsed = typed = takes.parser_of(COMMANDS, words).parse_args(words)
    show_tracebacks(parsed.debug)
    site: Profile | None = None
    if hasattr(typed, "profile") and (name := typed.profile or os.environ.get(_PROFILE)):
        from wilkins import profile

        site, more = profile.applied(name, words, COMMANDS)
        parsed = takes.parser_of(COMMANDS, more).parse_args(more)
        words = words if typed.profile else [*words, f"--profile={name}"]
        typed.profile = str(site.file)
        for variable, value in site.variables.items():
            os.environ.setdefault(variable, value)
    parsed.words, parsed.typed, parsed.site = words, typed, site
    return parsed


def _obey(parsed: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        return command(parsed)
    except UsageError as error:
        if parsed.site is not None and (origin := parsed.site.origin(str(error), parsed.words)):
            raise UsageError(f"{error}{origin}") from error
        raise
    except WorkflowError as error:
        if parsed.site is not None and (origin := parsed.site.origin(str(error.problems[0].position), parsed.words)):
            first, *others = error.problems
            raise WorkflowError([Problem(first.position, f"{first.message}{origin}"), *others]) from error
        raise


def _complete() -> None:
    """Answer the shell, which asks how the command line may go on, and end. Without the package for it, say nothing."""
    try:
        import argcomplete
    except ImportError:
        raise SystemExit(1) from None
    argcomplete.autocomplete(takes.parser_of(COMMANDS), always_complete_options=False)


def in_job(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is a rank that an ``mpiexec``, ``srun`` or kin has started."""
    return any(name in environment for name in _JOB_VARIABLES)


def _run(parsed: argparse.Namespace) -> int:
    from wilkins.launch.records.rundir import RUNS

    if in_job() and (parsed.hosts is not None or parsed.hostfile is not None):
        raise UsageError("the hosts of an MPI job are those of its ranks; leave out --hosts, or the mpiexec")
    if parsed.interface is not None:
        os.environ["WILKINS_INTERFACE"] = parsed.interface  # as keepers on other hosts get it
    if parsed.fabric is not None:
        os.environ["WILKINS_FABRIC"] = parsed.fabric
    if parsed.resume is not None:
        return _resume(parsed)
    file, folder = _workflow(parsed)
    options = _options(parsed)
    if in_job():
        runs = (folder or file.parent) / RUNS
        return _run_job(file, options, lambda: _planned(parsed, "one-job", file, folder), runs)
    return _launch(_planned(parsed, "alone", file, folder).plan, options)


def _options(parsed: argparse.Namespace) -> RunOptions:
    from wilkins.launch.options import PATIENCE, RunOptions

    timeout, metrics = _seconds(parsed.timeout), tuple(parsed.metrics)
    command, settings = ("wilkins", *parsed.words), tuple(parsed.set)
    return RunOptions(
        parsed.run_dir,
        timeout,
        quiet=parsed.quiet,
        strict=parsed.strict,
        patience=_seconds(parsed.patience, "--patience") or PATIENCE,
        metrics=metrics,
        command=command,
        settings=settings,
    )


def _launch(plan: Plan, options: RunOptions) -> int:
    """Run a plan alone, on this machine or its hosts."""
    if not any(task.retries for task in plan.tasks):
        return _launched(plan, options).code
    began, first = time.monotonic(), options
    options = replace(options, go_back=_GO_BACK)
    ended = _launched(plan, options)
    number = 1
    while ended.goes_on:
        from wilkins.resume.inplace import continued

        number += 1
        planned = continued(ended)
        streams.show(planned.summary)
        left = None if first.timeout is None else max(0.1, first.timeout - (time.monotonic() - began))
        folder = first.run_dir and first.run_dir.with_name(f"{first.run_dir.name}-{number}")
        ended = _launched(planned.plan, replace(options, resumption=planned.record, timeout=left, run_dir=folder))
    return ended.code


def _launched(plan: Plan, options: RunOptions) -> Ended:
    if plan.hosts:
        from wilkins.launch.hosts import head

        return head.run(plan, options)
    from wilkins import launch

    return launch.run(plan, options)


def _run_job(given: Path, options: RunOptions, make: Callable[[], Planned], runs: Path) -> int:
    """Be a rank of an MPI job. `runs`: the folder in which the run has its own, unless an option names another."""
    from wilkins.launch.job.rank import this_rank

    here, options = this_rank(), replace(options, go_back=_GO_BACK)
    if here is None or here.one_node:
        from wilkins.launch.job import onejob

        return onejob.main(given, options, make)
    from wilkins.launch.hostjob.main import main as run_over_hosts

    return run_over_hosts(given, options, make, here, runs)


def _planned(parsed: argparse.Namespace, how: Launch, file: Path, folder: Path | None) -> Planned:
    from wilkins.launch.options import Planned
    from wilkins.plan.planner import plan_file

    hosts = _hosts(parsed) if how == "alone" else ()
    plan = plan_file(file, parsed.set, how, folder, files=parsed.files, hosts=hosts)
    return Planned(replace(plan, encrypts=parsed.encrypt))


def _resume(parsed: argparse.Namespace) -> int:
    run = _run_to_resume(parsed)
    options = _options(parsed)

    def resumed(how: Launch, hosts: tuple[Host, ...] | None) -> Planned:
        planned = _resumed(parsed, run, how, hosts)
        return replace(planned, plan=replace(planned.plan, encrypts=planned.plan.encrypts or parsed.encrypt))

    if in_job():
        return _run_job(run, options, lambda: resumed("one-job", ()), run.resolve().parent)
    planned = resumed("alone", _named_hosts(parsed))
    streams.show(planned.summary)
    return _launch(planned.plan, replace(options, resumption=planned.record))


def _run_to_resume(parsed: argparse.Namespace) -> Path:
    """The directory that ``--resume`` names, with no other workflow beside it."""
    from wilkins.launch.records.rundir import named

    given = [word for word, value in (("FILE", parsed.file), ("--builtin", parsed.builtin)) if value]
    if parsed.typed.files:
        given.append("--files")
    if given:
        raise UsageError(f"--resume goes on with a run as it was started; leave out {', '.join(given)}")
    return named(parsed.resume)


def _resumed(parsed: argparse.Namespace, run: Path, how: Launch, hosts: tuple[Host, ...] | None) -> Planned:
    """The plan that resumes a run. `hosts`: where; None: on its own hosts."""
    from wilkins.resume.resumption import resume
    from wilkins.spec import placements

    return resume(run, how, hosts, dict(map(placements.in_option, parsed.typed.set)))


def _submit(parsed: argparse.Namespace) -> int:
    from wilkins.resume import record
    from wilkins.submit import arguments, command
    from wilkins.submit.request import gpus_dealt, job_request

    _seconds(parsed.timeout)
    _seconds(parsed.patience, "--patience")
    options = arguments.options(parsed)
    run = None if parsed.resume is None else _run_to_resume(parsed).resolve()
    if run is None:
        plan, gpus = _planned_for_job(parsed)
    else:
        plan = _resumed(parsed, run, "alone", ()).plan
        record.release()  # the job goes on with it
        gpus = parsed.gpus or gpus_dealt(plan)
    for note in plan.notes:
        streams.log(note)
    job = job_request(plan, options, arguments.run_words(parsed.typed, run), Path.cwd(), gpus)
    command.submit(plan, job, parsed.scheduler, parsed.run_dir, dry=parsed.dry_run)
    return 0


def _planned_for_job(parsed: argparse.Namespace) -> tuple[Plan, int]:
    """The plan for a machine with the GPUs that the job asks for, and their number."""
    from wilkins.plan.gpus import Machine
    from wilkins.plan.graph import wire
    from wilkins.plan.planner import make_plan
    from wilkins.spec.load import load

    file, folder = _workflow(parsed)
    document = load(file, parsed.set)
    gpus = parsed.gpus or sum((task.gpus or 0) * task.taskCount for task in document.workflow.tasks)
    return make_plan(document, wire(document, files=parsed.files), folder=folder, machine=Machine(gpus)), gpus


def _workflow(parsed: argparse.Namespace) -> tuple[Path, Path | None]:
    """The workflow file, and the folder its tasks run in if that is not the file's."""
    if parsed.builtin is None:
        if parsed.file is None and not _USUAL.exists():
            raise UsageError(
                f"which workflow? there is no {_USUAL} here; give its FILE, or --builtin NAME (see: wilkins list)"
            )
        return parsed.file or _USUAL, None
    if parsed.file is not None:
        raise UsageError(f"give the file {parsed.file} or --builtin {parsed.builtin}, not both")
    from wilkins.spec import builtin

    return builtin.file_of(parsed.builtin), Path.cwd()


def _list(_: argparse.Namespace) -> int:
    from wilkins.spec import builtin

    streams.show(builtin.listed())
    return 0


def _check(parsed: argparse.Namespace) -> int:
    from wilkins.plan.cores import cores, oversubscribed
    from wilkins.plan.cycles import without_first
    from wilkins.plan.planner import plan_file

    file, folder = _workflow(parsed)
    plan = plan_file(file, parsed.set, folder=folder, files=parsed.files)
    for note in (*plan.notes, *without_first(plan), *oversubscribed(plan, cores())):
        streams.log(note)
    counts = [(len(plan.tasks), "task"), (plan.total_ranks, "rank"), (len(plan.channels), "channel")]
    streams.show(f"{file}: all right: {', '.join(count_of(*count) for count in counts)}")
    return 0


def _doctor(parsed: argparse.Namespace) -> int:
    from wilkins.doctor import findings as meaning
    from wilkins.doctor import machine, programs, show
    from wilkins.doctor.selftest import self_test

    if parsed.program is None:
        found = [*meaning.of_machine(machine.machine()), self_test()]
    elif Path(parsed.program).suffix in (".yaml", ".yml"):
        from wilkins.doctor import containers

        file = Path(parsed.program)
        found = [one for facts in programs.of_workflow(file) for one in meaning.of_program(facts)]
        found += [meaning.of_container(facts) for facts in containers.of_workflow(file)]
    else:
        found = meaning.of_program(programs.of_words(parsed.program))
    streams.show(show.as_json(found) if parsed.json else show.as_text(found))
    return WilkinsError.exit_code if any(one.level == "wrong" for one in found) else 0


def _record(parsed: argparse.Namespace) -> int:
    import shlex

    from wilkins.record import command
    from wilkins.record.run import Command as Recorded

    mpiexec = tuple(shlex.split(parsed.mpiexec or ""))
    recorded = Recorded(tuple(parsed.program), parsed.nprocs, mpiexec)
    return command.run(recorded, parsed.output, parsed.name, parsed.files)


def _plan(parsed: argparse.Namespace) -> int:
    from wilkins.plan.graph import wire
    from wilkins.plan.placing import placed
    from wilkins.plan.planner import make_plan
    from wilkins.report.shared_memory import footprints, total_line, warnings, written
    from wilkins.report.show import plan_table
    from wilkins.spec.load import load

    file, folder = _workflow(parsed)
    document = load(file, parsed.set)
    wiring = wire(document, files=parsed.files)
    plan = make_plan(document, wiring, folder=folder)
    run, seen, pays = None, None, []
    if parsed.measured is not None:
        from wilkins.report.runs import events_of_run

        run, events = events_of_run(parsed.measured)
        seen = written(events)
    hosts = _hosts(parsed)
    if hosts or parsed.bandwidth:
        from wilkins.report.network import network
        from wilkins.report.packed import of_plan

        joined = network(hosts, (), parsed.bandwidth)
        plan = placed(plan, document, hosts)
        pays = of_plan(plan, joined, run)
    sizes = {str(task.name): task.model.size for task in document.workflow.tasks if task.model}
    streams.show(plan_table(plan, sizes))
    for one in pays:
        if not one.slower:
            streams.show(f"\n{one.text}")
    found, unknown = footprints(document, wiring, seen)
    if text := total_line(found, unknown):
        streams.show(f"\n{text}")
    if parsed.site is not None:
        streams.show(f"\n{parsed.site}")
    slower = [one.text for one in pays if one.slower]
    for warning in [*slower, *(warnings(found, None) if plan.hosts else warnings(found))]:
        streams.log(warning)
    return 0


def _hosts(parsed: argparse.Namespace) -> tuple[Host, ...]:
    """The hosts that the command line names, those of the allocation, or those of a profile; none: this machine."""
    named = _named_hosts(parsed)
    site: Profile | None = parsed.site
    return site.hosts() if named is None and site is not None and not in_job() else named or ()


def _named_hosts(parsed: argparse.Namespace) -> tuple[Host, ...] | None:
    """The same; None: nobody says on which hosts, and there is no allocation."""
    from wilkins.plan import hosts

    if parsed.hosts is not None and parsed.hostfile is not None:
        raise UsageError("give --hosts or --hostfile, not both")
    if parsed.hostfile is not None:
        return hosts.from_file(parsed.hostfile)
    words = os.environ.get("WILKINS_HOSTS") if parsed.hosts is None else parsed.hosts
    if words:
        return hosts.from_words(words)
    allocated = () if in_job() else hosts.from_allocation(os.environ)
    return allocated if len(allocated) > 1 else () if allocated else None


def _graph(parsed: argparse.Namespace) -> int:
    from wilkins.plan.graph import wire
    from wilkins.report.pictures import chosen_format, output_graph
    from wilkins.spec.load import load

    file_format = chosen_format(parsed.format, parsed.output, GRAPHS)
    document = load(_workflow(parsed)[0], parsed.set)
    output_graph(document, wire(document, files=parsed.files), file_format, parsed.output)
    return 0


def _simulate(parsed: argparse.Namespace) -> int:
    if parsed.failures is not None:
        if parsed.file is not None or parsed.builtin is not None:
            raise UsageError("--failures says all that is needed by itself; leave out the workflow")
        from wilkins.report.failures import failures

        return failures(parsed.failures)
    from wilkins.report.pictures import chosen_format
    from wilkins.report.timelines import simulate
    from wilkins.schema.kinds import RATE, parse_rate

    try:
        rate = None if parsed.rate is None else parse_rate(parsed.rate)
    except ValueError:
        raise UsageError(f"--rate must be {RATE}, not {parsed.rate!r}") from None
    file = _workflow(parsed)[0]
    file_format = chosen_format(parsed.format, parsed.output, TIMELINES)
    return simulate(
        file,
        parsed.set,
        rate or None,
        parsed.measured,
        parsed.trace,
        file_format,
        parsed.output,
        files=parsed.files,
        hosts=_hosts(parsed),
        latency=parsed.latency,
        bandwidth=parsed.bandwidth,
    )


def _trace(parsed: argparse.Namespace) -> int:
    from wilkins.report.pictures import chosen_format
    from wilkins.report.timelines import trace

    file_format = chosen_format(parsed.format, parsed.output, TIMELINES)
    return trace(parsed.run, parsed.skip_start, file_format, parsed.output)


def _report(parsed: argparse.Namespace) -> int:
    if parsed.with_files and parsed.crate is None:
        raise UsageError("--with-files is for a crate: give --crate FOLDER or --crate FILE.zip, too")
    if parsed.results and not parsed.table:
        raise UsageError(
            "--results PATTERN goes with --table: wilkins report --table --results results-{instance}.json"
        )
    if (parsed.dset is not None or parsed.spectrum) and parsed.compare is None:
        option = "--spectrum" if parsed.spectrum else "--dset '/fields/*'"
        raise UsageError(f"{option} goes with --compare: wilkins report --compare BEFORE.h5 AFTER.h5 {option}")
    if parsed.compare is not None:
        from wilkins.report.quality import comparison

        before, after = parsed.compare
        streams.show(comparison(before, after, parsed.dset or "*", spectra=parsed.spectrum))
        return 0
    if parsed.table:
        if parsed.crate is not None:
            raise UsageError("--table and --crate are two commands: give one of them at a time")
        from wilkins.report.table import output_table

        output_table(parsed.run, parsed.results, parsed.output)
        return 0
    if parsed.crate is not None:
        from wilkins.report.crate import crate

        streams.show(crate.written(parsed.run, parsed.crate, with_files=parsed.with_files))
    if parsed.output is not None or parsed.crate is None:
        from wilkins.report.page.page import written

        page = written(parsed.run, parsed.output or Path("report.html"))
        streams.show(f"{page}: open it in a browser; it needs no network")
    return 0


def _top(parsed: argparse.Namespace) -> int:
    from wilkins.report.top import top

    if parsed.port is not None and not parsed.web:
        raise UsageError("--port N is for the page in a browser: give --web, too")
    return top(parsed.run, once=parsed.once, web=(parsed.port or 0) if parsed.web else None)


def _completion(parsed: argparse.Namespace) -> int:
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise UsageError(
            "completion needs argcomplete, which is not installed: pip install 'wilkins[completion]'"
        ) from None
    streams.show(shellcode(["wilkins"], shell=parsed.shell))
    return 0


def _runs(parsed: argparse.Namespace) -> int:
    from wilkins.report.runlist import prune, runs_in, table

    if parsed.prune != (parsed.older is not None):
        raise UsageError("--prune and --older TIME go together: wilkins runs --prune --older 7d")
    older = _seconds(parsed.older, "--older")
    streams.show(table(runs_in(parsed.folder)) if older is None else prune(parsed.folder, older))
    return 0


def _schema(parsed: argparse.Namespace) -> int:
    from wilkins.spec import reference

    text = reference.reference() if parsed.format == "markdown" else reference.json_text()
    if parsed.output is None:
        streams.show(text, end="")
        return 0
    from wilkins import atomic
    from wilkins.errors import refused

    try:
        atomic.put(parsed.output, text)
    except OSError as error:
        raise refused(parsed.output, "be written", error) from error
    streams.show(f"wrote {parsed.output}")
    return 0


def _help(parsed: argparse.Namespace) -> int:
    import pydoc

    from wilkins.terminal import help as pages

    text = pages.listed() if parsed.topic is None else pages.shown(parsed.topic)
    if parsed.topic and sys.stdout.isatty():
        pydoc.pager(text)
    else:
        streams.show(text)
    return 0


def _clean(_: argparse.Namespace) -> int:
    from wilkins import launch

    return launch.clean()


def _ckpt(parsed: argparse.Namespace) -> int:
    from wilkins.tasks.checkpoint import command
    from wilkins.tasks.checkpoint.archive import command as of_pieces

    if parsed.action == "list":
        streams.show(command.listed(parsed.folder))
    elif parsed.action == "fetch":
        streams.show(of_pieces.fetched(parsed.folder, parsed.target, parsed.version))
    elif parsed.action == "repair":
        text, good = of_pieces.repaired(parsed.folder, parsed.new)
        streams.show(text)
        return 0 if good else WilkinsError.exit_code
    elif parsed.action == "show":
        streams.show(command.shown(parsed.folder, parsed.version))
    elif parsed.action == "prune":
        streams.show(command.pruned(parsed.folder, parsed.keep))
    elif parsed.action == "export":
        only = parsed.only or []
        streams.show(
            command.exported(parsed.folder, parsed.file, parsed.version, only=only, root=parsed.root, rank=parsed.rank)
        )
    else:
        text, good = command.verified(parsed.folder, parsed.version)
        streams.show(text)
        return 0 if good else WilkinsError.exit_code
    return 0


def _models(parsed: argparse.Namespace) -> int:
    from wilkins.tasks.models import command

    store, action = parsed.store, parsed.action
    if action == "verify":
        text, good = command.verified(store, parsed.name)
        streams.show(text)
        return 0 if good else WilkinsError.exit_code
    if action == "lineage":
        return _lineage(parsed)
    if action == "list":
        text = command.listed(store, parsed.tag)
    elif action == "show":
        text = command.shown(store, parsed.name)
    elif action == "diff":
        text = command.compared(store, parsed.name, parsed.other)
    elif action == "export":
        text = command.exported_to(store, parsed.name, parsed.target, parsed.layers)
    elif action == "import":
        text = command.imported(
            store, parsed.source, name=parsed.name, parent=parsed.parent, score=parsed.score, tags=parsed.tag
        )
    else:
        text = command.pruned(store, parsed.remove, parsed.keep)
    streams.show(text)
    return 0


def _lineage(parsed: argparse.Namespace) -> int:
    from wilkins.report.draw.lineage import Descendant
    from wilkins.report.pictures import chosen_format, output_lineage
    from wilkins.tasks.models import command

    file_format = chosen_format(parsed.format, parsed.output, LINEAGES)
    found = command.members(parsed.store, parsed.names)
    models = [Descendant(one.name, one.parent, command.said_of(one), command.taken_by(one)) for one in found]
    output_lineage(models, file_format, parsed.output)
    return 0


def _init(parsed: argparse.Namespace) -> int:
    path = parsed.file or Path(parsed.source or "workflow.yaml")
    try:
        if parsed.source:
            from wilkins.spec import builtin

            builtin.copy(parsed.source, path)
        else:
            from wilkins.spec.editors import MODELINE, put_schema
            from wilkins.spec.starter import STARTER

            with path.open("x", encoding="utf-8") as file:
                file.write((MODELINE if put_schema(path.parent) else "") + STARTER)
    except FileExistsError:
        raise UsageError(f"{path} exists already; give another name: wilkins init other.yaml") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; give a name in a folder of yours") from error
    streams.show(f"wrote {path}; edit it, then: wilkins run {path / 'workflow.yaml' if parsed.source else path}")
    return 0


def _seconds(text: str | None, option: str = "--timeout") -> float | None:
    if text is None:
        return None
    from wilkins.schema.kinds import parse_duration

    try:
        return parse_duration(text)
    except ValueError:
        raise UsageError(f"{option} must be a time such as 90, 30s, 10min, 2h or 7d, not {text!r}") from None


COMMANDS = {
    "run": Command(_run, "run a workflow: alone on this machine, or as one job under mpiexec or srun", takes.of_run),
    "submit": Command(_submit, "run a workflow as a batch job of Slurm, PBS, Flux or LSF", takes.of_submit),
    "check": Command(_check, "say what is wrong in a workflow file, and how to mend it", takes.of_file),
    "doctor": Command(_doctor, "say what works on this machine, or with a program, and why not", takes.of_doctor),
    "plan": Command(_plan, "show what would be started: tasks, ranks, channels, memory, hosts", takes.of_plan),
    "graph": Command(_graph, "show the task graph", takes.of_graph),
    "simulate": Command(
        _simulate, "predict the timeline of a workflow from the `model` of its tasks", takes.of_simulate
    ),
    "trace": Command(_trace, "show the timeline of a run as it happened", takes.of_trace),
    "report": Command(_report, "write a page that shows a run, or its numbers as a table", takes.of_report),
    "top": Command(_top, "show how far a run is while it goes on", takes.of_top),
    "runs": Command(_runs, "list the runs in a folder, or remove old ones", takes.of_runs),
    "schema": Command(_schema, "print the JSON Schema of workflow files, for editors", takes.of_schema),
    "clean": Command(_clean, "remove what killed runs left in shared memory, and hidden on disk"),
    "ckpt": Command(
        _ckpt, "list, verify, show, export, prune, repair or fetch the checkpoints in a folder", takes.of_ckpt
    ),
    "models": Command(
        _models, "list, show, compare, export, import, prune or verify the models in a store", takes.of_models
    ),
    "help": Command(_help, "show a page of the documentation; without TOPIC, list them", takes.of_help),
    "record": Command(_record, "run a program alone, and write its task for a workflow file", takes.of_record),
    "list": Command(_list, "show the packaged workflows and their parameters"),
    "completion": Command(
        _completion, "print what lets a shell complete wilkins' commands, options and files", takes.of_completion
    ),
    "init": Command(_init, "write a commented workflow file to start from, or copy a packaged workflow", takes.of_init),
}
"""In the order in which the help shows them."""
