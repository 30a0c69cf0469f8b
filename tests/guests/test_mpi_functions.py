"""The wrappers for MPI cover every function that takes a communicator, in the headers of the MPIs at hand."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

NATIVE = Path(__file__).parents[2] / "transport" / "native"
PYPI_MPICC = str(Path(sys.executable).parent / "mpicc")

# Left alone on purpose: an abort ends the job; handles are replaced where they are used, not where converted.
LEFT_ALONE = {"MPI_Abort", "MPI_Comm_c2f", "MPI_Comm_toint"}


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mpi_wrappers", NATIVE / "mpi/wrappers.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["mpi_wrappers"] = module
    spec.loader.exec_module(module)
    return module


generator = load_generator()


def declared(compiler: str, folder: Path) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Functions of mpi.h that take communicators by value: number of arguments, and positions of the communicators."""
    source = folder / "mpi.c"
    source.write_text("#include <mpi.h>\n", encoding="utf-8")
    text = subprocess.run([compiler, "-E", str(source)], capture_output=True, text=True, check=True).stdout
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    found = {}
    for name, parameters in re.findall(r"\bint\s+(MPIX?_\w+)\s*\(((?:[^()]|\([^()]*\))*)\)", text):
        arguments = [argument.strip() for argument in re.split(r",(?![^()]*\))", parameters)]
        positions = tuple(i for i, a in enumerate(arguments) if re.match(r"MPI_Comm\b[^*\[]*$", a))
        if positions:
            found[name] = (len(arguments), positions)
    return found


def handwritten() -> set[str]:
    """Functions that a source file defines by hand."""
    text = "".join((NATIVE / name).read_text(encoding="utf-8") for name in ("mpi/world_calls.cpp", "mpi/io.cpp"))
    return {f"MPI_{name}" for name in re.findall(r"WILKINS_BOTH\((\w+)", text)} | set(
        re.findall(r"\bMPI_File_\w+", text)
    )


@pytest.mark.parametrize(
    "compiler",
    [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("mpicc.mpich", "mpicc.openmpi", PYPI_MPICC)],
    ids=["mpich", "openmpi", "pypi-mpich"],
)
def test_every_function_with_a_communicator_is_wrapped(compiler: str, tmp_path: Path) -> None:
    listed = {f.name: (f.arity, f.communicators) for f in generator.parse(generator.FUNCTIONS.read_text("utf-8"))}
    known = declared(compiler, tmp_path)
    assert len(known) > 100
    unknown = set(known) - set(listed) - handwritten() - LEFT_ALONE
    assert not unknown
    different = {name: (known[name], listed[name]) for name in set(known) & set(listed) if known[name] != listed[name]}
    assert not different


def test_a_wrapper_replaces_the_communicators_alone() -> None:
    text = generator.source([generator.Function("MPI_Intercomm_create", 6, (0, 2))])
    assert text.count("wilkins::world_comm(a0), a1, wilkins::world_comm(a2), a3, a4, a5") == 2
    assert "intptr_t PMPI_Intercomm_create(" in text


def test_calls_that_may_sleep_ask_first_but_those_of_profiling_tools() -> None:
    (function,) = generator.parse("5 4 MPI_Bcast!")
    assert function.name == "MPI_Bcast" and function.sleeps
    text = generator.source([function])
    assert text.count("sleep_MPI_Bcast(*mpi, a0, a1, a2, a3, wilkins::world_comm(a4))") == 1
    assert text.index("sleep_MPI_Bcast") < text.index("PMPI_Bcast")
    assert [one.sleeps for one in generator.parse("5 4 MPI_Bcast![_c]")] == [True, False]


@pytest.mark.parametrize(
    ("line", "why"),
    [("x 0 MPI_A", "invalid literal"), ("2 2 MPI_A", "do not fit"), ("2 0 Barrier", "not the name"), ("2", "range")],
)
def test_a_bad_line_is_named(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"line 2: .*{why}"):
        list(generator.parse(f"# a list\n{line}\n"))


def test_a_name_listed_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="listed twice: MPI_Barrier"):
        generator.source(list(generator.parse("1 0 MPI_Barrier MPI_Barrier")))
