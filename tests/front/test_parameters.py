"""Parameters of a workflow file: declared with type and range, used in values, set on the command line."""

from __future__ import annotations

import pytest
from front.front_case import Case

from wilkins.spec.load import load

TASKS = "tasks: [{func: ./sim, nprocs: '${ranks}', args: ['${rate}', '${title}', '${on}']}]\n"
DECLARED = """
parameters:
  ranks: {default: 2, min: 1, max: 8, doc: Ranks.}
  rate: {default: 0.5, min: 0}
  title: {default: "12"}
  on: {default: true}
"""


def arguments(case: Case, *overrides: str) -> tuple[str, ...]:
    """The arguments that the task gets."""
    return case.plan(*overrides).tasks[0].args


def test_defaults_are_used(case: Case) -> None:
    plan = case.write(DECLARED + TASKS).plan()
    assert plan.tasks[0].nprocs == 2
    assert plan.tasks[0].args == ("0.5", "12", "true")
    assert not plan.notes


def test_set_gives_other_values(case: Case) -> None:
    case.write(DECLARED + TASKS)
    assert arguments(case, "rate=3", "title=a b", "on=False") == ("3.0", "a b", "false")
    assert case.plan("ranks=4").tasks[0].nprocs == 4


def test_a_parameter_comes_before_the_environment(case: Case) -> None:
    case.write("parameters: {n: {default: 3}}\ntasks: [{func: ./sim, args: ['${n}', '${m}', '$${n}']}]\n")
    assert load(case.path, environment={"n": "7", "m": "8"}).workflow.tasks[0].args == ("3", "8", "${n}")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("ranks=9", "parameter 'ranks' must be a whole number from 1 to 8, not 9"),
        ("ranks=1.5", "parameter 'ranks' must be a whole number from 1 to 8, not '1.5'"),
        ("ranks=many", "not 'many'"),
        ("ranks=[1]", "must be a number, true or false, or a text, not a list"),
        ("rate=-1", "parameter 'rate' must be a number of 0 or more, not -1"),
        ("rate=.inf", "parameter 'rate' must be a number of 0 or more"),
        ("on=perhaps", "parameter 'on' must be true or false, not 'perhaps'"),
        ("ranks", "write it with a value, as ranks=..."),
        ("rnks=2", "there is no parameter or key 'rnks'; did you mean 'ranks'?"),
    ],
)
def test_wrong_settings(case: Case, setting: str, words: str) -> None:
    found = case.write(DECLARED + TASKS).errors(setting)
    assert words in found[0]
    assert found[0].startswith(f"--set {setting}: error: ")


@pytest.mark.parametrize(
    ("declared", "place", "words"),
    [
        ("n: {default: 3, max: 2}", "2:16", "parameter 'n' must be a whole number of at most 2, not 3"),
        ("n: {default: 3, min: 5, max: 2}", "2:24", "'min' is 5, more than 'max', 2"),
        ("n: {default: x, min: 5}", "2:24", "'min' is for numbers"),
        ("n: {default: c, choices: [a, b]}", "2:16", "parameter 'n' must be one of a, b, not 'c'"),
        ("n: {default: 1, choices: [1, b]}", "2:28", "the choice 'b' is not a whole number"),
        ("n: {doc: x}", "2:6", "the key 'default' is missing"),
        ("n: {default: 1, mni: 2}", "2:19", "unknown key 'mni'; did you mean 'min'?"),
        ("memory: {default: 1}", "2:11", "is also a key of the file"),
        ("a-b: {default: 1}", "2:8", "has only letters, digits and '_'"),
        ("n: 3", "2:6", "parameter 'n' must be a mapping"),
    ],
)
def test_wrong_declarations(case: Case, declared: str, place: str, words: str) -> None:
    text = f"parameters:\n  {declared}\ntasks: [{{func: ./sim, args: ['${{n}}']}}]\n"
    case.write(text.replace("['${n}']", "[]"))
    found = case.errors()
    assert found == [found[0]]
    assert found[0].startswith(f"workflow.yaml:{place}: error: ")
    assert words in found[0]


def test_a_misspelt_use_is_pointed_out(case: Case) -> None:
    case.write("parameters: {rate: {default: 1}}\ntasks: [{func: ./sim, args: ['${rat}', '${rate}']}]\n")
    assert case.error().endswith("'rat', which is not set; did you mean 'rate'?")


def test_an_unused_parameter_is_noted(case: Case) -> None:
    plan = case.write("parameters: {rate: {default: 1}}\ntasks: [{func: ./sim}]\n").plan()
    assert plan.notes == (f"{case.path}:1:20: note: parameter 'rate' is not used; write ${{rate}}, or remove it",)
