"""Workflows whose tasks run on several hosts: the same steps, ends and messages; and hosts that fail."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig

from support.running import WILKINS, Finished, Tree, run_tree, started_tree, wait_for, write_program

pytestmark = [
    pytest.mark.needs("root", "namespaces", *NEEDS),
    pytest.mark.timeout(120),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WRITE = """#!{python}
import sys, time
import h5py
for step in range(int(sys.argv[2])):
    with h5py.File(sys.argv[1].format(step), "w") as file:
        file["x"] = [step] * 1000
    time.sleep(float(sys.argv[3]))
print("wrote all", flush=True)
"""
READ = """#!{python}
import sys
import h5py
step = 0
while True:
    try:
        file = h5py.File(sys.argv[1].format(step), "r")
    except FileNotFoundError:
        break
    with file:
        print("got", int(file["x"][0]), flush=True)
    step += 1
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(3) as one:
        yield one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("write.py", WRITE), ("read.py", READ)):
        write_program(tmp_path / name, text.format(python=sys.executable))
    return tmp_path


def workflow(folder: Path, text: str) -> None:
    (folder / "workflow.yaml").write_text(text)


def started(
    rig: Rig, folder: Path, *options: str, hosts: str = "node0:1,node1:1,node2:4"
) -> AbstractContextManager[Tree]:
    """A run that node0 directs."""
    words = rig.on("node0", *WILKINS, "run", *options, "--hosts", hosts, "workflow.yaml", folder=folder)
    return started_tree(words, folder)


def run(rig: Rig, folder: Path, *options: str, hosts: str = "node0:1,node1:1,node2:4") -> Finished:
    words = rig.on("node0", *WILKINS, "run", *options, "--hosts", hosts, "workflow.yaml", folder=folder)
    return run_tree(words, 60, folder)


def nothing_is_left(rig: Rig) -> None:
    for host in rig.names:
        wait_for(partial(_is_clean, rig, host), 30, f"the end of all on {host}")


def _is_clean(rig: Rig, host: str) -> bool:
    return not rig.processes(host, "write.py|read.py|relay.py|keeper") and not rig.shared_memory(host)


PAIR = """
tasks:
  - {func: ./write.py, name: sim, args: ["a{}.h5", 20, 0.01], outports: [{filename: "a*.h5"}]}
  - {func: ./read.py, name: ana, args: ["a{}.h5"], inports: [{filename: "a*.h5"}]}
"""
SLOW = PAIR.replace("20, 0.01", "2000, 0.05")


def test_the_quickstart_gives_the_same_on_two_hosts(rig: Rig, tmp_path: Path) -> None:
    results = []
    for name in ("one", "two"):
        shutil.copytree(EXAMPLES / "quickstart", tmp_path / name)
        hosts = "node0:2" if name == "one" else "node0:1,node1:1"
        finished = run(rig, tmp_path / name, hosts=hosts)
        assert finished.code == 0, finished.err
        results.append(tmp_path / name / "cuts.csv")
    one, two = results
    assert filecmp.cmp(one, two, shallow=False)
    nothing_is_left(rig)


def test_three_hosts_in_a_row_and_a_reader_beside(rig: Rig, folder: Path) -> None:
    """Every reader gets every step, whether it crosses to one host or to two."""
    workflow(
        folder,
        PAIR
        + """
  - {func: ./read.py, name: other, args: ["a{}.h5"], inports: [{filename: "a*.h5"}]}
  - {func: ./read.py, name: near, args: ["a{}.h5"], inports: [{filename: "a*.h5"}], placement: {with: other}}
""",
    )
    finished = run(rig, folder)
    assert finished.code == 0, finished.err
    for name in ("ana", "other", "near"):
        log = folder / f"wilkins-runs/latest/{name}.log"
        assert log.read_text().splitlines() == [f"got {step}" for step in range(20)]
    nothing_is_left(rig)


def test_plan_shows_hosts_and_ways(folder: Path) -> None:
    workflow(folder, PAIR)
    finished = run_tree([*WILKINS, "plan", "--hosts", "node0:1,node1:1", "workflow.yaml"], 30, folder)
    assert "over the network: node0 -> node1" in finished.out
    finished = run_tree([*WILKINS, "plan", "--hosts", "node0:2,node1:1", "workflow.yaml"], 30, folder)
    assert "through shared memory" in finished.out


def test_a_program_that_fails_ends_the_run_on_all_hosts(rig: Rig, folder: Path) -> None:
    workflow(folder, SLOW)
    write_program(
        folder / "read.py", READ.format(python=sys.executable).replace("step += 1", "step += 1; 1 / (step - 3)")
    )
    finished = run(rig, folder, "--quiet")
    assert finished.code == 1
    assert "ana: failed: exit code 1" in finished.err
    assert "wilkins:     ZeroDivisionError: " in finished.err, "the terminal shows nothing else of it"
    assert "got" not in finished.out
    nothing_is_left(rig)


def test_who_waits_for_each_other_over_hosts_is_told(rig: Rig, folder: Path) -> None:
    workflow(
        folder,
        """
tasks:
  - {func: ./read.py, name: a, args: ["x{}.h5"], inports: [{filename: "x*.h5"}], outports: [{filename: "y*.h5"}]}
  - {func: ./read.py, name: b, args: ["y{}.h5"], inports: [{filename: "y*.h5"}], outports: [{filename: "x*.h5"}]}
""",
    )
    finished = run(rig, folder)
    assert finished.code == 4, finished.err
    assert "a and b wait for each other's first step" in finished.err
    nothing_is_left(rig)


@pytest.mark.usual("15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_hosts(rig: Rig, folder: Path, number: int) -> None:
    workflow(folder, SLOW)
    with started(rig, folder) as tree:
        wait_for(lambda: "got 5" in tree.told(), 30, "some steps")
        rig.signal("node0", "wilkins run", number)
        finished = tree.wait(40)
    assert finished.code == 128 + number
    nothing_is_left(rig)


@pytest.mark.usual("node1")
@pytest.mark.parametrize("host", ["node0", "node1"])
def test_a_killed_keeper_ends_the_run(rig: Rig, folder: Path, host: str) -> None:
    """Killed together with the process that would clean up after it."""
    workflow(folder, SLOW)
    with started(rig, folder) as tree:
        wait_for(lambda: "got 5" in tree.told(), 30, "some steps")
        rig.signal(host, "^[^ ]*python[^ ]* -m wilkins.launch.hosts.keeper", signal.SIGKILL)
        finished = tree.wait(60)
    assert finished.code == 1
    task = "sim" if host == "node0" else "ana"
    assert f"the host {host} is lost, with {task}" in finished.err
    nothing_is_left(rig)


def test_a_killed_head_ends_the_run(rig: Rig, folder: Path) -> None:
    workflow(folder, SLOW)
    with started(rig, folder) as tree:
        wait_for(lambda: "got 5" in tree.told(), 30, "some steps")
        rig.signal("node0", "wilkins run", signal.SIGKILL)
        tree.wait(40)
        nothing_is_left(rig)


@pytest.mark.nightly
def test_a_host_that_is_cut_off_ends_its_programs_too(folder: Path) -> None:
    workflow(folder, SLOW)
    with Rig(2) as rig, started(rig, folder, hosts="node0:1,node1:1") as tree:
        wait_for(lambda: "got 40" in tree.told(), 30, "signs of life that tell of steps")
        rig.cut("node1")
        finished = tree.wait(60)
        assert finished.code == 1
        assert re.search(
            r"the host node1 is lost, with ana \(after [0-9]+ steps\): nothing was heard of it", finished.said
        )
        nothing_is_left(rig)
        said = (folder / "wilkins-runs/latest/hosts/node1/layer.log").read_text()
        assert re.search(r"node1: error: nothing was heard of the head for 15 s; it ends ana after [0-9]+ steps", said)


@pytest.mark.nightly
@pytest.mark.parametrize("through", ["", "ssh"])
def test_hosts_whose_own_names_are_those_of_the_loopback_interface(folder: Path, through: str) -> None:
    """As Debian has it; reached by ssh, or by a command of the user's."""
    workflow(folder, PAIR)
    with Rig(2) as rig:
        for place, name in enumerate(rig.names):
            others = (rig.state / "hosts").read_text().replace(f"10.77.0.{place + 1} ", "127.0.1.1 ")
            (rig.state / f"hosts-{name}").write_text(others)
            assert not run_tree(
                rig.on(name, "mount", "--bind", rig.state / f"hosts-{name}", "/etc/hosts"), 10, folder
            ).code
        words = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml"]
        env = {"WILKINS_RSH": through} if through else {}
        finished = run_tree(rig.on("node0", *words, folder=folder), 60, folder, env)
        assert finished.code == 0, finished.err
        assert finished.out.count("got") == 20
        nothing_is_left(rig)


@pytest.mark.nightly
@pytest.mark.parametrize("listens", ["at its name's address", "at all addresses"])
def test_hosts_that_have_no_address_but_of_ipv6(folder: Path, listens: str) -> None:
    """At all: where a host's own name is that of the loopback interface."""
    workflow(folder, PAIR)
    with Rig(2, only_ipv6=True) as rig:
        if listens == "at all addresses":
            for place, name in enumerate(rig.names):
                others = (rig.state / "hosts").read_text().replace(f"fd77::{place + 1} ", "::1 ")
                (rig.state / f"hosts-{name}").write_text(others)
                mount = rig.on(name, "mount", "--bind", rig.state / f"hosts-{name}", "/etc/hosts")
                assert not run_tree(mount, 10, folder).code
        words = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "workflow.yaml"]
        finished = run_tree(rig.on("node0", *words, folder=folder), 60, folder)
        assert finished.code == 0, finished.err
        assert finished.out.count("got") == 20
        nothing_is_left(rig)


@pytest.mark.nightly
def test_hosts_between_which_packets_are_dropped_are_named(folder: Path) -> None:
    """As by a firewall: before programs start, not after the minutes for which the system would try."""
    workflow(folder, PAIR)
    with Rig(3) as rig:
        drop = ("ip", "neigh", "replace", "10.77.0.3", "lladdr", "02:00:00:00:00:99", "dev", "e0", "nud", "permanent")
        assert not run_tree(rig.on("node1", *drop), 10, folder).code
        finished = run(rig, folder, hosts="node1:1,node2:1")
        assert finished.code == 3, finished.err
        assert re.search(
            r"node1: this host cannot connect to node2 at 10\.77\.0\.3:[0-9]+: no answer within 10 s; if a firewall",
            finished.said,
        )
        assert "got" not in finished.out
        nothing_is_left(rig)


def test_a_host_that_cannot_be_reached_is_named(rig: Rig, folder: Path) -> None:
    workflow(folder, PAIR)
    finished = run(rig, folder, hosts="node0:1,node9:1")
    assert finished.code == 1
    assert "the host node9 is lost, with ana" in finished.err
    nothing_is_left(rig)


@pytest.mark.nightly
def test_nothing_of_it_needs_a_name_of_this_machine(rig: Rig, folder: Path) -> None:
    """The head may run on a host that has no task."""
    workflow(folder, PAIR)
    finished = run(rig, folder, hosts="node1:1,node2:1")
    assert finished.code == 0, finished.err
    assert os.listdir(folder / "wilkins-runs/latest/hosts")  # noqa: PTH208
    nothing_is_left(rig)


@pytest.mark.nightly
def test_a_reader_that_waits_for_what_does_not_come_while_another_port_is_full(tmp_path: Path) -> None:
    """All steps of the one port have come, but not those of the other: the relay of the first one holds nothing up."""
    writes = "import h5py\nfor name in ('a0', *(f'b{k}' for k in range(9))): h5py.File(name + '.h5', 'w').close()"
    reads = "import h5py\nh5py.File('a0.h5').close()\nh5py.File('a1.h5')"
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {sys.executable}, name: sim, args: [-c, {json.dumps(writes)}],
      outports: [{{filename: "a*.h5"}}, {{filename: "b*.h5"}}]}}
  - {{func: {sys.executable}, name: ana, args: [-c, {json.dumps(reads)}],
      inports: [{{filename: "a*.h5"}}, {{filename: "b*.h5", reorder: 2}}]}}
""")
    words = [*WILKINS, "run", "--hosts", "a:1,b:1", "workflow.yaml"]
    done = run_tree(words, 60, tmp_path, {"WILKINS_RSH": str(Path(__file__).with_name("here"))})
    assert done.code == 4, done.err
    assert "the run is stuck" in done.err
    assert "for a step of a1.h5" in done.err


@pytest.mark.nightly
def test_what_a_program_can_do_without_is_not_waited_for_when_all_hosts_wait(tmp_path: Path) -> None:
    """A second open of a name, and a look, while the producer waits for the program on another host that makes them."""
    writes = "import h5py\nh5py.File('a0.h5', 'w').close()\nh5py.File('b.h5').close()\nh5py.File('a1.h5', 'w').close()"
    reads = (
        "import os, h5py\nh5py.File('a0.h5').close()\nh5py.File('a0.h5').close()\n"
        "print('there', os.path.exists('a1.h5'))\nh5py.File('b.h5', 'w').close()\nh5py.File('a1.h5').close()"
    )
    (tmp_path / "workflow.yaml").write_text(f"""
tasks:
  - {{func: {sys.executable}, name: sim, args: [-c, {json.dumps(writes)}],
      outports: [{{filename: "a*.h5"}}], inports: [{{filename: b.h5}}]}}
  - {{func: {sys.executable}, name: ana, args: [-c, {json.dumps(reads)}],
      inports: [{{filename: "a*.h5"}}], outports: [{{filename: b.h5}}]}}
""")
    words = [*WILKINS, "run", "--hosts", "a:1,b:1", "workflow.yaml"]
    done = run_tree(words, 60, tmp_path, {"WILKINS_RSH": str(Path(__file__).with_name("here"))})
    assert done.code == 0, done.err
    assert "there False" in done.out
