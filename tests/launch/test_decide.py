"""What the end of a program means for its task."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wilkins.launch.watch.decide import Exit, Facts, after_exit, met_end
from wilkins.transport.report_table import FailedOpen

CONSUMER = Facts(
    rerun="auto",
    strict_end=False,
    takes_filename=False,
    in_ports=1,
    opened=1,
    read=1,
    listed="no",
    at_end=False,
    met_failure=False,
    untouched=(),
)
PRODUCER = replace(CONSUMER, in_ports=0, opened=0, read=0, at_end=True)


@pytest.mark.parametrize(
    ("code", "facts", "verdict"),
    [
        pytest.param(0, CONSUMER, "again", id="one step"),
        pytest.param(0, replace(CONSUMER, opened=2, read=2), "done", id="a loop"),
        pytest.param(0, replace(CONSUMER, opened=0, read=0), "done", id="no step"),
        pytest.param(0, replace(CONSUMER, opened=2, read=2, listed="some"), "again", id="read what it had listed"),
        pytest.param(0, replace(CONSUMER, opened=0, read=2, listed="some"), "done", id="listed, and read nothing"),
        pytest.param(0, replace(CONSUMER, opened=2, listed="some", rerun="never"), "done", id="never after a listing"),
        pytest.param(0, replace(CONSUMER, listed="all"), "done", id="was shown all and read one"),
        pytest.param(0, replace(CONSUMER, opened=2, rerun="always"), "again", id="always"),
        pytest.param(0, replace(CONSUMER, rerun="never"), "done", id="never"),
        pytest.param(0, replace(CONSUMER, opened=0, takes_filename=True), "again", id="left out the step it was given"),
        pytest.param(0, replace(PRODUCER, rerun="always"), "done", id="a producer has no stream to follow"),
        pytest.param(0, PRODUCER, "done", id="producer"),
        pytest.param(0, replace(PRODUCER, untouched=("*.h5",)), "untouched", id="producer that never wrote"),
        pytest.param(1, PRODUCER, "failed", id="failing producer"),
        pytest.param(0, replace(PRODUCER, met_failure=True), "failed", id="producer whose file could not be stored"),
        pytest.param(1, CONSUMER, "failed", id="failing consumer"),
        pytest.param(1, replace(CONSUMER, at_end=True), "ended at end of stream", id="after the end"),
        pytest.param(1, replace(CONSUMER, at_end=True, strict_end=True), "failed", id="strict"),
        pytest.param(1, replace(CONSUMER, at_end=True, read=0), "failed", id="nothing was ever read"),
        pytest.param(-11, replace(CONSUMER, at_end=True), "failed", id="a crash is no end"),
        pytest.param(139, replace(CONSUMER, at_end=True), "failed", id="nor is one that mpiexec reports"),
    ],
)
def test_verdict(code: int, facts: Facts, verdict: str) -> None:
    assert after_exit(Exit(code), facts) == verdict


LOOP = FailedOpen(port=0, name="plt3.h5", sought="next name", steps=0, opens=2, process=1, went_on="no", then="")


@pytest.mark.parametrize(
    ("vain", "before", "now", "met"),
    [
        pytest.param(None, 0, 3, False, id="asked for nothing in vain"),
        pytest.param(LOOP, 0, 3, True, id="the next name"),
        pytest.param(replace(LOOP, sought="next step", steps=2), 0, 2, True, id="the next step of a name"),
        pytest.param(replace(LOOP, went_on="wrote"), 0, 3, False, id="wrote afterwards"),
        pytest.param(replace(LOOP, went_on="read"), 0, 3, False, id="read on"),
        pytest.param(replace(LOOP, sought="only step", steps=1), 0, 1, False, id="a second open of one step"),
        pytest.param(replace(LOOP, sought="only step", steps=1), 1, 1, True, id="of a stream that was read before"),
        pytest.param(replace(LOOP, sought="only step"), 2, 1, False, id="a name that never came"),
        pytest.param(replace(LOOP, sought="unequal", steps=2), 0, 4, False, id="opened unequally often"),
        pytest.param(replace(LOOP, sought="unread", steps=2), 0, 4, False, id="with others unread"),
        pytest.param(replace(LOOP, sought="gone"), 0, 4, False, id="gone"),
        pytest.param(replace(LOOP, sought="strange"), 0, 4, False, id="unlike all others"),
        pytest.param(replace(LOOP, sought="strange"), 3, 0, True, id="nothing was left of a resumed run"),
    ],
)
def test_the_end_of_a_stream(vain: FailedOpen | None, before: int, now: int, met: bool) -> None:
    assert met_end(vain, before=before, now=now) is met


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-11, "killed by SIGSEGV"),
        (134, "exit code 134 (SIGABRT)"),
        (255, "exit code 255"),
    ],
)
def test_an_exit_says_what_happened(code: int, text: str) -> None:
    assert str(Exit(code)) == text
