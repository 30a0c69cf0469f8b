"""Files that ranks on several hosts write together and over each other are, byte by byte, what they would be on a disk.

The programs (``tests/programs/several_hosts``) do random things that follow from a seed, with random delays that change
nothing: they fill and overwrite after barriers, rewrite filtered chunks, let metadata leave the cache early, extend and
flush, have two files open by overlapping communicators, write bytes by MPI-IO alone, through views, in atomic mode, and
in orders that only messages between ranks tell. Each rank reads what others wrote and knows what must be there. Ranks
of another task, and a program of one process, then read every step on other hosts, and read the same as from the disk.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml
from fidelity.parallel import LAUNCHERS
from hosts.rig import NEEDS, Rig
from programs.build import NEWER_LIBC, build, newer_parallel_c, parallel_c

from support.running import WILKINS, Finished, run_tree, write_program

HERE = Path(__file__).with_name("here")
"""Stands for ssh."""

CASES = ("fill", "filtered", "cache", "readback", "extend", "pair", "bytes")
STEPS = 200
"""Of each case; one in `make test`."""
SEED = 1
LIMIT = 600.0  # seconds for a run of them: six ranks share two cores with other tests
RANKS, READERS = 3, 3
PLACES = {2: ([2, 1], [1, 2]), 3: ([1, 1, 1], [0, 1, 2])}
"""The ranks that write and those that read, on so many hosts."""
DISK = (*LAUNCHERS["openmpi"], "--mca", "io", "^ompio", "-n")
"""What is in the files depends on no MPI. MPICH's ranks spin while they wait; Open MPI's own MPI-IO loses some of these
bytes on a disk."""

LOOK = """#!{python}
import hashlib, itertools, os, sys
import h5py
cases, steps = sys.argv[1].split(","), int(sys.argv[2])
for case, step in itertools.product(cases, range(steps)):
    ends = {{"bytes": [".bin"], "pair": ["-left.h5", "-right.h5"]}}.get(case, [".h5"])
    for end in ends:
        name, seen = f"{{case}}-{{step:04d}}{{end}}", hashlib.sha256()
        def look(path, item):
            if isinstance(item, h5py.Dataset):
                seen.update(f"{{path}} {{item.shape}} {{item.dtype}} {{item.fillvalue}}".encode() + item[...].tobytes())
                for key in sorted(item.attrs):
                    seen.update(key.encode() + item.attrs[key].tobytes())
        if case == "bytes":
            with open(name, "rb") as file:
                seen.update(file.read())
        else:
            with h5py.File(name) as file:
                file.visititems(look)
        print(name, seen.hexdigest(), flush=True)
"""


@dataclass(frozen=True)
class Programs:
    """A case's programs, with the MPI and HDF5 that they have."""

    mpi: str
    hdf5: str
    case: str
    steps: int

    @property
    def cases(self) -> tuple[str, ...]:
        return CASES[:-1] if self.case == "all" else (self.case,)

    def words(self, action: str) -> list[str]:
        newer = (*newer_parallel_c(self.mpi), str(NEWER_LIBC))
        compiler = newer if self.hdf5 == "1.14" else parallel_c(self.mpi, static=False)
        if self.case == "bytes":
            arguments = [action, str(SEED), str(self.steps)] if action == "write" else [action, str(self.steps)]
            return [str(build("several_hosts/bytes.c", f"mpicc.{self.mpi}")), *arguments]
        arguments = [action, self.case, *([str(SEED)] if action == "write" else []), str(self.steps)]
        return [str(build("several_hosts/files.c", *compiler)), *arguments]

    @property
    def look(self) -> list[str]:
        return ["./look.py", ",".join(self.cases), str(self.steps)]


def said(text: str) -> list[str]:
    """What readers say of the files, in the order of their names."""
    lines = (line.rpartition("| ")[2] for line in text.splitlines())
    return sorted(line for line in lines if line.startswith(CASES))


@cache
def on_disk(case: str, steps: int) -> list[str]:
    """What readers find on a disk."""
    with tempfile.TemporaryDirectory(prefix="several-hosts-") as folder:
        return _on_disk(Path(folder), Programs("openmpi", "1.10", case, steps))


def _on_disk(folder: Path, programs: Programs) -> list[str]:
    """Write the files, and have them read, one program after another."""
    write_program(folder / "look.py", LOOK.format(python=sys.executable))
    found = []
    for words in (
        [*DISK, str(RANKS), *programs.words("write")],
        [*DISK, str(READERS), *programs.words("read")],
        programs.look,
    ):
        done = run_tree(words, LIMIT / 2, folder)
        assert done.code == 0, f"on disk: {done.out[-2000:]}{done.err[-6000:]}"
        found += said(done.out)
    return sorted(found)


def workflow(folder: Path, programs: Programs, hosts: int) -> None:
    folder.mkdir()
    write_program(folder / "look.py", LOOK.format(python=sys.executable))
    writers, readers = PLACES[hosts]
    ports = [{"filename": f"{case}-*"} for case in programs.cases]
    tasks = []
    for name, words, ranks in (("w", programs.words("write"), writers), ("r", programs.words("read"), readers)):
        task = {"name": name, "func": words[0], "args": words[1:], "nprocs": sum(ranks), "placement": ranks}
        tasks.append(task | {"outports" if name == "w" else "inports": ports})
    look = programs.look
    tasks.append({"name": "look", "func": look[0], "args": look[1:], "placement": ["b"], "inports": ports})
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}, sort_keys=False))


ALL_HERE = {"WILKINS_RSH": str(HERE), "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_mpi_yield_when_idle": "1"}


def on_this_machine(folder: Path, hosts: int, limit: float) -> Finished:
    names = ",".join(f"{name}:4" for name in "abc"[:hosts])
    return run_tree([*WILKINS, "run", "--hosts", names, "workflow.yaml"], limit, folder, env=ALL_HERE)


def same(found: Finished, wanted: list[str]) -> None:
    assert found.code == 0, found.out[-2000:] + found.err[-6000:]
    seen = said(found.out)
    other = [f"{one}\n   on disk: {two}" for one, two in zip(seen, wanted, strict=False) if one != two]
    lines = f"{len(seen)} lines, {len(wanted)} on disk; seeds count from {SEED}"
    assert seen == wanted, "\n".join([lines, *other[:10]])


@pytest.mark.timeout(120)
@pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi", "python:h5py")
@pytest.mark.usual("bytes-3")
@pytest.mark.parametrize(("case", "steps"), [("all", 1), ("bytes", 3)])
def test_a_few(case: str, steps: int, tmp_path: Path) -> None:
    """Of each case, on three hosts."""
    programs = Programs("openmpi", "1.10", case, steps)
    workflow(tmp_path / "hosts", programs, 3)
    same(on_this_machine(tmp_path / "hosts", 3, 60), on_disk(case, steps))


MANY = [
    pytest.param(mpi, hdf5, case, hosts, id=f"{case}-{mpi}-{hdf5}-{hosts} hosts", marks=marks)
    for case in CASES
    for mpi, hdf5, hosts in (("mpich", "1.10", 2), ("mpich", "1.14", 3), ("openmpi", "1.10", 3), ("openmpi", "1.14", 2))
    if case != "bytes" or hdf5 == "1.10"
    for marks in [pytest.mark.needs(f"h5pcc.{mpi}", *(["newer-hdf5"] if hdf5 == "1.14" else []))]
]


@pytest.mark.nightly
@pytest.mark.timeout(2 * LIMIT)
@pytest.mark.needs("mpiexec.mpich", "mpirun.openmpi", "python:h5py")
@pytest.mark.parametrize(("mpi", "hdf5", "case", "hosts"), MANY)
def test_two_hundred_steps(mpi: str, hdf5: str, case: str, hosts: int, tmp_path: Path) -> None:
    """Each of another seed."""
    programs = Programs(mpi, hdf5, case, STEPS)
    workflow(tmp_path / "hosts", programs, hosts)
    same(on_this_machine(tmp_path / "hosts", hosts, LIMIT), on_disk(case, STEPS))


STRIPES = """#!{python}
import sys
import numpy
from mpi4py import MPI
world, stripe, size = MPI.COMM_WORLD, 512, 600 << 20
if sys.argv[1] == "write":
    file = MPI.File.Open(world, "stripes.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)
    count = size // stripe // world.size
    each = MPI.BYTE.Create_vector(count, stripe, stripe * world.size).Commit()
    file.Set_view(world.rank * stripe, MPI.BYTE, each)
    file.Write_at(0, numpy.full(count * stripe, world.rank + 1, numpy.uint8))
    file.Close()
else:
    with open("stripes.bin", "rb") as file:
        stripes = numpy.frombuffer(file.read(), numpy.uint8).reshape(-1, 2, stripe)
    assert stripes.size == size and (stripes[:, 0] == 1).all() and (stripes[:, 1] == 2).all()
    print("read all", flush=True)
"""


@pytest.mark.nightly
@pytest.mark.timeout(150)
@pytest.mark.needs("mpiexec", "python:mpi4py")
def test_more_stripes_than_a_relay_tells_of(tmp_path: Path) -> None:
    write_program(tmp_path / "stripes.py", STRIPES.format(python=sys.executable))
    ports = [{"filename": "stripes.bin"}]
    tasks = [
        {"name": "w", "func": "./stripes.py", "args": ["write"], "nprocs": 2, "placement": [1, 1], "outports": ports},
        {"name": "r", "func": "./stripes.py", "args": ["read"], "placement": ["b"], "inports": ports},
    ]
    (tmp_path / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    done = on_this_machine(tmp_path, 2, 120)
    assert done.code == 0, done.err
    assert "read all" in done.out


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.needs("root", "namespaces", *NEEDS, "mpirun.openmpi", "h5pcc.openmpi", "python:h5py")
@pytest.mark.parametrize("case", ["all", "bytes"])
def test_on_hosts_of_their_own(rig: Rig, case: str, tmp_path: Path) -> None:
    """With networks, processes and shared memory of their own; Debian's MPICH stands still across such hosts."""
    programs = Programs("openmpi", "1.10", case, 10)
    workflow(tmp_path / "hosts", programs, 3)
    text = (tmp_path / "hosts/workflow.yaml").read_text().replace("- b\n", "- node1\n")
    (tmp_path / "hosts/workflow.yaml").write_text(text)
    words = ["env", "OMPI_MCA_mpi_yield_when_idle=1", *WILKINS, "run"]
    words += ["--hosts", "node0:4,node1:4,node2:4", "workflow.yaml"]
    same(run_tree(rig.on("node0", *words, folder=tmp_path / "hosts"), 200, tmp_path / "hosts"), on_disk(case, 10))
    for host in rig.names:
        assert not rig.shared_memory(host)
