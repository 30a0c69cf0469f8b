"""Tasks in containers over several hosts: each reaches the steps of its host, whatever the image."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig
from hosts.test_tasks_of_several_hosts import all_have_read, on_this_machine, together
from launch.test_environments import made_container

from support.running import WILKINS, must_run, run_tree

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.xdist_group("hosts"),
    pytest.mark.needs("bwrap"),
]

ROOT = Path(__file__).resolve().parents[2]
WRITE = """import h5py
for k in range(4):
    with h5py.File(f"a{k}.h5", "w") as file:
        file["x"] = [k] * 5000
"""
READ = """import os, h5py
for k in range(4):
    with h5py.File(f"a{k}.h5") as file:
        assert list(file["x"]) == [k] * 5000
print("read all; home:", os.path.exists("/home"))
"""


LOOK = """import h5py, numpy
for step in range(4):
    for rank in range(3):
        with h5py.File(f"tree{step}-{rank}.h5") as file:
            assert numpy.array_equal(file["x"], 100000 * step + 10000 * rank + numpy.arange(5000))
print("all as written")
"""


def binds() -> list[str]:
    """What the programs of this environment need in a container that has a C library alone."""
    return sorted({"/usr", sys.prefix, sys.base_prefix, str(ROOT)})


def coupled(folder: Path, contained: tuple[str, ...]) -> None:
    """A writer on host 0 and a reader on host 1, of which some are in a container."""
    made_container(folder)
    image = json.dumps({"image": "root", "binds": binds()})
    (folder / "write.py").write_text(WRITE)
    (folder / "read.py").write_text(READ)
    tasks = []
    for place, (name, port) in enumerate((("write", "outports"), ("read", "inports"))):
        container = f"container: {image}, " if name in contained else ""
        tasks.append(
            f"  - {{func: {name}.py, placement: {[0] * place + [1]}, {container}{port}: [{{filename: 'a*.h5'}}]}}\n"
        )
    (folder / "workflow.yaml").write_text("tasks:\n" + "".join(tasks))


@pytest.mark.usual("write", also_between_hosts=[])
@pytest.mark.parametrize("contained", [("write",), ("read",), ("write", "read")], ids="-".join)
def test_a_task_in_a_container_on_each_of_two_hosts(tmp_path: Path, contained: tuple[str, ...]) -> None:
    coupled(tmp_path, contained)
    ran = on_this_machine(tmp_path, "a,b")
    assert ran.code == 0, ran.err
    assert f"read all; home: {'read' not in contained}" in ran.out
    crossed = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())["crossings"]
    assert [(one["writes"], one["reads"]) for one in crossed] == [("a", "b")]


def mounted(root: list[str], folders: tuple[str, ...]) -> str:
    """Words of `prefix` that start a container with these folders of the machine."""
    mounts = [word for path in (*folders, "/proc", "/sys", "/tmp") for word in ("--bind", path, path)]
    return json.dumps(["bwrap", *root, "--dev-bind", "/dev", "/dev", *mounts])


def in_containers(folder: Path, mpi: str) -> None:
    """Ranks on three hosts, each in a container of its own, and a reader by itself in one."""
    together(folder, mpi)
    made_container(folder)
    root = ["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin"]
    prefix = mounted([*root, "--ro-bind", "/etc", "/etc"], (*binds(), str(folder)))
    workflow = (folder / "workflow.yaml").read_text().replace("nprocs:", f"prefix: {prefix}, nprocs:")
    image = json.dumps({"image": "root", "binds": binds()})
    (folder / "workflow.yaml").write_text(workflow.replace("./serial.py,", f"./serial.py, container: {image},"))


@pytest.mark.usual("mpich")
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_ranks_on_several_hosts_each_in_a_container(mpi: str, tmp_path: Path) -> None:
    in_containers(tmp_path, mpi)
    all_have_read(on_this_machine(tmp_path, "a:4,b:4,c:4"), 6)


def test_a_container_for_ranks_on_several_hosts_is_refused(tmp_path: Path) -> None:
    """Its own `mpiexec` starts them, on its own host."""
    coupled(tmp_path, ("write",))
    text = (tmp_path / "workflow.yaml").read_text()
    (tmp_path / "workflow.yaml").write_text(text.replace("placement: [1],", "placement: [1, 1], nprocs: 2,", 1))
    ran = on_this_machine(tmp_path, "a:2,b:2")
    assert ran.code == 3, ran.err
    assert "its ranks are on several hosts (a, b), and the ranks of a task with 'container' are in one" in ran.err


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", *NEEDS)
def test_on_hosts_with_memory_of_their_own(tmp_path: Path) -> None:
    """Of namespaces, which ssh reaches: a container sees the `/dev/shm` of its host."""
    with Rig(3) as rig:
        (tmp_path / "one").mkdir()
        coupled(tmp_path / "one", ("write", "read"))
        words = [*WILKINS, "run", "workflow.yaml", "--hosts"]
        ran = run_tree(rig.on("node0", *words, "node1,node2", folder=tmp_path / "one"), 90, tmp_path / "one")
        assert ran.code == 0, ran.err
        (tmp_path / "many").mkdir()
        in_containers(tmp_path / "many", "openmpi")  # Debian's MPICH may stand still at the end
        ran = run_tree(
            rig.on("node0", *words, "node0:4,node1:4,node2:4", folder=tmp_path / "many"), 90, tmp_path / "many"
        )
        all_have_read(ran, 6)
        for name in rig.names:
            assert rig.shared_memory(name) == []


def debian(suite: str, root: Path) -> None:
    """A tree of a Debian, with what builds `ranks_of_trees.c`."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    source = must_run(root.parent, *asked).split()[0]
    must_run(
        root.parent, "debootstrap", "--variant=minbase", "--include=gcc,libhdf5-dev", suite, root, source, timeout=900
    )


@pytest.mark.nightly
@pytest.mark.timeout(2400)
@pytest.mark.needs("root", "debootstrap", "mpicc", "python:ziglang")
@pytest.mark.parametrize("suite", ["trixie", "bullseye"])
def test_trees_with_a_newer_and_an_older_c_library(tmp_path: Path, suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer in the tree, its ranks on two hosts, each in a container, and their readers in it and outside."""
    root = Path(os.environ.get("WILKINS_TEST_TREES", tmp_path)) / suite
    if not (root / "usr").exists():
        debian(suite, root)
    if suite == "bullseye":  # the layer of this environment may need a newer C library
        machine = platform.machine()
        given = os.environ.get("WILKINS_TEST_DISTRIBUTIONS")
        made = Path(given or tmp_path / "made")
        if not given:
            must_run(ROOT, sys.executable, "tools/wheel", "--machine", machine, "--out", made, timeout=800)
        (wheel,) = made.glob(f"*_{machine}.whl")
        with zipfile.ZipFile(wheel) as archive:
            monkeypatch.setenv("WILKINS_LIBRARY", archive.extract("wilkins/transport/libwilkins.so", tmp_path))
    shutil.copy(ROOT / "tests" / "programs" / "ranks_of_trees.c", tmp_path)
    mpi = ["-DRANKS", f"-I{sys.prefix}/include", f"-L{sys.prefix}/lib", f"-Wl,-rpath,{sys.prefix}/lib", "-lmpi"]
    tree = [
        word for entry in ("bin", "etc", "lib", "lib64", "usr") for word in ("--ro-bind", root / entry, f"/{entry}")
    ]
    inside = json.loads(mounted(list(map(str, tree)), (str(ROOT), str(tmp_path))))
    for name, options in (("alone", []), ("ranks", mpi)):
        hdf5 = ["-I/usr/include/hdf5/serial", "ranks_of_trees.c", *options, "-lhdf5_serial"]
        must_run(tmp_path, *inside, "/usr/bin/gcc", "-O2", "-o", name, *hdf5)
    image = json.dumps({"image": str(root)})
    writer = f"args: [write, 4, 3], prefix: {json.dumps(inside)}"
    ports = "ports: [{filename: 'tree*.h5'}]"
    (tmp_path / "workflow.yaml").write_text(
        f"tasks:\n  - {{func: ./ranks, nprocs: 3, placement: [2, 1], {writer}, out{ports}}}\n"
        f"  - {{func: ./alone, name: inside, placement: [0, 1], args: [read, 4, 3], container: {image}, in{ports}}}\n"
        f"  - {{func: look.py, placement: [1], in{ports}}}\n"
    )
    (tmp_path / "look.py").write_text(LOOK)
    ran = on_this_machine(tmp_path, "a:4,b:4")
    assert ran.code == 0, ran.err
    assert "read 4 steps of ranks 0 to 2" in ran.out and "all as written" in ran.out
