"""Programs use files between hosts as on one: the habits of tests/habits, each program with a keeper of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.hooks import LIBRARY

TESTS = Path(__file__).resolve().parents[1]
HERE = Path(__file__).with_name("here")
"""Stands for ssh: keepers of all hosts are on this machine, so that nothing needs root."""

SOME = (
    "folder-subfolder-chdir",
    "look-exists-h5",
    "order-two-ports-one-after-the-other",
)
ALLOWS_MORE = {"poll-marker-after-all"}
"""Stuck as on one host, but three steps later: a relay holds some."""


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("names", [SOME, pytest.param((), marks=pytest.mark.nightly)], ids=["some", "all"])
@pytest.mark.parametrize(
    "steps", ["whole", pytest.param("lent", marks=[pytest.mark.needs("hooks"), pytest.mark.nightly])]
)
def test_files_are_read_as_on_one_host(names: tuple[str, ...], steps: str) -> None:
    """These programs' files are so small that they cross whole, but with the layer that lends all."""
    compare({"WILKINS_LIBRARY": str(LIBRARY)} if steps == "lent" else {}, "-j", "3", *names)


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_a_listing_waits_for_files_that_were_there_before_those_it_has_got() -> None:
    """Of two ports, the relay of the second may bring a step first, as on a busy machine."""
    compare({}, "-j", "6", "-n", "40", "list-two-kinds")


def compare(variables: dict[str, str], *options: str) -> None:
    """Run habits between hosts, and with files."""
    hosts = {"WILKINS_RSH": str(HERE), "WILKINS_HOSTS": "a:1,b:1,c:1,d:64"}
    done = subprocess.run(
        [sys.executable, "-m", "habits", "-q", "-m", "memory", "-p", "free", *options],
        cwd=TESTS,
        env={**os.environ, **hosts, **variables},
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
    )
    wrong = [line for line in done.stdout.splitlines() if line.partition(",")[0] not in ALLOWS_MORE]
    assert not wrong, "\n".join(wrong) + done.stderr
    assert done.returncode in (0, 1)
