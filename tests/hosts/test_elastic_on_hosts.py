"""`train: {on_failure: continue}` with ranks on several hosts: all ranks of a host are killed, and the others go on."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from pathlib import Path

import pytest
from elastic.training_tasks import parent_of, ranks_of, write
from hosts.pseudo import HERE
from hosts.rig import NEEDS, Rig

from support.running import WILKINS, processes_in, started_tree, wait_for

pytestmark = [pytest.mark.needs("python:torch"), pytest.mark.timeout(300)]

RUN = [*WILKINS, "run", "--hosts", "a:1,b:2,c:1"]
"""The source on a; of the trainer's ranks two on b, which starts them, and one on c."""


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param([2], id="the-other-host", marks=pytest.mark.nightly),
        pytest.param([0, 1], id="the-host-that-starts-them"),
        pytest.param([1, 2], id="some-of-each", marks=pytest.mark.nightly),
    ],
)
def test_training_goes_on_on_the_hosts_that_are_left(tmp_path: Path, victims: list[int]) -> None:
    """Nobody waits for what a host without ranks does not read; each sample is trained on once."""
    write(tmp_path, "on_failure: continue, results: {folder: results}", nprocs=3)
    with started_tree(RUN, tmp_path, {"WILKINS_RSH": str(HERE)}) as run:
        wait_for(lambda: "step 1 (s1.h5)" in run.told(), 120, "two steps")
        ranks = ranks_of(tmp_path)
        for victim in victims:
            os.kill(ranks[victim], signal.SIGKILL)
        (tmp_path / "killed").touch()
        done = run.wait(150)
        assert done.code == 0, done.said
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all")
    assert "trained on 6 steps" in done.out
    for victim in victims:
        assert re.search(rf"rank {victim} was killed by signal 9; \d go on without it", done.out)
    with (tmp_path / "results/training.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == [str(step) for step in range(6)]
    assert all(row["samples"] == "200" for row in rows)
    assert float(rows[-1]["error"]) < float(rows[0]["error"])
    summary = json.loads((tmp_path / "wilkins-runs/latest/summary.json").read_text())
    (channel,) = summary["channels"]
    assert (channel["published"], channel["read"]) == (6, 6), channel


@pytest.mark.nightly
def test_training_goes_on_where_what_serves_a_host_is_killed(tmp_path: Path) -> None:
    """Its ranks end, too, as soon as they see that; nobody waits for them longer than some seconds."""
    write(tmp_path, "on_failure: continue", nprocs=3)
    with started_tree(RUN, tmp_path, {"WILKINS_RSH": str(HERE)}) as run:
        wait_for(lambda: "step 1 (s1.h5)" in run.told(), 120, "two steps")
        os.kill(parent_of(ranks_of(tmp_path)[2]), signal.SIGKILL)
        (tmp_path / "killed").touch()
        done = run.wait(150)
        assert done.code == 0, done.said
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all")
    assert "rank 2 is lost with the connection to c; 2 go on without it" in done.out
    assert "trained on 6 steps" in done.out


@pytest.mark.nightly
@pytest.mark.needs(*NEEDS)
def test_over_a_network(tmp_path: Path) -> None:
    """Hosts of their own, which ssh reaches: first one host loses its rank, then the one that starts them all."""
    write(tmp_path, "on_failure: continue, save: {folder: saves, every: 4}", nprocs=4)
    with Rig(3) as rig:
        words = rig.on("node0", *WILKINS, "run", "--hosts", "node0:1,node1:2,node2:2", folder=tmp_path)
        with started_tree(words, tmp_path) as run:
            wait_for(lambda: "step 0 (s0.h5)" in run.told(), 120, "a step")
            ranks = ranks_of(tmp_path)
            os.kill(ranks[3], signal.SIGKILL)
            wait_for(lambda: "rank 3 was killed" in run.told(), 60, "word of a death")
            for rank in (0, 1):
                os.kill(ranks[rank], signal.SIGKILL)
            wait_for(lambda: "step 2 (s2.h5)" in run.told(), 120, "a step of the last rank")
            (tmp_path / "killed").touch()
            done = run.wait(150)
        assert done.code == 0, done.said
        assert "trained on 6 steps" in done.out
        for host in rig.names:
            assert not rig.shared_memory(host)


@pytest.mark.nightly
def test_a_run_of_which_all_ranks_have_died_has_failed(tmp_path: Path) -> None:
    write(tmp_path, "on_failure: continue", nprocs=3)
    with started_tree(RUN, tmp_path, {"WILKINS_RSH": str(HERE)}) as run:
        wait_for(lambda: "step 1 (s1.h5)" in run.told(), 120, "two steps")
        for pid in ranks_of(tmp_path).values():
            os.kill(pid, signal.SIGKILL)
        done = run.wait(60)
        wait_for(lambda: not processes_in(tmp_path), 10, "the end of all")
    assert done.code == 1 and "none is left" in done.out, done.said
