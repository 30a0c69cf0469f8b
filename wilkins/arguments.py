"""What each command takes. A parser knows all commands, or the one that is given, since a run needs no other."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from wilkins.errors import suggest
from wilkins.terminal import streams
from wilkins.terminal.arguments import count
from wilkins.terminal.reporting import VARIABLE
from wilkins.values import dataclass

GRAPHS = ("text", "mermaid", "dot", "svg", "png", "pdf")
TIMELINES = ("text", "svg", "png", "pdf", "perfetto")
LINEAGES = ("text", "svg", "png", "pdf")
"""What task graphs, timelines and the lineage of models can be put out as."""

_DEBUG = f"show the traceback of an error, too; so does {VARIABLE}=1 in the environment"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line."""

    run: Callable[[argparse.Namespace], int]
    text: str
    """What it does."""
    add_to: Callable[[argparse.ArgumentParser], None] = lambda _: None
    """Lets a parser take its arguments."""


class _Parser(argparse.ArgumentParser):
    """Writes its help and its errors as everything else is written, and says what a misspelt word may mean."""

    def error(self, message: str) -> NoReturn:
        """Ends the program, as argparse does."""
        if found := re.fullmatch(r".*invalid choice: '(.*)' \(choose from (.*)\)", message):
            message += suggest(found[1], re.findall(r"[\w-]+", found[2]))
        super().error(message)

    def _print_message(self, message: str, file: Any = None) -> None:
        (streams.show if file is sys.stdout else streams.log)(message, end="")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import wilkins

        streams.show(f"wilkins {wilkins.__version__}")
        parser.exit()


def parser_of(commands: dict[str, Command], words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The parser of the command line `words`: of one command if they begin with one, else of all."""
    parser = _Parser(
        prog="wilkins",
        description="Couples unmodified HDF5 programs in memory, from one workflow file.",
        epilog="Exit codes: 0 done, 1 a task failed (or left steps unread, with --strict), 2 bad workflow file or "
        "usage, 3 wrong resources, 4 stuck or timed out.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    parser.add_argument("--debug", action="store_true", help=_DEBUG)
    children = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in words[:1] if words and words[0] in commands else commands:
        command = commands[name]
        text = command.text
        child = children.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
        child.set_defaults(command=command.run)
        _add_debug(child)
        command.add_to(child)
    return parser


def _add_debug(child: argparse.ArgumentParser) -> None:
    child.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=_DEBUG)


def of_file(child: argparse.ArgumentParser) -> None:
    """The workflow file, and what changes it."""
    child.add_argument("file", metavar="FILE", type=Path, nargs="?", help="the workflow file (default: workflow.yaml)")
    child.add_argument("--builtin", metavar="NAME", help="a packaged workflow, run here (see: wilkins list)")
    child.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="give a parameter, or another value than the file's, such as melt.nprocs=8; may be repeated",
    )
    child.add_argument(
        "--files", action="store_true", help="exchange everything through files on disk, under the same policies"
    )
    child.add_argument(
        "--profile",
        metavar="NAME|FILE",
        help="options that a site or a project gives once (`wilkins help profiles`); left out: WILKINS_PROFILE",
    )


def _add_hosts(child: argparse.ArgumentParser) -> None:
    child.add_argument("--hosts", metavar="HOST:N,...", help="run on these hosts, so many ranks on each at most")
    child.add_argument("--hostfile", metavar="HOSTS", type=Path, help="run on the hosts of this file, one a line")


def _add_output(child: argparse.ArgumentParser, formats: Sequence[str]) -> None:
    child.add_argument("--format", choices=formats, help="left out: what the name of FILE says, else text")
    child.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it there")


def _add_run(child: argparse.ArgumentParser) -> None:
    child.add_argument("--run-dir", metavar="DIR", type=Path, help="where logs and records go")
    child.add_argument(
        "--resume",
        metavar="RUN",
        type=Path,
        help="go on with a run that was killed or failed: its directory, or its name in wilkins-runs, such as latest",
    )
    child.add_argument("--timeout", metavar="TIME", help="stop the run after this time (seconds, or 10min, 2h)")
    child.add_argument(
        "--patience",
        metavar="TIME",
        help="over several hosts: for how long the launcher of a host may stand still, as where a file system hangs, "
        "before the host counts as lost (default: 1min)",
    )
    child.add_argument(
        "--metrics",
        metavar="FILE|[ADDRESS]:PORT",
        action="append",
        default=[],
        help="give out the run's numbers for Prometheus while it lasts: in a file, every second, or at an address "
        "(:9464 is 127.0.0.1:9464); may be repeated",
    )
    child.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 if a task without `enough: true` has not read every step that its policy gives it, or a "
        "task was started again for files that came after it had listed the folder, or has changed steps where nobody "
        "can see it",
    )


def _add_encrypt(child: argparse.ArgumentParser) -> None:
    child.add_argument(
        "--encrypt",
        action="store_true",
        help="over several hosts: encrypt steps on their way from host to host; it takes time (`wilkins help hosts`)",
    )


def of_run(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins run``."""
    of_file(child)
    _add_run(child)
    _add_hosts(child)
    child.add_argument(
        "--interface",
        metavar="NAME",
        help="over several hosts: the network interface (ib0), network (10.1.0.0/16) or address by which they reach "
        "each other; WILKINS_INTERFACE says the same",
    )
    _add_encrypt(child)
    child.add_argument(
        "--fabric",
        choices=("auto", "tcp", "ucx"),
        help="over several hosts: what the bytes of steps cross by; auto is UCX where both hosts have it and an RDMA "
        "network, else TCP (`wilkins help hosts`); WILKINS_FABRIC says the same",
    )
    child.add_argument(
        "--quiet",
        action="store_true",
        help="keep the tasks' output in their logs, but for the last lines of one that fails",
    )


def of_submit(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins submit``."""
    from wilkins.submit import arguments

    of_file(child)
    _add_run(child)
    _add_encrypt(child)
    arguments.add_to(child)


def of_doctor(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins doctor``."""
    child.add_argument(
        "program",
        metavar="EXE|FILE",
        nargs="?",
        help="a program, or a workflow file, whose programs are looked at; left out: this machine",
    )
    child.add_argument("--json", action="store_true", help="for other programs: a list of findings")


def of_record(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins record``."""
    options = "[-o FILE] [--name NAME] [--nprocs N] [--mpiexec CMD] [--files PATTERN]"
    child.usage = f"wilkins record {options} -- CMD [ARG ...]"
    child.add_argument("program", metavar="CMD", nargs="+", help="the program and its arguments")
    child.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="the workflow file that gets the task; left out: show it"
    )
    child.add_argument("--name", metavar="NAME", help="the task's name; left out: the program's")
    child.add_argument("--nprocs", metavar="N", type=count, default=1, help="ranks, started by the program's mpiexec")
    child.add_argument("--mpiexec", metavar="CMD", help="another mpiexec, with its options: 'mpirun --bind-to none'")
    child.add_argument(
        "--files",
        metavar="PATTERN",
        action="append",
        default=[],
        help="files that ports are for, whatever they hold: 'out*.csv' (may be given more than once)",
    )


def of_plan(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins plan``."""
    of_file(child)
    _add_hosts(child)
    child.add_argument(
        "--bandwidth",
        metavar="[HOSTS=]BYTES",
        action="append",
        default=[],
        help="what a host sends per second, and receives, such as 12GB/s or 100Gbit/s, as for simulate: says whether "
        "compression between hosts pays",
    )
    child.add_argument(
        "--from",
        dest="measured",
        metavar="RUN",
        type=Path,
        help="take from this run how large steps were, and how small compression between hosts made them: its "
        "directory, or its name in wilkins-runs, such as latest",
    )


def of_graph(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins graph``."""
    of_file(child)
    _add_output(child, GRAPHS)


def of_simulate(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins simulate``."""
    of_file(child)
    _add_hosts(child)
    for option, what, example in (
        ("--latency", "the time a small message takes from host to host, such as 50us", "50us"),
        ("--bandwidth", "what a host sends per second, and receives, such as 12GB/s or 100Gbit/s", "12GB/s"),
    ):
        child.add_argument(
            option,
            metavar=f"[HOSTS=]{'TIME' if option == '--latency' else 'BYTES'}",
            action="append",
            default=[],
            help=f"{what}; of some hosts: node[0-3]={example}; may be repeated; left out: the network takes no time",
        )
    child.add_argument(
        "--rate", metavar="BYTES", help="what a rank copies per second, such as 5GB/s; left out: copies take no time"
    )
    child.add_argument(
        "--from",
        dest="measured",
        metavar="RUN",
        type=Path,
        help="take the times per step, and numbers of steps, that the file does not give from this run: its directory, "
        "its name in wilkins-runs, such as latest, or the file of its trace",
    )
    child.add_argument("--trace", metavar="RUN", type=Path, help="show this run, named alike, beside the prediction")
    child.add_argument(
        "--failures",
        metavar="MTBF=TIME,...",
        help="say instead what failures cost a training, without a FILE: MTBF=500h (of a rank),ranks=64,work=7d,"
        "step=2s,checkpoint=1min,restart=5min,recover=3s,replace=5min (or never),together=0.05 (share of failures that "
        "end all ranks),interval=1h",
    )
    _add_output(child, TIMELINES)


def of_trace(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins trace``."""
    child.add_argument(
        "run",
        metavar="RUN",
        type=Path,
        nargs="?",
        default=Path("wilkins-runs/latest"),
        help="the run's directory, its name in wilkins-runs, or the file of its trace (default: latest)",
    )
    child.add_argument(
        "--skip-start",
        action="store_true",
        help="leave out the start and the end of programs: begin when the first task has started",
    )
    _add_output(child, TIMELINES)


def of_report(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins report``."""
    child.add_argument(
        "run",
        metavar="RUN",
        type=Path,
        nargs="?",
        default=Path("wilkins-runs/latest"),
        help="the run's directory, or its name in wilkins-runs (default: latest)",
    )
    child.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="default: report.html; with --table, standard output"
    )
    child.add_argument(
        "--crate",
        metavar="FOLDER|FILE.zip",
        type=Path,
        help="instead of a page, write a Workflow Run RO-Crate: what was run, with what, and what came of it",
    )
    child.add_argument(
        "--with-files", action="store_true", help="with --crate: copy the files that the run has left on disk, too"
    )
    child.add_argument(
        "--table", action="store_true", help="CSV instead of a page: a row for each instance, with parameters of sweeps"
    )
    child.add_argument(
        "--results",
        metavar="PATTERN",
        default="",
        help="with --table: a file of JSON or CSV that each instance has left in its folder, whose values are columns, "
        "too; {instance} and {parameter} stand for its own",
    )
    child.add_argument(
        "--compare",
        metavar=("BEFORE", "AFTER"),
        nargs=2,
        type=Path,
        help="say instead how far the numbers of the HDF5 file AFTER are from those of BEFORE, such as of a compressed "
        "copy from its original: largest and mean error, and peak signal-to-noise ratio (PSNR)",
    )
    child.add_argument(
        "--dset", metavar="PATTERN", help="with --compare: the datasets, such as '/fields/*'; left out: all"
    )
    child.add_argument(
        "--spectrum",
        action="store_true",
        help="with --compare: say up to which wavenumber the power spectrum of each field is what it was",
    )


def of_top(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins top``."""
    child.add_argument(
        "run",
        metavar="RUN",
        type=Path,
        nargs="?",
        default=Path("wilkins-runs/latest"),
        help="the run's directory, or its name in wilkins-runs (default: latest)",
    )
    way = child.add_mutually_exclusive_group()
    way.add_argument("--once", action="store_true", help="print one table, as where there is no terminal")
    way.add_argument(
        "--web", action="store_true", help="show the run in a browser on this machine: its report, as it grows"
    )
    child.add_argument("--port", metavar="N", type=int, help="with --web: where (default: a free one)")


def of_completion(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins completion``."""
    child.add_argument("shell", choices=("bash", "zsh", "fish"), help='bash, zsh: eval "$(wilkins completion bash)"')


def of_runs(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins runs``."""
    child.add_argument(
        "folder",
        metavar="DIR",
        type=Path,
        nargs="?",
        default=Path("wilkins-runs"),
        help="where they are (default: wilkins-runs)",
    )
    child.add_argument("--prune", action="store_true", help="remove those that have ended, and began long ago")
    child.add_argument("--older", metavar="TIME", help="with --prune: how long ago, such as 12h or 7d")


def of_schema(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins schema``."""
    child.add_argument("--format", choices=("json", "markdown"), default="json", help="markdown: the reference")
    child.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it to a file instead")


def of_ckpt(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins ckpt``."""
    actions = child.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action, help_text in (
        ("list", "which versions there are"),
        ("verify", "read every byte and compare it with its digest"),
        ("show", "which arrays a version holds"),
        ("export", "write arrays of a version to a safetensors file"),
        ("prune", "remove all but the newest versions"),
        ("repair", "make pieces that are lost or damaged again, on other places"),
        ("fetch", "make a version of its pieces in a folder"),
    ):
        below = actions.add_parser(action, help=help_text, allow_abbrev=False)
        _add_debug(below)
        either = "the folder of the versions, or a place that has pieces of them"
        whole = action in ("show", "export", "prune")
        below.add_argument("folder", metavar="DIR", type=Path, help="the folder of the versions" if whole else either)
        if action == "fetch":
            below.add_argument("target", metavar="FOLDER", type=Path, help="where to make it")
        if action == "prune":
            below.add_argument("--keep", metavar="K", type=count, required=True, help="how many to keep")
        elif action == "repair":
            below.add_argument("--new", metavar="PLACE", help="a place that is a new, empty disk now")
        elif action == "export":
            below.add_argument("file", metavar="FILE", type=Path, help="what to write: model.safetensors")
            below.add_argument("--version", metavar="VERSION", help="its name or step; left out: the newest")
            below.add_argument(
                "--only", metavar="PATTERN", action="append", help="paths of arrays; a name stands for all below it"
            )
            below.add_argument(
                "--root", metavar="PATH", default="", help="only what stands below it, named from there on: model"
            )
            below.add_argument("--rank", metavar="K", type=int, help="whose arrays, where each rank has its own")
        elif action != "list":
            below.add_argument("version", metavar="VERSION", nargs="?", help="its name or step")


def of_models(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins models``."""
    actions = child.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action, help_text in (
        ("list", "which models there are, the best one first"),
        ("show", "what a model is, and its layers"),
        ("diff", "what two models have in common"),
        ("lineage", "who was derived from whom, as text or as a picture"),
        ("export", "write a model as safetensors, or as a folder of Hugging Face's"),
        ("import", "put a model that is safetensors, or a folder of Hugging Face's"),
        ("prune", "remove models, and tensors that no model has"),
        ("verify", "read every byte and compare it with its digest"),
    ):
        below = actions.add_parser(action, help=help_text, allow_abbrev=False)
        _add_debug(below)
        below.add_argument("store", metavar="STORE", type=Path, help="the folder of the models")
        _OF_MODELS[action](below)


def _of_models_list(below: argparse.ArgumentParser) -> None:
    below.add_argument("--tag", metavar="TAG", action="append", default=[], help="only models with it; may be repeated")


def _of_models_show(below: argparse.ArgumentParser) -> None:
    below.add_argument("name", metavar="MODEL", help="the model's name")


def _of_models_diff(below: argparse.ArgumentParser) -> None:
    below.add_argument("name", metavar="MODEL", help="a model")
    below.add_argument("other", metavar="OTHER", help="another one")


def _of_models_lineage(below: argparse.ArgumentParser) -> None:
    below.add_argument("names", metavar="MODEL", nargs="*", help="only it, its ancestors and its descendants")
    _add_output(below, LINEAGES)


def _of_models_export(below: argparse.ArgumentParser) -> None:
    below.add_argument("name", metavar="MODEL", help="the model's name")
    below.add_argument("target", metavar="FILE|FOLDER", type=Path, help="what to write: model.safetensors, or a folder")
    below.add_argument(
        "--layers", metavar="PATTERN", action="append", default=[], help="only these; a name stands for all below it"
    )


def _of_models_import(below: argparse.ArgumentParser) -> None:
    below.add_argument("source", metavar="FILE|FOLDER", type=Path, help="model.safetensors, or a folder that holds it")
    below.add_argument("--name", metavar="MODEL", default="", help="what it is called; left out: by its content")
    below.add_argument("--parent", metavar="MODEL", default="", help="the model that it was derived from")
    below.add_argument("--score", metavar="NUMBER", type=float, help="how good it is; more is better")
    below.add_argument(
        "--tag", metavar="TAG", action="append", default=[], help="a word to find it by; may be repeated"
    )


def _of_models_prune(below: argparse.ArgumentParser) -> None:
    below.add_argument("--remove", metavar="MODEL", action="append", default=[], help="remove it; may be repeated")
    below.add_argument("--keep", metavar="K", type=count, help="remove all but the K models of the best scores")


def _of_models_verify(below: argparse.ArgumentParser) -> None:
    below.add_argument("name", metavar="MODEL", nargs="?", help="only this one")


_OF_MODELS = {
    "list": _of_models_list,
    "show": _of_models_show,
    "diff": _of_models_diff,
    "lineage": _of_models_lineage,
    "export": _of_models_export,
    "import": _of_models_import,
    "prune": _of_models_prune,
    "verify": _of_models_verify,
}
"""What each action of `wilkins models` takes."""


def of_help(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins help``."""
    child.add_argument("topic", metavar="TOPIC", nargs="?", help="the page's name, such as stuck")


def of_init(child: argparse.ArgumentParser) -> None:
    """Of ``wilkins init``."""
    child.add_argument("file", metavar="FILE", type=Path, nargs="?", help="with --from: the folder to make")
    child.add_argument("--from", dest="source", metavar="NAME", help="copy this packaged workflow with its programs")
