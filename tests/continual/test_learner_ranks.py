"""Several ranks learn what one process would learn from all their samples, whatever their shares are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from continual.learning import torch, weights

from support.running import MPIEXEC, run_tree, write_program
from wilkins.tasks import continual

pytestmark = [pytest.mark.needs("python:torch", MPIEXEC), pytest.mark.timeout(400)]

PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "rehearsal" / "together.py"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def alone(ranks: int) -> tuple[Any, Any]:
    """A process that trains on the samples of all ranks; its model and what it says of the samples of a step."""
    from programs.rehearsal.together import STEPS, batch_of, model_of

    model = model_of(5)
    optimizer = torch().optim.SGD(model.parameters(), 0.1)
    with continual.Learner(model, continual.Incremental(), optimizer) as learner:
        for step in range(STEPS):
            learner.step(joined(batch_of, step, ranks))
        return model, learner.evaluate(joined(batch_of, 2, ranks))


def regularised_alone(ranks: int, regulariser: Any) -> Any:
    """A process that trains on the experiences of all ranks; its parameters."""
    from programs.rehearsal.together import batch_of, model_of

    model = model_of(5)
    optimizer = torch().optim.SGD(model.parameters(), 0.1)
    with continual.Learner(model, continual.Incremental(), optimizer, regularise=[regulariser], batch=100) as learner:
        for step in range(3):
            learner.experience(joined(batch_of, step, ranks), 3)
    return weights(model).numpy()


def joined(batch_of: Any, step: int, ranks: int) -> dict[str, Any]:
    every = [batch_of(step, rank) for rank in range(ranks)]
    return {name: np.concatenate([one[name] for one in every]) for name in ("x", "y")}


@pytest.mark.nightly
@pytest.mark.parametrize("ranks", [2, 3])
def test_unequal_shares(tmp_path: Path, ranks: int) -> None:
    """Also of ranks without samples, at times or always: nobody waits, and every sample counts the same."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(PROGRAM), str(tmp_path)]
    finished = run_tree(command, 180, tmp_path, ONE_THREAD)
    assert finished.code == 0, finished.out + finished.err
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(ranks)]
    model, evaluation = alone(ranks)
    np.testing.assert_allclose(told[0]["incremental"], weights(model).numpy(), atol=2e-6)
    samples, loss, accuracy = told[0]["evaluation"]
    assert (samples, accuracy) == (evaluation.samples, evaluation.accuracy)
    assert loss == pytest.approx(evaluation.loss, rel=1e-5)
    for name, made in (("ewc", continual.EWC), ("lwf", continual.LwF)):
        np.testing.assert_allclose(told[0][name], regularised_alone(ranks, made(3.0)), atol=5e-6)
    for name in ("incremental", "rehearsal", "der", "der++", "ewc", "lwf"):
        assert all(one[name] == told[0][name] for one in told), name
    for name in ("rehearsal", "der", "der++"):
        assert {one[f"{name} steps"] for one in told} == {12 + 2 * 7}  # 40 samples in batches of 6: 7 steps, 2 epochs


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["incremental", "rehearsal"])
def test_a_rank_that_fails_does_not_leave_others_waiting(tmp_path: Path, strategy: str) -> None:
    """It has NaN in step 5: it says so, and the other one ends with an error, too."""
    program = write_program(
        tmp_path / "fails.py",
        f"""
import sys
import numpy as np, torch
from mpi4py import MPI
from wilkins.tasks import continual
world = MPI.COMM_WORLD
model = torch.nn.Linear(3, 2)
options = continual.RehearsalOptions(batch=4, candidates=4, representatives=4, samples=20, label="y")
try:
    with continual.process_group(world):
        learned = continual.make_strategy({strategy!r}, options, world)
        with continual.Learner(model, learned, torch.optim.SGD(model.parameters(), 0.1), port="p-*.h5") as learner:
            for step in range(20):
                x = np.ones((4, 3), "f4")
                if step == 5 and world.rank == 1:
                    x[2] = np.nan
                learner.step({{"x": x, "y": np.array([0, 1, 0, 1])}})
except Exception as error:
    print(f"rank {{world.rank}}: {{type(error).__name__}}: {{error}}", flush=True)
    sys.stdout.flush()
    import os
    os._exit(3)
""",
    )
    finished = run_tree([MPIEXEC, "-n", "2", sys.executable, program], 120, tmp_path, ONE_THREAD)
    assert finished.code != 0
    assert "rank 1: BadBatch: training, port 'p-*.h5', step 5, tensor 'x': sample 2 holds NaN" in finished.out


@pytest.mark.nightly
def test_groups_one_after_the_other(tmp_path: Path) -> None:
    """Learners and process groups are made and ended many times: the threads of a group that ends wait for nobody."""
    program = write_program(
        tmp_path / "often.py",
        """
import numpy as np, torch
from mpi4py import MPI
from wilkins.tasks import continual
world = MPI.COMM_WORLD
torch.set_num_threads(1)
def once(number):
    with continual.process_group(world):
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with continual.Learner(model, continual.Incremental(), optimizer) as learner:
            data = {"x": np.ones((4, 3), "f4"), "y": np.zeros(4, int)}
            for _ in range(3):
                learner.step(data)
            learner.evaluate(data)
for number in range(40):
    once(number)
if world.rank == 0:
    print("done")
""",
    )
    finished = run_tree([MPIEXEC, "-n", "2", sys.executable, program], 180, tmp_path, ONE_THREAD)
    assert finished.code == 0, finished.err
    assert finished.out == "done\n"
