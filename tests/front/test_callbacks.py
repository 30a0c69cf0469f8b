"""`actions` of programs that are not Python: the original's passthru callbacks need no Python, others an error says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from front.front_case import Case

from wilkins.plan.callbacks import beyond_passthru

Pair = Callable[..., Case]

ORIGINAL = """\
from wilkins.utils import setup_passthru_callbacks

def prod_callback(vol, rank):
    setup_passthru_callbacks(vol, "producer")

def con_callback(vol, rank, pl_con):
    setup_passthru_callbacks(vol, "consumer", pl_con)

"""
"""passthru-actions.py of the original Wilkins."""
BOTH = {
    "sim": "actions: [passthru-actions, prod_callback]",
    "out": "passthru: 1",
    "ana": "actions: [passthru-actions, con_callback]",
}


@pytest.mark.parametrize("place", [".", "elsewhere", None], ids=["beside the file", "on PYTHONPATH", "not copied"])
def test_the_originals_file_is_accepted_and_noted(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    """Whether its users have copied it, as the original asked them to, or not: `mode: file` does what it did."""
    case = pair(**BOTH)
    if place:
        case.program(f"{place}/passthru-actions.py", ORIGINAL, 0o644)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / place))
    plan = case.plan()
    assert [port.mode for port in plan.ports] == ["file", "file"]
    notes = [note for note in plan.notes if "accepted and not used" in note]
    assert len(notes) == 2
    assert "workflow.yaml:3:14: note: task 'sim': 'actions: [passthru-actions, prod_callback]'" in notes[0]
    assert all("'mode: file'" in note for note in notes)
    assert not any("WILKINS_ACTIONS" in task.env for task in plan.tasks)


def test_a_file_that_does_more_under_the_originals_name_is_an_error(pair: Pair) -> None:
    case = pair(**BOTH)
    more = ORIGINAL.replace('"producer")', '"producer")\n    vol.serve_on_close = False')
    case.program("passthru-actions.py", more)
    found = case.error()
    assert found.startswith("workflow.yaml:3:14: error: task 'sim': 'actions: [passthru-actions, prod_callback]': ")
    assert "passthru-actions.py:5 does something else, and 'sim' is not a Python program" in found
    assert "'publish' on its out-ports" in found and "'mode'" in found


def test_a_module_that_is_nowhere_is_told_with_what_was_searched(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/no/such/folder")
    case = pair(sim="actions: [my-actions, serve_fourth]")
    found = case.error()
    assert "'actions: [my-actions, serve_fourth]': 'sim' is not a Python program" in found
    assert f"there is no my-actions.py in {case.folder}, /no/such/folder;".replace(f"{case.folder}/", "") in found
    assert "'publish' on its out-ports" in found
    assert "there is no passthru-actions.py" in pair(sim="actions: [passthru-actions, my_callback]").error()


def test_a_python_program_calls_a_function_of_a_file_with_a_hyphen(pair: Pair) -> None:
    case = pair(sim="actions: [my-actions, serve_fourth]")
    case.program("sim", "#!/usr/bin/env python3\n")
    (sim, _) = case.plan().tasks
    assert sim.env["WILKINS_ACTIONS"] == f"my-actions:serve_fourth:{case.folder}"


@pytest.mark.parametrize("words", ["[../actions, act]", "['a b', act]", "[actions, no-function]", "[act/ions, act]"])
def test_what_is_no_file_or_function_is_refused(pair: Pair, words: str) -> None:
    assert "must be the name of a Python file without its folder" in pair(sim=f"actions: {words}").error()


@pytest.mark.parametrize(
    "text",
    [
        ORIGINAL,
        "'''As above.'''\nimport wilkins.utils\n\ndef prod_callback(vol, rank, pl_con=()):\n    '''Files.'''\n"
        "    wilkins.utils.setup_passthru_callbacks(vol, 'producer', pl_con, keep=True)\n",
        "from wilkins.utils import setup_passthru_callbacks as setup\nimport sys\n\ndef helper():\n    print('x')\n\n"
        "def prod_callback(v, r):\n    setup(v, 'producer', keep=False)\n",
        "from wilkins import utils\n\ndef prod_callback(vol, rank):\n"
        "    utils.setup_passthru_callbacks(vol, 'producer')\n",
        "dw_counter = 0\n\ndef prod_callback(vol, rank):\n    pass\n",
    ],
)
def test_what_does_no_more_than_to_set_up_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "actions.py").write_text(text)
    assert beyond_passthru(tmp_path / "actions.py", "prod_callback") == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ORIGINAL.replace("prod_callback", "other"), "has no function 'prod_callback'"),
        (ORIGINAL + ORIGINAL, "has several functions 'prod_callback'"),
        (ORIGINAL + "print('imported')\n", ":9 is done when the module is imported"),
        (ORIGINAL + "setup_passthru_callbacks = print\n", ":9 is done when the module is imported"),
        (ORIGINAL + "def setup_passthru_callbacks(*a):\n    exit()\n", ":4 does something else"),
        (ORIGINAL.replace("wilkins.utils", "mine"), ":4 does something else"),
        (ORIGINAL.replace('vol, "producer"', "open('x', 'w'), 'producer'"), ":4 does something else"),
        (ORIGINAL.replace('"producer"', "'producer', print('x')"), ":4 does something else"),
        (ORIGINAL.replace('"producer"', "'writer'"), ":4 does something else"),
        (ORIGINAL.replace("def prod", "@staticmethod\ndef prod"), "is not a plain function of 'vol'"),
        (ORIGINAL.replace("(vol, rank)", "(vol, rank=print('x'))"), "is not a plain function of 'vol'"),
        ("def prod_callback(:\n", "cannot be read as Python"),
    ],
)
def test_what_does_more(tmp_path: Path, text: str, why: str) -> None:
    """Also what only might: no line of the file is run to find out."""
    (tmp_path / "actions.py").write_text(text)
    assert why in beyond_passthru(tmp_path / "actions.py", "prod_callback")
