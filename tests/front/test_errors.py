"""How errors are told: a line that says what to mend, or that Wilkins is at fault; tracebacks for those who ask."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest
from front.front_case import Case

from wilkins import cli

Pair = Callable[..., Case]
Plan = Callable[[BaseException], str]


@pytest.fixture
def failing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The name of a workflow file whose planning fails with an error."""

    def fail(error: BaseException) -> str:
        def planned(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("wilkins.plan.planner.plan_file", planned)
        return str(pair().path)

    return fail


def _refusal(number: int, name: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), name)


@pytest.mark.parametrize(
    "error",
    [KeyError("plt"), _refusal(errno.ENOENT, "/inside"), _refusal(errno.EBADF), _refusal(errno.EPIPE)],
    ids=lambda error: type(error).__name__,
)
def test_a_fault_of_wilkins_says_that_it_is_one(
    failing: Plan, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """No reader of the output has gone away here, and no file of the user's is missing."""
    assert cli.main(["check", failing(error)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"wilkins: error: this is a fault of Wilkins, please report it: {type(error).__name__}: ")
    assert told.endswith("; the same command with --debug shows where\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "give yourself the right"),
        (errno.EROFS, "name another place"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EAGAIN, "ulimit -u"),
    ],
)
def test_what_the_machine_refuses_is_told_with_its_cure(
    failing: Plan, capsys: pytest.CaptureFixture[str], number: int, cure: str
) -> None:
    assert cli.main(["check", failing(_refusal(number, "/data/x"))]) == 3
    told = capsys.readouterr().err
    assert told.startswith(f"wilkins: error: /data/x: cannot go on: {os.strerror(number)}; ")
    assert cure in told
    assert "fault" not in told


@pytest.mark.parametrize("words", [["--debug", "check"], ["check", "--debug"], ["check"]], ids=" ".join)
def test_tracebacks_on_demand(
    failing: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    if "--debug" not in words:
        monkeypatch.setenv("WILKINS_DEBUG", "1")
    assert cli.main([*words, failing(KeyError("plt"))]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert any("in planned" in line for line in lines)
    assert lines[-1] == "wilkins: error: this is a fault of Wilkins, please report it: KeyError: 'plt'"


@pytest.mark.parametrize("words", [["ckpt", "list", "--debug", "."], ["--debug", "ckpt", "list", "."]], ids=" ".join)
def test_a_user_s_mistake_has_a_traceback_only_on_demand(
    tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert cli.main([word for word in words if word != "--debug"]) == 2
    plain = capsys.readouterr().err
    assert plain.startswith("wilkins: error: . holds no checkpoints")
    assert "Traceback" not in plain
    assert cli.main(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert told.endswith(plain)
