"""``wilkins submit`` with schedulers that run a script at once, and what it says when it cannot submit."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from support.running import WILKINS, Finished, run_tree, write_program
from wilkins.submit.batch import script_of
from wilkins.submit.request import JobRequest
from wilkins.submit.schedulers import SCHEDULERS

pytestmark = pytest.mark.needs("python:psij")

COMMANDS = {"slurm": "sbatch", "pbs": "qsub", "flux": "flux", "lsf": "bsub"}
NUMBERS = {"slurm": "7", "pbs": "7.server", "flux": "ƒ7", "lsf": "7"}
# Runs the script in another folder, keeps it, and tells what it ended with.
FAKE = """#!/bin/sh
here=$(dirname "$0")
unset output
case $(basename "$0") in
sbatch) export SLURM_JOB_ID=7 SLURM_PROCID=0; script=$1; said="Submitted batch job 7" ;;
qsub) export PBS_JOBID=7.server; script=$1; said=7.server ;;
bsub) export LSB_JOBID=7; cat > "$here/input"; script=$here/input; said="Job <7> is submitted to queue <normal>." ;;
flux)
    script=$2 said=ƒ7
    output=$(sed -n 's/^# flux: --output="\\(.*\\){{id}}.out"$/\\1/p' "$script")$said.out ;;
esac
cp "$script" "$here/submitted"
cd / && bash "$here/submitted" > "${output:-/dev/null}" 2>&1
echo $? > "$here/ended"
echo "$said"
"""


class Site:
    """A folder with a workflow, and one with the commands of schedulers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.home = folder / "work", folder / "bin", folder / "home"
        for one in (self.folder, self.bin, self.home):
            one.mkdir()
        self.workflow("from pathlib import Path\nPath('ran').write_text('yes')\nprint('it ran')\n")

    def workflow(self, program: str, keys: str = "") -> None:
        """A workflow of one program."""
        write_program(self.folder / "program.py", program)
        (self.folder / "heat.yaml").write_text(f"tasks: [{{name: one, func: ./program.py{keys}}}]\n")

    def has(self, *schedulers: str, text: str = FAKE) -> None:
        """Let schedulers be here."""
        for scheduler in schedulers:
            write_program(self.bin / COMMANDS[scheduler], text)
        write_program(self.bin / "scontrol", "#!/bin/sh\necho node0\n")

    def submit(self, *options: str, before: str = "") -> Finished:
        """Run ``wilkins submit``, or the same after lines of Python."""
        command = [*WILKINS, "submit", *options]
        if before:
            command[1:3] = ["-c", f"{before}\nimport sys\nfrom wilkins.cli import main\nsys.exit(main())"]
        # The machine's own schedulers are not seen, whatever is installed.
        tools = self.bin.with_name("tools")
        if not tools.exists():
            tools.mkdir()
            for name in ("bash", "sh", "cat", "cp", "sed", "dirname", "basename", "wc", "seq", "env"):
                (tools / name).symlink_to(str(shutil.which(name)))
        path = os.pathsep.join(map(str, (self.bin, tools)))
        return run_tree(command, 60, self.folder, {"PATH": path, "HOME": str(self.home)})

    def told(self, *options: str, code: int, before: str = "") -> str:
        """The error of a command, which must leave nothing behind."""
        said = self.submit(*options, before=before)
        assert (said.code, said.out) == (code, ""), said.out + said.err
        assert "Traceback" not in said.err
        assert not (self.folder / "wilkins-jobs").exists()
        return said.err


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A workflow of one program, and no scheduler yet."""
    return Site(tmp_path)


@pytest.mark.usual("flux", "slurm")
@pytest.mark.parametrize("scheduler", COMMANDS)
def test_a_workflow_is_run_by_a_job(site: Site, scheduler: str) -> None:
    site.has(scheduler)
    said = site.submit("heat.yaml", "--time", "90min", "--cores", "4")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    number = NUMBERS[scheduler]
    output = site.folder / "wilkins-jobs" / f"{number}.out"
    assert lines[0].startswith(f"job {number} of ")
    assert lines[0].endswith(": heat, 4 cores on 1 node, 1 h 30 min at most")
    assert lines[1].split() == ["output", str(output)]
    assert (site.bin / "ended").read_text() == "0\n", output.read_text()
    assert (site.folder / "ran").read_text() == "yes"
    assert "it ran" in output.read_text()
    assert not any(site.home.iterdir())


@pytest.mark.usual("slurm")
@pytest.mark.parametrize("scheduler", COMMANDS)
def test_the_exit_code_of_the_run_is_that_of_the_script(site: Site, scheduler: str) -> None:
    site.has(scheduler)
    site.workflow("import time\ntime.sleep(60)\n")
    assert site.submit("heat.yaml", "--timeout", "1").code == 0
    assert (site.bin / "ended").read_text() == "4\n"


@pytest.mark.parametrize("scheduler", COMMANDS)
def test_a_dry_run_prints_what_would_be_submitted(site: Site, scheduler: str) -> None:
    """It needs no scheduler, and writes nothing."""
    options = ("heat.yaml", "--queue", "short", "--option=--special one", "--environment", "module load 'x'")
    dry = site.submit(*options, "--scheduler", scheduler, "--dry-run")
    assert dry.code == 0, dry.err
    assert not (site.folder / "wilkins-jobs").exists()
    assert not any(site.home.iterdir())
    site.has(scheduler)
    site.submit(*options)
    assert (site.bin / "submitted").read_text() == dry.out
    assert " --special one\n" in dry.out


def test_options_of_the_run_reach_it(site: Site) -> None:
    site.has("slurm")
    said = site.submit("heat.yaml", "--files", "--strict", "--encrypt", "--run-dir", "a run", "--set", "one.args=[x y]")
    assert (site.bin / "ended").read_text() == "0\n", said.err
    command = (site.bin / "submitted").read_text().split("exec ")[-1]
    assert " -m wilkins run heat.yaml " in command
    assert "--files --strict --encrypt --run-dir " in command
    assert (site.folder / "a run/summary.json").exists()


def test_without_a_file_it_is_workflow_yaml(site: Site) -> None:
    site.has("slurm")
    (site.folder / "heat.yaml").rename(site.folder / "workflow.yaml")
    assert site.submit().code == 0
    assert (site.bin / "ended").read_text() == "0\n"
    assert (site.folder / "ran").read_text() == "yes"


def test_a_packaged_workflow_runs_here(site: Site) -> None:
    script = site.submit("--builtin", "simulate-train-analyse", "--scheduler", "slurm", "--dry-run")
    if "torch" in script.err:
        pytest.skip("the workflow needs PyTorch")
    assert f"cd {site.folder}\n" in script.out
    assert "run --builtin simulate-train-analyse" in script.out
    assert f'exec &>> "{site.folder}/wilkins-jobs/' in script.out


def test_how_to_go_on_is_told_where_that_can_be(site: Site) -> None:
    site.has("slurm")
    assert "go on" not in site.submit("heat.yaml").out
    site.workflow("", ", restart: points")
    assert "go on   wilkins submit --resume latest " in site.submit("heat.yaml").out
    assert "go on   wilkins submit --resume mine " in site.submit("heat.yaml", "--run-dir", "mine").out


def test_a_run_is_named_when_the_job_is_submitted(site: Site) -> None:
    """Later runs do not change what the job goes on with."""
    site.has("slurm")
    site.workflow("raise SystemExit(3)\n", ", restart: points")
    site.submit("heat.yaml")
    first = (site.folder / "wilkins-runs/latest").resolve()
    site.workflow("", ", restart: points")
    assert site.submit("--resume", "latest").code == 0
    assert f"run --resume {first}" in (site.bin / "submitted").read_text()
    assert (site.bin / "ended").read_text() == "0\n"


def test_no_scheduler_and_several(site: Site) -> None:
    assert "none of sbatch, qsub, flux, bsub is on PATH" in site.told("heat.yaml", code=2)
    site.has("slurm", "pbs")
    assert "--scheduler slurm|pbs" in site.told("heat.yaml", code=2)


def test_what_is_wrong_is_told_before_the_queue_is_waited_for(site: Site) -> None:
    site.has("slurm")
    assert "task 'one': 'nprocs' must be" in site.told("heat.yaml", "--set", "one.nprocs=none", code=2)
    (site.folder / "heat.yaml").write_text("tasks: [{func: ./nothing}]\n")
    assert "./nothing" in site.told("heat.yaml", code=2)
    site.workflow("", ", gpus: 2")
    assert "--gpus N lets it ask for N" in site.told("heat.yaml", "--gpus", "1", code=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--time", "soon"], "--time must be a time"),
        (["--memory", "much"], "--memory must be a size"),
        (["--memory", "500"], "--memory 500 is less than any run takes; give a size with its unit, such as 16GB"),
        (["--timeout", "soon"], "--timeout must be a time"),
        (["--cores", "0"], "must be 1 or more"),
        (["--queue", "a b"], "--queue 'a b'"),
        (["--resume", "latest"], "leave out FILE"),
        (["--scheduler", "cron"], "invalid choice: 'cron'"),
    ],
)
def test_values_that_cannot_be_meant(site: Site, options: list[str], words: str) -> None:
    assert words in site.told("heat.yaml", *options, code=2)


def test_a_file_of_lines_that_is_not_there(site: Site) -> None:
    said = site.told("heat.yaml", "--setup", "setup.sh", code=3)
    assert "setup.sh: cannot read the lines of --setup: No such file" in said


def test_without_psij_the_error_says_what_to_install(site: Site) -> None:
    site.has("slurm")
    said = site.told("heat.yaml", code=2, before="import sys; sys.modules['psij'] = None")
    assert "pip install 'wilkins[submit]'" in said


def test_flux_needs_no_psij(site: Site) -> None:
    site.has("flux")
    assert site.submit("heat.yaml", before="import sys; sys.modules['psij'] = None").code == 0


def test_a_scheduler_that_refuses_is_quoted(site: Site) -> None:
    site.has("slurm", text="#!/bin/sh\necho 'no such account' >&2; exit 1\n")
    said = site.submit("heat.yaml")
    assert said.code == 3
    assert "no such account" in said.err
    assert "Slurm did not take the job: sbatch " in said.err


def test_a_scheduler_that_is_given_and_not_here(site: Site) -> None:
    said = site.submit("heat.yaml", "--scheduler", "slurm")
    assert said.code == 3
    assert "sbatch" in said.err
    assert "submit where sbatch is on PATH" in said.err


def test_what_a_script_cannot_say(site: Site) -> None:
    """It is printed with a note, and not submitted."""
    site.has("pbs", "flux")
    site.workflow("", ", gpus: 1")
    assert ":ngpus=1" in site.told("heat.yaml", "--scheduler", "pbs", code=2)
    dry = site.submit("heat.yaml", "--scheduler", "pbs", "--dry-run")
    assert (dry.code, ":ngpus=1" in dry.err) == (0, True)
    assert "leave --memory away" in site.told("heat.yaml", "--scheduler", "flux", "--memory", "1GB", code=2)


def test_a_job_gets_the_nodes_it_asks_for(site: Site) -> None:
    dry = site.submit("heat.yaml", "--scheduler", "slurm", "--nodes", "3", "--dry-run")
    assert "#SBATCH --nodes=3\n" in dry.out
    assert "# flux: --nodes=2\n" in site.submit("heat.yaml", "--scheduler", "flux", "--nodes", "2", "--dry-run").out


def test_a_job_gets_the_gpus_of_its_tasks(site: Site) -> None:
    site.workflow("", ", gpus: 1, taskCount: 3, args: ['{instance}']")
    dry = site.submit("heat.yaml", "--scheduler", "slurm", "--dry-run")
    assert "#SBATCH --gpus-per-node=3\n" in dry.out
    assert dry.err == ""


@pytest.mark.parametrize(
    ("scheduler", "lines"),
    [
        ("slurm", ["#SBATCH --nodes=2", "#SBATCH --ntasks=10", "#SBATCH --ntasks-per-node=5", "#SBATCH --mem=1024K"]),
        ("pbs", ["#PBS -l select=2:ncpus=5:mpiprocs=5:mem=1048576"]),
        ("flux", ["# flux: --nodes=2", "# flux: --nslots=2", "# flux: --cores-per-slot=5"]),
        ("lsf", ["#BSUB -nnodes 2", "#BSUB -n 10", "#BSUB -M 1024KB"]),
    ],
)
def test_a_job_may_have_several_nodes(scheduler: str, lines: list[str]) -> None:
    job = JobRequest("x", ("true",), Path("/here"), Path("/out"), cores=9, nodes=2, memory=2**20)
    script = script_of(job, SCHEDULERS[scheduler]).splitlines()
    assert [line for line in lines if line not in script] == []


def test_the_python_is_the_one_that_submits(site: Site) -> None:
    dry = site.submit("heat.yaml", "--scheduler", "lsf", "--dry-run")
    assert f"exec {sys.executable} -m wilkins run heat.yaml" in dry.out
