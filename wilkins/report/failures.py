"""What `wilkins simulate --failures` says: what failures cost a training, and what to do about them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wilkins.errors import UsageError, suggest
from wilkins.flow.failures import Advice, Training, advice, daly, expected_restart, simulate, sweep, young
from wilkins.schema.kinds import parse_duration
from wilkins.terminal import streams

_TIMES = ("mtbf", "work", "step", "fixed", "checkpoint", "restart", "recover", "replace", "interval")
_NUMBERS = ("ranks", "together")
_EXAMPLE = "MTBF=500h,ranks=64,work=7d,step=2s,checkpoint=1min"
_FACTORS = (0.25, 1.0, 4.0)


def failures(text: str) -> int:
    """Print what the failures that `text` describes come to; returns the exit code.

    Raises:
        UsageError: it says nothing that can be simulated.
    """
    training, interval = parsed(text)
    streams.show(page(training, interval))
    return 0


def parsed(text: str) -> tuple[Training, float | None]:
    """The training that ``MTBF=...,ranks=...`` describes, and the interval of its checkpoints, if that is given.

    Raises:
        UsageError: it is not so.
    """
    given: dict[str, float] = {}
    for word in text.split(","):
        name, equals, value = word.strip().partition("=")
        name = name.lower()
        if not equals or name not in (*_TIMES, *_NUMBERS):
            raise UsageError(
                f"--failures takes {_EXAMPLE} and more, not {word.strip()!r}{suggest(name, [*_TIMES, *_NUMBERS])}"
            )
        try:
            given[name] = _value(name, value)
        except ValueError:
            kind = "a time such as 30s, 10min, 500h" if name in _TIMES else "a number"
            raise UsageError(f"--failures: {name!r} must be {kind}, not {value!r}") from None
    interval = given.pop("interval", None)
    if "mtbf" not in given:
        raise UsageError(f"--failures needs the mean time between failures of a rank: --failures {_EXAMPLE}")
    if "ranks" in given:
        given["ranks"] = int(given["ranks"])
    try:
        training = Training(**given)  # type: ignore[arg-type]
    except ValueError as error:
        raise UsageError(f"--failures: {error}") from None
    return training, interval


def _value(name: str, value: str) -> float:
    if name in _TIMES:
        return math.inf if name == "replace" and value == "never" else parse_duration(value)
    return float(int(value)) if name == "ranks" else float(value)


def page(training: Training, interval: float | None = None) -> str:
    """The whole of it, as text."""
    ways = advice(training, interval)
    best = ways[0]
    lines = [
        f"{training.ranks} ranks, a failure every {_time(training.between)} of which {training.together:.0%} end all; "
        f"{_time(training.work)} of work",
        "",
        *_table(
            ("policy", "interval", "takes", "overhead", "again", "down", "saving", "failures", "left out"),
            [_row(training, one) for one in ways],
        ),
        "",
        *_check(training, interval),
        "",
        "policy with the least time, and its overhead:",
        *_table(("", *(f"MTBF {_time(training.mtbf * factor)}" for factor in _FACTORS)), _others(training)),
        "",
        f"advice: {_advised(best)}",
    ]
    return "\n".join(lines)


def _row(training: Training, one: Advice) -> tuple[str, ...]:
    made = one.outcome
    takes = _time(made.time) if made.ended == 1 else "does not end"
    shares = [made.time / training.work - 1, made.lost / training.work, made.down / training.work]
    shares.append(made.saving / training.work)
    left_out = f"{made.unsampled:.2%}" if one.policy == "lossy" else "-"
    return (
        one.policy,
        _time(one.interval),
        takes,
        *(f"{share:.1%}" for share in shares),
        f"{made.failures:.1f}",
        left_out,
    )


def _check(training: Training, interval: float | None) -> list[str]:
    """How the simulation of `restart` compares with formulas."""
    by_daly = daly(training.checkpoint, training.between)
    used = interval or by_daly
    if not used:
        return ["checkpoints cost nothing: write one after each step"]
    made, expected = simulate(training, "restart", used).time, expected_restart(training, used)
    return [
        f"restart by formula: an interval of {_time(young(training.checkpoint, training.between))} (Young), "
        f"{_time(by_daly)} (Daly); with {_time(used)} it takes {_time(expected)} (Daly), {_time(made)} as simulated"
    ]


def _others(training: Training) -> list[tuple[str, ...]]:
    """The best policy for other rates of failures, and other numbers of ranks."""
    rows = []
    for some, _ in sweep(training, "ranks", _FACTORS):
        cells = []
        for other, ways in sweep(some, "mtbf", _FACTORS):
            overhead = ways[0].outcome.time / other.work - 1
            cells.append(f"{ways[0].policy} {overhead:.1%}" if ways[0].outcome.ended == 1 else "none ends")
        rows.append((f"{some.ranks} ranks", *cells))
    return rows


def _advised(best: Advice) -> str:
    key = {"restart": "restart", "rollback": "continue", "lossy": "lossy"}[best.policy]
    where = "'on_failure: restart' of the task" if key == "restart" else f"'on_failure: {key}' under 'train:'"
    if best.outcome.ended < 1:
        return "no policy comes to the end; make checkpoints cheaper, or use fewer ranks"
    return f"{best.policy} ({where}), with a checkpoint after each {_time(best.interval)} of work"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return [
        "  ".join(
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _time(seconds: float) -> str:
    """As one would say it, to three digits."""
    if seconds == math.inf:
        return "never"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
