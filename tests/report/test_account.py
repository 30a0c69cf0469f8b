"""At the end of a run: what became of every step, and whatever a task did not read is told, with what mends it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.running import WAITS, WILKINS, Finished, must_run
from support.small_workflows import Workflow
from wilkins.launch.records.layerlog import events, useful
from wilkins.launch.records.tracednames import Trace, names_of

WRITE = """
import sys, h5py
for step in range(int(sys.argv[2])):
    with h5py.File(sys.argv[1].format(step), "w") as file:
        file["x"] = step
"""


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    """A fresh folder."""
    return Workflow(tmp_path)


def writer(workflow: Workflow, name: str = "plt{:04d}.h5", count: int = 6, task: str = "sim", **port: object) -> None:
    """A task that writes files."""
    (workflow.folder / "write.py").write_text(WRITE)
    pattern = name.split("{")[0] + "*.h5" if "{" in name else name
    workflow.task(task, ["./write.py", name, str(count)], outports=[{"filename": pattern, **port}])
    (workflow.folder / "write.py").chmod(0o755)


def read(*names: str) -> str:
    """A program that reads these files and ends."""
    return f"""
import h5py
for name in {names!r}:
    with h5py.File(name) as file:
        print("got", file["x"][()], flush=True)
"""


def said(ran: Finished) -> str:
    """What was said, as running text."""
    return ran.said


def channel(workflow: Workflow, number: int = 0) -> dict[str, Any]:
    """What the records tell of a channel."""
    records = workflow.folder / "wilkins-runs" / "latest" / "summary.json"
    found: dict[str, Any] = json.loads(records.read_text())["channels"][number]
    return found


def counts(workflow: Workflow, number: int = 0) -> tuple[int, ...]:
    """Steps of a channel: published, read, skipped, dropped, let go, unread."""
    told = channel(workflow, number)
    return tuple(told[key] for key in ("published", "read", "skipped", "dropped", "let_go", "unread"))


class TestReaderThatEndsEarly:
    """It reads two files of six."""

    def test_is_told_with_names_and_remedies(self, workflow: Workflow) -> None:
        writer(workflow)
        workflow.task("ana", read("plt0000.h5", "plt0001.h5"), inports=[{"filename": "plt*.h5"}])
        ran = workflow.run()
        assert "ana: did not read 4 of the 6 steps of 'plt*.h5' that sim published for it" in said(ran)
        assert "'plt0002.h5' to 'plt0005.h5'" in said(ran)
        assert "`rerun: always`" in said(ran) and "`listing: end`" in said(ran) and "`enough: true`" in said(ran)
        assert counts(workflow) == (6, 2, 0, 0, 0, 4)
        assert channel(workflow)["names"]["unread"] == ["plt0002.h5", "plt0005.h5"]
        assert "sim -> ana  plt*.h5" in ran.err
        shown = must_run(workflow.folder, *WILKINS, "trace", "--format", "text")
        assert "published  read" in shown and "sim -> ana  plt*.h5          6     2" in shown
        assert max(len(line) for line in ran.err.splitlines() if "records in" not in line) <= 100

    def test_fails_if_strict(self, workflow: Workflow) -> None:
        writer(workflow)
        workflow.task("ana", read("plt0000.h5", "plt0001.h5"), inports=[{"filename": "plt*.h5"}])
        ran = workflow.run(1, "--strict")
        assert "--strict" in said(ran) and "--resume" not in ran.err
        record = json.loads((workflow.folder / "wilkins-runs" / "latest" / "summary.json").read_text())
        assert record["exit_code"] == 1 and "--strict" in record["reason"]

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_that_says_it_is_enough_is_not_told_and_does_not_fail(self, workflow: Workflow) -> None:
        writer(workflow)
        workflow.task("ana", read("plt0000.h5", "plt0001.h5"), enough=True, inports=[{"filename": "plt*.h5"}])
        ran = workflow.run(0, "--strict")
        assert "did not read" not in ran.err
        assert counts(workflow) == (6, 2, 0, 0, 0, 4)

    @pytest.mark.nightly
    def test_of_a_stream(self, workflow: Workflow) -> None:
        """All files have one name, so no names are told."""
        writer(workflow, "state.h5")
        workflow.task("ana", read("state.h5", "state.h5"), inports=[{"filename": "state.h5"}])
        assert "ana: did not read 4 of the 6 steps of 'state.h5' that sim published for it - if" in said(workflow.run())

    @pytest.mark.nightly
    def test_that_must_not_be_started_again(self, workflow: Workflow) -> None:
        writer(workflow)
        workflow.task("ana", read("plt0000.h5"), rerun="never", inports=[{"filename": "plt*.h5"}])
        assert "leave out `rerun: never`" in said(workflow.run())

    def test_that_fails_is_told_as_that(self, workflow: Workflow) -> None:
        writer(workflow)
        program = read("plt0000.h5") + "raise SystemExit(3)\n"
        workflow.task("ana", program, on_failure="continue", inports=[{"filename": "plt*.h5"}])
        ran = workflow.run(1)
        assert "ana: failed" in ran.err and "did not read" not in ran.err


def test_a_run_in_which_all_was_read_says_nothing(workflow: Workflow) -> None:
    writer(workflow, "state.h5")
    workflow.reader("state.h5")
    ran = workflow.run(0, "--strict")
    assert workflow.got() == list(range(6))
    assert ran.err.splitlines()[0].startswith("task") and "not read" not in ran.err
    assert counts(workflow) == (6, 6, 0, 0, 0, 0)


BY_A_FORK = """
import os
for step in range(6):
    file = os.open(f"plt{step:04d}.h5", os.O_RDONLY)
    child = os.fork()
    if child == 0:
        os._exit(0 if os.pread(file, 8, 0) == b"\\x89HDF\\r\\n\\x1a\\n" else 1)
    assert os.waitpid(child, 0)[1] == 0
    os.close(file)
"""


def test_what_a_fork_alone_has_read_was_read(workflow: Workflow) -> None:
    """Also where the fork has ended when its parent closes the file."""
    writer(workflow)
    workflow.task("ana", BY_A_FORK, inports=[{"filename": "plt*.h5"}])
    workflow.run(0, "--strict")
    assert counts(workflow) == (6, 6, 0, 0, 0, 0)


def test_what_a_policy_leaves_out_is_counted_and_is_no_loss(workflow: Workflow) -> None:
    writer(workflow, "state.h5", 7)
    workflow.reader("state.h5", io_freq=3)
    ran = workflow.run(0, "--strict")
    assert workflow.got() == [2, 5]
    assert counts(workflow) == (7, 2, 5, 0, 0, 0)
    assert "did not read" not in ran.err and "skipped" in ran.err


@pytest.mark.nightly
def test_what_is_dropped_is_counted_and_is_no_loss(workflow: Workflow) -> None:
    """The reader begins when all is published."""
    writer(workflow, "state.h5", 5)
    program = f"{WAITS}\nwaits.until_published(0, 5)\n{read('state.h5')}"
    workflow.task("ana", program, rerun="never", inports=[{"filename": "state.h5", "io_freq": "latest"}])
    workflow.run(0, "--strict")
    assert counts(workflow) == (5, 1, 0, 4, 0, 0)


@pytest.mark.one_host("a step that has crossed stays there under its first name")
def test_a_producer_that_renames_its_file_publishes_it_once(workflow: Workflow) -> None:
    """Its first name matches the ports, too."""
    program = """
import os, h5py
for step in range(3):
    with h5py.File("plt-tmp.h5", "w") as file:
        file["x"] = step
    os.rename("plt-tmp.h5", f"plt{step}.h5")
"""
    workflow.task("sim", program, outports=[{"filename": "plt*.h5"}])
    workflow.task("ana", read("plt0.h5", "plt1.h5", "plt2.h5"), inports=[{"filename": "plt*.h5"}])
    workflow.run(0, "--strict")
    assert counts(workflow) == (3, 3, 0, 0, 0, 0)


def test_files_of_another_kind_that_a_pattern_takes_in(workflow: Workflow) -> None:
    """The reader knows nothing of the second kind."""
    program = """
import h5py
for step in range(3):
    for kind in ("mesh", "part"):
        with h5py.File(f"{kind}{step}.h5", "w") as file:
            file["x"] = step
"""
    workflow.task("sim", program, outports=[{"filename": "*.h5"}])
    workflow.task("ana", read("mesh0.h5", "mesh1.h5", "mesh2.h5"), inports=[{"filename": "*.h5", "queue": 6}])
    ran = workflow.run()
    assert "ana: did not read 3 of the 6 steps of '*.h5'" in said(ran)
    assert "an in-port for each kind of file that it reads, such as 'mesh*.h5'" in said(ran)


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_start_for_each_step_of_two_ports_of_which_one_is_longer(workflow: Workflow) -> None:
    writer(workflow, "a{}.h5", 2, "short")
    writer(workflow, "b{}.h5", 4, "long")
    program = """
import sys, h5py
number = sys.argv[1][1:-3]
with h5py.File(sys.argv[1]) as one, h5py.File(f"b{number}.h5") as other:
    print("got", one["x"][()], other["x"][()], flush=True)
"""
    ports = [{"filename": "a*.h5"}, {"filename": "b*.h5"}]
    workflow.task("ana", program, args=["{filename}"], inports=ports)
    workflow.tasks[-1]["args"] = ["{filename}"]
    ran = workflow.run()
    assert ran.out.count("got") == 2
    assert "ana: did not read 2 of the 4 steps of 'b*.h5' that long published for it" in said(ran)
    assert "let a task of its own read 'b*.h5'" in said(ran)


def test_the_last_answer_in_a_cycle(workflow: Workflow) -> None:
    """The simulation has ended when it comes."""
    program = """
import h5py
for step in range(3):
    if step:
        h5py.File("steer.h5").close()
    with h5py.File("state.h5", "w") as file:
        file["x"] = step
"""
    ports = {"inports": [{"filename": "steer.h5"}], "outports": [{"filename": "state.h5"}]}
    workflow.task("sim", program, **ports)
    answer = """
import h5py
while True:
    try:
        h5py.File("state.h5").close()
    except FileNotFoundError:
        break
    h5py.File("steer.h5", "w").close()
"""
    ports = {"inports": [{"filename": "state.h5"}], "outports": [{"filename": "steer.h5"}]}
    workflow.task("ana", answer, **ports)
    told = said(workflow.run())
    assert "sim: did not read 1 of the 3 steps of 'steer.h5'" in told
    assert "ana answered once more when sim had ended, as is usual in a cycle: then give sim `enough: true`" in told
    assert "rerun" not in told


class TestNoNameMatches:
    """The in-port has an absolute pattern, of a folder in which nobody writes."""

    def tasks(self, workflow: Workflow, **port: object) -> None:
        writer(workflow, "plt{}.h5", 3)
        pattern = str(workflow.folder / "elsewhere" / "plt*.h5")
        workflow.task("ana", "pass", inports=[{"filename": pattern, **port}])
        workflow.tasks[-1]["args"] = ["{filename}"]

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_of_a_program_that_is_started_for_each_step(self, workflow: Workflow) -> None:
        self.tasks(workflow)
        ran = workflow.run()
        assert "ana: was never started: sim published 3 steps, and none of the names, such as 'plt0.h5'" in said(ran)
        workflow.run(1, "--strict")

    def test_but_a_run_shorter_than_its_io_freq_is_another_matter(self, workflow: Workflow) -> None:
        writer(workflow, "plt{}.h5", 3)
        workflow.task("ana", "pass", inports=[{"filename": "plt*.h5", "io_freq": 5}])
        workflow.tasks[-1]["args"] = ["{filename}"]
        ran = workflow.run(0, "--strict")
        assert "was never started" not in said(ran) and "its in-port keeps" in ran.err


def test_a_program_that_fails_after_it_has_listed_a_part(workflow: Workflow) -> None:
    """`listing: end` is what it needs."""
    writer(workflow, count=6)
    program = "import glob\nnames = glob.glob('plt*.h5')\nopen(names[5], 'rb').read()\n"
    workflow.task("ana", program, inports=[{"filename": "plt*.h5"}])
    told = said(workflow.run(1))
    assert "it listed files of 'plt*.h5' when not all of them were there" in told and "`listing: end`" in told
    workflow.tasks[-1]["inports"] = [{"filename": "plt*.h5", "listing": "end"}]
    assert "when not all of them" not in said(workflow.run(0))


class TestNamesThatMatchNoPort:
    """A program that never uses its port is told which names it did use."""

    def test_a_producer_whose_pattern_is_misspelt(self, workflow: Workflow) -> None:
        writer(workflow, "field_{:04d}.h5", 5)
        workflow.tasks[0]["outports"] = [{"filename": "feild_*.h5"}]
        workflow.task("ana", read("feild_0000.h5"), inports=[{"filename": "feild_*.h5"}])
        told = said(workflow.run(1))
        assert "sim: ended without ever using its memory port 'feild_*.h5'" in told
        assert "it used 'field_0000.h5', 'field_0001.h5', 'field_0002.h5' and 2 more, which match no port" in told
        assert "did you mean `filename: field_*.h5`?" in told
        assert "static" not in told

    @pytest.mark.nightly
    def test_without_a_suffix_that_tells_data(self, workflow: Workflow) -> None:
        writer(workflow, "result_{}", 2)
        workflow.tasks[0]["outports"] = [{"filename": "resutl_*"}]
        workflow.task("ana", read("resutl_0"), inports=[{"filename": "resutl_*"}])
        assert "did you mean `filename: result_*`?" in said(workflow.run(1))

    def test_a_reader_with_one_name_for_all_steps(self, workflow: Workflow) -> None:
        writer(workflow, "plt{}.h5", 2)
        program = """
import h5py
try:
    h5py.File("input.h5")
except FileNotFoundError:
    pass
"""
        workflow.task("ana", program, inports=[{"filename": "plt*.h5"}])
        told = said(workflow.run(1))
        assert "ana: ended without ever using its memory port 'plt*.h5'" in told
        assert "it used 'input.h5', which matches no port" in told
        assert (
            "if 'input.h5' means the next step, whatever that is called, give the in-port 'plt*.h5' `as: input.h5`"
            in told
        )

    def test_a_reader_that_lists_another_folder_than_its_producer_writes_to(self, workflow: Workflow) -> None:
        """Pattern and names agree, so to compare them helps nobody."""
        (workflow.folder / "run1" / "out").mkdir(parents=True)
        (workflow.folder / "out").mkdir()
        program = WRITE.replace("sys.argv[1]", "'out/wave_{}.h5'").replace("int(sys.argv[2])", "3")
        workflow.task("sim", program, cwd="run1", outports=[{"filename": "out/wave_*.h5"}])
        listing = "import glob\nprint('found', len(glob.glob('out/wave_*.h5')))\n"
        workflow.task("ana", listing, inports=[{"filename": "out/wave_*.h5"}])
        told = said(workflow.run(1))
        assert "compare the pattern" not in told
        assert f"sim wrote are in {workflow.folder / 'run1' / 'out'}" in told
        assert f"looks in {workflow.folder / 'out'}: give ana the `cwd:` of sim" in told

    def test_a_program_that_opens_nothing_is_not_said_to_be_static(self, workflow: Workflow) -> None:
        """What it is, Wilkins has seen before it started it."""
        writer(workflow)
        workflow.task("ana", ["/bin/true"], inports=[{"filename": "plt*.h5"}])
        told = said(workflow.run(1))
        assert "ana: ended without ever using its memory port 'plt*.h5'" in told
        assert "it used no file of such a name, nor of one like it" in told and "static" not in told

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_a_program_that_starts_another_without_its_environment(self, workflow: Workflow) -> None:
        """The files lie on disk, which tells it."""
        (workflow.folder / "plt0000.h5").touch()  # an older one says nothing
        os.utime(workflow.folder / "plt0000.h5", (1, 1))
        program = (
            "import subprocess, sys\n"
            "code = \"import h5py\\nfor n in 1, 2: h5py.File(f'plt{n:04}.h5', 'w').close()\"\n"
            "subprocess.run([sys.executable, '-c', code], env={}, check=True)\n"
        )
        workflow.task("sim", program, outports=[{"filename": "plt*.h5"}])
        workflow.task("ana", read("plt0001.h5"), inports=[{"filename": "plt*.h5"}])
        told = said(workflow.run(1))
        assert "sim: ended without ever using its memory port 'plt*.h5'" in told
        assert "'plt0001.h5', 'plt0002.h5' were written on disk meanwhile, past Wilkins" in told
        assert "clears LD_PRELOAD" in told

    @pytest.mark.nightly
    def test_a_shell_script_may_start_what_cannot_be_reached(self, workflow: Workflow) -> None:
        writer(workflow)
        script = workflow.folder / "ana.sh"
        script.write_text("#!/bin/sh\nexit 0\n")
        script.chmod(0o755)
        workflow.task("ana", ["./ana.sh"], inports=[{"filename": "plt*.h5"}])
        assert "a program that it starts, and that is static" in said(workflow.run(1))


BACKWARDS = """
import h5py
for k in reversed(range(20)):
    h5py.File(f"plt{k}.h5").close()
"""


def test_the_reorder_that_is_named_would_do(workflow: Workflow) -> None:
    """The message has the number, and with that all steps are read."""
    writer(workflow, "plt{}.h5", 20)
    workflow.task("ana", BACKWARDS, inports=[{"filename": "plt*.h5"}])
    assert "or give its in-port 'plt*.h5' `reorder: 20`" in said(workflow.run(1))
    workflow.tasks[1]["inports"] = [{"filename": "plt*.h5", "reorder": 20}]
    workflow.run()


OPENS_WRONG = """
import os, sys, time, h5py
while not os.path.exists("written"):
    time.sleep(0.01)
for name in sys.argv[1:]:
    h5py.File(name).close()
"""


@pytest.mark.parametrize(
    ("names", "asked", "meant"),
    [
        (
            ("ouput0.h5",),
            "'ouput0.h5', which matches no port of it",
            "did you mean 'output0.h5', which sim has published",
        ),
        (("output_0.h5",), "'output_0.h5', and nobody has written a file of that name", "did you mean 'output0.h5'"),
        (
            ("output0.h5", "output1.h5", "ouput2.h5"),
            "'ouput2.h5'",
            "a file of 'output*.h5', of which sim has published 2",
        ),
        (("unlike.txt",), "", ""),
    ],
)
def test_a_reader_that_fails_on_a_misspelt_name(
    workflow: Workflow, names: tuple[str, ...], asked: str, meant: str
) -> None:
    """Its producer may have ended: the last words name the file, those like it, and the place in the workflow file."""
    program = WRITE.replace("sys.argv[1]", "'output{}.h5'").replace("int(sys.argv[2])", "2")
    workflow.task("sim", program + "\nopen('written', 'w').close()\n", outports=[{"filename": "output*.h5"}])
    workflow.task("ana", OPENS_WRONG, inports=[{"filename": "output*.h5"}])
    workflow.tasks[1]["args"] = list(names)
    told = " ".join(said(workflow.run(1)).split())
    assert "ana: failed: exit code 1; its output is in" in told
    assert ("it asked for" in told) == bool(asked)
    assert f"it asked for {asked}" in told or not asked
    assert meant in told and ("(workflow.yaml:" in told) == bool(asked)


def test_a_look_before_the_first_step_that_finds_nothing(workflow: Workflow) -> None:
    """The reader makes do without."""
    program = """
import os, time, h5py
while not os.path.exists("looked"):
    time.sleep(0.01)
h5py.File("plt0.h5", "w").close()
"""
    workflow.task("sim", program, outports=[{"filename": "plt*.h5"}])
    look = "import os\nassert not os.path.exists('plt0.h5')\nopen('looked', 'w')\n"
    workflow.task("ana", look, inports=[{"filename": "plt*.h5", "looks": "now"}])
    told = said(workflow.run(1))
    assert "ana: ended without ever using its memory port 'plt*.h5'" in told
    assert "it looked for 'plt0.h5'" in told and "before a step was there, found nothing, and never opened it" in told
    assert "leave out `looks: now`" in told


@pytest.mark.nightly
def test_an_open_of_a_name_that_never_came(workflow: Workflow) -> None:
    writer(workflow, "plt{}.h5", 3)
    program = """
import h5py
try:
    h5py.File("plt_9.h5")
except FileNotFoundError:
    pass
"""
    workflow.task("ana", program, inports=[{"filename": "plt*.h5", "queue": 3}])
    told = said(workflow.run())
    assert "ana: read none of the 3 steps of 'plt*.h5' that sim published for it: 'plt0.h5' to 'plt2.h5'" in told
    assert "it opened 'plt_9.h5', which is none of the names that were published" in told
    assert "`as: plt_9.h5`" in told


class TestDatasets:
    """What a port's `dsets` names is looked for in the last steps."""

    def run(self, workflow: Workflow, *names: str) -> str:
        """What is said where the producer writes /g/density and /x."""
        program = """
import h5py
for step in range(2):
    with h5py.File("state.h5", "w") as file:
        file["g/density"] = [1.0] * 5
        file["x"] = step
"""
        dsets = [{"name": name} for name in names]
        workflow.task("sim", program, outports=[{"filename": "state.h5", "dsets": dsets}])
        workflow.reader("state.h5")
        return said(workflow.run())

    def test_one_that_no_step_had(self, workflow: Workflow) -> None:
        told = self.run(workflow, "/g/density", "/g/velocity")
        assert "`dsets` of its out-port 'state.h5' names '/g/velocity', and no step that sim published has such" in told
        assert "the last step has 'g/density', 'x'" in told
        assert "names '/g/density'" not in told

    @pytest.mark.nightly
    def test_one_that_is_misspelt(self, workflow: Workflow) -> None:
        assert "did you mean 'g/density'?" in self.run(workflow, "/g/desnity")

    @pytest.mark.nightly
    def test_groups_and_wildcards_and_what_is_there(self, workflow: Workflow) -> None:
        assert "dsets" not in self.run(workflow, "/g", "/g/den*", "x")


class TestAskedInVain:
    """Of what a program asked a step for and did not find, the end of the run says program, file and path."""

    def run(self, workflow: Workflow, read: str | list[str | Path], code: int = 0) -> str:
        """What is said where the producer writes g/density."""
        writes = "import h5py\nfor step in range(3):\n    h5py.File(f'u{step}.h5', 'w')['g/density'] = [1.0] * 5\n"
        workflow.task("sim", writes, outports=[{"filename": "u*.h5"}])
        workflow.task("ana", read, inports=[{"filename": "u*.h5"}])
        return said(workflow.run(code))

    @pytest.mark.one_host("what a program asked for on another host than the producer's is told in fewer words")
    def test_by_a_program_that_fails(self, workflow: Workflow) -> None:
        told = self.run(workflow, "import h5py\nh5py.File('u0.h5')['g']['desnity']\n", 1)
        assert (
            "ana: failed after it had asked 'u0.h5' for '/g/desnity', which was not there; did you mean '/g/density'?"
            in told
        )
        assert "the last step has '/g/density'" in told

    @pytest.mark.nightly
    @pytest.mark.also_between_hosts
    def test_a_program_that_asks_and_goes_on_is_not_named(self, workflow: Workflow) -> None:
        read = (
            "import h5py\nfor step in range(3):\n    with h5py.File(f'u{step}.h5') as file:\n"
            "        assert file.get('rho') is None and 'g/density' in file and file['g'].get('x') is None\n"
        )
        assert "asked" not in self.run(workflow, read)

    @pytest.mark.one_host("what a program asked for on another host than the producer's is told in fewer words")
    @pytest.mark.needs("h5cc")
    def test_by_a_program_that_heeds_no_errors(self, workflow: Workflow) -> None:
        (workflow.folder / "ana.c").write_text(
            "#include <hdf5.h>\n#include <stdio.h>\nint main(void) {\n    for (int k = 0; k < 3; ++k) {\n"
            '        char name[16];\n        snprintf(name, sizeof name, "u%d.h5", k);\n'
            "        hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);\n"
            '        H5Dopen2(file, "rho", H5P_DEFAULT);\n        H5Fclose(file);\n    }\n    return 0;\n}\n'
        )
        must_run(workflow.folder, "h5cc", "-shlib", "ana.c", "-o", "ana-c")
        told = self.run(workflow, ["./ana-c"])
        assert "ana: asked 'u2.h5' for '/rho', which was not there (2 more such questions before)" in told
        assert "the last step has '/g/density'" in told


def test_what_the_layer_had_to_say_is_in_the_report_once(workflow: Workflow) -> None:
    """A file that the out-port publishes at a flush, of which there is none."""
    writer(workflow, "state{}.h5", 4, publish="flush")
    names = tuple(f"state{step}.h5" for step in range(4))
    workflow.task("ana", read(*names), inports=[{"filename": "state*.h5"}])
    told = said(workflow.run())
    assert told.count("sim: did not do with 4 files of 'state*.h5' what its `publish:` waits for") == 1
    assert "`dset.flush()`, makes none" in told and "`publish: {write: 1, dset: PATH}`" in told
    assert "static" not in told, "h5py's HDF5 is shared"
    assert "of its out-port publishes at every flush, without any" not in told


def test_lines_of_the_layer_that_differ_in_numbers_alone_are_one(tmp_path: Path) -> None:
    log = tmp_path / "layer.log"
    lines = [logged("left_not_whole", f"plt{k}.h5", 28) for k in range(5)]
    others = [logged("renames_open", chr(97 + k) * 3) for k in range(9)]
    log.write_text(
        "".join([*lines, logged("given_up", "x"), "cut sho", "\n", *others, logged("renames_open", "y")[:-4]])
    )
    found = events(log)
    told = [said.words for said in useful(found, log, [f"once more: {found[6].words}; mend it"])]
    assert found[6].words.startswith("task 'sim' renames 'aaa'")
    assert told[0] == (
        "error: 'plt0.h5' could not be written whole (No space left on device), so no consumer sees it (5 times alike)"
    )
    assert told[1].startswith("error: task 'sim' renames 'bbb'")
    assert len(told) == 9 and told[-1] == f"1 more such line is in {log}"
    assert events(tmp_path / "none") == []


def logged(code: str, *arguments: object) -> str:
    """A line of the layer's log."""
    return f"1700000000.000 sim[0] English\t{code}\t{json.dumps(['sim', 0, *arguments])}\n"


def test_instances_are_told_together(workflow: Workflow) -> None:
    writer(workflow, "state.h5", 2)
    workflow.task("ana", read("state.h5"), rerun="never", taskCount=6, inports=[{"filename": "state.h5"}])
    told = said(workflow.run())
    assert told.count("did not read") == 1
    assert "ana[0], ana[1], ana[2] and 3 others: did not read 1 of the 2 steps" in told


def test_names_of_steps_in_the_trace(tmp_path: Path) -> None:
    """What is left out before it is published, or dropped later, is not among the unread."""
    steps = [
        ("publish", "sim", "*.h5", "a0.h5", 0),
        ("publish", "sim", "*.h5", "b0.h5", 1),
        ("open", "ana", "a*.h5", "a0.h5", 0),
        ("skip", "ana", "a*.h5", "a1.h5", 2),
        ("publish", "sim", "*.h5", "a1.h5", 2),
        ("publish", "sim", "*.h5", "a2.h5", 3),
        ("publish", "sim", "*.h5", "a3.h5", 4),
        ("drop", "ana", "a*.h5", "a2.h5", 3),
        ("publish", "sim", "*.h5", "a4.h5", 5),
        ("open", "other", "a*.h5", "a4.h5", 5),
    ]
    trace = tmp_path / "trace.tsv"
    lines = [
        f"{k}\t{event}\t{task}\t0\t{port}\t{name}\t{n}\t8\n" for k, (event, task, port, name, n) in enumerate(steps)
    ]
    trace.write_text("".join([*lines, "12\tpubl"]))
    channel = ("sim", "*.h5", "ana", "a*.h5")
    told = names_of([Trace(trace)], [channel])[channel]
    assert told.unread.ends == ("a3.h5", "a4.h5") and told.dropped.ends == ("a2.h5", "a2.h5")
    assert told.read == {"a0.h5"}
    assert names_of([Trace(tmp_path / "none")], [channel])[channel].unread.ends is None


@pytest.mark.nightly
def test_many_in_ports_are_told_in_a_few_lines(workflow: Workflow) -> None:
    writer(workflow, "state.h5", 2)
    for number in range(10):
        workflow.task(f"ana{number}", read("state.h5"), rerun="never", inports=[{"filename": "state.h5"}])
    told = said(workflow.run())
    assert told.count("did not read") == 8 and "2 more in-ports had steps that were not read" in told


@pytest.mark.nightly
def test_an_open_where_nobody_published_anything(workflow: Workflow) -> None:
    """The producer has failed before its first step, and the run goes on without it."""
    failing = "import os, h5py\nfile = h5py.File('state.h5', 'w')\nos._exit(3)\n"
    workflow.task("sim", failing, on_failure="continue", outports=[{"filename": "state.h5"}])
    workflow.reader("state.h5")
    told = said(workflow.run(1))
    assert "reader: opened 'state.h5' of its in-port 'state.h5', and took no step of it: sim published none" in told


GRID = """
with open("grid.dat", "w") as f:
    f.write("grid")
for k in range(2):
    with open(f"s{k}.dat", "w") as f:
        f.write(str(k))
"""


@pytest.mark.parametrize("port", [{}, {"opens_per_step": 2}], ids=["once", "each"])
def test_a_file_that_is_written_once_and_opened_with_each_step(tmp_path: Path, port: dict[str, object]) -> None:
    """Under a name without wildcards each open is the next step: a program that goes on without it is told of."""
    flow = Workflow(tmp_path)
    flow.task("writer", GRID, outports=[{"filename": "grid.dat"}, {"filename": "s*.dat"}])
    read: list[str | Path] = ["sh", "-c", "for k in 0 1; do cat grid.dat s$k.dat; done > read.txt 2> /dev/null; true"]
    flow.task("reader", read, inports=[{"filename": "grid.dat", **port}, {"filename": "s*.dat"}], enough=True)
    ran = flow.run()
    assert (tmp_path / "read.txt").read_text() == ("grid0grid1" if port else "grid01")
    assert ("hint: task 'reader'" in ran.err) == ("'opens_per_step:'" in flow.log()) == (not port)


@pytest.mark.usual("stop", also_between_hosts=["continue"])
@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_a_program_that_fails_over_a_step_that_was_let_go(workflow: Workflow, on_failure: str) -> None:
    """Its own error says only that the file is missing."""
    writer(workflow, count=9)
    names = [f"plt{step:04d}.h5" for step in (8, 7, 6, 5, 4, 3, 2, 1, 0)]
    workflow.task("ana", read(*names), inports=[{"filename": "plt*.h5", "reorder": 3}], on_failure=on_failure)
    told = said(workflow.run(1))
    assert told.count("ana: failed, and had lost steps of 'plt*.h5' before") == 1
    assert "let ana read in the order in which the files are written" in told and "`reorder: " in told
    assert "more about this: `wilkins help looking-at-files`" in told


@pytest.mark.usual("latest-dropped", also_between_hosts=["2-skipped"])
@pytest.mark.one_host("steps that were left out do not cross, and the reader's host knows nothing of them")
@pytest.mark.parametrize(("policy", "fate"), [("latest", "dropped"), (2, "skipped")])
def test_a_program_that_fails_over_a_step_that_its_port_did_not_keep(
    workflow: Workflow, policy: str | int, fate: str
) -> None:
    writer(workflow, "plt{}.h5", 10)
    workflow.task("ana", read("plt8.h5", "plt9.h5", "plt2.h5"), inports=[{"filename": "plt*.h5", "io_freq": policy}])
    told = said(workflow.run(1))
    assert "ana: failed after it had opened 'plt" in told
    assert "its in-port 'plt*.h5' did not keep the step of that name" in told and f"(it {fate} " in told
    assert "`io_freq: 1`" in told and "`wilkins help looking-at-files`" in told


@pytest.mark.one_host("steps that were left out do not cross, and the reader's host knows nothing of them")
def test_a_program_that_ends_over_a_step_that_its_port_did_not_keep(workflow: Workflow) -> None:
    """It takes the missing file for the end, and would be believed."""
    writer(workflow, "plt{}.h5", 10)
    count = "import h5py, os\nk = 0\nwhile True:\n    try:\n        h5py.File(f'plt{k}.h5').close()\n"
    count += "    except OSError:\n        break\n    k += 1\n"
    workflow.task("ana", count, inports=[{"filename": "plt*.h5", "io_freq": 2}], rerun="never")
    told = said(workflow.run())
    assert "ana: left 5 steps of 'plt*.h5' unread after it had opened 'plt0.h5'" in told
    assert "(it skipped 5 of 10;" in told and "`enough: true`" in told
    assert "did not read" not in told
    assert "unread" in workflow.run(1, "--strict").err
    workflow.tasks[-1]["enough"] = True
    assert "unread" not in workflow.run(0, "--strict").err


def test_steps_let_go_for_a_file_that_is_opened_with_each(tmp_path: Path) -> None:
    """The program fails at its second open of the file: what mends it is told with what was let go."""
    flow = Workflow(tmp_path)
    flow.task(
        "writer", GRID.replace("range(2)", "range(9)"), outports=[{"filename": "grid.dat"}, {"filename": "s*.dat"}]
    )
    read = "for k in range(9):\n    print(open('grid.dat').read(), open(f's{k}.dat').read())\n"
    flow.task("reader", read, inports=[{"filename": "grid.dat"}, {"filename": "s*.dat"}])
    told = said(flow.run(1))
    assert "it opened 'grid.dat' 2 times, and there was one step of that name" in told
    assert "give its in-port 'grid.dat' `opens_per_step: 2`" in told
    assert "`reorder:" not in told


def test_a_second_port_that_a_program_started_for_a_name_does_not_use(tmp_path: Path) -> None:
    """A program that used another of its ports was reached."""
    flow = Workflow(tmp_path)
    flow.task("writer", GRID, outports=[{"filename": "grid.dat"}, {"filename": "s*.dat"}])
    read: list[str | Path] = ["sh", "-c", "cat $0", "{filename}"]
    flow.task("reader", read, inports=[{"filename": "s*.dat"}, {"filename": "grid.dat"}])
    told = said(flow.run(1))
    assert "it used other ports, and was seen to use no file of such a name" in told
    assert "cannot be reached" not in told
