"""Steps that are compressed on their way to another host: readers get plain files, within the bounds."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hosts import pseudo
from programs.build import build, parallel_c

from support.hooks import faults
from support.running import WILKINS, Finished, run_tree, write_program
from wilkins.launch.records.crossings import percent_of_bound
from wilkins.report.page.page import page_of, records_of
from wilkins.terminal.tables import duration, size

pytestmark = [pytest.mark.timeout(150)]

DATA = """
import h5py, math, numpy as np
def field(step, *shape):
    return np.sin(np.linspace(0, 9, math.prod(shape)) + step).reshape(shape)
def data(step):
    noise = np.random.default_rng(step)
    strange = field(step, 5000)
    strange[7::100] = np.nan
    return {
        "fields/heat": field(step, 300, 200), "fields/single": field(step, 9000).astype("f4"),
        "fields/strange": strange, "fields/big": field(step, 5000).astype(">f8"), "fields/none": np.empty((0, 3)),
        "fields/one": np.float64(step), "ids": np.arange(9000) + step, "noise": noise.standard_normal(5000),
        "pairs": np.full(900, step, [("a", "<f4"), ("b", ">i8")]), "words": np.array([b"word"] * 3000),
    }
LOSSY = {"fields/heat": 1e-3, "fields/single": 1e-3, "fields/chunked": 1e-3}
def written(file, step):
    for name, value in data(step).items():
        file[name] = value
    file.create_dataset("fields/chunked", data=field(step, 100, 90), chunks=(30, 40))
    file.create_dataset("fields/gzip", data=field(step, 9000), chunks=(1000,), compression="gzip")
    file.attrs["step"] = step
    file["again"] = h5py.SoftLink("/fields/heat")
"""
WRITE = """#!{python}
import os, sys, time
from data import *
for step in range(int(sys.argv[1])):
    if sys.argv[2:]:
        time.sleep(float(sys.argv[2]))
    with h5py.File(f"f{{step}}.h5", "w") as file:
        written(file, step)
"""
READ = """#!{python}
import os, sys
from data import *
from wilkins.transport import steps
bounds = LOSSY if sys.argv[1] == "lossy" else {{}}
found = set()
for name in steps.names():
    with h5py.File(name) as file:
        step = int(file.attrs["step"])
        more = {{"fields/chunked": field(step, 100, 90), "fields/gzip": field(step, 9000)}}
        for path, value in {{**data(step), **more}}.items():
            there = file[path][()]
            assert there.dtype == value.dtype and there.shape == value.shape, path
            if path in bounds:
                assert np.abs(there.astype("f8") - value).max() <= bounds[path], path
                found |= {{path}} if (there != value).any() else set()
            else:
                assert there.tobytes() == value.tobytes(), path
        assert file["again"] == file["fields/heat"] and file["fields/chunked"].chunks == (30, 40)
        assert file["fields/heat"].id.get_offset() and not file["fields/heat"].chunks
    print("read", step, flush=True)
assert found == set(bounds), found
"""
BIG = """#!{python}
import sys
from data import *
for step in range(int(sys.argv[1])):
    with h5py.File(f"f{{step}}.h5", "w") as file:
        file["noise"] = np.random.default_rng(step).standard_normal(500_000)
"""
BIG_READ = """#!{python}
from data import *
from wilkins.transport import steps
for step, name in enumerate(steps.names()):
    with h5py.File(name) as file:
        assert np.abs(file["noise"][:] - np.random.default_rng(step).standard_normal(500_000)).max() <= 1e-13
"""
FAILS = """
import sys
if any(word.endswith("relay.py") for word in sys.orig_argv) and "send" in sys.orig_argv:
    from wilkins.compression.crossing import Packer
    pack, packed = Packer.pack, []
    def fails(self, *args):
        packed.append(1)
        if len(packed) == {step}:
            raise MemoryError("no memory to pack a step")
        return pack(self, *args)
    Packer.pack = fails
"""
"""``sitecustomize.py``: a relay's sender fails where it is to pack that step."""
RULES = '[{dset: "/fields/*", absolute: 1e-3}, {dset: "*"}]'
WORKFLOW = """
tasks:
  - {{func: ./write.py, args: [{steps}], outports: [{{filename: "f*.h5", compress: {rules}{more}}}]}}
  - {{func: ./read.py, name: far, args: [lossy], nprocs: {ranks}, inports: [{{filename: "f*.h5"{freq}}}]}}
"""
NEAR = """
  - {func: ./read.py, name: near, args: [exact], placement: {with: write}, inports: [{filename: "f*.h5"}]}
"""


def programs(folder: Path) -> None:
    (folder / "data.py").write_text(DATA)
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(folder / name, text.format(python=sys.executable))


def run(folder: Path, workflow: str, hosts: str = "a:2,b:2", environment: dict[str, str] | None = None) -> Finished:
    (folder / "workflow.yaml").write_text(workflow)
    words = [*WILKINS, "run", "--hosts", hosts, "workflow.yaml"]
    return run_tree(words, 90, folder, {"WILKINS_RSH": str(pseudo.HERE), **(environment or {})})


def text_of(steps: int = 6, rules: str = RULES, ranks: int = 1, freq: str = "", more: str = "") -> str:
    return WORKFLOW.format(steps=steps, rules=rules, ranks=ranks, freq=freq, more=more)


def crossing(folder: Path) -> dict[str, Any]:
    """The one by which steps crossed."""
    all_of_run = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())["crossings"]
    (found,) = [one for one in all_of_run if one["steps"]]
    return dict(found)


@pytest.mark.usual("faster")
@pytest.mark.parametrize("when", ["faster", "always"])
def test_steps_cross_as_they_are_where_that_is_faster(tmp_path: Path, when: str) -> None:
    """As between hosts that are one machine, of noise that gets little smaller. The first one is compressed, since
    nothing is known of the line."""
    programs(tmp_path)
    write_program(tmp_path / "write.py", BIG.format(python=sys.executable))
    write_program(tmp_path / "read.py", BIG_READ.format(python=sys.executable))
    done = run(tmp_path, text_of(12, '[{dset: "*", absolute: 1e-13}]', more=f", compress_when: {when}"), "a:1,b:1")
    assert done.code == 0, done.err
    found = crossing(tmp_path)
    assert found["steps"] == 12
    if when == "always":
        assert found["compressed_steps"] == 12
    else:
        assert 1 <= found["compressed_steps"] < 12
        assert f"{found['compressed_steps']} of 12 steps crossed compressed: " in done.err


def test_readers_on_another_host_get_values_within_the_bounds(tmp_path: Path) -> None:
    """Those on the same host get all bits."""
    programs(tmp_path)
    done = run(tmp_path, text_of() + NEAR, "a:2,b:1")
    assert done.code == 0, done.err
    assert done.out.count("| read 5") == 2
    found = crossing(tmp_path)
    assert found["steps"] == 6
    assert 0 < found["largest_error"] <= 1e-3
    assert 0.5 < found["part_of_bound"] < 1
    assert found["compressed"] > 4 * found["compressed_to"] > 0
    assert found["moved"] == found["bytes"] - found["compressed"] + found["compressed_to"]
    assert found["compression_s"] > 0
    assert "times smaller; largest error" in done.err
    assert "no dataset that can be compressed" not in done.err
    assert " % of its bound; " in done.err
    records = records_of(tmp_path / "wilkins-runs/latest")
    assert page_of(replace(records, summary={}), live=True).count("6 steps read") == 2, "on both edges of the graph"
    page = page_of(records)
    row = page.partition("Over the network")[2].partition("</tbody>")[0]
    cells = re.findall("<td[^>]*>([^<]*)", row)
    assert cells[5:7] == [size(found["bytes"]), size(found["moved"])]
    bound = percent_of_bound(found["part_of_bound"])
    assert cells[8:] == [f"{found['largest_error']:.3g}", bound, duration(found["compression_s"])]
    script = re.search(r'id="data">([^<]*)<', page)
    assert script is not None
    shown = json.loads(gzip.decompress(base64.b64decode(script[1])))
    name = [task["name"] for task in shown["tasks"]]
    waits = [(name[writer], name[reader]) for writer, _, reader in shown["waits"]]
    assert ("write", "far") not in waits, "whose steps wait at the relay's ends"
    assert {("write", "near"), ("write", "write-to-b-0"), ("write-from-a-0", "far")} <= set(waits)
    words = ["simulate", "workflow.yaml", "--from", "latest", "--hosts", "c:2,d:1", "--bandwidth", "1kB/s"]
    predicted = run_tree([*WILKINS, *words, "--set", "write.model={step: 0.1, steps: 6}"], 30, tmp_path)
    assert predicted.code == 0, predicted.err
    assert "write -> far: 'compress' of 'f*.h5' pays, since this network has 1 kB/s: 1 core packs" in predicted.out
    assert f"steps get {found['bytes'] / found['moved']:.3g} times smaller (measured in latest)" in predicted.out


def test_without_a_bound_every_bit_arrives(tmp_path: Path) -> None:
    programs(tmp_path)
    done = run(tmp_path, text_of(rules='[{dset: "*"}]').replace("lossy", "exact"), "a:1,b:1")
    assert done.code == 0, done.err
    found = crossing(tmp_path)
    assert found["largest_error"] == 0
    assert found["compressed"] > found["compressed_to"] > 0


def test_on_one_host_nothing_is_compressed(tmp_path: Path) -> None:
    programs(tmp_path)
    done = run(tmp_path, text_of().replace("lossy", "exact"), "a:2")
    assert done.code == 0, done.err


@pytest.mark.usual("on two hosts")
@pytest.mark.parametrize(("ranks", "hosts"), [(2, "a:1,b:2"), (2, "a:1,b:1,c:1")], ids=["two ranks", "on two hosts"])
def test_ranks_read_compressed_steps(tmp_path: Path, ranks: int, hosts: str) -> None:
    programs(tmp_path)
    reader = (tmp_path / "read.py").read_text()
    write_program(
        tmp_path / "read.py", reader.replace("from data import *", "from data import *\nfrom mpi4py import MPI")
    )
    done = run(tmp_path, text_of(ranks=ranks), hosts)
    assert done.code == 0, done.err
    assert done.out.count("| read 5") == ranks


def test_the_latest_step_is_one_of_those_written(tmp_path: Path) -> None:
    programs(tmp_path)
    text = text_of(steps=20, freq=", io_freq: latest").replace("args: [20]", "args: [20, 0.02]")
    done = run(tmp_path, text, "a:1,b:1")
    assert done.code == 0, done.err
    assert "| read 19" in done.out


@pytest.mark.parametrize("mode", ["both", "file"])
def test_files_on_disk_have_every_bit(tmp_path: Path, mode: str) -> None:
    programs(tmp_path)
    done = run(tmp_path, text_of(more=f", mode: {mode}"), "a:1,b:1")
    assert done.code == 0, done.err
    check = "from data import *\nfor step in range(6):\n with h5py.File(f'f{step}.h5') as file:\n  for path, value in "
    check += "data(step).items():\n   assert file[path][()].tobytes() == value.tobytes(), path"
    done = run_tree([sys.executable, "-c", check], 60, tmp_path)
    assert done.code == 0, done.err


@pytest.mark.needs("hooks")
def test_damaged_bytes_are_asked_for_again(tmp_path: Path) -> None:
    programs(tmp_path)
    done = run(tmp_path, text_of(steps=12), "a:1,b:1", faults("seed=1,flip=0.2"))
    assert done.code == 0, done.err
    assert "were damaged" in done.err
    assert "| read 11" in done.out


def test_steps_that_are_no_hdf5_cross_as_they_are(tmp_path: Path) -> None:
    write_program(tmp_path / "write.py", f"#!{sys.executable}\nopen('f0.h5', 'w').write('text ' * 100_000)\n")
    write_program(tmp_path / "read.py", f"#!{sys.executable}\nassert open('f0.h5').read() == 'text ' * 100_000\n")
    done = run(tmp_path, text_of(), "a:1,b:1")
    assert done.code == 0, done.err
    assert crossing(tmp_path)["compressed"] == 0
    (log,) = (tmp_path / "wilkins-runs/latest/hosts/a").glob("*-to-*.log")
    assert log.read_text().count("a step crosses as it is, not compressed: HDF5 cannot read it") == 1


def test_entries_that_fit_nothing_are_named(tmp_path: Path) -> None:
    programs(tmp_path)
    rules = '[{dset: "/feilds/*", absolute: 1e-3}, {dset: "/fields/gzip"}, {dset: "*"}, {dset: /ids}]'
    done = run(tmp_path, text_of(rules=rules).replace("lossy", "exact"), "a:1,b:1")
    assert done.code == 0, done.err
    said = [line for line in " ".join(done.err.split()).split("wilkins: ") if "no dataset that can" in line]
    assert [line.partition(" fits ")[2].partition(",")[0] for line in said] == [
        repr(one) for one in ("/feilds/*", "/fields/gzip", "/ids")
    ]
    assert all(line.startswith("write: 'compress' of 'f*.h5': no dataset") for line in said)


@pytest.mark.parametrize("half", ["send", "receive"])
def test_a_killed_relay_ends_the_run_and_no_reader_gets_half_a_step(tmp_path: Path, half: str) -> None:
    programs(tmp_path)
    kill = f"""
import os, signal, time
folder = os.environ["WILKINS_RUN"]
until = time.monotonic() + 20
while time.monotonic() < until:
    for entry in os.listdir("/proc"):
        try:
            words = open(f"/proc/{{entry}}/cmdline").read().split(chr(0))
            here = os.readlink(f"/proc/{{entry}}/cwd") == os.getcwd()
        except OSError:
            continue
        if here and "{half}" in words and any(word.endswith("relay.py") for word in words):
            os.kill(int(entry), signal.SIGKILL)
            raise SystemExit
"""
    writer = (tmp_path / "write.py").read_text()
    (tmp_path / "kill.py").write_text(kill)
    write_program(tmp_path / "write.py", writer + "    if step == 5:\n        import kill\n")
    done = run(tmp_path, text_of(steps=40), "a:1,b:1")
    assert done.code == 1, done.err
    assert "Assertion" not in "".join(file.read_text() for file in (tmp_path / "wilkins-runs/latest").glob("*.log"))
    assert "KILL" in done.err


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("{dset: x, absolute: 0}", "must be above 0; leave it out"),
        ("{dset: x, relative: 1}", "must be above 0 and below 1"),
        ("{dset: x, bound: 1}", "unknown key"),
    ],
)
def test_rules_that_are_wrong(tmp_path: Path, rule: str, why: str) -> None:
    programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(text_of(rules=f"[{rule}]"))
    done = run_tree([*WILKINS, "check", "workflow.yaml"], 30, tmp_path)
    assert done.code == 2
    assert why in " ".join(done.err.split()), done.err
    assert "workflow.yaml:3:" in done.err


def test_a_plan_says_what_is_compressed(tmp_path: Path) -> None:
    programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(text_of())
    done = run_tree([*WILKINS, "plan", "--hosts", "a:1,b:1", "workflow.yaml"], 30, tmp_path)
    assert "over the network: a -> b, compressed" in done.out


@pytest.mark.needs("mpirun.openmpi", "h5pcc.openmpi")
@pytest.mark.usual("written on two hosts")
@pytest.mark.parametrize("hosts", ["a:3,b:2", "a:2,b:1,c:2"], ids=["written on one host", "written on two hosts"])
def test_parallel_c_programs_read_compressed_steps(tmp_path: Path, hosts: str) -> None:
    """Ranks read columns of what others wrote as rows, with chunks over their borders, and check each element. What was
    written on two hosts comes together before it is compressed."""
    write, read = (build(name, *parallel_c("openmpi", static=False)) for name in ("par_write.c", "par_read.c"))
    workflow = f"""
tasks:
  - {{func: {write}, args: ["p%04d.h5", 3, 1], nprocs: 3, outports: [{{filename: "p*.h5", compress: [{{dset: "*"}}]}}]}}
  - {{func: {read}, args: ["p%04d.h5", 3], nprocs: 2, inports: [{{filename: "p*.h5"}}]}}
"""
    done = run(tmp_path, workflow, hosts, {"OMPI_MCA_btl": "tcp,self"})
    assert done.code == 0, done.err
    assert "read 3 steps" in done.out
    found = crossing(tmp_path)
    assert found["compressed"] > found["compressed_to"] > 0


@pytest.mark.usual("3")
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_sender_that_fails_breaks_off_the_step_that_it_sends(tmp_path: Path, step: int) -> None:
    """No reader sees a part of it, and the half that only saw the line end is not named."""
    programs(tmp_path)
    write_program(tmp_path / "write.py", BIG.format(python=sys.executable))
    write_program(tmp_path / "read.py", BIG_READ.format(python=sys.executable) + "        print('whole', step)\n")
    (tmp_path / "sitecustomize.py").write_text(FAILS.format(step=step))
    done = run(tmp_path, text_of(5, '[{dset: "*", absolute: 1e-13}]'), "a:1,b:1", {"PYTHONPATH": str(tmp_path)})
    assert done.code == 1, done.err
    assert "wilkins: a: the relay that brings the steps of write for far" in done.err
    log = tmp_path / "wilkins-runs/latest/hosts/a/write-to-b-0.log"
    assert str(log.resolve()) in done.err
    assert "no memory to pack a step" in log.read_text()
    assert done.out.count("whole") < step
    assert "AssertionError" not in done.err + done.out
