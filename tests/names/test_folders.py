"""Where a pattern holds: where producers put their files, or tasks start; not where others lie on the disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.running import WAITS, WILKINS, Finished, run_tree, write_program
from support.small_workflows import Workflow

MODES = ["memory", "both", "file"]

WRITE = """
import sys, h5py
for step in range(3):
    with h5py.File(sys.argv[1].format(step), "w") as file:
        file["x"] = step
"""

READ = """
import sys, h5py
for step in range(3):
    with h5py.File(sys.argv[1].format(step)) as file:
        print("read", file["x"][()])
"""


def task(folder: Path, name: str, text: str, **keys: Any) -> dict[str, Any]:
    """A task that runs a Python program."""
    write_program(folder / f"{name}.py", "#!/usr/bin/env python3\n" + text)
    return {"name": name, "func": f"./{name}.py", **keys}


def run(folder: Path, *tasks: dict[str, Any], code: int = 0) -> Finished:
    """Run these tasks as a workflow."""
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": list(tasks)}, sort_keys=False))
    ran = run_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], 60, folder)
    assert ran.code == code, ran.out + ran.err + layer_log(folder)
    return ran


def log(folder: Path, name: str) -> str:
    return (folder / "wilkins-runs/latest" / f"{name}.log").read_text()


def layer_log(folder: Path) -> str:
    path = folder / "wilkins-runs/latest/layer.log"
    return path.read_text() if path.exists() else ""


def port(filename: str, **keys: Any) -> list[dict[str, Any]]:
    return [{"filename": filename, **keys}]


@pytest.mark.usual("memory", also_between_hosts=["file"])
@pytest.mark.parametrize("mode", MODES)
def test_a_shell_task_copies_each_step_into_a_folder_of_its_own(tmp_path: Path, mode: str) -> None:
    """`cp {filename} archive/`: what is copied there, and read there again, is a file of the disk."""
    (tmp_path / "archive").mkdir()
    text = 'cp "$1" archive/ && python3 -c "import h5py, sys; print(h5py.File(sys.argv[1])[\'x\'][()])" archive/"$1"\n'
    write_program(tmp_path / "keep.sh", "#!/bin/sh\nset -e\n" + text)
    write = task(tmp_path, "write", WRITE, args=["plt{}.h5"], outports=port("plt*.h5", mode=mode))
    keep = {"name": "keep", "func": "./keep.sh", "args": ["{filename}"], "inports": port("plt*.h5")}
    run(tmp_path, write, keep)
    assert sorted(path.name for path in (tmp_path / "archive").iterdir()) == ["plt0.h5", "plt1.h5", "plt2.h5"]
    assert [line for line in log(tmp_path, "keep").split() if line.isdigit()] == ["0", "1", "2"]


PROCESS = """
import glob, os, h5py
os.makedirs("processed", exist_ok=True)
for step in range(3):
    name = f"plt{step}.h5"
    with h5py.File(name) as file:
        value = file["x"][()]
    with h5py.File(f"processed/{name}", "w") as file:
        file["x"] = 10 * value
    with h5py.File(f"processed/{name}") as file:
        print("processed", file["x"][()])
print("listed", sorted(os.listdir("processed")), sorted(glob.glob("processed/*.h5")))
"""


@pytest.mark.usual("memory", also_between_hosts=["file"])
@pytest.mark.parametrize("mode", MODES)
def test_a_consumer_writes_files_of_the_same_names_into_another_folder_and_reads_them_again(
    tmp_path: Path, mode: str
) -> None:
    write = task(tmp_path, "write", WRITE, args=["plt{}.h5"], outports=port("plt*.h5", mode=mode))
    run(tmp_path, write, task(tmp_path, "process", PROCESS, inports=port("plt*.h5")))
    names = [f"plt{step}.h5" for step in range(3)]
    assert log(tmp_path, "process").splitlines() == [
        *(f"processed {10 * step}" for step in range(3)),
        f"listed {names} {[f'processed/{name}' for name in names]}",
    ]
    assert sorted(path.name for path in (tmp_path / "processed").iterdir()) == names


OWN = f"""
import os, shutil, h5py
{WAITS}
with h5py.File("made.h5", "w") as file:
    file["x"] = "made"
with h5py.File("draft", "w") as file:
    file["x"] = "renamed"
os.rename("draft", "renamed.h5")
shutil.copy("renamed.h5", "copied.h5")
with h5py.File("step.h5") as file:
    print("step", file["x"][()])
for name in ("made.h5", "renamed.h5", "copied.h5"):
    with h5py.File(name) as file:
        print(name, file["x"][()].decode(), os.path.getsize(name) == os.stat(name).st_size, name in os.listdir())
os.remove("made.h5")
print(os.path.exists("renamed.h5"))
with h5py.File("made.h5") as file:
    print("made.h5", file["x"][()])
"""

OTHERS = f"""
import h5py
{WAITS}
with h5py.File("step.h5", "w") as file:
    file["x"] = 1
with h5py.File("made.h5", "w") as file:
    file["x"] = 2
"""


@pytest.mark.usual("memory", also_between_hosts=["file"])
@pytest.mark.parametrize("mode", MODES)
def test_a_file_that_a_task_has_made_itself_is_its_own(tmp_path: Path, mode: str) -> None:
    """Under names that are the in-port's: created, renamed, copied. Once it has removed one, the name is the step's."""
    (tmp_path / "sim").mkdir()
    write = task(tmp_path, "write", OTHERS, cwd="sim", outports=port("*.h5", mode=mode))
    run(tmp_path, write, task(tmp_path, "own", OWN, inports=port("*.h5")))
    assert log(tmp_path, "own").splitlines() == [
        "step 1",
        "made.h5 made True True",
        "renamed.h5 renamed True True",
        "copied.h5 renamed True True",
        "True",
        "made.h5 2",
    ]


SPELLED = {
    "absolute pattern": ("{folder}/sim/plt*.h5", "sim", "{folder}/sim/plt{{}}.h5"),
    "absolute pattern, relative name": ("{folder}/sim/plt*.h5", "sim", "../sim/plt{{}}.h5"),
    "symlinked folder": ("plt*.h5", "post", "../link/plt{{}}.h5"),
    "absolute pattern of a symlinked folder": ("{folder}/link/plt*.h5", "post", "../sim/plt{{}}.h5"),
    "folder above": ("sim/plt*.h5", "sim", "plt{{}}.h5"),
    "where the reader starts": ("plt*.h5", "post", "plt{{}}.h5"),
    "whole name": ("plt*.h5", "post", "{folder}/sim/plt{{}}.h5"),
    "any folder below": ("**/plt*.h5", ".", "sim/plt{{}}.h5"),
    "any folder below, through a link": ("**/plt*.h5", ".", "link/plt{{}}.h5"),
    "any folder below, whole": ("{folder}/**/plt*.h5", "post", "../sim/plt{{}}.h5"),
    "no such folder": ("plt*.h5", "post", "nowhere/plt{{}}.h5"),
}
"""In-port, the folder of its task, and the name that this opens; the producer writes ``plt0.h5`` in ``sim``."""


@pytest.mark.usual(
    "folder above-memory",
    also_between_hosts=["absolute pattern, relative name-memory", "absolute pattern of a symlinked folder-file"],
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", SPELLED)
def test_a_folder_is_the_same_however_it_is_called(tmp_path: Path, case: str, mode: str) -> None:
    pattern, cwd, name = (text.format(folder=tmp_path) for text in SPELLED[case])
    (tmp_path / "sim").mkdir()
    (tmp_path / "post").mkdir()
    (tmp_path / "link").symlink_to("sim")
    write = task(tmp_path, "write", WRITE, args=["plt{}.h5"], cwd="sim", outports=port("plt*.h5", mode=mode))
    run(tmp_path, write, task(tmp_path, "read", READ, args=[name], cwd=cwd, inports=port(pattern)))
    assert log(tmp_path, "read").splitlines() == ["read 0", "read 1", "read 2"]


DEEP = """
import os, sys, h5py
for folder in ("a", "b", "b/c"):
    os.makedirs(folder, exist_ok=True)
    with h5py.File(f"{folder}/x.h5", "w") as file:
        file["x"] = folder
"""

READ_DEEP = """
import os, h5py
os.makedirs("other", exist_ok=True)
for folder in ("a", "b", "b/c"):
    with h5py.File(f"{folder}/x.h5") as file:
        print(file["x"][()].decode())
"""


@pytest.mark.usual("memory", also_between_hosts=["file"])
@pytest.mark.parametrize("mode", MODES)
def test_files_of_one_name_in_folders_below(tmp_path: Path, mode: str) -> None:
    """A pattern with one folder leaves out what is deeper."""
    one = READ_DEEP.replace('("a", "b", "b/c")', '("a", "b")')
    write = task(tmp_path, "write", DEEP, outports=port("x.h5", mode=mode, queue=3))
    flow = {"every": 1, "queue": 3, "when_full": "block"}
    run(
        tmp_path,
        write,
        task(tmp_path, "deep", READ_DEEP, inports=port("**/x.h5", flow=flow)),
        task(tmp_path, "flat", one, inports=port("[ab]/x.h5", flow=flow)),
    )
    assert log(tmp_path, "deep").split() == ["a", "b", "b/c"]
    assert log(tmp_path, "flat").split() == ["a", "b"]


CHANGES = """
import os, h5py
os.makedirs("other", exist_ok=True)
with h5py.File("other/plt0.h5", "w") as file:
    file["x"] = "mine"
os.chdir("other")
with h5py.File("plt0.h5") as file:
    print(file["x"][()].decode())
os.chdir("../sim")
with h5py.File("plt0.h5") as file:
    print(file["x"][()])
os.chdir("../other")
with h5py.File("plt0.h5") as file:
    print(file["x"][()].decode())
"""


def test_a_program_that_changes_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sim").mkdir()
    write = task(tmp_path, "write", WRITE, args=["plt{}.h5"], cwd="sim", outports=port("plt*.h5"))
    run(tmp_path, write, task(tmp_path, "read", CHANGES, inports=port("plt*.h5"), rerun="never"))
    assert log(tmp_path, "read").splitlines() == ["mine", "0", "mine"]


MANY = """
import h5py
for instance in range(2):
    for step in range(2):
        with h5py.File(f"out{instance}-{step}.h5") as file:
            print(instance, file["x"][()])
"""


def test_instances_in_folders_of_their_own(tmp_path: Path) -> None:
    """Their reader finds them where it starts itself, and where they are."""
    text = WRITE.replace("range(3)", "range(2)")
    keys = {"taskCount": 2, "cwd": "runs/{instance}", "args": ["out{instance}-{}.h5"]}
    write = task(tmp_path, "write", text, **keys, outports=port("out{instance}-*.h5", queue=4))
    read = task(tmp_path, "read", MANY, inports=port("out*.h5", queue=4))
    there = task(tmp_path, "there", MANY.replace('f"out', 'f"runs/{instance}/out'), inports=port("out*.h5", queue=4))
    run(tmp_path, write, read, there)
    for name in ("read", "there"):
        assert log(tmp_path, name).splitlines() == ["0 0", "0 1", "1 0", "1 1"]


LATE = f"""
import h5py, os, sys
{WAITS}
waits.until_waits(1)
os.makedirs("out", exist_ok=True)
with h5py.File("out/plt0.h5", "w") as file:
    file["x"] = 7
"""

ELSEWHERE = """
import os, h5py
print(os.path.exists("old/plt0.h5"))
with h5py.File("out/plt0.h5") as file:
    print(file["x"][()])
print(os.path.exists("old/plt0.h5"))
"""


@pytest.mark.usual("memory", also_between_hosts=["file"])
@pytest.mark.parametrize("mode", ["memory", "file"])
def test_whose_a_name_is_waits_for_the_producers_first_file(tmp_path: Path, mode: str) -> None:
    """Both folders are there already: only the producer's first file tells where the steps are."""
    (tmp_path / "out").mkdir()
    (tmp_path / "old").mkdir()
    write = task(tmp_path, "write", LATE, outports=port("plt*.h5", mode=mode))
    run(tmp_path, write, task(tmp_path, "read", ELSEWHERE, inports=port("plt*.h5")))
    assert log(tmp_path, "read").splitlines() == ["False", "7", "False"]
    (said,) = [line for line in layer_log(tmp_path).splitlines() if "old/plt0.h5" in line]
    assert f"the step of that name is in '{tmp_path}/out', where task 'write' has written it" in said


STEERED = """
import os, h5py
print(os.path.exists("old/steer.h5"), flush=True)
for step in range(2):
    with h5py.File("state.h5", "w") as file:
        file["x"] = step
    with h5py.File("steer.h5") as file:
        print(file["x"][()])
"""

STEERS = """
import h5py
for step in range(2):
    with h5py.File("state.h5") as file:
        value = file["x"][()]
    with h5py.File("steer.h5", "w") as file:
        file["x"] = 10 * value
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_a_look_into_another_folder_ends_where_all_wait_for_it(tmp_path: Path) -> None:
    """The producer of the in-port cannot begin before this task has."""
    (tmp_path / "old").mkdir()
    ports = {"inports": port("steer.h5"), "outports": port("state.h5")}
    sim = task(tmp_path, "sim", STEERED, **ports)
    run(tmp_path, sim, task(tmp_path, "ana", STEERS, inports=port("state.h5"), outports=port("steer.h5")))
    assert log(tmp_path, "sim").splitlines() == ["False", "0", "10"]


@pytest.mark.usual("memory", also_between_hosts=["file"])
@pytest.mark.parametrize("mode", MODES)
def test_a_link_that_was_made_before_the_run(tmp_path: Path, mode: str) -> None:
    """It leads to the step, also where an earlier run has left a file on disk."""
    for name in ("mine", "sim"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine/in.h5").symlink_to("../sim/out2.h5")
    (tmp_path / "sim/out2.h5").write_text("of an earlier run")
    run(
        tmp_path,
        task(tmp_path, "sim", WRITE, args=["out{}.h5"], cwd="sim", outports=port("out*.h5", mode=mode)),
        task(
            tmp_path,
            "ana",
            "import h5py\nwith h5py.File('in.h5') as file:\n    print('read', file['x'][()])\n",
            cwd="mine",
            rerun="never",
            inports=port("out*.h5", mode=mode),
        ),
    )
    assert log(tmp_path, "ana") == "read 2\n"


FOLDER_EACH = """
import os, subprocess, sys, time, h5py
def shell(folder):
    subprocess.run(["mkdir", folder], check=True)
def beneath(folder):
    here = os.open(".", os.O_DIRECTORY)
    os.mkdir(folder, dir_fd=here)
    os.close(here)
def there(folder):
    os.makedirs(folder, exist_ok=True)
for step in range(4):
    {"mkdir": os.mkdir, "shell": shell, "beneath": beneath, "there": there}[sys.argv[1]](f"it{step}")
    open(f"made{step}", "w").close()
    time.sleep(0.2)
    with h5py.File(f"it{step}/{sys.argv[2].format(step)}", "w") as file:
        file["x"] = step
"""

READ_EACH = """
import h5py, os, sys, time
for step in range(9):
    while step < 4 and not os.path.exists(f"made{step}"):
        time.sleep(0.002)
    name = f"it{step}/{sys.argv[1].format(step)}"
    try:
        if sys.argv[2] == "look" and not os.path.exists(name):
            break
        file = h5py.File(name)
    except FileNotFoundError:
        break
    with file:
        print(file["x"][()], flush=True)
"""


@pytest.mark.usual(
    "look-fixed-mkdir-file",
    "open-numbered-beneath-memory",
    also_between_hosts=["open-fixed-shell-memory", "open-fixed-there-memory"],
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("made", ["mkdir", "shell", "beneath", "there"])
@pytest.mark.parametrize("called", ["fixed", "numbered"])
@pytest.mark.parametrize("how", ["open", "look"])
def test_a_folder_that_its_producer_has_just_made(tmp_path: Path, how: str, called: str, made: str, mode: str) -> None:
    """Each step has a folder of its own, which the reader sees before a file is begun there."""
    name, pattern = ("out.h5", "out.h5") if called == "fixed" else ("out{}.h5", "out*.h5")
    for step in range(4 if made == "there" else 0):
        (tmp_path / f"it{step}").mkdir()
    write = task(tmp_path, "write", FOLDER_EACH, args=[made, name], outports=port(pattern, mode=mode))
    run(tmp_path, write, task(tmp_path, "read", READ_EACH, args=[name, how], inports=port(pattern)))
    assert log(tmp_path, "read").split() == ["0", "1", "2", "3"]


ARCHIVED = """
import os, h5py
for step in range(3):
    with h5py.File(f"plt{step}.h5", "w") as file:
        file["x"] = step
    os.makedirs("archive", exist_ok=True)
"""

ARCHIVES = """
import os, time, h5py
for step in range(3):
    with h5py.File(f"plt{step}.h5") as file:
        value = file["x"][()]
    while not os.path.isdir("archive"):
        time.sleep(0.002)
    try:
        h5py.File(f"archive/plt{step}.h5")
    except FileNotFoundError:
        print("not yet", value)
    os.makedirs("archive", exist_ok=True)
    h5py.File(f"archive/plt{step}.h5", "w")["x"] = value
    print(h5py.File(f"archive/plt{step}.h5")["x"][()])
"""


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_no_file_comes_into_a_folder_that_its_producer_has_made(tmp_path: Path) -> None:
    """Who looks there is not held up once all wait for each other, and what it makes there itself is its own."""
    write = task(tmp_path, "write", ARCHIVED, outports=port("plt*.h5"))
    run(tmp_path, write, task(tmp_path, "read", ARCHIVES, inports=port("plt*.h5", queue=1)))
    assert log(tmp_path, "read").splitlines() == ["not yet 0", "0", "not yet 1", "1", "not yet 2", "2"]


TOLD_WHEN_THERE = """
import os, h5py, numpy
for step in range(4):
    os.mkdir(f"it{step}")
    with h5py.File(f"it{step}/out.h5", "w") as file:
        file["x"] = step
        file["y"] = numpy.ones(4 << 20)  # takes a while to cross
    open(f"made{step}", "w").close()
"""


@pytest.mark.usual("both", also_between_hosts=["file"])
@pytest.mark.parametrize("mode", ["file", "both"])
def test_a_file_that_is_on_the_disk_before_its_step_is_there_is_that_step(tmp_path: Path, mode: str) -> None:
    """What a reader opens in a folder of which only its producer knows yet counts as read, on whatever host."""
    write = task(tmp_path, "write", TOLD_WHEN_THERE, outports=port("out.h5", mode=mode))
    run(tmp_path, write, task(tmp_path, "read", READ_EACH, args=["out.h5", "open"], inports=port("out.h5")))
    assert log(tmp_path, "read").split() == ["0", "1", "2", "3"]
    summary = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())
    assert [channel["read"] for channel in summary["channels"]] == [4]


MAKE_ANEW = f"""
import os
{WAITS}
waits.until_waits(1)
os.rename("out", "out.old")
os.mkdir("out")
for step in range(3):
    with open(f"out/plt{{step}}.dat", "w") as file:
        file.write(str(step))
"""
READ_IN_OUT = """
for step in range(3):
    with open(f"out/plt{step}.dat") as file:
        print("read", file.read())
"""


@pytest.mark.usual(also_between_hosts=["memory", "file"])
@pytest.mark.parametrize("mode", MODES)
def test_a_folder_that_is_made_anew_while_a_reader_waits_for_a_file_in_it(tmp_path: Path, mode: str) -> None:
    (tmp_path / "out").mkdir()
    write = task(tmp_path, "write", MAKE_ANEW, outports=port("plt*.dat", mode=mode))
    run(tmp_path, write, task(tmp_path, "read", READ_IN_OUT, inports=port("plt*.dat")))
    assert log(tmp_path, "read").splitlines() == ["read 0", "read 1", "read 2"]


@pytest.mark.usual("both", also_between_hosts=["memory", "file"])
@pytest.mark.parametrize("mode", MODES)
def test_files_that_lie_where_a_producer_has_put_none_are_the_disks(flow: Workflow, mode: str) -> None:
    """What it starts from, and modules of Python, though the out-port's pattern matches them."""
    (flow.folder / "old").mkdir()
    (flow.folder / "old" / "step_module.py").write_text("VALUE = 7\n")
    for name in ("step1.txt", "step2.txt", "step3.txt", "step4.txt"):
        (flow.folder / "old" / name).write_text(f"old {name}")
    flow.task(
        "writer",
        """
        import glob, os, sys
        sys.path.insert(0, "old")
        import step_module
        assert sorted(glob.glob("old/step?.txt")) == [f"old/step{k}.txt" for k in (1, 2, 3, 4)]
        assert os.path.getsize("old/step1.txt") == len("old step1.txt") and not os.path.exists("step1.txt")
        os.rename("old/step2.txt", "old/kept.txt")
        os.remove("old/step3.txt")
        assert sorted(os.listdir("old"))[-3:] == ["step1.txt", "step4.txt", "step_module.py"], os.listdir("old")
        for k in range(3):
            with open(f"step{k}.txt", "w") as out, open("old/step1.txt") as start:
                out.write(f"{start.read()} {step_module.VALUE + k}")
        os.mkdir("new")
        with open("new/step9.txt", "w") as out:
            out.write("new")
        with open("new/step9.txt") as file:
            assert file.read() == "new"
        """,
        outports=[{"filename": "step*", "mode": mode}],
    )
    flow.task(
        "reader",
        """
        import json
        with open("got.txt", "w") as out:
            for name in ("step0.txt", "step1.txt", "step2.txt", "new/step9.txt"):
                with open(name) as file:
                    print(json.dumps(file.read()), file=out)
        """,
        inports=[{"filename": "step*"}],
    )
    flow.run()
    assert flow.got() == [*(f"old step1.txt {7 + k}" for k in range(3)), "new"]
    left = sorted(path.name for path in (flow.folder / "old").iterdir() if path.is_file())
    assert left == ["kept.txt", "step1.txt", "step4.txt", "step_module.py"]
