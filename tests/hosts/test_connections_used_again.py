"""A rank opens file after file of another host by one connection, whatever its program does with descriptors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosts import file_clients
from hosts.file_clients import CHALLENGE_COMES, CLOSE, LEAVE, OPENED_COMES, READ, WITHIN, Client, Served

CONTENT = bytes(range(256)) * 8

READS = """
import os, socket, sys

def read():
    with open("s0.bin", "rb") as file:
        assert file.read() == bytes(range(256)) * 8

def sockets():
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if name.startswith("socket:"):
            found.add((int(number), name))
    return found

before = sockets()
read()
kept = sockets() - before
assert len(kept) == 1, kept
"""
ONE_CONNECTION = """
for _ in range(5):
    read()
    assert sockets() - before == kept
"""
CLOSES_ALL = """
# It closes what it has not opened, and gets the number for a file of its own: nothing is written there.
(number, _), = kept
os.{closes}
own, other = socket.socketpair()
os.dup2(own.fileno(), number)
other.setblocking(False)
for _ in range(3):
    read()
    try:
        raise SystemExit(f"the program's own socket got {{other.recv(100)!r}}")
    except BlockingIOError:
        pass
os.write(number, b"mine")
assert other.recv(100) == b"mine"
"""
FORKS = """
for _ in range(3):
    pid = os.fork()
    read()
    read()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0)
    read()
    assert len(sockets() - before) == 1
"""
BECOMES_ANOTHER = """
(_, name), = kept
look = "import os, sys; sys.exit(any(os.path.realpath(f'/proc/self/fd/{n}').endswith(sys.argv[1]) for n in range(99)))"
os.execv(sys.executable, [sys.executable, "-c", look, name])
"""
SERVER_ENDS = """
print("read", flush=True)
sys.stdin.readline()
read()
assert len(sockets() - before) == 1 and sockets() - before != kept
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with file_clients.serving(tmp_path, "s0.bin", CONTENT) as served:
        yield served


@contextmanager
def rank(folder: Path, server: Served, program: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "elsewhere").mkdir()
    with file_clients.rank_elsewhere(folder / "elsewhere", server.port) as environment:
        words = [sys.executable, "-c", READS + program]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, cwd=folder, env=environment, text=True) as running:
            try:
                yield running
                assert running.wait(WITHIN) == 0
            finally:
                running.kill()


@pytest.mark.parametrize(
    "program",
    [
        ONE_CONNECTION,
        CLOSES_ALL.format(closes="closerange(3, 1000)"),
        CLOSES_ALL.format(closes="close(number)"),
        FORKS,
        BECOMES_ANOTHER,
    ],
    ids=["one connection", "closes all", "closes it", "forks", "exec"],
)
def test_a_rank_uses_its_connection_again(tmp_path: Path, server: Served, program: str) -> None:
    with rank(tmp_path, server, program):
        pass


def test_a_server_that_has_ended_is_asked_anew(tmp_path: Path, server: Served) -> None:
    with rank(tmp_path, server, SERVER_ENDS) as running:
        assert running.stdin and running.stdout and running.stdout.readline() == "read\n"
        server.start_again()
        running.stdin.write("\n")
        running.stdin.flush()


def test_a_connection_serves_one_file_after_another(server: Served) -> None:
    client = Client(server.port)
    file_clients.hear_all([client], CHALLENGE_COMES, lambda one: one.prove("s0.bin"))
    file_clients.hear_all([client], OPENED_COMES)
    assert client.is_open()
    for ends, comes in ((CLOSE, file_clients.ANSWER_COMES), (LEAVE, 0)) * 3:
        client.ask(READ, 256, 64)
        file_clients.hear_all([client], file_clients.read_comes(64))
        assert client.bytes_read() == CONTENT[256 : 256 + 64]
        client.ask(ends)
        if comes:
            file_clients.hear_all([client], comes)
            client.said.clear()
        client.wire.sendall(file_clients.hello("no-such.bin"))
        file_clients.hear_all([client], file_clients.OPENED_AGAIN)
        assert not client.is_open(again=True)
        client.wire.sendall(file_clients.hello("s0.bin"))
        file_clients.hear_all([client], file_clients.OPENED_AGAIN)
        assert client.is_open(again=True)
