"""Programs in environments of their own: virtual and conda environments, modules, and containers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from programs.build import build, parallel_c

from support.running import WILKINS, Finished, run_tree
from wilkins.plan.activation import variables_of
from wilkins.plan.environments import find_conda
from wilkins.plan.plan import Activation

WRITE = """\
import os, sys, signal
import h5py
with h5py.File("a0.h5", "w") as file:
    file["x"] = 42
print(*(f"{name}={os.environ.get(name)}" for name in sys.argv[2:]), flush=True)
print("prefix", sys.prefix, flush=True)
if sys.argv[1] != "0":
    os.kill(os.getpid(), int(sys.argv[1]))
sys.exit(7)
"""
READ = """\
import h5py
with h5py.File("a0.h5") as file:
    print("read", file["x"][()])
"""
PACKAGE = {
    "bin/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
    "etc/conda/activate.d/b.sh": 'export B_HOME="$CONDA_PREFIX/share" B_AFTER="$A_VALUE"\necho activated\n',
    "etc/conda/activate.d/a.sh": "export A_VALUE=1\nset -- of mine\n",
    "etc/conda/deactivate.d/b.sh": "unset B_HOME\n",
}
MAKE_ENVIRONMENT = """\
import asyncio, hashlib, io, json, os, sys, tarfile
from pathlib import Path
import rattler
from rattler.shell import ActivationVariables, Shell, activate

channel, prefix, files = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
entries = [
    {"_path": path, "path_type": "hardlink", "sha256": hashlib.sha256(text.encode()).hexdigest(),
     "size_in_bytes": len(text)}
    for path, text in files.items()
]
index = {"name": "tool", "version": "1.0", "build": "0", "build_number": 0, "depends": [], "subdir": "linux-64"}
files |= {"info/paths.json": json.dumps({"paths_version": 1, "paths": entries}), "info/index.json": json.dumps(index)}
(channel / "linux-64").mkdir(parents=True)
with tarfile.open(channel / "linux-64" / "tool-1.0-0.tar.bz2", "w:bz2") as archive:
    for path, text in files.items():
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = len(text.encode()), 0o755
        archive.addfile(entry, io.BytesIO(text.encode()))

async def install():
    await rattler.index.index_fs(channel)
    source = [rattler.Channel(f"file://{channel}")]
    records = await rattler.solve(sources=source, specs=["tool"], platforms=["linux-64"])
    await rattler.install(records, prefix, cache_dir=channel.parent / "cache", show_progress=False)

asyncio.run(install())
print(activate(prefix, ActivationVariables(None, ["/usr/bin", "/bin"]), Shell.bash).script, flush=True)
os._exit(0)  # threads of rattler may still run, and crash in an interpreter that ends
"""
MODULE = """\
#%Module1.0
setenv TOOL_HOME /opt/tool
setenv TOOL_HOST [info hostname]
prepend-path LD_LIBRARY_PATH /opt/tool/lib
set log [open LOG a]
puts $log loaded
close $log
"""
KINDS = [
    "venv",
    pytest.param("conda", marks=pytest.mark.needs("python:rattler")),
    pytest.param("modules", marks=pytest.mark.needs("modulecmd")),
    pytest.param("container", marks=pytest.mark.needs("bwrap", "system-python:h5py")),
]


def made_venv(folder: Path) -> str:
    """A virtual environment that finds the packages of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "v")], check=True)
    (site,) = (folder / "v").glob("lib/python*/site-packages")
    packages = [path for path in sys.path if path.endswith("-packages")]
    (site / "more.pth").write_text("\n".join(packages) + "\n")
    return "venv: v"


def made_conda(folder: Path) -> str:
    """An environment that a conda package was installed into."""
    import json

    words = [sys.executable, "-c", MAKE_ENVIRONMENT, str(folder / "channel"), str(folder / "c"), json.dumps(PACKAGE)]
    made = subprocess.run(words, check=True, capture_output=True, text=True)
    (folder / "activate.sh").write_text(made.stdout)
    (folder / "c" / "conda-meta" / "state").write_text('{"env_vars": {"KEPT": "yes"}}')
    return "conda: ./c"


def made_modules(folder: Path) -> str:
    """A module, which notes each time that it is loaded."""
    module = folder / "modules" / "tool" / "1.0"
    module.parent.mkdir(parents=True)
    module.write_text(MODULE.replace("LOG", str(folder / "loaded.txt")))
    return "modules: [tool/1.0]"


def made_container(folder: Path) -> str:
    """A root file system with a glibc of its own in it, and over it the `/usr` of this machine."""
    root = folder / "root"
    libc = next(path for path in Path("/usr/lib").glob("*-linux-gnu/libc.so.6"))
    (root / libc.parent.relative_to("/")).mkdir(parents=True)
    shutil.copy(libc, root / libc.relative_to("/"))
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc").mkdir()
    shutil.copy("/etc/ld.so.cache", root / "etc" / "ld.so.cache")
    shutil.copytree("/etc/alternatives", root / "etc" / "alternatives", symlinks=True)
    return "container: {image: root, binds: [/usr]}"


MAKERS: dict[str, Callable[[Path], str]] = {
    "venv": made_venv,
    "conda": made_conda,
    "modules": made_modules,
    "container": made_container,
}


def run(folder: Path, environment: str, args: list[object], writer: str = "", **variables: str) -> Finished:
    """Run a writer in an environment, and a reader outside."""
    (folder / "write.py").write_text(WRITE)
    (folder / "read.py").write_text(READ)
    (folder / "workflow.yaml").write_text(
        f"tasks:\n  - func: write.py\n    {environment}\n    args: {[str(arg) for arg in args]}\n    {writer}\n"
        "    on_failure: continue\n    outports: [{filename: 'a*.h5'}]\n"
        "  - {func: read.py, inports: [{filename: 'a*.h5'}]}\n"
    )
    given = {"MODULEPATH": str(folder / "modules"), **variables}
    return run_tree([*WILKINS, "run", "workflow.yaml"], 90, folder, given)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_dies_as_it_would_without(tmp_path: Path, kind: str) -> None:
    """Its steps, what it prints, its exit code and its signal are its own."""
    environment = MAKERS[kind](tmp_path)
    ran = run(tmp_path, environment, [11])
    assert ran.code == 1 and "killed by SIGSEGV" in ran.said
    assert "| read 42" in ran.out
    logged = (tmp_path / "wilkins-runs" / "latest" / "write.log").read_text()
    assert logged.split()[0] == "prefix"
    if kind == "container":  # others have it in their own tests
        coded = run(tmp_path, environment, [0])
        assert coded.code == 1 and "failed: exit code 7" in coded.said


def test_a_virtual_environment(tmp_path: Path) -> None:
    ran = run(tmp_path, made_venv(tmp_path), [0, "VIRTUAL_ENV", "PATH", "PYTHONHOME"], PYTHONHOME=sys.base_prefix)
    assert f"VIRTUAL_ENV={tmp_path}/v PATH={tmp_path}/v/bin:" in ran.out
    assert f"prefix {tmp_path}/v" in ran.out
    assert "failed: exit code 7" in ran.said


@pytest.mark.needs("python:rattler")
def test_a_conda_environment_is_activated_as_conda_does(tmp_path: Path) -> None:
    """The reference is the script by which rattler activates it."""
    environment = made_conda(tmp_path)
    ran = run(tmp_path, environment, [0, "CONDA_PREFIX", "A_VALUE", "B_HOME", "B_AFTER", "KEPT"])
    assert f"CONDA_PREFIX={tmp_path}/c A_VALUE=1 B_HOME={tmp_path}/c/share B_AFTER=1 KEPT=yes" in ran.out
    assert "failed: exit code 7" in ran.said
    shell = f". {tmp_path}/activate.sh >&2; exec /usr/bin/env -0"
    told = subprocess.run(["/bin/bash", "-c", shell], capture_output=True, text=True, check=True, env={}).stdout
    wanted = dict(entry.split("=", 1) for entry in told.split("\0") if entry)
    found = variables_of(Activation(conda=tmp_path / "c", conda_name=str(tmp_path / "c")))
    for name in ("CONDA_PREFIX", "CONDA_SHLVL", "A_VALUE", "B_HOME", "B_AFTER"):
        assert found[name] == wanted[name]
    assert found["PATH"].split(":")[0] == wanted["PATH"].split(":")[0] == f"{tmp_path}/c/bin"


@pytest.mark.nightly
@pytest.mark.needs("python:rattler")
def test_a_conda_environment_with_an_interpreter_of_its_own(tmp_path: Path) -> None:
    """Its Python and standard library are files of the environment, as where conda has installed a package `python`."""
    environment = made_conda(tmp_path)
    stdlib, own = Path(sysconfig.get_path("stdlib")), tmp_path / "c" / "lib" / f"python{sysconfig.get_python_version()}"
    shutil.copytree(stdlib, own, ignore=shutil.ignore_patterns("__pycache__", "*-packages", "test", "tests"))
    (own / "site-packages").mkdir()
    packages = [path for path in sys.path if path.endswith("-packages")]
    (own / "site-packages" / "more.pth").write_text("\n".join(packages) + "\n")
    python = tmp_path / "c" / "bin" / "python"
    python.unlink()
    shutil.copy2(os.path.realpath(sys._base_executable), python)  # type: ignore[attr-defined]
    ran = run(tmp_path, environment, [11, "CONDA_PREFIX", "A_VALUE"])
    assert f"CONDA_PREFIX={tmp_path}/c A_VALUE=1" in ran.out
    assert f"prefix {tmp_path}/c" in ran.out
    assert "| read 42" in ran.out and "killed by SIGSEGV" in ran.said


@pytest.mark.needs("python:rattler")
def test_an_active_conda_environment_is_left(tmp_path: Path) -> None:
    """Wilkins may run in one itself."""
    environment = made_conda(tmp_path)
    shutil.copytree(tmp_path / "c", tmp_path / "former")
    active = {"CONDA_PREFIX": f"{tmp_path}/former", "PATH": f"{tmp_path}/former/bin:{os.environ['PATH']}"}
    (tmp_path / "c" / "etc" / "conda" / "activate.d" / "b.sh").unlink()
    ran = run(tmp_path, environment, [0, "B_HOME", "PATH"], B_HOME="of the former one", **active)
    assert f"B_HOME= PATH={tmp_path}/c/bin:" in ran.out
    assert f"{tmp_path}/former/bin" not in ran.out


@pytest.mark.needs("python:rattler")
def test_a_conda_environment_by_its_name(tmp_path: Path) -> None:
    made_conda(tmp_path)
    user = tmp_path / "home"
    (user / ".conda").mkdir(parents=True)
    (user / ".conda" / "environments.txt").write_text(f"/gone\n{tmp_path}/c\n")
    assert find_conda("c", tmp_path, {}, user) == tmp_path / "c"
    with pytest.raises(ValueError, match="no conda environment 'd'"):
        find_conda("d", tmp_path, {}, user)


@pytest.mark.needs("modulecmd")
def test_modules_are_loaded_once(tmp_path: Path) -> None:
    """For all instances of a task."""
    environment = made_modules(tmp_path)
    own = "env: {LD_LIBRARY_PATH: /mine, TOOL_HOST: mine}"
    ran = run(tmp_path, environment, [0, "TOOL_HOME", "TOOL_HOST", "LD_LIBRARY_PATH"], own)
    assert "TOOL_HOME=/opt/tool TOOL_HOST=mine LD_LIBRARY_PATH=/mine" in ran.out
    assert "failed: exit code 7" in ran.said
    assert (tmp_path / "loaded.txt").read_text() == "loaded\n"
    (tmp_path / "loaded.txt").unlink()
    text = "tasks:\n  - {func: sh, args: [-c, 'echo $LD_LIBRARY_PATH'], taskCount: 5, modules: [purge, tool]}\n"
    (tmp_path / "several.yaml").write_text(text)
    ran = run_tree([*WILKINS, "run", "several.yaml"], 60, tmp_path, {"MODULEPATH": f"{tmp_path}/modules"})
    assert ran.out.count("| /opt/tool/lib") == 5
    assert (tmp_path / "loaded.txt").read_text() == "loaded\n"


@pytest.mark.needs("modulecmd", "root")
def test_modules_on_several_hosts(tmp_path: Path) -> None:
    """Each host loads its own: their names differ here, and all else is this machine."""
    made_modules(tmp_path)
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\nhost=$1; shift\nexec unshare --uts sh -c "hostname $host; $*"\n')
    agent.chmod(0o755)
    task = "{func: sh, args: [-c, 'echo on $TOOL_HOST'], modules: [tool], placement: [%s], name: %s}"
    (tmp_path / "workflow.yaml").write_text(f"tasks:\n  - {task % ('here1', 'a')}\n  - {task % ('here2', 'b')}\n")
    variables = {"MODULEPATH": f"{tmp_path}/modules", "WILKINS_RSH": str(agent)}
    ran = run_tree([*WILKINS, "run", "--hosts", "here1:1,here2:1", "workflow.yaml"], 90, tmp_path, variables)
    assert ran.code == 0, ran.err
    assert "a | on here1" in ran.out and "b | on here2" in ran.out


@pytest.mark.needs("modulecmd", "mpiexec")
def test_ranks_of_an_mpi_job_have_the_environment(tmp_path: Path) -> None:
    """Started alone, and as ranks of one job."""
    made_modules(tmp_path)
    (tmp_path / "ranks.py").write_text(
        "import os\nfrom mpi4py import MPI\nprint(MPI.COMM_WORLD.size, os.environ['TOOL_HOME'], flush=True)\n"
    )
    (tmp_path / "workflow.yaml").write_text("tasks: [{func: ranks.py, nprocs: 2, modules: [tool]}]\n")
    variables = {"MODULEPATH": f"{tmp_path}/modules"}
    alone = run_tree([*WILKINS, "run", "workflow.yaml"], 90, tmp_path, variables)
    job = run_tree(["mpiexec", "-n", "2", *WILKINS, "run", "workflow.yaml"], 90, tmp_path, variables)
    for ran in (alone, job):
        assert ran.code == 0, ran.err
        assert ran.out.count("2 /opt/tool") == 2


@pytest.mark.nightly
@pytest.mark.needs("bwrap", "mpiexec.hydra", "mpicc.mpich")
def test_ranks_in_a_container(tmp_path: Path) -> None:
    """They share one container and its mpiexec, and write a parallel file."""
    made_container(tmp_path)
    for name in ("par_write.c", "par_read.c"):
        shutil.copy(build(name, *parallel_c("mpich", static=False)), tmp_path / Path(name).stem)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n  - {func: ./par_write, nprocs: 2, args: ['p%d.h5', '3'], mpiexec: mpiexec.hydra, container: {image: "
        "root, binds: [/usr, /etc]}, outports: [{filename: 'p*.h5'}]}\n"
        "  - {func: ./par_read, nprocs: 3, args: ['p%d.h5', '3'], inports: [{filename: 'p*.h5'}]}\n"
    )
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 120, tmp_path)
    assert ran.code == 0, ran.err


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.needs("root", "podman", "system-python:h5py")
def test_an_image_of_podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its local images, so that no registry is asked."""
    made_container(tmp_path)
    # Machines without CAP_SYS_RESOURCE cannot raise limits, and Debian's crun takes no cgroups of both versions.
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    limits = 'default_ulimits = ["nofile=1024:4096", "nproc=1000:2000"]\n'
    (tmp_path / "containers.conf").write_text(f'[containers]\n{limits}[engine]\ncgroup_manager = "cgroupfs"\n{runtime}')
    monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))
    name = f"localhost/wilkins-test-{os.getpid()}:1"
    tree = subprocess.Popen(["tar", "-C", str(tmp_path / "root"), "-c", "."], stdout=subprocess.PIPE)
    subprocess.run(["podman", "import", "--quiet", "-", name], stdin=tree.stdout, check=True, capture_output=True)
    assert tree.wait() == 0
    try:
        words = ["podman", "run", "--rm", "--pid=host", "--volume=/usr:/usr", name, "/usr/bin/true"]
        tried = subprocess.run(words, capture_output=True, text=True, check=False)
        if tried.returncode:
            pytest.skip(f"podman cannot run a container here: {tried.stderr.strip()}")
        image = f'container: {{image: "docker://{name}", binds: [/usr]}}'
        ran = run(tmp_path, image, [11, "HOME"])
        assert "killed by SIGSEGV" in ran.said and "| read 42" in ran.out
        assert "prefix /usr" in ran.out
        doctor = run_tree([*WILKINS, "doctor", "workflow.yaml"], 60, tmp_path)
        assert f"ok  container docker://{name}: glibc 2." in doctor.out
    finally:
        subprocess.run(["podman", "rmi", "--force", name], check=True, capture_output=True)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.needs("root", "bwrap", "debootstrap")
def test_a_debian_tree(tmp_path: Path) -> None:
    """Its Python, HDF5 and C library are its own."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    source = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
    words = ["debootstrap", "--variant=minbase", "--include=python3-h5py", "stable", str(tmp_path / "root"), source]
    subprocess.run(words, check=True, capture_output=True)
    ran = run(tmp_path, "container: root", [11])
    assert "killed by SIGSEGV" in ran.said and "| read 42" in ran.out
    assert "prefix /usr" in ran.out
    doctor = run_tree([*WILKINS, "doctor", "workflow.yaml"], 60, tmp_path)
    assert "ok  container root: glibc 2." in doctor.out
