"""How each scheduler is found, and asked for what a job needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wilkins.errors import UsageError
from wilkins.submit import arguments
from wilkins.submit.request import JobRequest
from wilkins.submit.schedulers import SCHEDULERS, choose

JOB = JobRequest(
    "heat",
    ("run",),
    Path("/here"),
    Path("/out"),
    cores=8,
    minutes=90,
    gpus=2,
    memory=10**9,
    queue="short",
    account="p1",
)


def test_the_only_one_that_is_here_is_taken() -> None:
    assert choose(None, ["qsub"]).name == "pbs"
    assert choose("slurm", []).name == "slurm"


def test_with_none_the_error_says_how_to_go_on() -> None:
    with pytest.raises(
        UsageError, match=r"none of sbatch, qsub, flux, bsub is on PATH; .*--dry-run --scheduler slurm\|"
    ):
        choose(None, [])


def test_with_several_the_error_names_them() -> None:
    with pytest.raises(UsageError, match=r"sbatch \(Slurm\) and flux \(Flux\) are on PATH; .*--scheduler slurm\|flux$"):
        choose(None, ["flux", "sbatch"])


def test_the_command_line_knows_them_all() -> None:
    assert tuple(SCHEDULERS) == arguments.SCHEDULERS


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("slurm", ["--job-name=heat", "--time=90", "--gpus-per-node=2", "--signal=B:TERM@60"]),
        ("pbs", ["-N heat", "-l walltime=01:30:00"]),
        ("lsf", ["-J heat", "-W 90", "-wa TERM -wt 1", "-gpu num=2"]),
        (
            "flux",
            [
                "--job-name=heat",
                "--time-limit=90m",
                "--signal=TERM@60s",
                "--nodes=1",
                "--nslots=1",
                "--cores-per-slot=8",
                "--gpus-per-slot=2",
                "--queue=short",
                "--bank=p1",
            ],
        ),
    ],
)
def test_options_that_are_not_psijs(name: str, options: list[str]) -> None:
    assert list(SCHEDULERS[name].options(JOB)) == options


def test_a_short_job_is_not_told_as_it_begins() -> None:
    assert not any("signal" in option for option in SCHEDULERS["slurm"].options(replace(JOB, minutes=2)))


def test_what_a_script_cannot_say_is_told() -> None:
    assert ":ngpus=2" in SCHEDULERS["pbs"].lacks(JOB)
    assert "--memory" in SCHEDULERS["flux"].lacks(JOB)
    for one in SCHEDULERS.values():
        assert one.lacks(replace(JOB, gpus=0, memory=None)) == ""
