"""Who does not know the run's key is accepted nowhere, learns nothing, and holds nobody up."""

from __future__ import annotations

import contextlib
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import pseudo

from support.running import WILKINS, processes_in, run_tree, write_program
from wilkins.errors import ResourceError
from wilkins.transport import handshake, listening

KEY = bytes(range(16))
WITHIN = 30.0


@contextlib.contextmanager
def opened(service: str = "steps", key: bytes = KEY) -> Iterator[tuple[int, list[socket.socket]]]:
    """A listener that a thread looks after: its port, and whom it has accepted."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    server = handshake.AuthenticatedListener(listener, service, key)
    accepted: list[socket.socket] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            accepted.extend(server.accept(0.05))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield listener.getsockname()[1], accepted
    finally:
        over.set()
        looking.join(WITHIN)
        server.close()
        for wire in accepted:
            wire.close()


def connect(port: int, service: str = "steps", key: bytes = KEY) -> socket.socket:
    wire = socket.create_connection(("127.0.0.1", port), timeout=WITHIN)
    try:
        handshake.authenticate(wire, service, key)
    except BaseException:
        wire.close()
        raise
    return wire


def came(accepted: list[socket.socket]) -> bool:
    """Whether one has come in, for which the listener's thread may need a moment."""
    until = time.monotonic() + WITHIN
    while not accepted and time.monotonic() < until:
        time.sleep(0.01)
    return len(accepted) == 1


def test_who_knows_the_key_comes_in_and_is_heard() -> None:
    with opened() as (port, accepted), connect(port) as wire:
        wire.sendall(b"first words")
        assert came(accepted) and accepted[0].recv(100) == b"first words"


def test_both_sides_make_the_same_keys_of_a_connection_and_of_no_other() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    made = []
    with contextlib.closing(handshake.AuthenticatedListener(listener, "steps", KEY)) as server:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), timeout=WITHIN) as wire:
                seen: list[bytes] = []
                client = threading.Thread(target=lambda: seen.append(handshake.authenticate(wire, "steps", KEY)))  # noqa: B023
                client.start()
                accepted = next(iter(server))
                client.join(WITHIN)
                own = handshake.frame_keys(KEY, "steps", "client", seen[0])
                theirs = handshake.frame_keys(KEY, "steps", "server", server.seen(accepted))
                accepted.close()
            assert own == theirs[16:] + theirs[:16]
            made += [own[:16], own[16:]]
    assert len(set(made)) == 4


@pytest.mark.parametrize("heard", [b"relay 12", b"relay 13"], ids=["as it was said", "changed on its way"])
def test_a_greeting_is_heard_as_it_was_said_or_not_at_all(heard: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with contextlib.closing(handshake.AuthenticatedListener(listener, "steps", KEY, 8)) as server:
        outside, inside = socket.socketpair()
        wire = socket.create_connection(listener.getsockname(), timeout=WITHIN)

        def greet() -> None:
            with contextlib.suppress(OSError):
                handshake.authenticate(inside, "steps", KEY, WITHIN, b"relay 12")

        client = threading.Thread(target=greet)
        client.start()
        with wire, outside, inside:
            server.accept(WITHIN)
            outside.sendall(wire.recv(32, socket.MSG_WAITALL))
            said = outside.recv(72, socket.MSG_WAITALL)
            assert said.endswith(b"relay 12")
            wire.sendall(said[:40])
            assert server.accept(WITHIN) == []
            wire.sendall(said[40:].replace(b"relay 12", heard))
            accepted = server.accept(WITHIN)
            outside.close()
            client.join(WITHIN)
            if heard == b"relay 12":
                assert server.greeting(accepted[0]) == heard
                accepted[0].close()
            else:
                assert accepted == []


@pytest.mark.parametrize("wrong", [{"key": bytes(16)}, {"service": "files"}], ids=["key", "service"])
def test_who_does_not_know_it_is_shut_out(wrong: dict[str, str | bytes]) -> None:
    with opened() as (port, accepted):
        with pytest.raises(ConnectionError):
            connect(port, **wrong)  # type: ignore[arg-type]
        assert not accepted
        connect(port).close()


def test_who_listens_without_the_key_is_found_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pretend() -> None:
            wire, _ = listener.accept()
            with wire:
                wire.sendall(bytes(32))
                wire.recv(64, socket.MSG_WAITALL)
                wire.sendall(bytes(32))

        threading.Thread(target=pretend, daemon=True).start()
        with pytest.raises(PermissionError):
            connect(listener.getsockname()[1])


def test_a_recorded_connection_opens_nothing() -> None:
    """A machine between both sides records what who comes in says, and says it again."""
    with opened() as (port, accepted), socket.create_server(("127.0.0.1", 0)) as between:
        record = bytearray()

        def pass_on() -> None:
            wire, _ = between.accept()
            with wire, socket.create_connection(("127.0.0.1", port)) as onward:
                wire.sendall(onward.recv(32, socket.MSG_WAITALL))
                record.extend(wire.recv(64, socket.MSG_WAITALL))
                onward.sendall(record)
                wire.sendall(onward.recv(32, socket.MSG_WAITALL))

        threading.Thread(target=pass_on, daemon=True).start()
        connect(between.getsockname()[1]).close()
        assert came(accepted) and KEY not in record and KEY.hex().encode() not in record
        with socket.create_connection(("127.0.0.1", port), timeout=WITHIN) as again:
            again.recv(32, socket.MSG_WAITALL)
            again.sendall(record)
            assert again.recv(1) == b""
        assert len(accepted) == 1


@pytest.mark.parametrize("words", [b"", b"[]\n", b"\xff\xfe" * 16, b"GET / HTTP/1.1\r\n\r\n", bytes(64), bytes(1000)])
def test_strangers_hold_nobody_up(words: bytes) -> None:
    with opened() as (port, accepted), contextlib.ExitStack() as strangers:
        for _ in range(3 * handshake.MOST):
            wire = strangers.enter_context(socket.create_connection(("127.0.0.1", port), timeout=WITHIN))
            with contextlib.suppress(OSError):
                wire.sendall(words)
        before = time.monotonic()
        connect(port).close()
        assert came(accepted) and time.monotonic() - before < WITHIN / 2


def test_a_process_that_had_no_descriptors_left_accepts_again() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with opened() as (port, _), contextlib.ExitStack() as held:
        wires = [socket.socket() for _ in range(8)]
        lowest = max(wire.fileno() for wire in wires)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 3, hard))  # of which this side needs one
            for wire in wires:
                held.enter_context(wire).connect(("127.0.0.1", port))
            time.sleep(0.3)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        connect(port).close()


def listeners(folder: Path) -> dict[int, str]:
    """The ports where processes that work in a folder listen, and at which addresses."""
    sockets = set()
    for process in processes_in(folder):
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{process}/fd").iterdir():
                with contextlib.suppress(OSError):
                    sockets.add(str(descriptor.readlink()))
    found = {}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and f"socket:[{columns[9]}]" in sockets:
                address, _, port = columns[1].partition(":")
                words = [bytes.fromhex(address[place : place + 8])[::-1] for place in range(0, len(address), 8)]
                found[int(port, 16)] = socket.inet_ntop(family, b"".join(words))
    return found


@contextlib.contextmanager
def swept(folder: Path, each: int) -> Iterator[dict[int, str]]:
    """Where a run listens, it gets so many connections that say nothing; its ports and their addresses."""
    ports: dict[int, str] = {}
    over = threading.Event()
    wires: list[socket.socket] = []

    def sweep() -> None:
        while not over.wait(0.002):
            new = {port: address for port, address in listeners(folder).items() if port not in ports}
            ports.update(new)
            for port in new:
                for _ in range(each):
                    with contextlib.suppress(OSError):
                        wires.append(socket.create_connection(("127.0.0.1", port), timeout=1))

    sweeping = threading.Thread(target=sweep)
    sweeping.start()
    try:
        yield ports
    finally:
        over.set()
        sweeping.join(WITHIN)
        for wire in wires:
            wire.close()


SECRET = """#!{python}
import os, pathlib
for step in range(2):
    open("out%d.h5" % step).close()
key = pathlib.Path(os.environ["WILKINS_RUN"], "key").read_text()
assert len(key) == 32
assert key not in pathlib.Path("/proc/self/environ").read_text(errors="replace")
"""


def test_a_run_whose_ports_are_swept_goes_on(tmp_path: Path) -> None:
    """Before its own processes come, and while they are there: 100 connections to each port that is opened."""
    pseudo.programs(tmp_path)
    workflow = """
        tasks:
          - {func: ./write.py, args: ["out{}.h5", 20, 3000000, 0.05], outports: [{filename: out*.h5}], placement: [a]}
          - {func: ./read.py, args: [0], inports: [{filename: out*.h5}], placement: [b]}
    """
    with swept(tmp_path, 100) as ports:
        summary = pseudo.run(tmp_path, workflow, "a,b")
    assert len(ports) >= 2  # the receiver's, and the one where the sender gives what is absent
    assert summary["channels"][0]["read"] == 20


def test_programs_do_not_get_the_key_by_their_environment(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    write_program(tmp_path / "secret.py", SECRET.format(python=sys.executable))
    workflow = """
        tasks:
          - {func: ./write.py, args: ["out{}.h5", 2, 1000, 0], outports: [{filename: out*.h5}], placement: [a]}
          - {func: ./secret.py, inports: [{filename: out*.h5}], placement: [b]}
    """
    pseudo.run(tmp_path, workflow, "a,b")


class TestAddresses:
    """Where a host listens."""

    def test_an_address_or_a_network_says_which(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for wanted in ("127.0.0.1", "127.0.0.0/8", "lo"):
            monkeypatch.setenv(listening.INTERFACE, wanted)
            with listening.listen("node0") as listener:
                assert listening.address_in(listener).startswith("127.0.0.1:")

    def test_a_name_that_others_cannot_use_stands_for_all_addresses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(listening.INTERFACE, raising=False)
        for name in ("localhost", "no-host-of-this-name.invalid"):
            with listening.listen(name) as listener:
                assert listening.address_in(listener).startswith(":")

    def test_connections_are_kept_alive(self) -> None:
        """Else firewalls forget those on which nothing is said while programs compute."""
        with listening.listen_at("127.0.0.1") as listener, socket.create_connection(listener.getsockname()) as _:
            accepted, _address = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60

    def test_what_the_host_lacks_is_an_error_that_names_what_it_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(listening.INTERFACE, "ib7")
        with pytest.raises(ResourceError, match=r"WILKINS_INTERFACE=ib7: the host .* lo \(127.0.0.1\)"):
            listening.listen("node0")


@pytest.mark.nightly
def test_a_run_over_an_interface_opens_no_port_at_another(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    workflow = """
        tasks:
          - {func: ./write.py, args: ["out{}.h5", 5, 3000000, 0], outports: [{filename: out*.h5}], placement: [a]}
          - {func: ./read.py, args: [0], inports: [{filename: out*.h5}], placement: [b]}
    """
    with swept(tmp_path, 0) as ports:
        pseudo.run(tmp_path, workflow, "a,b", "--interface", "lo")
    assert ports and set(ports.values()) == {"127.0.0.1"}


def test_a_host_without_the_interface_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text("""
        tasks:
          - {func: ./write.py, args: ["out{}.h5", 5, 1000, 0], outports: [{filename: out*.h5}], placement: [a]}
          - {func: ./read.py, args: [0], inports: [{filename: out*.h5}], placement: [b]}
    """)
    words = [*WILKINS, "run", "--hosts", "a,b", "--interface", "ib7", "workflow.yaml"]
    ended = run_tree(words, WITHIN, tmp_path, {"WILKINS_RSH": str(pseudo.HERE)})
    assert ended.code == 3 and "WILKINS_INTERFACE=ib7" in ended.err and "Traceback" not in ended.err
