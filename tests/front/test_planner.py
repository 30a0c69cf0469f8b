"""The plan: which program is started, how, and what is wrong with programs that cannot be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from front.front_case import Case

from wilkins.plan.plan import ChannelPlan
from wilkins.plan.planner import plan_file
from wilkins.report.show import plan_table

Pair = Callable[..., Case]
C_PROGRAM = "int main(void) { return 0; }\n"


def compile_c(target: Path, *options: str, text: str = C_PROGRAM) -> Path:
    """Build a small program."""
    source = target.with_suffix(".c")
    source.write_text(text)
    subprocess.run(["cc", str(source), "-o", str(target), *options], check=True)
    return target


def test_a_pair(pair: Pair) -> None:
    plan = pair(sim="nprocs: 3", inp="flow: {every: 2, queue: 4, when_full: drop-newest}").plan()
    assert [task.name for task in plan.tasks] == ["sim", "ana"]
    assert [task.kind for task in plan.tasks] == ["mpi", "plain"]
    assert [task.first_rank for task in plan.tasks] == [0, 3]
    assert plan.total_ranks == 4
    assert plan.tasks[1].mpiexec == ()
    assert plan.tasks[0].mpiexec
    assert [(port.index, port.task, port.direction, port.pattern, port.mode) for port in plan.ports] == [
        (0, 0, "out", "plt*.h5", "memory"),
        (1, 1, "in", "plt*.h5", "memory"),
    ]
    assert plan.channels == (ChannelPlan(2, 4, "drop-newest", outport=0, inport=1),)
    (some,) = pair(inp="io_freq: 3").plan().channels
    assert (some.every, some.offset) == (3, 2)
    (shifted,) = pair(out="queue: 5", inp="flow: {every: 3, offset: 1}").plan().channels
    assert (shifted.every, shifted.offset, shifted.queue) == (3, 1, 5)
    assert plan.tasks[0].origin.endswith("workflow.yaml:2:5")


def test_queue_and_readers(pair: Pair) -> None:
    assert pair().plan().channels[0].queue == 2
    assert pair(out="queue: 5").plan().channels[0].queue == 5
    assert pair(out="queue: 5", inp="queue: 3").plan().channels[0].queue == 3
    assert pair(out="queue: 5", inp="io_freq: latest").plan().channels[0].queue == 1
    assert pair(ana="nprocs: 3").plan().channels[0].readers == 3
    assert pair(ana="nprocs: 3", inp="nreaders: 2").plan().channels[0].readers == 2


def test_memory_limit(pair: Pair) -> None:
    assert [port.cap_bytes for port in pair(out="memory: 1GiB").plan().ports] == [2**30, 0]
    assert pair(out="memory: 0").plan("memory=1GB").ports[0].cap_bytes == 0
    assert pair().plan("memory=1.5GB").ports[0].cap_bytes == 1_500_000_000


def test_task_keys(case: Case) -> None:
    (case.folder / "run").mkdir()
    (case.folder / "in.txt").touch()
    task = (
        case.write(
            "tasks:\n  - func: ./sim\n    taskCount: 2\n    args: ['{instance}', '{instance}0']\n    env: "
            "{A: 1, B: ''}\n"
            "    threads: 2\n    cwd: run\n    stdin: in.txt\n    prefix: nice -n 5\n    timeout: 2min\n  "
            "  on_failure: continue\n"
            "    rerun: never\n    strict_end: yes\n"
        )
        .plan()
        .tasks[1]
    )
    assert (task.name, task.instance, task.args) == ("sim[1]", 1, ("1", "10"))
    assert task.env == {"OMP_NUM_THREADS": "2", "A": "1", "B": ""}
    assert (task.cwd, task.stdin) == (case.folder / "run", case.folder / "in.txt")
    assert (task.prefix, task.timeout, task.on_failure) == (("nice", "-n", "5"), 120.0, "continue")
    assert (task.rerun, task.strict_end) == ("never", True)


@pytest.mark.parametrize(("walltime", "noted"), [("90s", False), ("2min", False), ("3min", True)])
def test_a_task_that_its_timeout_stops_too_early_is_noted(case: Case, walltime: str, noted: bool) -> None:
    task = f"tasks:\n  - func: ./sim\n    timeout: 2min\n    resources:\n      walltime: {walltime}\n"
    notes = case.write(task).plan().notes
    assert [note.endswith("make 'timeout' the longer one") for note in notes] == [True] * noted
    assert not noted or ":5:17: note: task 'sim': it is expected to run for up to 180 s ('walltime')" in notes[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cwd: nowhere", "does not exist; run: mkdir -p"),
        ("cwd: sim", "is not a directory"),
        ("stdin: no", "does not exist"),
    ],
)
def test_folders(case: Case, line: str, words: str) -> None:
    assert words in case.write(f"tasks:\n  - func: ./sim\n    {line}\n").error()


class TestPrograms:
    """What `func` may be."""

    def func(self, case: Case, func: str, more: str = "") -> Case:
        return case.write(
            f"tasks:\n  - func: {func}\n    outports: [{{filename: a.h5}}]\n{more}  - func: ./ana\n    "
            f"inports: [{{filename: a.h5}}]\n"
        )

    def test_python(self, case: Case) -> None:
        script = case.program("make.py", "", 0o644)
        task = self.func(case, "make.py").plan().tasks[0]
        assert (task.name, task.executable, task.args) == ("make", Path(sys.executable), (str(script),))

    @pytest.mark.parametrize(
        ("line", "mode", "interpreter"),
        [
            ("#!{other}", 0o755, "{other}"),
            ("#!{other}", 0o644, sys.executable),
            ("#!/usr/bin/env python3", 0o755, sys.executable),
            (f"#!{sys.executable}", 0o755, sys.executable),
            ("", 0o755, sys.executable),
        ],
    )
    def test_a_script_that_names_its_python(self, case: Case, line: str, mode: int, interpreter: str) -> None:
        """An executable one runs as the shell would run it; `env` leaves it to whoever starts the script."""
        other = case.program("other-python")
        script = case.program("make.py", line.format(other=other) + "\n", mode)
        plan = self.func(case, "make.py").plan()
        words = f"{interpreter.format(other=other)} {script}"
        command = re.search("^make .* plain +(.*?)$", plan_table(plan), re.MULTILINE)
        assert command, "the row of the task"
        assert words.startswith(command[1].rstrip().removesuffix("...")), "cut where it is long"
        assert plan.tasks[0].executable == (Path(sys.executable) if interpreter == sys.executable else script)

    def test_on_path_and_beside_the_file(self, case: Case) -> None:
        assert self.func(case, "sh").plan().tasks[0].executable.name == "sh"
        case.program("mysim")
        assert self.func(case, "mysim").plan().tasks[0].executable == case.folder / "mysim"

    def test_a_henson_module_of_a_func_without_suffix(self, case: Case) -> None:
        """As ensembles of the original name them."""
        case.program("prod.hx")
        found = self.func(case, "prod").error()
        assert "only 'prod.hx'; modules for Henson cannot be started by themselves" in found
        assert "-o prod prod.c" in found

    def test_henson_modules(self, case: Case) -> None:
        assert (
            "modules for Henson cannot be started by themselves: build a plain executable"
            in self.func(case, "./prod.hx").error()
        )
        case.program("prod.py", "", 0o644)
        assert self.func(case, "./prod.hx").plan().tasks[0].args == (str(case.folder / "prod.py"),)
        case.program("prod")
        task = self.func(case, "./prod.hx").plan().tasks[0]
        assert (task.name, task.executable) == ("prod", case.folder / "prod")

    def test_a_name_without_suffix_may_be_python(self, case: Case) -> None:
        case.program("prod.py", "", 0o644)
        assert self.func(case, "prod").plan().tasks[0].executable == Path(sys.executable)

    @pytest.mark.parametrize(
        ("func", "words"),
        [
            ("./sin", "there is no program './sin' in "),
            ("./sin", "; did you mean 'sim'?"),
            ("no-such-thing-anywhere", "nor on PATH; build or install it, or mend the path"),
            ("./no/such", "the folder"),
            ("./wave", "; build it from 'wave.f90' there"),
            ("./simulate --steps 3", "put what follows the program's name into 'args'"),
            ("no.py", "there is no program 'no.py'"),
            ("./folder", "is a directory; give the program in it"),
            ("./folder.py", "is a directory; give the Python file in it"),
            ("./plain", "has no execute permission; run: chmod +x"),
            ("./empty", "is empty; build the program"),
            ("./text", "is neither a program of this system nor a script"),
            ("./lost", "the interpreter '/no/such/sh' of"),
            ("./dos", "it has Windows line ends"),
        ],
    )
    def test_mistakes(self, case: Case, func: str, words: str) -> None:
        (case.folder / "folder").mkdir()
        (case.folder / "folder.py").mkdir()
        case.program("plain", mode=0o644)
        case.program("empty", "")
        case.program("wave.f90", "end\n", 0o644)
        case.program("text", "hello\n")
        case.program("lost", "#!/no/such/sh\n")
        case.program("dos", "#!/bin/sh\r\n")
        found = self.func(case, func).error()
        assert found.startswith("workflow.yaml:2:11: error: task '")
        assert words in found

    @pytest.mark.needs("cc")
    def test_static_executable(self, case: Case) -> None:
        compile_c(case.folder / "still", "-static")
        assert (
            "is a static executable, which the layer cannot reach; link it dynamically"
            in self.func(case, "./still").error()
        )
        compile_c(case.folder / "still", "-static-pie")
        assert "is a static executable" in self.func(case, "./still").error()
        assert case.write("tasks: [{func: ./still}]\n").plan(), "without memory ports it may be static"
        compile_c(case.folder / "still")
        assert self.func(case, "./still").plan()

    def test_setuid(self, case: Case) -> None:
        if os.geteuid() == 0:
            os.chown(case.folder / "sim", 1, 1)
            (case.folder / "sim").chmod(0o4755)
            assert "runs with another user's rights" in self.func(case, "./sim").error()


class TestLaunchers:
    """Which mpiexec starts a task."""

    def plan_mpiexec(self, case: Case, text: str) -> tuple[str, ...]:
        return case.write(text).plan().tasks[0].mpiexec

    @pytest.mark.needs("mpicc.mpich", "mpiexec.mpich")
    def test_linked_to_mpich(self, case: Case) -> None:
        self.build(case, "mpicc.mpich")
        found = self.plan_mpiexec(case, "tasks: [{func: ./prog, nprocs: 2}]\n")
        assert "HYDRA" in subprocess.run([found[0], "--version"], capture_output=True, text=True, check=True).stdout

    @pytest.mark.needs("mpicc.openmpi", "mpirun.openmpi")
    def test_linked_to_open_mpi(self, case: Case) -> None:
        self.build(case, "mpicc.openmpi")
        found = self.plan_mpiexec(case, "tasks: [{func: ./prog, nprocs: 2}]\n")
        assert "Open" in subprocess.run([found[0], "--version"], capture_output=True, text=True, check=True).stdout
        assert found[1:4] == ("--oversubscribe", "--bind-to", "none")
        assert ("--allow-run-as-root" in found) == (os.geteuid() == 0)

    @pytest.mark.needs("mpirun.openmpi", "system-python:meep")
    def test_a_python_package_linked_to_open_mpi(self, case: Case) -> None:
        case.program("wave.py", "import meep as mp\n", 0o644)
        found = self.plan_mpiexec(case, "tasks: [{func: /usr/bin/python3, args: [wave.py], nprocs: 2}]\n")
        assert "--oversubscribe" in found

    @pytest.mark.needs("cc")
    def test_none_of_the_right_family(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        compile_c(
            case.folder / "libmpi.so.40",
            "-shared",
            "-fPIC",
            "-Wl,-soname,libmpi.so.40",
            text="int f(void) { return 0; }",
        )
        (case.folder / "libmpi.so").symlink_to("libmpi.so.40")
        compile_c(
            case.folder / "prog",
            "-L",
            str(case.folder),
            "-lmpi",
            "-Wl,-rpath,$ORIGIN",
            text="int f(void); int main(void) { return f(); }",
        )
        monkeypatch.setenv("PATH", str(case.folder))
        found = case.write("tasks: [{func: ./prog, nprocs: 2}]\n").error()
        assert f"the program uses Open MPI (it is linked to {case.folder}".replace(
            f"{case.folder}", ""
        ) in found.replace(f"{case.folder}", "")
        assert "or name one with 'mpiexec:'" in found

    @pytest.mark.parametrize(
        ("name", "text", "alone"),
        [
            ("serial.py", "import json\n", True),
            ("serial.py", "from mpi4py import MPI\n", False),
            ("serial.py", "import helper\n", False),
            ("serial.sh", "#!/bin/sh\n", False),
            ("serial", C_PROGRAM, True),
            ("serial", 'const char *call = "MPI_Init";\n' + C_PROGRAM, False),
        ],
    )
    def test_ranks_without_mpi(self, case: Case, name: str, text: str, alone: bool) -> None:
        case.program("helper.py", "", 0o644)
        if text.endswith(C_PROGRAM):
            compile_c(case.folder / name, text=text)
        else:
            case.program(name, text)
        notes = case.write(f"tasks:\n  - func: ./{name}\n    nprocs: 2\n").plan().notes
        words = (
            f"workflow.yaml:3:13: note: task 'serial': {name} uses no MPI, so each of its 2 ranks does all of the work"
        )
        assert [words in note for note in notes] == [True] * alone

    @pytest.mark.parametrize(
        ("func", "out", "wrong"),
        [
            ("./sim.py", "{filename: 's*'}", True),
            ("python3, args: [sim.py]", "{filename: 's*'}", True),
            ("./sim.py", "{filename: 's*', mode: both}", False),
            ("./sim.py", "{filename: 'out/s*'}", False),
            ("./sim.py, cwd: elsewhere", "{filename: 's*'}", False),
        ],
    )
    def test_a_pattern_that_hides_the_program(self, case: Case, func: str, out: str, wrong: bool) -> None:
        """Python could not open it."""
        case.program("sim.py", "#!/usr/bin/env python3\n")
        case.program("ana")
        (case.folder / "elsewhere").mkdir()
        case.write(f"tasks:\n  - {{func: {func}, outports: [{out}]}}\n  - {{func: ./ana, inports: [{out}]}}\n")
        if wrong:
            assert "'s*' matches its own program 'sim.py', too" in case.error()
        else:
            case.plan()

    def test_given(self, case: Case) -> None:
        case.program("launch")
        assert self.plan_mpiexec(case, "tasks: [{func: ./sim, nprocs: 2, mpiexec: ./launch -x 1}]\n") == (
            str(case.folder / "launch"),
            "-x",
            "1",
        )
        assert (
            "there is no 'nolaunch' on PATH"
            in case.write("tasks: [{func: ./sim, nprocs: 2, mpiexec: nolaunch}]\n").error()
        )

    def test_no_job_is_offered_to_programs_of_different_mpis(self, case: Case) -> None:
        for name in ("launch", "start"):
            case.program(name)
        tasks = [f"{{func: ./sim, name: {name}, nprocs: 2, mpiexec: ./{name}}}" for name in ("launch", "start")]
        one = plan_table(case.write(f"tasks: [{tasks[0]}]\n").plan())
        assert one.endswith("one job: mpiexec -n 2 wilkins run workflow.yaml")
        both = plan_table(case.write(f"tasks: [{', '.join(tasks)}]\n").plan())
        assert "one job: not with these programs, whose MPIs differ" in both
        assert "mpiexec -n" not in both

    def test_one_job_needs_none(self, case: Case) -> None:
        case.write("tasks: [{func: ./sim, nprocs: 2, mpiexec: nolaunch}]\n")
        assert plan_file(case.path, launch="one-job").tasks[0].mpiexec == ()

    @staticmethod
    def build(case: Case, compiler: str) -> None:
        source = case.folder / "prog.c"
        source.write_text("#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n")
        subprocess.run([compiler, str(source), "-o", str(case.folder / "prog")], check=True)


EXISTING = """
tasks:
  - func: "./prod-test.hx"
    nprocs: 4
    start_proc: 0
    args: ["1", "--nwriters", "1"]
    nwriters: 1
    outports:
      - filename: "*.h5"
        dsets:
          - {name: /group1/grid, passthru: 0, metadata: 1}
          - {name: /group1/particles, passthru: 0, metadata: 1, zerocopy: 1}
  - func: con-test
    taskCount: 2
    cmdline: ./con-test 1
    args: ["1", "{filename}"]
    inports:
      - filename: "*.h5"
        io_freq: -1
        dsets:
          - {name: /group1/grid, file: 0, memory: 1}
"""


def test_existing_wilkins_files(case: Case) -> None:
    case.program("prod-test")
    case.program("con-test")
    plan = case.write(EXISTING).plan()
    assert [task.name for task in plan.tasks] == ["prod-test", "con-test[0]", "con-test[1]"]
    assert {(channel.queue, channel.when_full) for channel in plan.channels} == {(1, "drop-oldest")}
    for key in ("start_proc", "nwriters", "zerocopy", "cmdline"):
        assert any(f"{key!r} is accepted and not used" in note for note in plan.notes), key


@pytest.mark.bench
def test_a_thousand_tasks_in_less_than_two_seconds(case: Case) -> None:
    lines = ["tasks:"]
    for n in range(1000):
        before = f"inports: [{{filename: 'field{n - 1}-*.h5'}}], " if n else ""
        lines.append(f"  - {{func: ./sim, name: t{n}, {before}outports: [{{filename: 'field{n}-*.h5'}}]}}")
    case.write("\n".join(lines) + "\n")
    begun = time.process_time()
    plan = case.plan()
    assert time.process_time() - begun < 2
    assert len(plan.channels) == 999
    assert all(plan.ports[c.outport].pattern == plan.ports[c.inport].pattern for c in plan.channels)
