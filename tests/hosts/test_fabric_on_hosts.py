"""Steps that cross by UCX between hosts with networks of their own, and the end of a run where one of them fails."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hosts import pseudo
from hosts.rig import NEEDS, Rig
from hosts.test_fabric import LIBRARIES, PAIR, used

from support.running import WILKINS, run_tree
from wilkins.transport import fabric

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.needs("root", "namespaces", "ucx", *NEEDS),
    pytest.mark.timeout(200),
]

WORDS = (*WILKINS, "run", "--hosts", "node0:1,node1:1", "--fabric", "ucx", "workflow.yaml")


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_are_right(tmp_path: Path, library: str) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(PAIR.format(steps=20, size=30_000_000, pause=0, keys=""))
    with Rig(2) as rig:
        words = rig.on("node0", "env", f"{fabric.LIBRARY}={library}", *WORDS, folder=tmp_path)
        done = run_tree(words, 90, tmp_path)
        assert done.code == 0, done.err
        kind, why = used(tmp_path)
        assert kind == "ucx" and "tcp/e0" in why, "not by the loopback interface, which no other host reaches"
        assert all(not rig.shared_memory(host) for host in rig.names)


@pytest.mark.parametrize("which", ["receiver", "sender", "host", "cut"])
def test_a_half_that_dies_in_a_step_ends_the_run(tmp_path: Path, which: str) -> None:
    """A step of 200 MB takes some 20 s on this line; who is left does not wait for the rest."""
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(PAIR.format(steps=4, size=200_000_000, pause=0, keys=""))
    with Rig(2) as rig:
        rig.slow("node1", 80_000_000)
        began = time.monotonic()

        def kill() -> None:
            while rig.traffic("node1")[1] < 8_000_000 and time.monotonic() < began + 60:
                time.sleep(0.1)
            if which == "host":
                rig.kill("node1")
            elif which == "cut":
                rig.cut("node1")
            else:
                rig.signal("node1" if which == "receiver" else "node0", "relay.py", 9)
            killed.append(time.monotonic())

        killed: list[float] = []
        beside = threading.Thread(target=kill)
        beside.start()
        done = run_tree(rig.on("node0", *WORDS, folder=tmp_path), 150, tmp_path)
        beside.join()
        assert done.code == 1, done.err
        assert time.monotonic() - killed[0] < 40
        left = [host for host in rig.names if which != "host" or host == "node0"]
        until = time.monotonic() + 20
        while any(rig.processes(host, "relay.py") for host in left) and time.monotonic() < until:
            time.sleep(0.2)
        assert not any(rig.processes(host, "relay.py") for host in left)


def test_a_run_that_is_stopped_in_a_step_ends(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(PAIR.format(steps=4, size=200_000_000, pause=0, keys=""))
    with Rig(2) as rig:
        rig.slow("node1", 80_000_000)
        words = [*WORDS[:-1], "--timeout", "12", WORDS[-1]]
        began = time.monotonic()
        done = run_tree(rig.on("node0", *words, folder=tmp_path), 100, tmp_path)
        assert done.code != 0
        assert time.monotonic() - began < 30
        assert all(not rig.shared_memory(host) for host in rig.names)


def test_networks_that_do_not_reach_each_other_are_found_before_a_step_is_sent(tmp_path: Path) -> None:
    """UCX takes two hosts of one kernel for one machine, and their loopback interfaces for one network."""
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text(PAIR.format(steps=2, size=3_000_000, pause=0, keys=""))
    with Rig(2) as rig:
        began = time.monotonic()
        done = run_tree(rig.on("node0", "env", "UCX_NET_DEVICES=lo", *WORDS, folder=tmp_path), 90, tmp_path)
        assert done.code != 0
        assert time.monotonic() - began < 60
        logs = " ".join(file.read_text() for file in tmp_path.glob("wilkins-runs/*/hosts/*/*.log"))
        assert "a message on trial fails" in logs or "cannot reach the other half" in logs
