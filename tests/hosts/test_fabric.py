"""What bytes of steps cross between hosts by: TCP or the site's UCX, which of them a host takes, and what happens when
UCX fails."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import threading
from pathlib import Path

import pytest
from hosts import pseudo
from hosts.test_damaged_bytes import unwrapped
from hosts.test_partly_read import MAKES, READS_SOME, pair

from support.hooks import faults
from support.running import WILKINS, Finished, run_tree, write_program
from wilkins.errors import UsageError
from wilkins.transport import fabric, relay_messages
from wilkins.transport.listening import INTERFACE

PAIR = """
tasks:
  - {{func: ./write.py, args: ["f{{}}.h5", {steps}, {size}, {pause}], outports: [{{filename: "f*.h5"{keys}}}]}}
  - {{func: ./read.py, args: [0], inports: [{{filename: "f*.h5"}}]}}
"""


def wheel() -> str:
    """The library of the wheel ``libucx-cu12``, where it is installed; it loads without CUDA."""
    found = importlib.util.find_spec("libucx")
    folders = found.submodule_search_locations if found else None
    return str(Path(folders[0]) / "lib/libucp.so.0") if folders else ""


def run(folder: Path, workflow: str, variables: dict[str, str], hosts: str = "a:1,b:1") -> Finished:
    (folder / "workflow.yaml").write_text(workflow)
    words = [*WILKINS, "run", "--hosts", hosts, "workflow.yaml"]
    return run_tree(words, 90, folder, {"WILKINS_RSH": str(pseudo.HERE), **variables})


def used(folder: Path) -> tuple[str, str]:
    """By what bytes have crossed, and why."""
    (one,) = json.loads((folder / "wilkins-runs/latest/summary.json").read_text())["crossings"]
    return one["fabric"], one["fabric_reason"]


class TestChoice:
    """What a host would use, by its variables and devices."""

    @pytest.fixture
    def system(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Two adapters, one of which has no cable; ib0 is an interface of the other."""
        for name in (fabric.FABRIC, fabric.LIBRARY, INTERFACE):
            monkeypatch.delenv(name, raising=False)
        for device, state in (("mlx5_0", "4: ACTIVE\n"), ("mlx5_1", "1: DOWN\n"), ("mlx5_2", "4: ACTIVE\n")):
            port = tmp_path / "infiniband" / device / "ports/1"
            port.mkdir(parents=True)
            (port / "state").write_text(state)
        (tmp_path / "net/ib0/device/infiniband/mlx5_2").mkdir(parents=True)
        return tmp_path

    def test_ucx_where_there_is_rdma(self, system: Path) -> None:
        wished = fabric.wish(system)
        assert wished.ucx and not wished.forced
        assert wished.devices == "mlx5_0:1,mlx5_2:1" and "mlx5_0:1" in wished.why and "mlx5_1" not in wished.why

    def test_tcp_in_a_run_that_encrypts(self, system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not fabric.wish(system, encrypts=True).ucx
        monkeypatch.setenv(fabric.FABRIC, "ucx")
        wished = fabric.wish(system, encrypts=True)
        assert not wished.ucx and wished.forced, "and refused"

    def test_tcp_without(self, system: Path) -> None:
        wished = fabric.wish(system / "none")
        assert not wished.ucx and wished.why == "this host has no RDMA device"

    def test_of_the_interface_that_hosts_reach_each_other_by(
        self, system: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(INTERFACE, "ib0")
        assert fabric.wish(system).devices == "mlx5_2:1"
        monkeypatch.setenv(INTERFACE, "10.1.0.0/16")
        assert fabric.wish(system).devices == "mlx5_0:1,mlx5_2:1"

    def test_what_the_variable_says(self, system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(fabric.FABRIC, "tcp")
        assert not fabric.wish(system).ucx
        monkeypatch.setenv(fabric.FABRIC, "ucx")
        assert fabric.wish(system / "none").forced
        monkeypatch.setenv(fabric.FABRIC, "carrier-pigeon")
        with pytest.raises(UsageError, match="auto, tcp, ucx, not 'carrier-pigeon'"):
            fabric.wish(system)

    @pytest.mark.parametrize("refuses", ["sender", "receiver"])
    def test_halves_that_differ_take_tcp(self, system: Path, monkeypatch: pytest.MonkeyPatch, refuses: str) -> None:
        """One host has RDMA, the other has not: both say why."""
        wishes = {"sender": fabric.wish(system), "receiver": fabric.wish(system)}
        wishes[refuses] = fabric.Wish(ucx=False, why="this host has no RDMA device")
        monkeypatch.setattr(fabric, "wish", lambda **_: wishes[threading.current_thread().name])
        monkeypatch.setattr(fabric, "_offer", lambda _, wish: (b"where" if wish.ucx else b"", wish.why))
        ours, theirs = socket.socketpair()
        found = {}

        def agree(name: str, wire: socket.socket) -> None:
            found[name] = (fabric.agree_as_sender if name == "sender" else fabric.agree_as_receiver)(wire)

        threads = [
            threading.Thread(target=agree, args=pair, name=pair[0]) for pair in (("sender", ours), ("receiver", theirs))
        ]
        monkeypatch.setattr(fabric, "_drop", lambda _: None)
        with ours, theirs:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
        assert {one.kind for one in found.values()} == {"tcp"}
        assert all("no RDMA device" in one.why for one in found.values())


def test_the_count_of_messages_has_room_for_the_reason() -> None:
    messages = relay_messages.Messages(relay_messages.Messages.made())
    assert messages.fabric == ("", "")
    messages.crosses_by("ucx", "because" * 200)
    kind, why = messages.fabric
    assert kind == "ucx" and why.startswith("because") and messages.count == 0


@pytest.mark.timeout(120)
def test_hosts_without_a_faster_network_use_tcp_and_say_so(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    done = run(tmp_path, PAIR.format(steps=3, size=800_000, pause=0, keys=""), {fabric.LIBRARY: "/none"})
    assert done.code == 0, done.err
    assert used(tmp_path) == ("tcp", "this host has no RDMA device")
    words = [*WILKINS, "plan", "--hosts", "a:1,b:1", "workflow.yaml"]
    said = run_tree(words, 30, tmp_path).out
    assert "bytes of steps cross by TCP: this host has no RDMA device" in said
    assert "bytes of steps cross by UCX" in run_tree(words, 30, tmp_path, {fabric.FABRIC: "ucx"}).out


@pytest.mark.timeout(120)
def test_a_run_that_must_use_ucx_says_what_is_missing(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    variables = {fabric.FABRIC: "ucx", fabric.LIBRARY: "/none/libucp.so"}
    done = run(tmp_path, PAIR.format(steps=3, size=800_000, pause=0, keys=""), variables)
    assert done.code != 0
    assert "WILKINS_FABRIC=ucx: " in unwrapped(done.err) and "WILKINS_UCX=PATH" in unwrapped(done.err), done.err
    assert "Traceback" not in done.err


@pytest.mark.timeout(60)
def test_a_fabric_that_nobody_knows_is_refused_at_once(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    done = run(tmp_path, PAIR.format(steps=3, size=800_000, pause=0, keys=""), {fabric.FABRIC: "rope"})
    assert done.code == 2 and "must be one of auto, tcp, ucx, not 'rope'" in unwrapped(done.err)


LIBRARIES = [
    pytest.param("libucp.so.0", id="installed", marks=pytest.mark.needs("ucx")),
    pytest.param(wheel(), id="wheel", marks=[pytest.mark.nightly, pytest.mark.needs("python:libucx", "ucx-headers")]),
]


@pytest.mark.timeout(150)
@pytest.mark.parametrize("library", LIBRARIES)
def test_values_that_cross_by_ucx_are_right(tmp_path: Path, library: str) -> None:
    """Also with bytes damaged on the way, and steps whose blocks have checksums from their producer."""
    pseudo.programs(tmp_path)
    workflow = PAIR.format(steps=30, size=3_000_000, pause=0, keys=", checked: true")
    done = run(tmp_path, workflow, {fabric.FABRIC: "ucx", fabric.LIBRARY: library})
    assert done.code == 0, done.err
    kind, why = used(tmp_path)
    assert kind == "ucx" and "tcp/" in why
    assert f"bytes by {why}: 1 of 1 crossing" in unwrapped(done.err)
    assert not list(Path("/dev/shm").glob("ucx*"))


@pytest.mark.needs("hooks", "ucx")
@pytest.mark.nightly
@pytest.mark.timeout(150)
@pytest.mark.parametrize("seed", range(1, 6))
def test_damage_is_asked_for_again(tmp_path: Path, seed: int) -> None:
    pseudo.programs(tmp_path)
    done = run(tmp_path, pair(12, 3_000_000, 1), {fabric.FABRIC: "ucx", **faults(f"seed={seed},flip=0.05")})
    assert done.code == 0, done.err
    assert "were damaged on their way from" in unwrapped(done.err)


@pytest.mark.needs("ucx")
@pytest.mark.nightly
@pytest.mark.timeout(150)
def test_many_steps_of_which_parts_are_read(tmp_path: Path) -> None:
    """Lazy steps: their ranges cross in messages, and what is short of one by TCP."""
    write_program(tmp_path / "makes.py", MAKES.replace("{python}", sys.executable))
    write_program(tmp_path / "reads.py", READS_SOME.replace("{python}", sys.executable))
    text = (
        'tasks:\n  - {func: ./makes.py, outports: [{filename: "f*.h5"}]}\n'
        '  - {func: ./reads.py, args: ["7"], inports: [{filename: "f*.h5"}]}\n'
    )
    done = run(tmp_path, text, {fabric.FABRIC: "ucx"})
    assert done.code == 0, done.err


PRETENDS = """
import functools, pathlib
from wilkins.transport import fabric
fabric.wish = functools.partial(fabric.wish, pathlib.Path({system!r}))
"""


@pytest.mark.needs("ucx")
@pytest.mark.nightly
@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("transports", "words"),
    [("", "cannot find a network"), ("tcp", "would go by TCP, too")],
    ids=["none", "tcp"],
)
def test_a_network_that_only_seems_to_be_faster_is_left(tmp_path: Path, transports: str, words: str) -> None:
    """Hosts that believe that they have an adapter, which UCX does not see; and a UCX that is told to use TCP."""
    pseudo.programs(tmp_path)
    port = tmp_path / "class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/sitecustomize.py").write_text(PRETENDS.format(system=str(tmp_path / "class")))
    variables = {"PYTHONPATH": str(tmp_path / "modules"), **({"UCX_TLS": transports} if transports else {})}
    if transports:
        variables["UCX_NET_DEVICES"] = "all"
    done = run(tmp_path, PAIR.format(steps=5, size=1_000_000, pause=0, keys=""), variables)
    assert done.code == 0, done.err
    kind, why = used(tmp_path)
    assert kind == "tcp" and words in why
