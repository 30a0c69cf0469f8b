"""A training loop of one's own in the hands of `Elastic`: what it means for gradients, buffers, rates and commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from wilkins.tasks.elastic import Elastic, ElasticError  # noqa: E402
from wilkins.tasks.elastic.tensors import Contribution, as_bytes, from_bytes  # noqa: E402

LOOP = """
import glob, hashlib, json, os, signal, sys, time
import torch
from wilkins.tasks.elastic import Elastic
torch.set_num_threads(1)
torch.manual_seed(os.getpid())  # models differ until they are made one
model = torch.nn.Linear(6, 3)
elastic = Elastic(model, torch.optim.SGD(model.parameters(), lr=0.1))
open(f"comes-{os.getpid()}", "w").close()
for step in elastic.steps(30):
    if step.number == 10 and elastic.rank in json.loads(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2:] and elastic.rank == 0:
        time.sleep(0.1)
        while step.number == 5 and len(glob.glob("comes-*")) < int(sys.argv[2]):
            time.sleep(0.05)
    x = torch.randn(12, 6, generator=torch.Generator().manual_seed(step.number))[step.share(12)]
    model(x).square().mean().backward()
    elastic.commit(len(x))
state = torch.cat([one.detach().flatten() for one in model.parameters()])
print(json.dumps([elastic.rank, elastic.step, elastic.ranks, state.tolist()]), flush=True)
"""


def run(folder: Path, ranks: int, dead: list[int], *more: str, restarts: int = 0) -> tuple[int, list[Any], str]:
    """Exit code, what ranks have said at their ends, and what their parent has said."""
    (folder / "loop.py").write_text(LOOP)
    words = [sys.executable, "-m", "wilkins.tasks.elastic", "-n", str(ranks), f"--restarts={restarts}", "loop.py"]
    environment = {**os.environ, "TORCH_CPP_LOG_LEVEL": "FATAL"}
    done = subprocess.run(
        [*words, json.dumps(dead), *more],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.nightly  # the guide has the like
def test_a_rank_that_dies_is_done_without(tmp_path: Path) -> None:
    code, said, log = run(tmp_path, 2, [1])
    assert code == 0, log
    ((rank, step, ranks, _),) = said
    assert (rank, step, ranks) == (0, 30, [0])
    assert "rank 1 was killed by signal 9; 1 go on without it" in log


@pytest.mark.nightly
def test_a_run_of_which_none_is_left_has_failed(tmp_path: Path) -> None:
    code, said, log = run(tmp_path, 2, [0, 1])
    assert code == 128 + signal.SIGKILL, log
    assert not said and "none is left" in log


def test_alone_it_is_an_ordinary_loop() -> None:
    torch.manual_seed(3)
    model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
    like = torch.nn.Linear(4, 2)
    like.load_state_dict(model.state_dict())
    elastic = Elastic(model, torch.optim.Adam(model.parameters()))
    optimizer = torch.optim.Adam(like.parameters())
    for step in elastic.steps(5):
        assert step.share(8) == slice(0, 8, 1)
        model(x).square().mean().backward()
        assert elastic.commit(8)
        optimizer.zero_grad()
        like(x).square().mean().backward()
        optimizer.step()
    assert torch.allclose(model.weight, like.weight, atol=1e-6)
    assert elastic.step == 5 and elastic.is_first and elastic.finished


def test_a_step_without_a_commit_is_an_error() -> None:
    model = torch.nn.Linear(2, 1)
    with pytest.raises(ElasticError, match="`commit` once a step"):
        list(Elastic(model, torch.optim.SGD(model.parameters(), lr=1.0)).steps(3))


def test_a_step_with_fewer_samples_takes_a_smaller_rate() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    elastic = Elastic(model, optimizer, scale=8)
    for _ in elastic.steps(1):
        model(torch.ones(2, 1)).mean().backward()
        elastic.commit(2)
    assert model.weight.item() == -0.25 and optimizer.param_groups[0]["lr"] == 1.0


def test_gradients_and_buffers_are_means_over_the_samples_of_all_ranks() -> None:
    torch.manual_seed(0)
    whole = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4))
    unused = torch.nn.Parameter(torch.zeros(2))
    x = torch.randn(12, 5)
    parts = []
    for rows in (slice(0, 9), slice(9, 12)):
        model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4))
        model.load_state_dict(whole.state_dict())
        model.register_parameter("unused", unused)
        contribution = Contribution(model)
        contribution.begin()
        model.eval()(x[rows]).square().mean().backward()
        model[1].running_mean.fill_(float(rows.start))
        contribution.fill(len(x[rows]))
        parts.append((model, contribution))
    total = parts[0][1].sum + parts[1][1].sum
    whole.eval()(x).square().mean().backward()
    for model, contribution in parts:
        contribution.sum.copy_(total)
        assert contribution.give() == 12
        assert torch.allclose(model[0].weight.grad, whole[0].weight.grad, atol=1e-6)
        assert torch.allclose(model[1].running_mean, torch.full((4,), 9 * 3 / 12))
        assert unused.grad is None


def test_a_discarded_step_leaves_no_trace_in_running_means() -> None:
    model = torch.nn.BatchNorm1d(3)
    contribution = Contribution(model)
    contribution.begin()
    model(torch.randn(8, 3))
    assert model.num_batches_tracked == 1
    contribution.discard()
    assert model.num_batches_tracked == 0 and not model.running_mean.any()


def test_a_state_goes_over_as_bytes() -> None:
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = from_bytes(as_bytes({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": None}))
    assert torch.equal(state["model"]["weight"], model.weight)
    assert state["optimizer"]["state"][0]["step"] == 1 and state["schedule"] is None


@pytest.mark.nightly
def test_a_rank_that_stands_still_is_given_up(tmp_path: Path) -> None:
    loop = LOOP.replace("signal.SIGKILL", "signal.SIGSTOP").replace("lr=0.1))", "lr=0.1), patience=2.0)")
    (tmp_path / "loop.py").write_text(loop)
    words = [sys.executable, "-m", "wilkins.tasks.elastic", "-n", "3", "loop.py", "[1]"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "ranks 1 have not answered for 2 s, and are killed" in done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == 2 and said[0][1:] == said[1][1:]
    assert said[0][2] == [0, 2]


@pytest.mark.nightly
def test_a_rank_that_is_started_again_joins(tmp_path: Path) -> None:
    """It needs some seconds to start, and the other one waits for it to come."""
    code, said, log = run(tmp_path, 2, [], "2")
    assert code == 0, log
    assert len(said) == 2 and said[0][3] == said[1][3]
    (tmp_path / "loop.py").write_text(LOOP)
    comes = "5"  # with the two of the first run
    words = [sys.executable, "-m", "wilkins.tasks.elastic", "-n", "2", "--restarts=1", "loop.py", "[]", comes]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stderr is not None
        first = parent.stderr.readline()
        assert "group 1: ranks 0, 1" in first, first
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        time.sleep(0.3)
        os.kill(int(children[1]), signal.SIGKILL)
        out, log = parent.communicate(timeout=100)
    said = [json.loads(line) for line in out.splitlines()]
    assert parent.returncode == 0, log
    assert len(said) == 2 and said[0][1:] == said[1][1:], (said, log)
