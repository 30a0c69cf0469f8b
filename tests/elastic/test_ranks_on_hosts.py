"""Ranks on several hosts and their one parent, which a command reaches the hosts by; no torch is in them."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from elastic.training_tasks import parent_of

from support.running import processes_in, run_tree, started_tree, wait_for, write_program

RANK = """
    import os, pathlib, time
    from wilkins.tasks.elastic.link import Link
    from wilkins.tasks.elastic.membership import Report

    link = Link(30.0)
    rank = link.rank
    group = link.next_group(Report(0))
    pathlib.Path(f"rank-{rank}").write_text(f"{os.getpid()} {os.environ['WILKINS_ELASTIC_INTERFACE']}\\n")
    while len(group.members) > 1:
        while not link.is_broken(group.generation):
            time.sleep(0.02)
        group = link.next_group(Report(0, broke=True))
    print(f"rank {rank} is alone")
    link.next_group(Report(1, finished=True))
"""
AGENT = """#!/bin/sh
# Runs a command on a host, all of which are this machine.
shift
exec sh -c "$*"
"""


def command(folder: Path) -> list[str]:
    """That of the parent of one rank on host a, and one on b."""
    (folder / "rank.py").write_text(textwrap.dedent(RANK))
    words = [sys.executable, "-m", "wilkins.tasks.elastic"]
    hosts = [
        word
        for host in ("a", "b")
        for word in ("--on", host, "localhost", "1", shlex.join([*words, "--serve", f"left-{host}", "rank.py"]))
    ]
    return [*words, "--agent", str(write_program(folder / "agent", AGENT)), *hosts]


def ranks(folder: Path) -> dict[int, int]:
    """The processes of the two ranks, when they are in a group."""
    paths = [folder / f"rank-{rank}" for rank in range(2)]
    wait_for(lambda: all(path.exists() and path.read_text().endswith("\n") for path in paths), 30, "a group")
    assert [path.read_text().split()[1] for path in paths] == ["127.0.0.1"] * 2
    return {rank: int(path.read_text().split()[0]) for rank, path in enumerate(paths)}


def test_hosts_that_nothing_leads_to_are_told(tmp_path: Path) -> None:
    words = command(tmp_path)
    (tmp_path / "agent").unlink()
    done = run_tree(words, 30, tmp_path)
    assert done.code == 1 and "Traceback" not in done.err
    assert "a process cannot be started, so all are ended: [Errno 2] No such file or directory: " in done.err


def test_a_host_whose_ranks_are_dead_is_left(tmp_path: Path) -> None:
    with started_tree(command(tmp_path), tmp_path) as run:
        os.kill(ranks(tmp_path)[1], signal.SIGKILL)
        done = run.wait(30)
    assert done.code == 0, done.err
    assert done.err.count("rank 0 is alone") == 1
    assert "rank 1 was killed by signal 9; 1 go on without it" in done.err
    assert (tmp_path / "left-b").exists() and not (tmp_path / "left-a").exists()


def test_the_end_of_a_connection_is_the_end_of_its_ranks(tmp_path: Path) -> None:
    """What serves a host is killed, as it may be with its ssh: its rank is killed, and the other one goes on."""
    with started_tree(command(tmp_path), tmp_path) as run:
        os.kill(parent_of(ranks(tmp_path)[0]), signal.SIGKILL)
        done = run.wait(30)
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all")
    assert done.code == 0, done.err
    assert "rank 0 is lost with the connection to a; 1 go on without it" in done.err


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("print('x')", 1, "has left the training, with exit code 0, before all steps were made; none is left"),
        ("import os; os.environ['WILKINS_ELASTIC_RANK'] == '1' or nowhere", 1, "ended with exit code 1"),
    ],
    ids=["no-training", "an-error-beside-one-that-left"],
)
def test_a_training_that_nobody_has_finished_has_failed(tmp_path: Path, text: str, code: int, said: str) -> None:
    (tmp_path / "program.py").write_text(text)
    done = run_tree([sys.executable, "-m", "wilkins.tasks.elastic", "-n", "2", "program.py"], 30, tmp_path)
    assert done.code == code and said in done.err, done.err


def test_ranks_end_with_their_parent(tmp_path: Path) -> None:
    with started_tree(command(tmp_path), tmp_path) as run:
        ranks(tmp_path)
        os.kill(run.process.pid, signal.SIGKILL)
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all")


def test_a_signal_ends_all(tmp_path: Path) -> None:
    with started_tree(command(tmp_path), tmp_path) as run:
        ranks(tmp_path)
        os.kill(run.process.pid, signal.SIGTERM)
        done = run.wait(30)
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all")
    assert done.code == 128 + signal.SIGTERM
    assert "all ranks are being ended" in done.err
