"""Environments of tasks: what is found, what a plan shows, and what is wrong with those that are not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from front.front_case import Case

from wilkins.doctor import findings
from wilkins.doctor.facts import ContainerFacts
from wilkins.errors import ResourceError, WorkflowError
from wilkins.flow.placement import Host
from wilkins.plan import containers, glibc
from wilkins.plan.activation import difference, shell_script, with_conda, with_venv
from wilkins.plan.containers import Entry
from wilkins.plan.environments import find_conda, find_modulecmd
from wilkins.plan.plan import Activation, ContainerPlan
from wilkins.plan.planner import plan_file
from wilkins.plan.split import host_parts
from wilkins.report.show import plan_table
from wilkins.transport.board import native_library

TASK = "tasks:\n  - func: ./sim\n"


@pytest.fixture
def venv(case: Case) -> Case:
    """A folder with a virtual environment `v`, a conda environment `c`, and a Python program."""
    case.program("v/bin/python")
    (case.folder / "v" / "pyvenv.cfg").write_text("home = /usr\nversion = 3.12.1\n")
    case.program("v/bin/tool")
    case.program("c/bin/python")
    (case.folder / "c" / "conda-meta").mkdir()
    (case.folder / "c" / "conda-meta" / "python-3.11.4-h1_0.json").write_text("{}")
    case.program("ana.py", "import sys\n", 0o644)
    return case


def test_a_virtual_environment(venv: Case) -> None:
    """It has the Python of scripts, and commands are looked for there first."""
    plan = venv.write("venv: v\ntasks:\n  - func: ana.py\n  - func: tool\n  - {func: ./sim, modules: []}\n").plan()
    script, tool, sim = plan.tasks
    assert script.executable == venv.folder / "v/bin/python"
    assert tool.executable == venv.folder / "v/bin/tool"
    assert script.environment and script.environment.variables["VIRTUAL_ENV"] == str(venv.folder / "v")
    assert script.environment.variables["PATH"].startswith(f"{venv.folder}/v/bin:")
    assert sim.environment is None
    shown = f"ana runs in venv {venv.folder}/v, Python 3.12.1 ({venv.folder}/v/bin/python)"
    assert shown in plan_table(plan)


def test_a_conda_environment(venv: Case) -> None:
    plan = venv.write("tasks:\n  - {func: ana.py, conda: ./c}\n").plan()
    assert plan.tasks[0].executable == venv.folder / "c/bin/python"
    assert f"ana runs in conda {venv.folder}/c, Python 3.11.4" in plan_table(plan)


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        ("venv: w", 3, "there is no virtual environment '{folder}/w'; make it: python3 -m venv"),
        ("venv: c", 3, "is a conda environment; write 'conda' instead of 'venv'"),
        ("venv: .", 3, "is no virtual environment, since it has no pyvenv.cfg"),
        ("conda: ./v", 3, "is a virtual environment; write 'venv' instead of 'conda'"),
        ("conda: ./w", 3, "the conda environment '{folder}/w' does not exist; make it: conda create -p"),
        ("conda: ./c\n    venv: v", 3, "'venv' and 'conda' each say what the program finds"),
        ("conda: ./c\n    modules: [gcc]", 4, "'conda' and 'modules' each say"),
        ("container: x.sif\n    venv: v", 3, "'venv' and 'container' each say"),
        ("venv: v\n    env: {PATH: /bin}", 4, "'env' PATH and 'venv' both say where programs are found"),
        ("container: x.sif", 3, "there is no image '{folder}/x.sif'; build or copy it there"),
        ("container: localhost/sim:1", 3, "an image of Podman's is written docker://localhost/sim:1"),
        ("container: debian", 3, "an image of a registry is written docker://NAME"),
        ("container: c/conda-meta", 3, "holds no root file system"),
        ("container: {image: root, binds: [/nowhere]}", 3, "the folder '/nowhere' of 'binds' does not exist"),
        ("container: {image: root, bind: [/data]}", 3, "has no 'bind'; did you mean 'binds'?"),
        ("container: {binds: [/data]}", 3, "lacks 'image'"),
        ("container: {image: x, binds: ['/a:b']}", 3, "'/a:b' must be PATH, or PATH:PATH"),
        ("container: root\n    gpus: 1", 4, "GPUs in a container were not tested"),
    ],
)
def test_what_is_missing_or_cannot_be(venv: Case, lines: str, place: int, words: str) -> None:
    (venv.folder / "root" / "usr").mkdir(parents=True)
    error = venv.write(f"{TASK}    {lines}\n").error()
    assert error.startswith(f"workflow.yaml:{place}:")
    assert words.format(folder=venv.folder).replace(f"{venv.folder}/", "") in error


def test_what_wilkins_runs_itself(venv: Case) -> None:
    """Its Python is that of Wilkins; the default of the workflow passes it by."""
    task = "tasks:\n  - {func: 'ana.py:main', outports: [{filename: a.h5}]%s}\n"
    (venv.folder / "ana.py").write_text("def main(steps):\n    pass\n")
    assert venv.write("venv: v\n" + task % "").plan().tasks[0].executable == Path(sys.executable)
    assert "a function runs under the Python that runs Wilkins" in venv.write(task % ", venv: v").error()


def test_nothing_that_starts_containers(venv: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    (venv.folder / "x.sif").touch()
    monkeypatch.setenv("PATH", str(venv.folder))
    error = venv.write(f"{TASK}    container: x.sif\n").error()
    assert "none of apptainer and singularity is on PATH" in error
    venv.program("apptainer")
    error = venv.write(f"{TASK}    container: docker://localhost/sim\n").error()
    assert "podman is not on PATH, and 'docker://localhost/sim' needs it" in error


def test_a_container_without_the_program_or_a_new_libc(venv: Case) -> None:
    """What is in a folder is known before the start."""
    venv.program("tools/bwrap")
    (venv.folder / "root" / "lib").mkdir(parents=True)
    (venv.folder / "root" / "usr" / "bin").mkdir(parents=True)
    (venv.folder / "root" / "lib" / "libc.so.6").write_bytes(b"\0GLIBC_2.2.5\0GLIBC_2.17\0")
    text = "tasks:\n  - {func: %s, container: root, outports: [{filename: a.h5}]}\n  - {func: ./ana, inports: "
    text += "[{filename: a.h5}]}\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{venv.folder}/tools", prepend=":")
        errors = venv.write(text % "h5ls").errors()
    assert any("has no program 'h5ls'" in error for error in errors)
    assert any("has glibc 2.17, and the layer needs 2." in error for error in errors)


def test_the_ranks_of_a_container_are_on_one_host_and_in_no_job(venv: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.program("tools/bwrap")
    (venv.folder / "root" / "usr").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{venv.folder}/tools", prepend=":")
    venv.write(f"{TASK}    container: root\n")
    assert venv.plan().tasks[0].container
    with pytest.raises(WorkflowError, match=r"workflow.yaml:3:16: error: .* and this is an MPI job"):
        plan_file(venv.path, launch="one-job")
    hosts = (Host("a", 1), Host("b", 1))
    assert len(host_parts(plan_file(venv.path, hosts=hosts))) == 1
    venv.write(f"{TASK}    container: root\n    nprocs: 2\n    placement: [1, 1]\n")
    with pytest.raises(ResourceError, match=r"on several hosts \(a, b\), and .* 'container' are in one container"):
        host_parts(plan_file(venv.path, hosts=hosts))


def test_an_image_without_names_of_hosts_gets_those_of_this_machine() -> None:
    """Else its programs cannot find the hosts from which they fetch bytes."""
    folders = {"": [Entry("etc", True), Entry("usr", True)], "etc": [Entry("passwd", False)]}
    image = ContainerPlan("bwrap", "/usr/bin/bwrap", "/image", (), ())
    words = containers.command(image, "/work", ["/work"], {}, {}, lambda folder: folders.get(folder, []))
    told = " ".join(words)
    assert "--dir /etc --ro-bind /image/etc/passwd /etc/passwd" in told
    assert "--ro-bind-try /etc/hosts /etc/hosts" in told


def test_names_of_conda_environments(tmp_path: Path) -> None:
    for name in ("root/conda-meta", "root/envs/sim/conda-meta", "other/ana/conda-meta", "root/bin", "home/.conda"):
        (tmp_path / name).mkdir(parents=True)
    conda = tmp_path / "root" / "bin" / "conda"
    conda.touch(mode=0o755)
    (tmp_path / "home" / ".conda" / "environments.txt").write_text(f"{tmp_path}/other/ana\n{tmp_path}/gone\n")
    for variables in (
        {"CONDA_EXE": str(conda)},
        {"PATH": str(conda.parent)},
        {"MAMBA_ROOT_PREFIX": f"{tmp_path}/root"},
    ):
        found = {name: find_conda(name, tmp_path, variables, tmp_path / "home") for name in ("base", "sim", "ana")}
        assert found == {
            "base": tmp_path / "root",
            "sim": tmp_path / "root" / "envs" / "sim",
            "ana": tmp_path / "other" / "ana",
        }
        with pytest.raises(ValueError, match="did you mean 'sim'"):
            find_conda("sin", tmp_path, variables, tmp_path / "home")


def test_the_modules_system(tmp_path: Path) -> None:
    """Of Lmod, of Environment Modules, and none."""
    lmod, tcl = tmp_path / "lmod", tmp_path / "libexec" / "modulecmd.tcl"
    tcl.parent.mkdir()
    for one in (lmod, tcl):
        one.touch(mode=0o755)
    assert find_modulecmd({"LMOD_CMD": str(lmod), "MODULESHOME": str(tmp_path), "PATH": ""}) == (str(lmod),)
    assert find_modulecmd({"MODULESHOME": str(tmp_path), "PATH": ""}) == (str(tcl),)
    with pytest.raises(ValueError, match="there is no modules system"):
        find_modulecmd({"PATH": str(tmp_path)})


@pytest.mark.needs("modulecmd")
def test_a_module_that_is_not_there(venv: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODULEPATH", str(venv.folder))
    error = venv.write(f"{TASK}    modules: [nowhere/1.0]\n").error()
    assert error.startswith("workflow.yaml:3:14: error: task 'sim': the modules nowhere/1.0 cannot be activated")
    assert "Unable to locate a modulefile" in error


def test_activation_in_words() -> None:
    script = shell_script(Activation(("purge", "gcc/12", "a b"), ("/m",)), [], [Path("/c/a.sh")])
    assert script.splitlines()[2:] == [
        'eval "$(/m bash purge)"',
        "eval \"$(/m bash load gcc/12 'a b')\" || exit 9",
        ". /c/a.sh",
        "exec /usr/bin/env -0 >&3",
    ]
    assert with_venv({"PATH": "/bin", "PYTHONHOME": "/p"}, Path("/v")) == {
        "PATH": "/v/bin:/bin",
        "PYTHONHOME": "",
        "VIRTUAL_ENV": "/v",
    }
    left = with_conda({"PATH": "/former/bin:/bin", "CONDA_PREFIX": "/former"}, Path("/c"), "c", {"KEPT": "1"})
    assert (left["PATH"], left["KEPT"], left["CONDA_DEFAULT_ENV"]) == ("/c/bin:/bin", "1", "c")
    assert difference({"A": "1", "B": "2", "C": "3", "_": "x"}, {"A": "1", "B": "4", "D": "5"}) == {
        "B": "4",
        "C": "",
        "D": "5",
    }


def test_commands_of_containers() -> None:
    """What each of them is told to share."""
    tree = {"": [Entry("bin", False, "usr/bin"), Entry("usr", True), Entry("home", True), Entry("proc", True)]}
    tree["home"] = [Entry("ann", True)]

    def words(runtime: str, image: str) -> str:
        container = ContainerPlan(runtime, f"/x/{runtime}", image, binds=("/data:/input",))  # type: ignore[arg-type]
        own = {"PATH": "/p", "A": "secret"}
        listing = lambda folder: tree.get(folder, [])  # noqa: E731
        return " ".join(containers.command(container, "/home/me", ["/home/me"], own, {"LD_PRELOAD": "l"}, listing))

    end = "/usr/bin/env PATH=/p LD_PRELOAD=l"
    assert words("bwrap", "/root") == (
        "/x/bwrap --symlink usr/bin /bin --ro-bind /root/usr /usr --dir /home --ro-bind /root/home/ann /home/ann "
        "--dev-bind /dev /dev --bind /proc /proc --ro-bind /sys /sys --bind /tmp /tmp --bind /home/me /home/me "
        f"--bind /data /input --setenv PATH {containers.DEFAULT_PATH} --chdir /home/me -- {end}"
    )
    assert words("apptainer", "/i.sif") == (
        "/x/apptainer exec --bind /dev/shm --bind /tmp --bind /home/me --bind /data:/input --pwd /home/me /i.sif " + end
    )
    podman = words("podman", "docker://debian:12")
    assert "--ipc=host" in podman and "--pid=host" in podman and "--env=WILKINS_* --env=PATH --env=A" in podman
    assert podman.endswith(f"--workdir /home/me --entrypoint= debian:12 {end}")
    assert "secret" not in podman
    assert containers.outside({"A": "1", "LD_LIBRARY_PATH": "/l", "CONDA_PREFIX": "/c"}) == {"A": "1"}


def test_the_libc_of_a_container() -> None:
    assert glibc.newest(["GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.4", "GLIBC_PRIVATE", "OTHER_9"]) == (2, 34)
    symbols = subprocess.run(["objdump", "-T", str(native_library())], capture_output=True, text=True, check=True)
    versions = [word.strip("()") for word in symbols.stdout.split() if word.strip("()").startswith("GLIBC_2")]
    assert glibc.needed() == glibc.newest(versions)
    old = ContainerFacts("c.sif", "/usr/bin/apptainer", (2, 31), (2, 36))
    assert findings.of_container(old).level == "wrong"
    assert "glibc 2.31" in findings.of_container(old).text
    assert findings.of_container(ContainerFacts("c.sif", "a", (2, 36), (2, 36))).level == "ok"
    assert "musl" in findings.of_container(ContainerFacts("c.sif", "a", (), (2, 36))).text
