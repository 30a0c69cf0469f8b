"""What the start of a run costs, counted: modules, expressions and processes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support.running import WILKINS, must_run, write_program

COUNTED = """\
import json, re, sys
if sys.version_info < (3, 11):
    import sre_compile as compiler
else:
    from re import _compiler as compiler
compile, compiled = compiler.compile, []
def count(pattern, flags=0):
    compiled.append(str(pattern))
    return compile(pattern, flags)
compiler.compile = count
before = set(sys.modules)
from wilkins.cli import main
code = main(["run", "--quiet", "workflow.yaml"])
with open("counted.json", "w") as file:
    json.dump({"modules": sorted(set(sys.modules) - before), "compiled": compiled}, file)
sys.exit(code)
"""
"""`wilkins run` that tells which modules it has imported, and which expressions were compiled."""

NOT_NEEDED = {
    # of others, and heavy
    "h5py", "matplotlib", "mpi4py", "networkx", "numpy", "rich", "torch",
    # of Python, for what a run of plain programs does without
    "asyncio", "dataclasses", "difflib", "email", "importlib.metadata", "inspect", "multiprocessing", "pickle",
    "platform", "random", "secrets", "tempfile",
    # of the package: other commands, other launches, what only some workflows or errors need
    "wilkins.launch.hosts", "wilkins.launch.job", "wilkins.plan.callbacks", "wilkins.plan.devices", "wilkins.report",
    "wilkins.resume", "wilkins.spec.reference", "wilkins.submit", "wilkins.tasks.checkpoint", "wilkins.tasks.continual",
    "wilkins.launch.records.agreement", "wilkins.launch.records.hosttraces", "wilkins.plan.split",
}  # fmt: skip

WRITE = f"""\
#!{sys.executable}
import h5py
with h5py.File("a.h5", "w") as file:
    file["x"] = 1
"""
READ = f"""\
#!{sys.executable}
import h5py
with h5py.File("a.h5") as file:
    assert file["x"][()] == 1
"""
WORKFLOW = """\
tasks:
  - {func: ./write.py, outports: [{filename: a.h5}]}
  - {func: ./read.py, inports: [{filename: a.h5}]}
"""


def test_a_run_imports_what_it_needs(tmp_path: Path) -> None:
    """A module takes up to some milliseconds, an expression a tenth of one, before the first program starts."""
    write_program(tmp_path / "write.py", WRITE)
    write_program(tmp_path / "read.py", READ)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW, encoding="utf-8")
    must_run(tmp_path, sys.executable, "-c", COUNTED)
    counted = json.loads((tmp_path / "counted.json").read_text())
    modules: list[str] = counted["modules"]
    assert not [name for name in modules for other in NOT_NEEDED if f"{name}.".startswith(f"{other}.")]
    assert len([name for name in modules if name.startswith("wilkins")]) <= 98
    assert len(modules) <= 178
    # One of them only where MPI libraries of others have left shared memory, and the run lasts for half a second.
    # Python 3.13 itself has one more.
    assert len(counted["compiled"]) <= 31 + (sys.version_info >= (3, 13)), counted["compiled"]


@pytest.mark.needs("strace")
def test_programs_are_started_without_a_fork_of_the_launcher(tmp_path: Path) -> None:
    """Its page tables are never copied; no process helps to start another one."""
    names = [f"task{number}" for number in range(5)]
    tasks = "".join(f"  - {{name: {name}, func: /bin/true}}\n" for name in names)
    (tmp_path / "workflow.yaml").write_text(f"tasks:\n{tasks}", encoding="utf-8")
    calls = "trace=clone,clone3,fork,vfork,execve"
    must_run(tmp_path, "strace", "-f", "-o", "calls", "-e", calls, *WILKINS, "run", "--quiet", "workflow.yaml")
    lines = (tmp_path / "calls").read_text().splitlines()
    made = [line for line in lines if re.search(r"\b(clone|clone3|fork|vfork)\(", line)]
    assert all("vfork(" in line or "CLONE_VFORK" in line for line in made), made
    assert len(made) == len(names) + 1, made  # and the process that outlives the launcher
    programs = [line for line in lines if "execve(" in line]
    assert len(programs) == len(names) + 2, programs
