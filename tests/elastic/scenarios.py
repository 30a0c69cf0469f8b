"""Trainings by ranks that are forked from this process, which has torch in it already: each takes a second.

python scenarios.py NAME ...      prints, a line of JSON for each: exit code, what ranks say, what their parent says
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from wilkins.tasks.elastic import Elastic, Step, gloo
from wilkins.tasks.elastic.parent import Parent
from wilkins.tasks.elastic.processes import Processes

STEPS = 12
LIMIT = 40
"""Seconds after which a training that has not ended is killed."""


class Net(torch.nn.Module):
    """With running means, and a buffer that is in no state."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
        self.register_buffer("unsaved", torch.randn(8), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of samples of six numbers."""
        made: torch.Tensor = self.last(self.norm(self.first(x)) * self.unsaved)
        return made


class Training:
    """One rank's: what it does in a step before it commits, and after."""

    def __init__(self, *, total: int = STEPS, patience: float = 30.0, frozen: bool = False) -> None:
        torch.manual_seed(os.getpid())  # models differ until they are made one
        self.model = Net()
        self.model.first.requires_grad_(not frozen)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.elastic = Elastic(self.model, self.optimizer, seed=1, patience=patience)
        self.total = total

    def run(self, before: Callable[[Step], None], after: Callable[[Step], None] = lambda _: None) -> dict[str, Any]:
        """Train; what is to be said at the end."""
        for step in self.elastic.steps(self.total):
            before(step)
            x = torch.randn(12, 6, generator=torch.Generator().manual_seed(step.number))[step.share(12)]
            torch.autograd.backward(self.model(x).square().mean())
            self.elastic.commit(len(x))
            after(step)
        tensors = [*self.model.state_dict().values(), self.model.unsaved]
        state = hashlib.sha256(b"".join(one.numpy().tobytes() for one in tensors)).hexdigest()
        return {
            "rank": self.elastic.rank,
            "step": self.elastic.step,
            "ranks": self.elastic.ranks,
            "state": state,
            "rate": self.optimizer.param_groups[0]["lr"],
            "batches": int(self.model.state_dict()["norm.num_batches_tracked"]),
        }


def dies_once(rank: int, number: int) -> Callable[[Step], None]:
    """Kills rank 1 in a step, the first time; the other one is in this step until rank 1 waits to join."""
    if Path("died").exists():
        Path("back").touch()

    def before(step: Step) -> None:
        if rank == 1 and step.number == number and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 0 and step.number == number and step.ranks == 2:
            while not Path("back").exists():
                time.sleep(0.02)
            time.sleep(0.3)

    return before


def own_schedule(rank: int) -> dict[str, Any]:
    """The program changes learning rates step by step, which a rank that joins has not seen."""
    training = Training()

    def after(_: Step) -> None:
        training.optimizer.param_groups[0]["lr"] *= 0.9

    return training.run(dies_once(rank, 5), after)


def joins(rank: int) -> dict[str, Any]:
    """A rank joins while another one has a step under way that is discarded then; rates go by the step's number."""
    training, dies = Training(), dies_once(rank, 5)

    def before(step: Step) -> None:
        dies(step)
        training.optimizer.param_groups[0]["lr"] = 0.01 / (3 + step.number)

    return training.run(before)


def leaves(rank: int) -> dict[str, Any]:
    """A rank leaves early as if all were well, and later the other one is killed."""

    def before(step: Step) -> None:
        if rank == 1 and step.number == 4:
            sys.exit(0)
        if rank == 0 and step.number == 8:
            os.kill(os.getpid(), signal.SIGKILL)

    return Training().run(before)


def totals_differ(rank: int) -> dict[str, Any]:
    """Ranks want different numbers of steps."""
    return Training(total=8 + 4 * rank).run(lambda _: None)


def stands_still(rank: int) -> dict[str, Any]:
    """A rank is stopped as it is about to connect to the next group."""
    told = gloo._Store.set

    def stop_and_set(store: Any, key: str, value: Any) -> None:
        if rank == 1 and store._generation == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        told(store, key, value)

    vars(gloo)["_Store"].set = stop_and_set

    def before(step: Step) -> None:
        if rank == 2 and step.number == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    return Training(patience=4.0).run(before)


def frozen_differ(rank: int) -> dict[str, Any]:
    """A rank freezes what the other one trains."""
    return Training(frozen=rank == 1).run(lambda _: None)


def connects_to_none(_: int) -> dict[str, Any]:
    """Ranks may open no more files, and a connection is one."""
    training = Training()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len([*Path("/dev/fd").iterdir()]) - 1, before[1]))
    try:
        return training.run(lambda _: None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def loses(rank: int) -> dict[str, Any]:
    """A rank says what is lost with it, and dies."""
    training = Training()

    def before(step: Step) -> None:
        training.elastic.tell_loss(f"{step.number} samples")
        if rank == 1 and step.number == 5:
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGKILL)

    return training.run(before)


RANKS = {"stands_still": 3}
RESTARTS = {"joins": 1, "own_schedule": 1}


def tried(name: str) -> dict[str, Any]:
    """What becomes of a training."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        said: list[str] = []
        ranks, restarts = RANKS.get(name, 2), RESTARTS.get(name, 0)
        parent = Parent([Processes(starter(name, Path(folder)), ranks)], restarts=restarts, say=said.append)
        signal.signal(signal.SIGALRM, lambda *_: parent.stop())
        signal.alarm(LIMIT)
        code = parent.run()
        signal.alarm(0)
        results = Path(folder, "results")
        told = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        return {"name": name, "code": code, "ranks": told, "said": said, "errors": Path(folder, "errors").read_text()}


def starter(name: str, folder: Path) -> Callable[[int, Mapping[str, str]], int]:
    """Forks ranks, which write what they say, and their errors, in a folder."""
    Path(folder, "errors").touch()

    def start(rank: int, variables: Mapping[str, str]) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.chdir(folder)
            os.environ.update(variables)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            found = globals()[name](rank)
            with Path("results").open("a") as file:
                file.write(json.dumps(found) + "\n")
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException:
            with Path("errors").open("a") as file:
                file.write(traceback.format_exc())
        finally:
            os._exit(code)

    return start


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.optim.Adam([torch.nn.Parameter(torch.ones(1))])  # imports what ranks would import each
    for one in sys.argv[1:]:
        print(json.dumps(tried(one)), flush=True)
