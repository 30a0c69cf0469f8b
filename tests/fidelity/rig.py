"""The differential rig: programs run once through real files and once through channels; what they see is compared.

A pair is a program that is called with ``write OUT`` as producer and with ``read OUT`` as consumer. It holds cases.
Each writes ``case-NAME.h5`` in the working directory (``again-NAME.h5``, if it opens its file again to add to it; also
``target-NAME.h5``, if it has a second one), and each side tells what it saw: OUT has a section per case, which begins
with a line ``== NAME``. Besides its consumer, the complete view of ``view.py`` looks at every file, with h5py of this
Python and of the system's.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import yaml
from conftest import SYSTEM_PYTHON, missing
from programs.build import split_libraries

from support.running import WILKINS, run_tree

HERE = Path(__file__).parent
PAIRS = HERE / "pairs"
ENV = {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])}
REFUSAL = "there is no SWMR"
"""What a refusal's message says, whatever library hands it on."""


@dataclass(frozen=True)
class Case:
    """What the source of a pair says of one of its cases."""

    name: str
    features: tuple[str, ...]
    pair: bool
    again: bool
    refused: bool

    @property
    def files(self) -> list[str]:
        """Its files; one that its producer opens again is complete only when the next is begun, or the program ends."""
        first = f"{'again' if self.again else 'case'}-{self.name}.h5"
        return [first, f"target-{self.name}.h5"] if self.pair else [first]


@dataclass(frozen=True)
class Program:
    """A program of cases, in the order of their files, and how it is started."""

    command: tuple[str, ...]
    sources: tuple[Path, ...]
    cases: tuple[Case, ...]

    def argv(self, action: str, out: str) -> list[str]:
        return [*self.command, action, out, *map(str, self.sources)]

    def only(self, *names: str) -> Program:
        """The same program with some of its cases."""
        cases = tuple(case for case in self.cases if case.name in names)
        words = [f"only={','.join(names)}"] if self.sources else names
        return replace(self, sources=(*self.sources, *map(Path, words)), cases=cases)


def python_cases(*sources: Path) -> tuple[Case, ...]:
    """The functions of Python files that are decorated with ``case``, in the order in which ``cases.py`` runs them."""
    found = []
    for source in sources:
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "case":
                    features = tuple(str(ast.literal_eval(word)) for word in mark.args)
                    flags = {key.arg for key in mark.keywords if key.arg != "consume"}
                    found.append(Case(node.name, features, "pair" in flags, "again" in flags, "refused" in flags))
    return tuple(found)


MARK = re.compile(r"^CASE\((\w+), \"([^\"]+)\"((?:, \w+)*)\)", re.MULTILINE)


def marked_cases(*sources: Path) -> tuple[Case, ...]:
    """The cases of C or C++ files: ``CASE(NAME, "FEATURE; FEATURE", FLAG...)`` (``pair.h``)."""
    found = []
    for source in sources:
        for name, features, flags in MARK.findall(source.read_text(encoding="utf-8")):
            words = re.findall(r"\w+", flags)
            found.append(Case(name, tuple(features.split("; ")), "PAIR" in words, "AGAIN" in words, "REFUSED" in words))
    return tuple(found)


def compiled(
    compiler: Sequence[str],
    sources: Sequence[Path],
    folder: Path,
    main: str = "pair_main.c",
    in_c: Sequence[str] = ("h5cc",),
) -> tuple[str, ...]:
    """The files of cases, compiled by a command (its words) into one program in `folder`.

    The rig's own files, of which `main` runs the cases, are compiled by `in_c`.
    """
    words, libraries = split_libraries(tuple(compiler))
    program = folder / "pairs"
    for name in ("pair.c", main):
        must_compile([*in_c, "-O1", f"-I{HERE}", "-c", str(HERE / name)], folder)
    files = ["pair.o", main.replace(".c", ".o"), *map(str, sources)]
    must_compile([*words, "-O1", f"-I{HERE}", *files, "-o", str(program), *libraries], folder)
    return (str(program),)


def must_compile(command: Sequence[str], folder: Path) -> None:
    """Run a compiler in a folder."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def prepare(folder: Path) -> dict[str, int]:
    """Lay out what is on disk before: a file that links lead to, and files of the names of some cases; their sizes."""
    with h5py.File(folder / "plain-file.h5", "w") as file:  # no port's
        file["x"] = range(5)
    with h5py.File(folder / "case-over_a_stale_file.h5", "w") as file:
        file["stale"] = range(1000)
    (folder / "case-over_no_hdf5_file.h5").write_text("a note of last year\n" * 50)
    with (folder / "case-over_a_huge_file.h5").open("wb") as sparse:
        sparse.truncate(1 << 40)
    return {path.name: path.stat().st_size for path in folder.glob("case-*")}


def run(folder: Path, argv: Sequence[str], timeout: float = 90) -> None:
    """Run a program in a folder; it must succeed."""
    ran = run_tree(argv, timeout, folder, ENV)
    logs = "".join(log.read_text(errors="replace") for log in folder.glob("wilkins-runs/latest/*.log"))
    assert ran.code == 0, f"{' '.join(map(str, argv))}\n{ran.out}{ran.err}{logs}"


def viewers() -> dict[str, str]:
    """The Pythons whose h5py gives complete views."""
    pythons = {"own": sys.executable}
    if not missing("system-python:h5py"):
        pythons["system"] = SYSTEM_PYTHON
    return pythons


def looks(program: Program) -> Iterator[tuple[str, list[str]]]:
    """The consumers of a program's files: name and command."""
    yield "read", program.argv("read", "read.txt")
    files = [file for case in program.cases for file in case.files]
    for name, python in viewers().items():
        yield f"view-{name}", [python, "-m", "fidelity.view", f"view-{name}.txt", *files]


def through_files(folder: Path, program: Program, timeout: float = 90) -> None:
    """Run the two sides one after another, as they would be without Wilkins."""
    folder.mkdir()
    prepare(folder)
    run(folder, program.argv("write", "write.txt"), timeout)
    for _, argv in looks(program):
        run(folder, argv, timeout)


def through_channels(folder: Path, program: Program, timeout: float = 90) -> None:
    """Run all sides as one workflow; nothing but what was there before may be on disk."""
    folder.mkdir()
    stale = prepare(folder)
    tasks = [producer(program), *(consumer(name, argv, program) for name, argv in looks(program))]
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))
    run(folder, [*WILKINS, "run", "workflow.yaml"], timeout)
    check_disk(folder, stale)


def check_disk(folder: Path, stale: dict[str, int]) -> None:
    """Files of the ports' names that are on disk must be those that were there before."""
    kinds = ("case-*", "target-*", "again-*")
    left = {path.name: path.stat().st_size for kind in kinds for path in folder.glob(kind)}
    assert left == stale, "a step is on disk, or what was there is not as it was"


def producer(program: Program, **port: object) -> dict[str, object]:
    """The producer of a workflow; `port` is added to its ports."""
    argv = program.argv("write", "write.txt")
    ports = [{"filename": pattern, "publish": rule, **port} for pattern, rule in patterns(program).items()]
    return {"name": "write", "func": argv[0], "args": argv[1:], "nprocs": 1, "outports": ports}


def consumer(name: str, argv: Sequence[str], program: Program, **port: object) -> dict[str, object]:
    """A consumer of all files of a program; `port` is added to its ports."""
    flow = {"every": 1, "queue": len(program.cases) + 3, "when_full": "block"}  # it reads some files out of order
    ports = [{"filename": pattern, "flow": flow, **port} for pattern in patterns(program)]
    task: dict[str, object] = {"name": name, "func": argv[0], "args": argv[1:], "nprocs": 1, "inports": ports}
    return task | {"rerun": "never"}  # one that reads a single step of several would be


def patterns(program: Program) -> dict[str, str]:
    """The ports of a program, and when each publishes."""
    first = {file.partition("-")[0] for case in program.cases for file in case.files}
    rules = {"case": "close", "target": "close", "again": "next"}
    return {f"{kind}-*.h5": rule for kind, rule in rules.items() if kind in first}


def sections(out: Path) -> dict[str, list[str]]:
    """What a side told, by case."""
    found: dict[str, list[str]] = {}
    text = out.read_text(encoding="utf-8", errors="surrogateescape").replace(str(out.parent), "(folder)")
    text = re.sub(r"time = [^,\n]*", "time = ...", text)  # in error messages
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("== "):
            lines = found.setdefault(line.removeprefix("== "), [])
        else:
            lines.append(line)
    return found


def compare(files: Path, steps: Path, program: Program, but: str | None = None) -> dict[str, str]:
    """What each case came to: ``same``, ``refused``, or where the two ways differ.

    `but` matches lines that say what is not determined, and so is not compared.
    """
    outs = ["write", *(name for name, _ in looks(program))]
    told = {out: (sections(files / f"{out}.txt"), sections(steps / f"{out}.txt")) for out in outs}
    found: dict[str, str] = {}
    for case in program.cases:
        differing: list[str] = []
        for out, (of_file, of_step) in told.items():
            one, other = (
                [line for line in way.get(case.name, []) if not (but and re.search(but, line))]
                for way in (of_file, of_step)
            )
            if one != other:
                differing += difflib.unified_diff(one, other, f"{out} of files", f"{out} of steps", lineterm="", n=0)
        if not all(case.name in seen for ways in told.values() for seen in ways):
            found[case.name] = "a side did not run or did not look"
        elif not differing:
            found[case.name] = "same"
        elif case.refused and any(REFUSAL in line for line in told["write"][1][case.name]):
            found[case.name] = "refused"
        else:
            found[case.name] = "\n".join(line[:400] for line in differing[:40])
    return found


def both_ways(folder: Path, program: Program, timeout: float = 90) -> dict[str, str]:
    """Run a program both ways in a new folder, and compare; `timeout`: seconds for each process, and for the run."""
    through_files(folder / "files", program, timeout)
    through_channels(folder / "steps", program, timeout)  # a name of the same length: HDF5 tells how long names are
    return compare(folder / "files", folder / "steps", program)
