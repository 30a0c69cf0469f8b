"""A server of files serves thousands of ranks on other hosts: all at once, in little memory, by few threads."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import file_clients
from hosts.file_clients import ANSWER_COMES, CHALLENGE_COMES, CLOSE, OPENED_COMES, READ, WITHIN, Client

RANKS = 3000
PIECE = 64
MOST_THREADS = 200
"""Threads of the server when it has answered all: few of them have been at work at one time."""
MOST_KB = 8
"""Memory of a connection at rest, with a step open."""
USUAL_LIMIT = 1024
"""Descriptors that most systems allow a process unless it asks for more."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process, whose children get the usual limit, may have all these connections open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < RANKS + 1000:
        pytest.skip(f"this system allows a process {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (USUAL_LIMIT, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def content_at(rank: int) -> bytes:
    return b"%063d\n" % rank


@pytest.mark.usefixtures("many_files")
def test_thousands_of_ranks_have_a_step_open_at_once(tmp_path: Path) -> None:
    """All have connected before any has said who it is: as it is where the line takes 40 ms."""
    content = b"".join(map(content_at, range(RANKS)))
    with file_clients.serving(tmp_path, "s0.bin", content) as server:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        one = Client(server.port)
        file_clients.hear_all([one], CHALLENGE_COMES, lambda client: client.prove("s0.bin"))
        file_clients.hear_all([one], OPENED_COMES)
        threads, memory, descriptors = server.status("Threads"), server.status("VmRSS"), server.descriptors()

        clients = [Client(server.port) for _ in range(RANKS)]
        challenged: list[Client] = []
        begin = time.monotonic()
        file_clients.hear_all(clients, CHALLENGE_COMES, challenged.append)
        for client in challenged:
            client.prove("s0.bin")
        opened: list[bool] = []
        file_clients.hear_all(clients, OPENED_COMES, lambda client: opened.append(client.is_open()))
        assert opened == [True] * RANKS
        took = time.monotonic() - begin

        for rank, client in enumerate(clients):
            client.ask(READ, rank * PIECE, PIECE)
        file_clients.hear_all(clients, file_clients.read_comes(PIECE))
        for rank, client in enumerate(clients):
            assert client.bytes_read() == content_at(rank)

        more = {
            "threads": server.status("Threads") - threads,
            "kB per connection": (server.status("VmRSS") - memory) / RANKS,
            "descriptors": server.descriptors() - descriptors,
            "opens per second": RANKS / took,
        }
        print(more)
        assert more["threads"] <= MOST_THREADS
        assert more["kB per connection"] <= MOST_KB

        for client in clients:
            client.ask(CLOSE)
        file_clients.hear_all(clients, ANSWER_COMES, lambda client: client.wire.close())
        until = time.monotonic() + WITHIN
        while server.descriptors() > descriptors and time.monotonic() < until:
            time.sleep(0.1)
        assert server.descriptors() == descriptors
