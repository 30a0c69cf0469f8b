"""Builds the programs and runs them: by hand, as MPI jobs, or as a workflow."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[1] / "programs" / "speed"
ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
LIMIT = 300
"""Seconds that no run takes unless it hangs."""

# Each program, and its compiler: the environment's MPI is that of mpi4py.
COMPILERS = {
    "stream": ["h5cc", "-shlib"],
    "calls": ["h5cc", "-shlib"],
    "copy": ["cc"],
    "message": ["mpicc"],
    "parallel.mpich": ["h5pcc.mpich", "-shlib"],
    "parallel.openmpi": ["h5pcc.openmpi", "-shlib"],
    "null.mpich": ["mpicc.mpich", "-shared", "-fPIC"],
    "null.openmpi": ["mpicc.openmpi", "-shared", "-fPIC"],
}


def which(program: str) -> str | None:
    """The program of this name, that of the environment first."""
    return shutil.which(program, path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")


def build(folder: Path) -> dict[str, str]:
    """Compile what there is a compiler for; paths by name."""
    built = {}
    for name, (compiler, *options) in COMPILERS.items():
        if path := which(compiler):
            source = str(SOURCES / f"{name.partition('.')[0]}.c")
            subprocess.run([path, *options, "-O2", source, "-o", str(folder / name)], check=True, cwd=folder)
            built[name] = str(folder / name)
    return built


def environment() -> dict[str, str]:
    """That of the programs: Python ones import their parts from the checkout, and MPI may run as root.

    Python keeps what it compiles, as it does for users: the start of a workflow is not to be that of a compiler.
    """
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**given, "PYTHONPATH": path, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def start(command: Sequence[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a program with its output in a file, as the leader of its processes."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=output, stderr=output, start_new_session=True
        )


def _code_of(process: subprocess.Popen[bytes]) -> int:
    """The exit code, as soon as there is one: `Popen.wait` with a limit looks every 50 ms, which would be measured."""
    watch = os.pidfd_open(process.pid)
    try:
        if not select.select([watch], [], [], LIMIT)[0]:
            raise subprocess.TimeoutExpired(process.args, LIMIT)
    finally:
        os.close(watch)
    return process.wait()


def finish(processes: Sequence[subprocess.Popen[bytes]], log: Path) -> None:
    """Wait for programs that were started; end all where one fails or hangs.

    Raises:
        RuntimeError: one failed, or hung; says what they said.
    """
    try:
        codes = [_code_of(process) for process in processes]
    except BaseException as error:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # the launcher ends its tasks itself
                process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        codes = [124]
    if any(codes):
        said = log.read_text(encoding="utf-8", errors="replace")[-3000:]
        raise RuntimeError(f"a program failed: {[process.args for process in processes]}: {codes}\n{said}")


def run(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Run programs side by side to their end.

    Raises:
        RuntimeError: one failed, or hung.
    """
    log = folder / "log"
    finish([start(command, folder, log) for command in commands], log)


def task(name: str, command: Sequence[str], ports: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """A task of a workflow: `ports` has a filename by `inports` or `outports`."""
    files = {kind: [{"filename": filename}] for kind, filename in ports.items()}
    return {"name": name, "func": command[0], "args": list(command[1:]), **files, **more}


def workflow(tasks: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """Write a workflow; the command that runs it."""
    (folder / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    return [str(BIN / "wilkins"), "run", "workflow.yaml", "--quiet"]
