"""A program on its own files: what it finds out about files in memory is what it would find out about them on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.running import WILKINS, run_tree

BEGIN = """
import glob, os, shutil, tempfile
import h5py
from h5py import h5f, h5p

def make(name, value=1, mode="w", **more):
    with h5py.File(name, mode, **more) as f:
        f[f"x{value}"] = value

def keys(name, **more):
    with h5py.File(name, "r", **more) as f:
        return sorted(f)

"""
"""What the programs share."""

PROGRAMS = {
    "a folder of a matching name is a folder": """
os.mkdir("plots.h5")
make("plots.h5/inner.h5")
print(os.path.isdir("plots.h5"), os.path.isfile("plots.h5"), os.listdir("plots.h5"), os.listdir())
try:
    make("plots.h5")
except OSError as error:
    print(type(error).__name__)
handle = os.open("plots.h5", os.O_RDONLY | os.O_DIRECTORY)
print(os.path.isdir(handle))
os.close(handle)
os.rename("plots.h5/inner.h5", "outer.h5")
os.rmdir("plots.h5")
print(os.path.exists("plots.h5"), os.listdir(), keys("outer.h5"))
""",
    "a program lists what it has written": """
make("a.h5")
make("b.h5")
with h5py.File("open.h5", "w") as f:
    f["x"] = 1
    f.flush()
    print(sorted(os.listdir()), sorted(e.name for e in os.scandir() if e.is_file()))
os.remove("a.h5")
print(sorted(glob.glob("*.h5")), sorted(map(os.path.basename, glob.glob(os.path.abspath("*.h5")))))
print(sorted(os.listdir(os.getcwd())))
""",
    "a name relative to an open folder": """
os.mkdir("sub")
make("sub/a.h5")
make("a.h5", 2)
folder = os.open("sub", os.O_RDONLY)
print(sorted(os.listdir(folder)), os.stat("a.h5", dir_fd=folder).st_size > 0, os.access("a.h5", os.R_OK, dir_fd=folder))
with open(os.open("a.h5", os.O_RDONLY, dir_fd=folder), "rb") as file:
    print(file.read(4))
os.rename("a.h5", "b.h5", src_dir_fd=folder, dst_dir_fd=folder)
print(os.listdir("sub"), keys("sub/b.h5"))
os.unlink("b.h5", dir_fd=folder)
print(os.listdir("sub"), os.path.exists("sub/b.h5"), keys("a.h5"))
try:
    os.unlink("b.h5", dir_fd=folder)
except FileNotFoundError:
    print("gone")
""",
    "a folder is removed with all that is in it": """
folder = tempfile.mkdtemp(dir=".")
make(f"{folder}/a.h5")
left_open = h5py.File(f"{folder}/b.h5", "w")
shutil.rmtree(folder)
print(os.path.exists(folder), os.path.exists(f"{folder}/a.h5"), os.path.exists(f"{folder}/b.h5"))
left_open.close()
print(os.path.exists(f"{folder}/b.h5"), os.listdir())
""",
    "a file that loses its name while it is open": """
f = h5py.File("a.h5", "w")
f["old"] = 1
os.remove("a.h5")
print(os.path.exists("a.h5"), os.listdir(), sorted(f))
f["more"] = 2
f.close()
print(os.path.exists("a.h5"), os.listdir())
make("a.h5", 2)
print(keys("a.h5"))
""",
    "a file that is renamed while it is open": """
with h5py.File("a.h5", "w") as f:
    f["x1"] = 1
    os.rename("a.h5", "b.h5")
    print(os.path.exists("a.h5"), os.path.exists("b.h5"), sorted(os.listdir()))
    f["x2"] = 2
make("c.h5", 3)
with open("d.h5", "wb") as file:
    file.write(open("c.h5", "rb").read(100))
    os.rename("d.h5", "c.h5")
    file.write(b"more")
print(keys("b.h5"), sorted(os.listdir()), os.path.getsize("c.h5"))
make("a.h5", 4)
print(keys("a.h5"))
""",
    "a file that is replaced while it is open": """
for name in ("a.h5", "b.h5"):
    file = open(name, "w")
    file.write("first ")
    file.flush()
    source = "draft" if name == "a.h5" else "c.h5"
    open(source, "w").write("replacement")
    os.replace(source, name)
    print(open(name).read(), sorted(os.listdir()))
    file.write("and later")
    file.close()
    print(open(name).read(), sorted(os.listdir()))
""",
    "the driver is the one that was asked for": """
for driver in ("sec2", "stdio", "core", None):
    with h5py.File("a.h5", "w", driver=driver) as f:
        print(f.driver)
    with h5py.File("a.h5", "a", driver=driver) as f:
        again = f.id.get_access_plist()
        print(f.driver, again.get_driver() == h5f.open(b"a.h5", fapl=again).get_access_plist().get_driver())
""",
    "changes that are not to be stored": """
make("a.h5")
with h5py.File("a.h5", "r+", driver="core", backing_store=False) as f:
    f["draft"] = 1
    print(sorted(f))
print(keys("a.h5"))
make("b.h5", driver="core", backing_store=False)
print(os.path.exists("b.h5"))
""",
    "a file's content that its program brings": """
make("a.h5", 3)
image = open("a.h5", "rb").read()
access = h5p.create(h5p.FILE_ACCESS)
access.set_fapl_core(backing_store=False)
access.set_file_image(image)
with h5py.File(h5f.open(b"image.h5", h5f.ACC_RDONLY, fapl=access)) as f:
    print(sorted(f))
print(os.path.exists("image.h5"))
""",
    "an empty file that is made by opening it to read": """
os.close(os.open("a.h5", os.O_RDONLY | os.O_CREAT))
print(os.path.getsize("a.h5"), os.listdir())
make("b.h5")
handle = os.open("b.h5", os.O_RDONLY | os.O_CREAT)
print(os.fstat(handle).st_size == os.path.getsize("b.h5"), os.read(handle, 4))
os.close(handle)
print(keys("b.h5"))
""",
}

END = """
open("../over", "w").close()
"""

CONSUMER = """
import time
from pathlib import Path
from wilkins.transport import steps
while not Path("over").exists():  # what the program finds must not depend on who is faster
    time.sleep(0.01)
for name in steps.names():
    print(name)
"""


def run_in_memory(folder: Path, program: str) -> tuple[str, list[str]]:
    """What the program prints as a task whose files are in memory, and the names of the steps that its consumer got."""
    (folder / "work").mkdir()
    (folder / "program.py").write_text(program)
    (folder / "consumer.py").write_text(CONSUMER)
    keep = {"every": 1, "queue": 20, "when_full": "block"}
    tasks = [
        {"func": "./program.py", "cwd": str(folder / "work"), "outports": [{"filename": "*.h5"}]},
        {"func": "./consumer.py", "inports": [{"filename": "*.h5", "flow": keep}]},
    ]
    (folder / "workflow.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    ran = run_tree([*WILKINS, "run", "--quiet", "workflow.yaml"], 60, folder)
    logs = {name: (folder / f"wilkins-runs/latest/{name}.log").read_text() for name in ("program", "consumer")}
    assert ran.code == 0, logs["program"] + logs["consumer"] + ran.out + ran.err
    return logs["program"], logs["consumer"].split()


@pytest.mark.usual(
    "a program lists what it has written",
    "a folder is removed with all that is in it",
    "a file that is replaced while it is open",
    "the driver is the one that was asked for",
    "an empty file that is made by opening it to read",
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_finds_its_files_as_on_disk(tmp_path: Path, name: str) -> None:
    """The same program prints the same, and no file is on disk."""
    program = BEGIN + PROGRAMS[name] + END
    (tmp_path / "alone.py").write_text(program)
    (tmp_path / "disk").mkdir()
    alone = [sys.executable, str(tmp_path / "alone.py")]
    on_disk = subprocess.check_output(alone, cwd=tmp_path / "disk", timeout=60, text=True)
    (tmp_path / "over").unlink()
    in_memory, _ = run_in_memory(tmp_path, program)
    assert in_memory == on_disk
    assert [path for path in (tmp_path / "work").rglob("*.h5") if path.is_file()] == []


def test_a_file_removed_before_it_was_whole_is_never_published(tmp_path: Path) -> None:
    """On disk nobody could have opened it, either."""
    program = BEGIN + PROGRAMS["a file that loses its name while it is open"] + END
    _, steps = run_in_memory(tmp_path, program)
    assert steps == ["a.h5"], "the second one, of which nothing was removed"


@pytest.mark.usual("renamed-steps0")
@pytest.mark.parametrize(
    ("what", "steps"), [("renamed", ["b.h5", "c.h5", "c.h5", "a.h5"]), ("replaced", ["a.h5", "b.h5"])]
)
def test_a_file_is_published_under_the_name_that_it_has(tmp_path: Path, what: str, steps: list[str]) -> None:
    """A file that has lost its name to another is never published; one that has another name, under that."""
    _, published = run_in_memory(tmp_path, BEGIN + PROGRAMS[f"a file that is {what} while it is open"] + END)
    assert published == steps


def test_a_draft_is_never_published(tmp_path: Path) -> None:
    """Changes that HDF5 is told not to store make no step."""
    _, steps = run_in_memory(tmp_path, BEGIN + PROGRAMS["changes that are not to be stored"] + END)
    assert steps == ["a.h5"]
