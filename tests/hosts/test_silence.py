"""Launchers that stand still for a while are not taken for lost, and those that hang are."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import time
from pathlib import Path

import pytest
from hosts.pseudo import HERE, programs

from support.resuming import command_of
from support.running import WILKINS, Tree, processes_in, run_tree, started_tree, wait_for
from wilkins.launch.hosts.control import Control, Message
from wilkins.launch.hosts.messages import Alive, EndWait, Say

HOSTS = {"WILKINS_RSH": str(HERE)}
PAIR = """
tasks:
  - {func: ./write.py, name: sim, args: ["u{:04d}.h5", STEPS, 8000, 0.1], outports: [{filename: "u*.h5"}]}
  - {func: ./read.py, name: ana, args: [0.0], inports: [{filename: "u*.h5"}]}
"""


def heard_until_silence(control: Control) -> list[Message]:
    """Messages until for 2.5 s none has come."""
    found: list[Message] = []
    last = time.monotonic()
    while time.monotonic() < last + 2.5:
        if some := control.received():
            found += some
            last = time.monotonic()
        time.sleep(0.05)
    return found


def test_who_stands_still_lives_within_its_patience_only() -> None:
    here, there = os.pipe()
    hears, says = Control(here, os.dup(there), waits=False), Control(os.dup(here), there, waits=False)
    with Control.with_pulse([says], 2.5):
        said = heard_until_silence(hears)
        assert said
        assert all(isinstance(message, Alive) and 1.0 <= message.stands <= 2.5 for message in said)
        says.send(EndWait())
        assert set(map(type, heard_until_silence(hears))) == {EndWait, Alive}


def test_no_sign_of_life_falls_into_a_message() -> None:
    """A long message waits for room in the pipe, as a head's do that a keeper does not read."""
    here, there = os.pipe()
    hears, says = Control(here, os.dup(there), waits=False), Control(os.dup(here), there, waits=False)
    with Control.with_pulse([says], 3.0):
        says.send(Say("x" * 100_000))
        time.sleep(2.5)
        assert hears.received() == []  # what the pipe had room for
        says.send(EndWait())
        assert heard_until_silence(hears)[:2] == [Say("x" * 100_000), EndWait()]


def keepers(tree: Tree) -> list[int]:
    return [pid for pid in processes_in(tree.folder) if "hosts.keeper" in command_of(pid)]


def workflow(folder: Path, steps: int) -> None:
    programs(folder)
    (folder / "workflow.yaml").write_text(PAIR.replace("STEPS", str(steps)))


@pytest.mark.nightly
@pytest.mark.timeout(200)
@pytest.mark.parametrize("who", ["head", "keepers"])
def test_a_launcher_may_stand_still_for_longer_than_a_host_may_be_silent(tmp_path: Path, who: str) -> None:
    """As where a file system hangs: the programs go on meanwhile, and the run after it."""
    workflow(tmp_path, 300)
    with started_tree([*WILKINS, "run", "--hosts", "a:1,b:1", "workflow.yaml"], tmp_path, HOSTS) as tree:
        wait_for(lambda: "opened" in tree.told(), 60, "a step")
        stopped = [tree.process.pid] if who == "head" else [pid for pid in keepers(tree) if parent_works(pid, tree)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(22)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        finished = tree.wait(100)
    assert finished.code == 0, finished.err
    summary = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())
    assert summary["exit_code"] == 0


def parent_works(pid: int, tree: Tree) -> bool:
    """Whether a keeper is none that watches over another one."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return parent not in keepers(tree)


@pytest.mark.nightly
@pytest.mark.timeout(200)
def test_a_keeper_that_hangs_for_longer_than_its_patience_is_lost(tmp_path: Path) -> None:
    workflow(tmp_path, 600)
    words = [*WILKINS, "run", "--patience", "3s", "--hosts", "a:1,b:1", "workflow.yaml"]
    with started_tree(words, tmp_path, HOSTS) as tree:
        wait_for(lambda: "opened" in tree.told(), 60, "a step")
        keeper = next(pid for pid in keepers(tree) if parent_works(pid, tree))
        os.kill(keeper, signal.SIGSTOP)
        began = time.monotonic()
        finished = tree.wait(100)
        took = time.monotonic() - began
    assert finished.code == 1
    assert re.search(
        r"the host [ab] is lost, with .*: its keeper stood still for 3 s, .*--patience TIME", finished.said
    )
    assert took < 60


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_very_many_small_tasks_on_few_hosts(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("tasks:\n  - {func: /bin/true, taskCount: 120}\n")
    words = [*WILKINS, "run", "--hosts", "a:30,b:30,c:30,d:30", "workflow.yaml"]
    finished = run_tree(words, 300, tmp_path, HOSTS)
    assert finished.code == 0, finished.err


@pytest.mark.nightly
@pytest.mark.timeout(200)
def test_a_head_may_have_more_files_open_than_it_was_started_with(tmp_path: Path) -> None:
    """Programs keep the limit that they are used to."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = tmp_path / "limit.sh"
    script.write_text("#!/bin/sh\nulimit -n\n")
    script.chmod(0o755)
    (tmp_path / "workflow.yaml").write_text("tasks:\n  - {func: ./limit.sh, taskCount: 12, name: limit}\n")
    hosts = ",".join(f"h{number}:1" for number in range(12))
    words = ["sh", "-c", f"ulimit -S -n 32; exec {' '.join(WILKINS)} run --hosts {hosts} workflow.yaml"]
    assert most > 64
    finished = run_tree(words, 150, tmp_path, HOSTS)
    assert finished.code == 0, finished.err
    assert finished.out.count(" 32\n") == 12, finished.out
