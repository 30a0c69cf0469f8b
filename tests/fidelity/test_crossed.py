"""HDF5 1.10, 1.14 and 2.x on either side: what each library wrote is read by all others, in memory as on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fidelity import rig
from fidelity.libraries import LIBRARIES, Library, compiler_of_wheel
from programs.build import serial_c, split_libraries

from support.running import WILKINS

HERE = Path(__file__).parent / "crossed"

SIZE_OR_CALLS = ("large", "swmr", "odd_shapes", "many_variables", "many_arrays", "errors", "opened_twice", "drivers")
"""Cases that are about size, or about calls while the file is written."""

WRITERS = {
    "h5py": ("nested_groups", "datasets_of_every_type", "variable_length", "references", "latest_format", "filters"),
    "h5py-1.10": ("attributes_of_every_type", "texts_and_arrays", "layouts", "filters", "many_attributes"),
    **{
        library.name: tuple(case.name for case in library.cases if case.name not in SIZE_OR_CALLS)
        for library in LIBRARIES
        if library.name in ("c-static", "c-1.14", "c-2.0", "netcdf4", "tables")
    },
}
"""Libraries that write, and which of their cases."""

LEFT_OUT = {
    "netCDF4": ("case-types.h5", "case-layouts.h5"),
    "tables": ("case-attributes_of_every_type.h5", "case-layouts.h5"),
    "tools": ("case-layouts.h5",),
}
"""Files of which a reader dies, on disk as well, or of which it shows memory of its own for what was never written."""

DIES = {("h5py-1.10", "tables"), ("netcdf4", "tables"), ("tables", "netCDF4")}
"""Writers and readers that are not paired: the reader dies of some of the files, on disk as well."""

COMPILERS: dict[str, Callable[[], tuple[str, ...]]] = {
    "1.10": lambda: serial_c(static=False),
    "1.10 inside": lambda: serial_c(static=True),
    "1.14": lambda: compiler_of_wheel("tables"),
    "2.0": lambda: compiler_of_wheel("h5py"),
}


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, ...]]:
    """Programs that read any file completely, by the version of their HDF5."""
    folder = tmp_path_factory.mktemp("readers")
    found: dict[str, tuple[str, ...]] = {
        "tools": (str(HERE / "tools.sh"),),
        "tables": (sys.executable, str(HERE / "reader.py"), "tables"),
        "netCDF4": (sys.executable, str(HERE / "reader.py"), "netCDF4"),
    }
    for name, compiler in COMPILERS.items():
        words, libraries = split_libraries(compiler())
        program = folder / name.replace(" ", "-")
        command = [*words, "-O1", str(HERE / "reader.c"), "-o", str(program), *libraries]
        subprocess.run(command, cwd=folder, check=True, timeout=120)
        found[f"C {name}"] = (str(program),)
    return found


def looks(readers: dict[str, tuple[str, ...]], program: rig.Program, writer: str) -> dict[str, list[str]]:
    """The consumers of a program's files: what each writes its text to, and its command."""
    files = [file for case in program.cases for file in case.files]
    commands = {}
    for name, reader in readers.items():
        if (writer, name) in DIES:
            continue
        chosen = [file for file in files if file not in LEFT_OUT.get(name, ())]
        out = f"read-{name.replace(' ', '-')}.txt"
        commands[out] = [*reader, out, *chosen]
    return commands


@pytest.mark.usual(also_between_hosts=["c-static"])
@pytest.mark.needs("h5cc", "h5dump", "python:tables", "python:netCDF4", "system-python:h5py")
@pytest.mark.parametrize("name", WRITERS)
def test_every_version_reads_what_every_version_wrote(
    readers: dict[str, tuple[str, ...]], tmp_path: Path, name: str
) -> None:
    """All that readers of seven kinds see, and the errors where one is too old for what another wrote."""
    library: Library = next(library for library in LIBRARIES if library.name == name)
    program = library.program(tmp_path).only(*WRITERS[name])
    files, steps = tmp_path / "files", tmp_path / "steps"
    for folder in files, steps:
        folder.mkdir()
        rig.prepare(folder)
    commands = looks(readers, program, name)
    for argv in (program.argv("write", "write.txt"), *commands.values()):
        rig.run(files, argv)
    tasks = [rig.producer(program)]
    tasks += [rig.consumer(f"reader{k}", argv, program) for k, argv in enumerate(commands.values())]
    (steps / "workflow.yaml").write_text(json.dumps({"tasks": tasks}))
    rig.run(steps, [*WILKINS, "run", "workflow.yaml"])
    for out in commands:
        of_files, of_steps = rig.sections(files / out), rig.sections(steps / out)
        assert len(of_files) >= len(program.cases) - 1
        differing = [file for file in of_files if of_files[file] != of_steps.get(file)]
        assert of_steps == of_files, f"{out}: {differing}"
