"""The simulation of failures: it agrees with Daly's formulas, and the command says what to do."""

from __future__ import annotations

import math

import pytest

from wilkins.errors import UsageError
from wilkins.flow.failures import Training, advice, best_interval, daly, expected_restart, replayed, simulate, young
from wilkins.report.failures import page, parsed

HOUR = 3600.0
MANY = Training(mtbf=50 * HOUR, ranks=50, work=48 * HOUR, checkpoint=60, restart=300)


@pytest.mark.usual("660")
@pytest.mark.parametrize("interval", [300, 660, 1200, 3000])
def test_restarts_take_as_long_as_by_dalys_formula(interval: float) -> None:
    simulated = simulate(MANY, "restart", interval, runs=150)
    assert simulated.time == pytest.approx(expected_restart(MANY, interval), rel=0.01)
    assert simulated.failures == pytest.approx(simulated.time / MANY.between, rel=0.05)


def test_the_best_interval_is_that_of_young_and_daly() -> None:
    by_daly = daly(60, MANY.between)
    assert by_daly == pytest.approx(618, abs=1) and young(60, MANY.between) == pytest.approx(657, abs=1)
    assert by_daly / 1.5 < best_interval(MANY, "restart") < by_daly * 1.5


def test_without_failures_only_checkpoints_take_time() -> None:
    calm = Training(mtbf=1e15, ranks=4, work=1000, checkpoint=10)
    for policy in ("restart", "rollback", "lossy"):
        made = simulate(calm, policy, 100, runs=2)
        assert made.time == pytest.approx(1000 + 9 * 10)
        assert (made.lost, made.down, made.failures, made.saving) == (0, 0, 0, 90)


def test_time_is_work_and_what_was_lost() -> None:
    """With all ranks there all the time, every second is one of these."""
    training = Training(mtbf=20 * HOUR, ranks=10, work=24 * HOUR, replace=0.0)
    for policy in ("restart", "rollback", "lossy"):
        made = simulate(training, policy, HOUR, runs=20)
        assert made.time == pytest.approx(training.work + made.lost + made.down + made.saving)


def test_going_on_without_the_dead_saves_what_restarts_lose() -> None:
    first, second, last = advice(MANY, runs=30)
    assert (first.policy, second.policy, last.policy) == ("rollback", "lossy", "restart")
    assert first.interval > 2 * last.interval  # checkpoints are for failures of all ranks
    assert first.outcome.lost < last.outcome.lost / 2
    assert second.outcome.unsampled > 0 == first.outcome.unsampled


def test_ranks_that_are_not_replaced_make_it_slower() -> None:
    kept, lost = (
        simulate(Training(mtbf=100 * HOUR, ranks=16, work=24 * HOUR, replace=after), "rollback", HOUR, runs=20).time
        for after in (60.0, math.inf)
    )
    assert lost > kept * 1.05


def test_communication_takes_no_longer_with_fewer_ranks() -> None:
    """Half of the ranks are gone after half of the work."""
    known = {"mtbf": 1e9, "ranks": 2, "work": 100.0, "step": 1.0, "recover": 0.0, "replace": math.inf, "together": 0.0}
    for fixed in (0.0, 0.25, 1.0):
        training = Training(**known, fixed=fixed)  # type: ignore[arg-type]
        again = training.step  # of the step that it died in
        made = replayed(training, "rollback", math.inf, [50.0])
        assert made.time == pytest.approx(50 + (50 + again) * (fixed + 2 * (1 - fixed)))


def test_given_failures_cost_what_one_can_count() -> None:
    training = Training(
        mtbf=1.0, ranks=4, work=100, step=1, checkpoint=2, restart=10, recover=0.5, replace=math.inf, together=0
    )
    restarted = replayed(training, "restart", 25, [30.0])  # 25 s of work, a checkpoint, 3 s that are lost
    assert (restarted.time, restarted.lost, restarted.down) == (100 + 3 * 2 + 3 + 10, 3, 10)
    alone = replayed(training, "lossy", 100, [20.0])
    assert alone.time == pytest.approx(20 + 0.5 + 80 / 0.75) and alone.unsampled == pytest.approx(0.25 / 100)
    again = replayed(training, "rollback", 100, [20.0])
    assert again.time == pytest.approx(20 + 0.5 + 81 / 0.75) and again.lost == 1


def test_one_that_never_ends_is_given_up() -> None:
    made = simulate(Training(mtbf=30, ranks=8, work=HOUR, restart=120), "restart", 60, runs=2)
    assert made.ended == 0


def test_the_command_says_what_to_do() -> None:
    training, interval = parsed("MTBF=50h,ranks=50,work=2d,checkpoint=1min,restart=5min")
    assert training == MANY and interval is None
    text = page(training)
    assert "advice: rollback ('on_failure: continue' under 'train:'), with a checkpoint after each" in text
    assert "an interval of 11 min (Young), 10.3 min (Daly)" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ranks=4", "needs the mean time between failures"),
        ("MTBF=2h,rnks=4", "did you mean 'ranks'"),
        ("MTBF=soon", "'mtbf' must be a time"),
        ("MTBF=2h,ranks=0", "'ranks' must be more than 0"),
        ("MTBF=2h,together=2", "a share from 0 to 1"),
        ("MTBF=2h,step=1s,fixed=2s", "'fixed' is a part of 'step'"),
        ("MTBF=2h,interval=0s", "'interval' must be a time"),
    ],
)
def test_what_cannot_be_simulated_is_said(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parsed(words)
