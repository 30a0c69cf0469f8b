"""Stages: tasks that read files and pass them on under their names. Readers behind them get what they get of files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.hooks import faults
from support.running import MPIEXEC, WILKINS, Finished, must_run, run_tree, write_program

MAKE = """#!/usr/bin/env python3
import h5py
for k in range(5):
    with h5py.File(f"s{k}.h5", "w") as file:
        file["x"] = [k, 2 * k]
"""
USE = """#!/usr/bin/env python3
import h5py, os
k = 0
while True:
    try:
        file = h5py.File(f"s{k}.h5")
    except OSError:
        break
    with file:
        print(k, sorted((name, list(file[name][:])) for name in file), sorted(file.attrs.items()), flush=True)
    k += 1
"""
MAKE_BYTES = """#!/usr/bin/env python3
for k in range(5):
    with open(f"s{k}.h5", "wb") as file:
        file.write(b"%d" % k * 5000)
"""
USE_BYTES = """#!/usr/bin/env python3
import hashlib
k = 0
while True:
    try:
        file = open(f"s{k}.h5", "rb")
    except OSError:
        break
    with file:
        held = file.read()
    print(k, len(held), held[-4:], hashlib.md5(held).hexdigest(), flush=True)
    k += 1
"""
LOOP = """#!/usr/bin/env python3
import h5py, os, sys
k = 0
while True:
    name = f"s{k}.h5"
    try:
        h5py.File(name).close()
    except OSError:
        break
    change(name, k)
    k += 1
"""


def by_each(change: str) -> str:
    """A stage that changes one file after the other."""
    head, rest = LOOP.split("k = 0\n", 1)
    return f"{head}\ndef change(name, k):\n    {change.strip().replace(chr(10), chr(10) + '    ')}\n\nk = 0\n{rest}"


WAYS = {
    "it adds an attribute": by_each('with h5py.File(name, "r+") as file: file.attrs["tag"] = 10 * k'),
    "it adds a dataset": by_each('with h5py.File(name, "a") as file: file["y"] = [7] * 1000'),
    "it overwrites values": by_each('with h5py.File(name, "r+") as file: file["x"][0] = -k'),
    "it only reads": by_each('with h5py.File(name) as file: print(file["x"][:], flush=True)'),
    "it adds in two opens": by_each(
        """
with h5py.File(name, "a") as file: file.attrs["one"] = k
with h5py.File(name) as file: assert file.attrs["one"] == k
with h5py.File(name, "a") as file: file.attrs["two"] = k
"""
    ),
    "it changes some": by_each(
        'with h5py.File(name, "r+" if k % 2 else "r") as file: k % 2 and file.attrs.update(odd=k)'
    ),
    "it makes them anew": by_each(
        """
with h5py.File(name) as file: held = file["x"][:]
with h5py.File(name, "w") as file: file["x"] = held + 100
"""
    ),
    "it puts others in their place": by_each(
        """
with h5py.File(name) as file: held = file["x"][:]
with h5py.File("new.tmp", "w") as file: file["x"] = held + 100
os.replace("new.tmp", name)
"""
    ),
    "it looks before": """#!/usr/bin/env python3
import h5py, os
k = 0
while os.path.exists(f"s{k}.h5"):
    assert os.path.getsize(f"s{k}.h5") > 0
    with h5py.File(f"s{k}.h5", "r+") as file:
        file.attrs["tag"] = k
    assert os.path.exists(f"s{k}.h5")
    k += 1
""",
    "it lists": """#!/usr/bin/env python3
import glob, h5py
done = set()
while len(done) < 5:
    for name in sorted(set(glob.glob("s*.h5")) - done):
        with h5py.File(name, "r+") as file:
            file.attrs["tag"] = name
        done.add(name)
""",
    "by processes of its own": """#!/usr/bin/env python3
import h5py, subprocess, sys
CHANGE = "import h5py, sys; h5py.File(sys.argv[1], 'r+').attrs['by'] = sys.argv[2]"
k = 0
while subprocess.run([sys.executable, "-c", CHANGE, f"s{k}.h5", "one"], stderr=subprocess.DEVNULL).returncode == 0:
    subprocess.run([sys.executable, "-c", CHANGE, f"s{k}.h5", "two"], check=True)
    k += 1
""",
    "by a pool": """#!/usr/bin/env python3
import h5py, multiprocessing
def change(k):
    with h5py.File(f"s{k}.h5", "r+") as file:
        file.attrs["tag"] = k
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(change, range(5), chunksize=1)
""",
    "by threads that come back": """#!/usr/bin/env python3
import concurrent.futures, h5py
def change(k):
    h5py.File(f"s{k}.h5").close()
    with h5py.File(f"s{k}.h5", "r+") as file:
        file.attrs["tag"] = k
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    list(pool.map(change, range(5)))
""",
    "it looks back": by_each(
        """
with h5py.File(name, "r+") as file: file.attrs["tag"] = k
if k: print(h5py.File(f"s{k - 1}.h5").attrs["tag"], flush=True)
"""
    ),
}
BYTES = {
    "it appends": by_each('with open(name, "ab") as file: file.write(b"tail")'),
    "it writes into them": by_each(
        """
with open(name, "r+b") as file:
    file.seek(3)
    file.write(b"xyz")
"""
    ),
    "it reads them": by_each('print(len(open(name, "rb").read()), flush=True)'),
    "it maps them": by_each(
        """
import numpy
held = numpy.memmap(name, "u1", "r+")
held[-4:] = 65
held.flush()
"""
    ),
    "it cuts them": by_each("os.truncate(name, 1000 + k)"),
    "it cuts them unopened": """#!/usr/bin/env python3
import os
for k in range(5):
    os.truncate(f"s{k}.h5", 1000 * k)
    print(os.path.getsize(f"s{k}.h5"), flush=True)
""",
}
BYTES = {way: text.replace("h5py.File(name).close()", 'open(name, "rb").close()') for way, text in BYTES.items()}


def programs(folder: Path, *texts: str) -> list[str]:
    """Executable scripts, and their names."""
    names = []
    for number, text in enumerate(texts):
        name = f"{'abcdef'[number]}.py"
        write_program(folder / name, text.replace("#!/usr/bin/env python3", f"#!{sys.executable}"))
        names.append(name)
    return names


def workflow(folder: Path, names: list[str], *keys: str) -> None:
    """The first makes, the last uses, all between are stages; `keys`: more for each."""
    lines = ["tasks:"]
    for number, name in enumerate(names):
        outports = ', outports: [{filename: "s*.h5"}]' if number < len(names) - 1 else ""
        inports = ', inports: [{filename: "s*.h5"}]' if number else ""
        more = keys[number] if number < len(keys) else ""
        lines.append(f"- {{name: {name[:-3]}, func: ./{name}{inports}{outports}{more}}}")
    (folder / "workflow.yaml").write_text("\n".join(lines) + "\n")


def coupled(folder: Path, code: int = 0, env: dict[str, str] | None = None) -> Finished:
    finished = run_tree([*WILKINS, "run", "workflow.yaml"], 100, folder, env)
    logs = "\n".join(log.read_text() for log in sorted(folder.glob("wilkins-runs/latest/*.log")))
    assert finished.code == code, finished.err + logs
    return finished


def said(folder: Path, task: str) -> str:
    return (folder / "wilkins-runs" / "latest" / f"{task}.log").read_text()


def compare(tmp_path: Path, *texts: str) -> None:
    """All print with files what they print coupled."""
    files, memory = tmp_path / "files", tmp_path / "memory"
    files.mkdir()
    memory.mkdir()
    expected = [must_run(files, f"./{name}") for name in programs(files, *texts)]
    names = programs(memory, *texts)
    workflow(memory, names)
    coupled(memory)
    assert [said(memory, name[:-3]) for name in names] == expected
    assert not list(memory.glob("s*.h5")), "a file of the disk"


@pytest.mark.usual("it adds a dataset")
@pytest.mark.parametrize("way", WAYS)
def test_a_reader_gets_what_a_stage_has_made_of_it(way: str, tmp_path: Path) -> None:
    compare(tmp_path, MAKE, WAYS[way], USE)


@pytest.mark.usual("it maps them")
@pytest.mark.parametrize("way", BYTES)
def test_files_that_are_not_hdf5_are_passed_on(way: str, tmp_path: Path) -> None:
    compare(tmp_path, MAKE_BYTES, BYTES[way], USE_BYTES)


def test_a_chain(tmp_path: Path) -> None:
    one, two, three = (WAYS[way] for way in ("it adds an attribute", "it only reads", "it adds a dataset"))
    compare(tmp_path, MAKE, one, two, three, USE)


def test_readers_take_the_nearest_stage_before_them_or_those_they_name(tmp_path: Path) -> None:
    programs(tmp_path, MAKE, USE, WAYS["it adds an attribute"], USE, USE)
    (tmp_path / "workflow.yaml").write_text(
        """tasks:
- {name: make, func: ./a.py, outports: [{filename: "s*.h5"}]}
- {name: before, func: ./b.py, inports: [{filename: "s*.h5"}]}
- {name: tag, func: ./c.py, inports: [{filename: "s*.h5"}], outports: [{filename: "s*.h5"}]}
- {name: behind, func: ./d.py, inports: [{filename: "s*.h5"}]}
- {name: asks, func: ./e.py, inports: [{filename: "s*.h5", from: [make]}]}
"""
    )
    coupled(tmp_path)
    assert "tag" not in said(tmp_path, "before") + said(tmp_path, "asks")
    assert said(tmp_path, "behind").count("tag") == said(tmp_path, "before").count("\n") == 5


def test_of_a_step_at_which_a_stage_fails_nobody_gets_anything(tmp_path: Path) -> None:
    fails = by_each(
        """
with h5py.File(name, "r+") as file: file.attrs["tag"] = k
if k == 2: sys.exit(3)
"""
    )
    names = programs(tmp_path, MAKE, fails, USE)
    workflow(tmp_path, names, "", ", on_failure: continue")
    ran = coupled(tmp_path, 1)
    assert said(tmp_path, "c").count("\n") == 2, ran.err


@pytest.mark.usual("stage.passing")
@pytest.mark.parametrize("point", ["stage.copied", "stage.passing", "closed.counted", "create.mapped"])
def test_a_stage_that_is_killed_has_passed_on_whole_files_only(point: str, tmp_path: Path) -> None:
    names = programs(tmp_path, MAKE, WAYS["it adds an attribute"], USE)
    workflow(tmp_path, names)
    coupled(tmp_path, 1, env=faults(f"task=b,kill={point}:3"))
    lines = said(tmp_path, "c").splitlines()
    assert len(lines) < 5
    assert [line.count("tag") for line in lines] == [1] * len(lines)


def test_a_stage_that_is_started_again_goes_on_with_the_step_at_which_it_failed(tmp_path: Path) -> None:
    fails = """#!/usr/bin/env python3
import glob, h5py, os
first = not os.path.exists("failed")
k = 0 if first else 2
while True:
    try:
        file = h5py.File(f"s{k}.h5", "r+")
    except OSError:
        break
    with file:
        file.attrs["tag"] = k
    if first and k == 2:
        open("failed", "w").close()
        os._exit(1)
    k += 1
"""
    names = programs(tmp_path, MAKE, fails, USE)
    workflow(tmp_path, names, "", ", on_failure: restart, retry_delay: 0, restart: each-step")
    coupled(tmp_path)
    assert [line.count("tag") for line in said(tmp_path, "c").splitlines()] == [1] * 5


def test_a_program_that_is_started_for_each_step(tmp_path: Path) -> None:
    each = """#!/usr/bin/env python3
import h5py, sys
with h5py.File(sys.argv[1], "r+") as file:
    file.attrs["tag"] = sys.argv[1]
"""
    names = programs(tmp_path, MAKE, each, USE)
    workflow(tmp_path, names, "", ', args: ["{filename}"]')
    coupled(tmp_path)
    assert said(tmp_path, "c").count("tag") == 5


@pytest.mark.nightly
def test_a_name_that_stands_for_one_step_after_the_other(tmp_path: Path) -> None:
    make = MAKE.replace('f"s{k}.h5"', '"s.h5"')
    tag = by_each('with h5py.File("s.h5", "r+") as file: file.attrs["tag"] = file["x"][0]').replace(
        "h5py.File(name).close()\n    except OSError:\n        break\n    change(name, k)",
        "change(name, k)\n    except OSError:\n        break",
    )
    use = USE.replace('f"s{k}.h5"', '"s.h5"')
    names = programs(tmp_path, make, tag, use)
    workflow(tmp_path, names)
    path = tmp_path / "workflow.yaml"
    path.write_text(path.read_text().replace("s*.h5", "s.h5"))
    coupled(tmp_path)
    assert said(tmp_path, "c").splitlines() == [
        f"{k} [('x', [{k}, {2 * k}])] [('tag', {k})]".replace(f"{k})]", f"np.int64({k}))]").replace(
            f"[{k}, {2 * k}]", f"[np.int64({k}), np.int64({2 * k})]"
        )
        for k in range(5)
    ]


def test_a_file_that_was_passed_on_is_not_changed_in_silence(tmp_path: Path) -> None:
    late = by_each('k and h5py.File(f"s{k - 1}.h5", "r+").attrs.update(late=k)')
    names = programs(tmp_path, MAKE, late, USE)
    workflow(tmp_path, names)
    ran = coupled(tmp_path, 1)
    assert "opens 's0.h5' to change it, but it has passed it on" in ran.err.replace("\nwilkins:  ", "")


def test_a_name_that_is_opened_twice_for_each_step(tmp_path: Path) -> None:
    make = MAKE.replace('f"s{k}.h5"', '"s.h5"')
    twice = """#!/usr/bin/env python3
import h5py
while True:
    try:
        with h5py.File("s.h5", "r+") as file: file.attrs["one"] = file["x"][0]
    except OSError:
        break
    with h5py.File("s.h5", "r+") as file: file.attrs["two"] = file.attrs["one"]
"""
    programs(tmp_path, make, twice, USE.replace('f"s{k}.h5"', '"s.h5"'))
    (tmp_path / "workflow.yaml").write_text(
        """tasks:
- {name: make, func: ./a.py, outports: [{filename: s.h5}]}
- {name: tag, func: ./b.py, inports: [{filename: s.h5, opens_per_step: 2}], outports: [{filename: s.h5}]}
- {name: use, func: ./c.py, inports: [{filename: s.h5}]}
"""
    )
    coupled(tmp_path)
    lines = said(tmp_path, "use").splitlines()
    assert [line.count(f"np.int64({k})") for k, line in enumerate(lines)] == [4 if k == 0 else 3 for k in range(5)]


@pytest.mark.nightly
def test_a_fixed_name_is_closed_before_it_is_opened_again(tmp_path: Path) -> None:
    keeps = """#!/usr/bin/env python3
import h5py
kept = []
while True:
    kept.append(h5py.File("s.h5", "r+"))
"""
    names = programs(tmp_path, MAKE.replace('f"s{k}.h5"', '"s.h5"'), keeps, USE.replace('f"s{k}.h5"', '"s.h5"'))
    workflow(tmp_path, names)
    path = tmp_path / "workflow.yaml"
    path.write_text(path.read_text().replace("s*.h5", "s.h5"))
    ran = coupled(tmp_path, 1)
    assert "before it has closed the last one" in ran.err.replace("\nwilkins:  ", "")


def test_it_passes_on_what_it_has_before_it_waits_for_another_file(tmp_path: Path) -> None:
    tag = by_each(
        """
with h5py.File(name, "r+") as file: file.attrs["tag"] = k
with h5py.File(f"answer{k}.h5") as file: print(file["x"][()], flush=True)
"""
    )
    answers = USE.replace("        print(", '        h5py.File(f"answer{k}.h5", "w")["x"] = k\n        print(')
    programs(tmp_path, MAKE, tag, answers)
    (tmp_path / "workflow.yaml").write_text(
        """tasks:
- {name: make, func: ./a.py, outports: [{filename: "s*.h5"}]}
- {name: tag, func: ./b.py, inports: [{filename: "s*.h5"}, {filename: "answer*.h5"}], outports: [{filename: "s*.h5"}]}
- {name: use, func: ./c.py, inports: [{filename: "s*.h5"}], outports: [{filename: "answer*.h5"}]}
"""
    )
    coupled(tmp_path)
    assert said(tmp_path, "tag").split() == list("01234")
    assert said(tmp_path, "use").count("tag") == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "- {func: ./a.py, outports: [{filename: s*.h5}]}\n"
            "- {func: ./b.py, inports: [{filename: s*.h5, from: [c]}]}",
            "there is no task 'c'",
        ),
        (
            "- {func: ./a.py, outports: [{filename: s*.h5}]}\n"
            "- {func: ./b.py, inports: [{filename: s*.h5, from: [b]}], outports: [{filename: s*.h5}]}\n",
            "it would wait for itself",
        ),
        (
            "- {func: ./a.py, outports: [{filename: s*.h5}]}\n"
            "- {func: ./b.py, inports: [{filename: s*.h5, from: [c]}], outports: [{filename: s*.h5}]}\n"
            "- {func: ./c.py, inports: [{filename: s*.h5, from: [b]}], outports: [{filename: s*.h5}]}\n",
            "'from' leads back to the task itself",
        ),
        (
            "- {func: ./a.py, outports: [{filename: s*.h5}]}\n"
            "- {func: ./b.py, inports: [{filename: s*.h5}], outports: [{filename: s*.h5, publish: flush}]}\n"
            "- {func: ./c.py, inports: [{filename: s*.h5}]}\n",
            "leave out 'publish'",
        ),
        (
            "- {func: ./a.py, outports: [{filename: s*.h5, mode: both}]}\n"
            "- {func: ./b.py, inports: [{filename: s*.h5}], outports: [{filename: s*.h5}]}\n"
            "- {func: ./c.py, inports: [{filename: s*.h5}]}\n",
            "in memory alone",
        ),
        (
            "- {func: ./a.py, outports: [{filename: s*.d/}]}\n"
            "- {func: ./b.py, inports: [{filename: s*.d/}], outports: [{filename: s*.d/}]}\n"
            "- {func: ./c.py, inports: [{filename: s*.d/}]}\n",
            "not one file each",
        ),
        (
            "- {func: ./a.py, outports: [{filename: s*.h5}]}\n"
            "- {func: ./b.py, inports: [{filename: s*.h5, device: pinned}],\n"
            "   outports: [{filename: s*.h5, device: pinned}]}\n"
            "- {func: ./c.py, inports: [{filename: s*.h5}]}\n",
            "leave out 'device'",
        ),
        (
            "- {func: ./a.py, outports: [{filename: s.h5}]}\n"
            "- {func: ./b.py, nprocs: 2, inports: [{filename: s.h5}], outports: [{filename: s.h5}]}\n"
            "- {func: ./c.py, inports: [{filename: s.h5}]}\n",
            "let its producer number the names",
        ),
    ],
)
def test_what_cannot_be_is_told_before_anything_runs(text: str, message: str, tmp_path: Path) -> None:
    programs(tmp_path, MAKE, USE, USE)
    (tmp_path / "workflow.yaml").write_text("tasks:\n" + text)
    finished = run_tree([*WILKINS, "check", "workflow.yaml"], 30, tmp_path)
    assert finished.code == 2, finished.out
    assert message in finished.err
    assert "workflow.yaml:" in finished.err


RANKS = r"""
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int k = 0;; ++k) {
        char name[32];
        snprintf(name, sizeof name, "s%d.h5", k);
        hid_t list = H5Pcreate(H5P_FILE_ACCESS);
        H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL);
        hid_t file = H5Fopen(name, H5F_ACC_RDWR, list);
        H5Pclose(list);
        if (file < 0) break;
        hsize_t whole = size, one = 1, at = rank;
        hid_t space = H5Screate_simple(1, &whole, NULL), mine = H5Screate_simple(1, &one, NULL);
        hid_t data = H5Dcreate2(file, "ranks", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &one, NULL);
        int value = 10 * k + rank;
        H5Dwrite(data, H5T_NATIVE_INT, mine, space, H5P_DEFAULT, &value);
        H5Dclose(data); H5Sclose(mine); H5Sclose(space); H5Fclose(file);
    }
    MPI_Finalize();
}
"""


@pytest.mark.nightly
@pytest.mark.needs("h5pcc.mpich", "mpiexec.mpich")
def test_a_stage_of_ranks_in_a_chain(tmp_path: Path) -> None:
    (tmp_path / "ranks.c").write_text(RANKS)
    must_run(tmp_path, "h5pcc.mpich", "-shlib", "-w", "-o", "ranks", "ranks.c")
    programs(tmp_path, MAKE, WAYS["it adds an attribute"], USE, USE)
    (tmp_path / "workflow.yaml").write_text(
        """tasks:
- {name: make, func: ./a.py, outports: [{filename: "s*.h5"}]}
- {name: tag, func: ./b.py, inports: [{filename: "s*.h5"}], outports: [{filename: "s*.h5"}]}
- {name: ranks, func: ./ranks, nprocs: 3, inports: [{filename: "s*.h5"}], outports: [{filename: "s*.h5"}]}
- {name: use, func: ./c.py, inports: [{filename: "s*.h5"}]}
"""
    )
    coupled(tmp_path)
    lines = said(tmp_path, "use").splitlines()
    assert len(lines) == 5
    for k, line in enumerate(lines):
        assert "tag" in line
        assert ", ".join(f"np.int32({10 * k + rank})" for rank in range(3)) in line


def test_plans_and_graphs_name_stages(tmp_path: Path) -> None:
    programs(tmp_path, MAKE, USE, USE)
    (tmp_path / "workflow.yaml").write_text(
        "tasks:\n"
        "- {func: ./a.py, outports: [{filename: s*.h5}]}\n"
        "- {func: ./b.py, inports: [{filename: s*.h5}], outports: [{filename: s*.h5}]}\n"
        "- {func: ./c.py, inports: [{filename: s*.h5}]}\n"
    )
    planned = run_tree([*WILKINS, "plan", "workflow.yaml"], 30, tmp_path)
    assert "b is a stage: it passes on s*.h5, which it reads" in planned.out
    drawn = run_tree([*WILKINS, "graph", "workflow.yaml"], 30, tmp_path)
    assert "a (1 rank)\n" in drawn.out
    assert "b (1 rank, a stage)\n" in drawn.out


ALL_READ = """#!/usr/bin/env python3
import os, sys
for k in range(5):
    name = f"s{k}.h5"
    assert os.path.getsize(name) >= 2048, os.path.getsize(name)
    READ
"""


@pytest.mark.needs("hooks")
@pytest.mark.parametrize(
    ("make", "read", "use"),
    [
        (MAKE, "import h5py; file = h5py.File(name); assert list(file['x']) == [k, 2 * k]; file.close()", USE),
        (MAKE_BYTES, "assert open(name, 'rb').read() == b'%d' % k * 5000", USE_BYTES),
    ],
    ids=["HDF5", "bytes"],
)
@pytest.mark.nightly
def test_ranks_that_all_read_find_whole_files(make: str, read: str, use: str, tmp_path: Path) -> None:
    """Also while another rank copies what it takes."""
    names = programs(tmp_path, make, ALL_READ.replace("READ", read), use)
    workflow(tmp_path, names, "", f", nprocs: 2, mpiexec: {MPIEXEC}, rerun: never")
    coupled(tmp_path, env=faults("task=b,seed=1,delay=20ms,chance=1"))
    assert said(tmp_path, "c").count("\n") == 5


LEAVES = """#!/usr/bin/env python3
import os, time
def change(k, by):
    with open(f"s{k}.h5", "r+b") as file: file.write(by)
had, has = os.pipe()
first = os.fork()
if not first:
    change(0, b"first")
    os.write(has, b".")
    time.sleep(0.7)  # the other one waits for room
    os.abort()
second = os.fork()
if not second:
    os.read(had, 1)
    for k in range(1, 5): change(k, b"other")
    os._exit(0)
os.waitpid(first, 0)
os.waitpid(second, 0)
"""
READS = """#!/usr/bin/env python3
for k in range(5):
    with open(f"s{k}.h5", "rb") as file: print(file.read(5).decode(), flush=True)
"""


def test_what_a_process_has_left_is_passed_on_before_a_step_is_let_go(tmp_path: Path) -> None:
    names = programs(tmp_path, MAKE_BYTES, LEAVES, READS)
    workflow(tmp_path, names)
    path = tmp_path / "workflow.yaml"
    last = '{name: c, func: ./c.py, inports: [{filename: "s*.h5"'
    path.write_text(path.read_text().replace(last, f"{last}, queue: 1, reorder: 1"))
    ran = coupled(tmp_path)
    assert said(tmp_path, "c").split() == ["first", *["other"] * 4], ran.err


SHARES = """#!/usr/bin/env python3
import h5py, os, sys
mine = [0] if os.environ["RANK"] == "0" else range(1, 30)
for k in mine:
    with h5py.File(f"s{k}.h5", "r+") as file:
        file.attrs["rank"] = int(os.environ["RANK"])
END
"""


@pytest.mark.usual("os._exit(0)")
@pytest.mark.parametrize("end", ["", "os._exit(0)", "raise SystemExit(0)"])
def test_what_a_rank_had_last_is_passed_on_when_it_ends(end: str, tmp_path: Path) -> None:
    make = MAKE.replace("range(5)", "range(30)")
    names = programs(tmp_path, make, SHARES.replace("END", end), USE)
    workflow(tmp_path, names, "", f", nprocs: 2, mpiexec: {MPIEXEC}")
    ran = coupled(tmp_path)
    lines = said(tmp_path, "c").splitlines()
    assert [line.split()[0] for line in lines] == [str(k) for k in range(30)]
    assert "did not read" not in ran.err


@pytest.mark.nightly
def test_what_a_rank_had_last_that_fails_is_not_passed_on(tmp_path: Path) -> None:
    make = MAKE.replace("range(5)", "range(30)")
    names = programs(tmp_path, make, SHARES.replace("END", 'sys.exit(3 * (os.environ["RANK"] == "0"))'), USE)
    workflow(tmp_path, names, "", f", nprocs: 2, mpiexec: {MPIEXEC}, on_failure: continue")
    coupled(tmp_path, 1)
    assert not said(tmp_path, "c")
