"""Steps that many hosts read are handed on from host to host, with all that holds of steps that come by themselves."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hosts import pseudo
from hosts.rig import NEEDS, Rig
from hosts.test_partly_read import MAKES, READS_SOME
from hosts.test_resumed_on_hosts import TOLD

from support.hooks import faults
from support.resuming import SIMULATION, check, on, seeds
from support.running import WILKINS, processes_in, run_tree, started_tree, write_program
from wilkins.flow.policy import FlowPolicy
from wilkins.flow.relays import Way, forwarders

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("hosts")]

HOSTS = "abcdefghij"
PAIR = """
tasks:
  - {func: ./write.py, args: ["f{}.h5", %(steps)d, %(size)d, %(pause)s], outports: [{filename: "f*.h5"%(out)s}]}
  - {func: ./read.py, taskCount: %(readers)d, args: [%(busy)s], inports: [{filename: "f*.h5"}]}
"""
EVERY = FlowPolicy(queue=2)


def ways(count: int, **others: Any) -> list[Way]:
    return [Way(0, 0, 1 + place, (EVERY,), **others) for place in range(count)]


@pytest.mark.parametrize("count", [1, 3, 4, 8, 100])
def test_each_host_sends_to_two_others_at_most(count: int) -> None:
    found = forwarders(ways(count))
    if count <= 3:
        assert found == [None] * count
    else:
        assert found.count(None) == 2
        assert all(found.count(place) <= 2 for place in range(count))
        assert all(by is None or by < place for place, by in enumerate(found))


def test_only_readers_of_the_same_steps_are_in_a_tree() -> None:
    latest = FlowPolicy(queue=1, when_full="drop-oldest")
    assert forwarders(ways(8, may_fork=False)) == [None] * 8
    assert forwarders([Way(0, 0, 1 + place, (latest,)) for place in range(8)]) == [None] * 8
    mixed = [Way(0, 0, 1 + place, (EVERY, FlowPolicy(queue=2, every=2))) for place in range(8)]
    assert forwarders(mixed) == [None] * 8
    two_ports = [*ways(8), Way(1, 0, 3, (EVERY,))]
    found = forwarders(two_ports)
    assert found[2] is None
    assert 2 not in found, "the host gets steps of another port, too, and their order has to be known"
    assert sum(by is not None for by in found) == 5


def run(folder: Path, readers: int, **values: Any) -> list[dict[str, Any]]:
    """The crossings of a run whose readers each have a host of their own."""
    pseudo.programs(folder)
    text = PAIR % {"readers": readers, "steps": 12, "size": 80_000, "pause": 0, "busy": 0, "out": "", **values}
    hosts = ",".join(f"{name}:1" for name in HOSTS[: readers + 1])
    crossings: list[dict[str, Any]] = pseudo.run(folder, text, hosts)["crossings"]
    return crossings


def ways_of(crossings: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["writes"], one["reads"]) for one in crossings}


TREE_OF_FIVE = {("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f")}


def test_steps_are_handed_on(tmp_path: Path) -> None:
    crossings = run(tmp_path, 5)
    assert ways_of(crossings) == TREE_OF_FIVE
    for one in crossings:
        assert one["steps"] == 12
        assert one["messages"] == 2 * 12 + 3


READS_IN_PARTS = """#!{python}
import h5py, numpy
from wilkins.transport import steps
for name in steps.names():
    with h5py.File(name) as file:
        data = file["x"]
        print("opened", data[5], flush=True)
        assert numpy.array_equal(data, numpy.arange(len(data)))
        print("read", flush=True)
"""


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", "tc", *NEEDS)
def test_a_host_that_hands_steps_on_has_them_while_they_come(tmp_path: Path) -> None:
    """With the producer's host stopped amid a step, a reader has it open, and waits for the rest.
    (`test_tree_rate.py` measures how soon hosts further on have all of it.)"""
    pseudo.programs(tmp_path)
    write_program(tmp_path / "read.py", READS_IN_PARTS.format(python=sys.executable))
    text = PAIR % {"readers": 5, "steps": 10, "size": 64 << 20, "pause": 0, "busy": 0, "out": ""}
    (tmp_path / "workflow.yaml").write_text(text)

    def said(word: str) -> int:
        """By the reader on node2, which hands steps on to node5."""
        return sum(log.read_text().count(word) for log in (tmp_path / "wilkins-runs").glob("latest/read*1*.log"))

    with Rig(6) as rig:
        for host in rig.names:
            rig.slow(host, 200_000_000)
        hosts = ",".join(f"{name}:1" for name in rig.names)
        words = rig.on("node0", *WILKINS, "run", "--hosts", hosts, "workflow.yaml", folder=tmp_path)
        with started_tree(words, tmp_path) as tree:
            while said("opened") < 5 and tree.process.poll() is None:
                time.sleep(0.02)
            waits = False
            while not waits and said("opened") < 10 and tree.process.poll() is None:
                rig.signal("node0", "transport/relay", signal.SIGSTOP)
                time.sleep(4)  # what the line holds arrives
                waits = said("opened") == said("read") + 1
                rig.signal("node0", "transport/relay", signal.SIGCONT)
                time.sleep(0.5)
            done = tree.wait(100)
        assert waits
        assert done.code == 0, done.err
        assert said("read") == 10


@pytest.mark.nightly
def test_what_is_read_of_a_step_crosses_and_no_more(tmp_path: Path) -> None:
    """Of large steps, of which each reader reads a quarter; some cross whole where readers are late for others."""
    crossings = run(tmp_path, 5, size=4_000_000, pause=0.1, busy="0.01, 4", steps=20)
    assert ways_of(crossings) == TREE_OF_FIVE
    parts = [one["moved"] / one["bytes"] for one in crossings]
    print(", ".join(f"{part:.2f}" for part in parts))
    assert all(part >= 0.2 for part in parts)
    assert sum(parts) / len(parts) < 0.5


@pytest.mark.nightly
@pytest.mark.needs("hooks")
@pytest.mark.parametrize("what", ["", "seed=1,flip=0.1"])
def test_what_readers_draw_at_random_is_right(tmp_path: Path, what: str) -> None:
    """Also where pieces are damaged on their way."""
    for name, text in (("makes.py", MAKES), ("reads.py", READS_SOME)):
        write_program(tmp_path / name, text.format(python=sys.executable))
    (tmp_path / "workflow.yaml").write_text("""
tasks:
  - {func: ./makes.py, outports: [{filename: "f*.h5"}]}
  - {func: ./reads.py, taskCount: 6, args: ["{instance}"], inports: [{filename: "f*.h5"}]}
""")
    words = [*WILKINS, "run", "--hosts", "a:1,b:1,c:1,d:1,e:1,f:1,g:1", "workflow.yaml"]
    done = run_tree(words, 100, tmp_path, {"WILKINS_RSH": str(pseudo.HERE), **(faults(what) if what else {})})
    assert done.code == 0, done.err
    assert done.out.count("all right") == 6


@pytest.mark.needs("hooks")
@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("seed=1,flip=0.05", []),
        pytest.param("seed=2,delay=2ms", [], marks=pytest.mark.nightly),
        pytest.param("seed=3,flip=0.05", ["--encrypt"], marks=pytest.mark.nightly),
        pytest.param("seed=4,flip=0.05", ["--fabric", "ucx"], marks=[pytest.mark.nightly, pytest.mark.needs("ucx")]),
    ],
    ids=["damaged", "late", "damaged, encrypted", "damaged, ucx"],
)
def test_what_goes_on_while_it_comes_is_right(tmp_path: Path, what: str, options: list[str]) -> None:
    """Also where pieces are damaged on their way, which come once more."""
    pseudo.programs(tmp_path)
    write_program(tmp_path / "read.py", READS_IN_PARTS.format(python=sys.executable))
    text = PAIR % {"readers": 5, "steps": 20, "size": 3_000_000, "pause": 0, "busy": 0, "out": ""}
    (tmp_path / "workflow.yaml").write_text(text)
    words = [*WILKINS, "run", *options, "--hosts", "a:1,b:1,c:1,d:1,e:1,f:1", "workflow.yaml"]
    done = run_tree(words, 100, tmp_path, {"WILKINS_RSH": str(pseudo.HERE), **faults(what)})
    assert done.code == 0, done.err
    for log in (tmp_path / "wilkins-runs/latest").glob("read*.log"):
        assert log.read_text().count("read") == 20
    summary = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())
    assert ways_of(summary["crossings"]) == TREE_OF_FIVE


@pytest.mark.nightly
def test_memory_of_the_producer_is_given_back_by_all(tmp_path: Path) -> None:
    """It has room for five steps, and each host might keep some, since readers may open their names again."""
    crossings = run(tmp_path, 6, size=4_000_000, busy="0, 4", steps=40, out=", memory: 21MB")
    assert {one["steps"] for one in crossings} == {40}


@pytest.mark.nightly
def test_a_reader_that_ends_early_leaves_its_host_to_hand_steps_on(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    write_program(tmp_path / "once.py", f"#!{sys.executable}\nimport h5py\nfor n in (0, 1): h5py.File(f'f{{n}}.h5')\n")
    (tmp_path / "workflow.yaml").write_text("""
tasks:
  - {func: ./write.py, args: ["f{}.h5", 30, 80000, 0.01], outports: [{filename: "f*.h5"}]}
  - {func: ./once.py, name: first, inports: [{filename: "f*.h5"}]}
  - {func: ./read.py, taskCount: 4, args: [0], inports: [{filename: "f*.h5"}]}
""")
    summary = pseudo.run(tmp_path, (tmp_path / "workflow.yaml").read_text(), "a:1,b:1,c:1,d:1,e:1,f:1")
    assert ways_of(summary["crossings"]) == TREE_OF_FIVE
    assert {one["steps"] for one in summary["crossings"]} == {30}


@pytest.mark.nightly
def test_the_slowest_reader_holds_the_producer(tmp_path: Path) -> None:
    """That on the last host: there are the queues of three hosts, and a step between each two, before it."""
    write_program(
        tmp_path / "read.py",
        pseudo.READ.format(python=sys.executable).replace("time.sleep(pause)", "time.sleep(pause * (pause == 4) / 40)"),
    )
    write_program(
        tmp_path / "write.py", pseudo.WRITE.format(python=sys.executable) + '    print("made", time.monotonic())\n'
    )
    text = """
tasks:
  - {func: ./write.py, args: ["f{}.h5", 60, 8000, 0], outports: [{filename: "f*.h5"}]}
  - {func: ./read.py, taskCount: 5, args: ["{instance}"], inports: [{filename: "f*.h5", flow: {queue: 2}}]}
"""
    pseudo.run(tmp_path, text, "a:1,b:1,c:1,d:1,e:1,f:1")

    def times(task: str, word: str) -> list[float]:
        lines = (tmp_path / f"wilkins-runs/latest/{task}.log").read_text().splitlines()
        return [float(line.split()[1]) for line in lines if line.startswith(word)]

    (slow,) = (tmp_path / "wilkins-runs/latest").glob("read*4*.log")
    made, opened = times("write", "made"), times(slow.stem, "opened")
    assert len(made) == len(opened) == 60
    ahead = max(place + 1 - sum(other <= at for other in opened) for place, at in enumerate(made))
    assert ahead <= 3 * 2 + 2 + 1


def handing_on(folder: Path) -> int | None:
    """The last relay of the first host with readers, by which it hands steps on."""
    for pid in processes_in(folder):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"send" in words and b"WILKINS_TASK=3" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
    return None


@pytest.mark.nightly
@pytest.mark.parametrize("size", [80_000, 24_000_000], ids=["handed on whole", "handed on while it comes"])
def test_a_relay_that_is_killed_ends_the_run(tmp_path: Path, size: int) -> None:
    """One that hands steps on."""
    pseudo.programs(tmp_path)
    text = PAIR % {"readers": 5, "steps": 500, "size": size, "pause": 0.05, "busy": 0, "out": ""}
    (tmp_path / "workflow.yaml").write_text(text)
    words = [*WILKINS, "run", "--hosts", "a:1,b:1,c:1,d:1,e:1,f:1", "workflow.yaml"]
    with started_tree(words, tmp_path, {"WILKINS_RSH": str(pseudo.HERE)}) as tree:
        while (pid := handing_on(tmp_path)) is None and tree.process.poll() is None:
            time.sleep(0.05)
        time.sleep(1)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        done = tree.wait(40)
    assert done.code == 1
    assert re.search(r"relay that brings the steps of write for read.* from b to e, .*killed by SIGKILL", done.err)


WRITER = """
tasks:
  - func: simulation.py
    args: ["24", "0.05"]
    outports: [{filename: "u*.h5"}]
    restart: {files: state.h5}
"""
READER = """
  - {func: r%(one)d.py, inports: [{filename: "u*.h5"}], restart: points}
"""


@pytest.mark.nightly
@seeds
def test_a_run_that_was_killed_is_gone_on_with(tmp_path: Path, seed: int) -> None:
    """The trace of all hosts, in which handed-on steps have their producer's numbers, tells what is left."""
    told = "consumed={'u*.h5': step.sequence + 1}"
    programs = {f"r{one}": TOLD.format(pattern="u*.h5", every=one + 2, counts=told, name=f"r{one}") for one in range(5)}
    check(
        tmp_path,
        seed,
        60,
        WRITER + "".join(READER % {"one": one} for one in range(5)),
        victims=("everything", "the launcher", "simulation.py", "r4.py"),
        places=on("a:1,b:1,c:1,d:1,e:1,f:1", "a:2,b:1,c:1,d:1,e:1"),
        simulation=SIMULATION,
        **programs,
    )
