"""Workflow files that are no workflow files: each ends in one line that says where, what and how to mend it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from front.front_case import Case

from wilkins.errors import WorkflowError
from wilkins.spec.load import load


def message(path: Path) -> str:
    with pytest.raises(WorkflowError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    assert message(tmp_path / "no.yaml").startswith(f"{tmp_path}/no.yaml: error: there is no such file; give the path")


def test_directory_names_a_workflow_in_it(tmp_path: Path) -> None:
    (tmp_path / "melt.yaml").touch()
    assert message(tmp_path).endswith(
        f"this is a directory; give the workflow file in it, for example '{tmp_path}/melt.yaml'"
    )


def test_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in message(tmp_path / "pipe")


@pytest.mark.parametrize("text", ["", "\n\n", "   \n"])
def test_empty_file(case: Case, text: str) -> None:
    case.write(text)
    assert "the file is empty; it needs a list 'tasks:'" in message(case.path)


@pytest.mark.parametrize("text", ["# only a comment\n", "---\n...\n"])
def test_file_without_data(case: Case, text: str) -> None:
    case.write(text)
    assert "wilkins init" in message(case.path) or "must be a mapping" in message(case.path)


def test_not_utf8_tells_the_byte(case: Case) -> None:
    case.write(b"tasks:\n  - func: \xff\xfe\n")
    assert message(case.path) == f"{case.path}:2:11: error: not UTF-8 text; save the file as UTF-8"


def test_byte_order_mark_is_fine(case: Case) -> None:
    case.write(b"\xef\xbb\xbftasks: [{func: ./sim}]\n")
    assert load(case.path).workflow.tasks[0].name == "sim"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("tasks:\n  - func: [\n", ":3:1: "),
        ("tasks:\n\t- func: x\n", ":2:1: "),
        ("a: 'x\n", ":2:1: "),
        ("a: *b\n", ":1:4: "),
    ],
)
def test_not_yaml_tells_the_place(case: Case, text: str, where: str) -> None:
    case.write(text)
    assert f"workflow.yaml{where}error: not valid YAML: " in message(case.path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks:\n\t- func: x\n", "2:1: error: not valid YAML: the line is indented with a tab"),
        ("a: *.h5\n", '1:5: error: not valid YAML: a text that begins with * must stand in quotes: "*.h5"'),
        ("a: [{filename: *.h5}]\n", 'a text that begins with * must stand in quotes: "*.h5"'),
        ("- *.h5\n", 'a text that begins with * must stand in quotes: "*.h5"'),
        ("a: *plots\n", 'a text that begins with * must stand in quotes: "*plots"'),
        ("a: @x, b\n", 'a text that begins with @ must stand in quotes: "@x"'),
        ("a: [b, ${n}]\n", 'within [...] and {...}, ${n} must stand in quotes: "${n}"'),
        ('a: ["${n}", {b: ${m}}]\n', 'within [...] and {...}, ${m} must stand in quotes: "${m}"'),
        ("a: b: c\n", 'a text with ": " in it must stand in quotes'),
        ('a: ["${n}", b\nc: d\n', "check indentation, quotes and tabs here"),
    ],
)
def test_usual_mistakes_are_said_in_words(case: Case, text: str, said: str) -> None:
    case.write(text)
    assert said in message(case.path)


def test_two_documents(case: Case) -> None:
    case.write("tasks: []\n---\ntasks: []\n")
    assert "not valid YAML" in message(case.path)


def test_control_characters(case: Case) -> None:
    case.write("tasks: \x01\n")
    assert "not valid YAML" in message(case.path)


def test_alias_bomb_is_refused_at_once(case: Case) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    case.write("\n".join(levels) + "\n")
    assert "its aliases expand to more than" in message(case.path)


def test_alias_of_itself(case: Case) -> None:
    case.write("tasks: &all\n  - *all\n")
    assert "an alias here contains itself" in message(case.path)


def test_deep_nesting(case: Case) -> None:
    case.write("tasks: " + "[" * 100_000 + "]" * 100_000)
    assert "nested deeper than 32 levels" in message(case.path)


def test_huge_file(case: Case) -> None:
    with case.path.open("wb") as file:
        file.truncate(1 << 30)
    assert "more than the 4194304 a workflow file may have" in message(case.path)


def test_tags_make_no_objects(case: Case) -> None:
    case.write("tasks: !!python/object/apply:os.system ['true']\n")
    assert "error" in message(case.path)


@pytest.mark.parametrize("text", ["just words\n", "- a\n- b\n", "42\n"])
def test_no_mapping(case: Case, text: str) -> None:
    case.write(text)
    assert "workflow.yaml:1:1: error: the workflow file must be a mapping" in message(case.path)
