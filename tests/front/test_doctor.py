"""``wilkins doctor``: what facts mean, and what is found of real machines and programs."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.running import WILKINS, run_tree, write_program
from wilkins.doctor import findings, programs
from wilkins.doctor.facts import FabricFacts, Hdf5, MachineFacts, Mpi, ProgramFacts, SharedMemory
from wilkins.doctor.findings import Finding
from wilkins.plan.program import inspect
from wilkins.transport.fabric import Wish

SHARED = SharedMemory(Path("/dev/shm"), 64 << 20, 60 << 20, True)
MACHINE = MachineFacts(8, None, SHARED, None, (), 0, (Mpi("mpich", "/bin/mpiexec", Path("l"), "4.0", 3),))
TCP = Wish(ucx=False, why="this host has no RDMA device")
RDMA = Wish(ucx=True, why="this host has RDMA by mlx5_0:1")
HDF5_WRITER = """
#include <hdf5.h>
int main(void) { return H5Fclose(H5Fcreate("out.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) < 0; }
"""


def found(about: str, all_of_them: list[Finding]) -> Finding:
    (one,) = [one for one in all_of_them if one.about == about]
    return one


class TestMeaning:
    """Facts in, findings out."""

    def test_a_machine_on_which_all_is_well(self) -> None:
        assert {one.level for one in findings.of_machine(MACHINE)} == {"ok"}
        assert "steps of 15 MiB" in found("shared memory", findings.of_machine(MACHINE)).text

    @pytest.mark.parametrize(
        ("facts", "about", "level", "words"),
        [
            (replace(MACHINE, shared=None), "shared memory", "wrong", "there is no /dev/shm"),
            (replace(MACHINE, shared=replace(SHARED, writable=False)), "shared memory", "wrong", "you may not write"),
            (replace(MACHINE, memory_limit=32 << 20), "memory limit", "note", "less than /dev/shm has free"),
            (replace(MACHINE, memory_limit=1 << 30), "memory limit", "ok", "1 GiB, programs and steps together"),
            (replace(MACHINE, cpu_limit=1.5), "cores", "note", "the time of 1.5"),
            (replace(MACHINE, cpu_limit=8.0), "cores", "ok", "8: tasks"),
            (replace(MACHINE, mpis=()), "MPI", "note", "no mpiexec was found"),
            (replace(MACHINE, mpis=(Mpi("openmpi", "m", None, "4.1", 1),)), "MPI", "note", "without MPI_THREAD"),
            (replace(MACHINE, namespaces=("pid",)), "namespaces", "ok", "of its own: pid"),
            (
                replace(MACHINE, fabric=FabricFacts(TCP, "UCX 1.13.1")),
                "between hosts",
                "ok",
                "TCP, since .* is here, too",
            ),
            (
                replace(MACHINE, fabric=FabricFacts(TCP, "", "no file")),
                "between hosts",
                "ok",
                "cannot be used: no file",
            ),
            (replace(MACHINE, fabric=FabricFacts(RDMA, "UCX 1.13.1")), "between hosts", "ok", "UCX 1.13.1, since"),
            (replace(MACHINE, fabric=FabricFacts(RDMA, "", "no file")), "between hosts", "note", "UCX is wanted"),
            (
                replace(MACHINE, fabric=FabricFacts(replace(RDMA, forced=True), "", "no file")),
                "between hosts",
                "wrong",
                "cannot be used: no file",
            ),
        ],
    )
    def test_what_stands_in_the_way(self, facts: MachineFacts, about: str, level: str, words: str) -> None:
        one = found(about, findings.of_machine(facts))
        assert one.level == level and re.search(words, one.text)
        assert level == "ok" or one.cure

    def test_programs(self) -> None:
        said = "'sim' is static; link it"
        assert findings.of_program(ProgramFacts("sim", unreachable=said)) == [
            Finding("wrong", "sim", "'sim' is static", "link it")
        ]
        shared = Hdf5(Path("/lib/libhdf5.so"), "1.14.3")
        inside = Hdf5(Path("/opt/sim"), "1.12.2", inside=True)
        levels = {
            (): ["ok", "ok"],
            (shared,): ["ok", "ok"],
            (replace(shared, wheel="h5py"), inside): ["ok", "ok", "note"],
        }
        for libraries, expected in levels.items():
            assert [one.level for one in findings.of_program(ProgramFacts("sim", hdf5=libraries))] == expected
        assert findings.of_program(ProgramFacts("sim", no_mpiexec="no launcher; install it"))[-1] == Finding(
            "wrong", "sim", "no launcher", "install it"
        )


class TestPrograms:
    """Real files."""

    def test_a_script_with_the_hdf5_of_its_wheel(self, tmp_path: Path) -> None:
        import h5py

        (tmp_path / "sim.py").write_text("import h5py\n")
        facts = programs.of_words(str(tmp_path / "sim.py"))
        assert not facts.unreachable and facts.hdf5[0].version == h5py.version.hdf5_version
        assert not facts.hdf5[0].inside

    @pytest.mark.needs("h5cc")
    def test_hdf5_inside_and_beside_a_program(self, tmp_path: Path) -> None:
        (tmp_path / "sim.c").write_text(HDF5_WRITER)
        for option, inside in (("-noshlib", True), ("-shlib", False)):
            subprocess.run(["h5cc", option, "-o", "sim", "sim.c"], cwd=tmp_path, check=True)
            (library,) = programs.of_words(str(tmp_path / "sim")).hdf5
            assert library.inside == inside and library.version.startswith("1.")
            assert (library.file == tmp_path / "sim") == inside

    @pytest.mark.needs("h5fc")
    def test_the_library_for_fortran_is_no_hdf5_of_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "sim.f90").write_text(
            "program sim\nuse hdf5\ninteger :: error\ncall h5open_f(error)\nend program\n"
        )
        subprocess.run(["h5fc", "-shlib", "-o", "sim", "sim.f90"], cwd=tmp_path, check=True)
        (library,) = programs.of_words(str(tmp_path / "sim")).hdf5
        assert "fortran" not in library.file.name and library.version

    @pytest.mark.needs("h5pcc.mpich", "mpiexec.mpich")
    def test_a_parallel_program(self, tmp_path: Path) -> None:
        (tmp_path / "sim.c").write_text(HDF5_WRITER)
        subprocess.run(["h5pcc.mpich", "-shlib", "-o", "sim", "sim.c"], cwd=tmp_path, check=True)
        facts = programs.of_words(str(tmp_path / "sim"))
        assert facts.hdf5[0].parallel and facts.families == ("mpich",) and "mpiexec" in facts.mpiexec

    @pytest.mark.needs("cc")
    def test_musl_and_other_processors(self, tmp_path: Path) -> None:
        sim = tmp_path / "sim"
        (tmp_path / "sim.c").write_text("int main(void) { return 0; }\n")
        for option, barrier in (
            ("-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1", "musl"),
            ("-static", "static"),
            ("-O0", None),
        ):
            subprocess.run(["cc", option, "-o", sim, tmp_path / "sim.c"], check=True)
            assert inspect(sim).barrier == barrier
        if os.uname().machine == "x86_64":
            data = bytearray(sim.read_bytes())
            data[18:20] = struct.pack("<H", 3)  # that of i686, which the kernel starts here
            sim.write_bytes(data)
            assert inspect(sim).barrier == "processor"
            assert "another kind of processor" in inspect(sim).unreachable

    @pytest.mark.needs("root", "cc")
    def test_file_capabilities(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "sim.c").write_text("int main(void) { return 0; }\n")
        subprocess.run(["cc", "-o", tmp_path / "sim", tmp_path / "sim.c"], check=True)
        ping = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)  # version 2, effective: CAP_NET_RAW
        os.setxattr(tmp_path / "sim", "security.capability", ping)
        assert inspect(tmp_path / "sim").barrier is None, "root gains nothing by them"
        monkeypatch.setattr(os, "getuid", lambda: 1000)
        assert inspect(tmp_path / "sim").barrier == "capabilities"


def doctor(folder: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    finished = run_tree([*WILKINS, "doctor", "--json", *words], 120, folder)
    return finished.code, json.loads(finished.out)


def test_this_machine(tmp_path: Path) -> None:
    """The self-test runs a workflow, so it is well where tests run."""
    code, said = doctor(tmp_path)
    levels = {one["about"]: one["level"] for one in said}
    assert code == 0 and levels["self-test"] == "ok" and levels["shared memory"] == "ok"
    assert {path.name for path in tmp_path.iterdir()} == {".stdout", ".stderr"}, "nothing is left"


def test_a_self_test_that_fails_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "h5py.py").write_text("raise ImportError('none here')\n")
    finished = run_tree([*WILKINS, "doctor"], 120, tmp_path, {"PYTHONPATH": str(tmp_path)})
    assert finished.code == 1
    assert "wrong  self-test: a workflow of one step failed" in finished.out


def test_the_programs_of_a_workflow(tmp_path: Path) -> None:
    write_program(tmp_path / "sim.py", "import h5py\n")
    write_program(tmp_path / "ana.sh", "#!/bin/sh\n")
    text = "tasks:\n- {func: sim.py}\n- {func: ./ana.sh}\n- {func: ./gone}\n"
    (tmp_path / "workflow.yaml").write_text(text)
    code, said = doctor(tmp_path, "workflow.yaml")
    assert code == 1
    assert [(one["about"], one["level"]) for one in said] == [
        ("sim.py", "ok"),
        ("sim.py", "ok"),
        ("./ana.sh", "ok"),
        ("./gone", "wrong"),
    ]


def test_check_warns_of_more_ranks_than_cores(tmp_path: Path) -> None:
    write_program(tmp_path / "sim", "#!/bin/sh\n")
    many = len(os.sched_getaffinity(0)) + 1
    for ranks, words in ((many, f"task 'sim': 'nprocs: {many}' is more than this machine has cores"), (1, "")):
        (tmp_path / "workflow.yaml").write_text(
            f"tasks:\n- {{func: ./sim, nprocs: {ranks}, taskCount: 2, mpiexec: [{sys.executable}]}}\n"
        )
        finished = run_tree([*WILKINS, "check"], 30, tmp_path)
        assert finished.code == 0 and finished.err.count("warning") == bool(words) and words in finished.err
