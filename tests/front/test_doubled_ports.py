"""One file in two entries of a task's ports, with datasets of their own: they are one port, unless they contradict."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from front.front_case import Case

from wilkins.spec.load import load

Pair = Callable[..., Case]

FILE = """\
tasks:
  - func: ./sim
    outports:
      - filename: out.h5
        dsets: [{name: /particles, DSET1}]
        ONE
      - filename: out.h5
        dsets: [{name: /grid, DSET2}]
        TWO
  - name: one
    func: ./ana
    inports: [{filename: out.h5, dsets: [{name: /particles}]}]
  - name: two
    func: ./ana
    inports: [{filename: out.h5, dsets: [{name: /grid}]}]
"""


def doubled(case: Case, one: str = "", two: str = "", dset1: str = "", dset2: str = "") -> Case:
    """The workflow of the original's test with two consumers, with more keys in the entries and their datasets."""
    text = FILE.replace("ONE", one).replace("TWO", two).replace(", DSET1", dset1 and f", {dset1}")
    return case.write(text.replace(", DSET2", dset2 and f", {dset2}"))


def test_both_consumers_are_joined_to_the_one_port(case: Case) -> None:
    plan = doubled(case).plan()
    assert [(port.direction, port.pattern) for port in plan.ports] == [("out", "out.h5"), *[("in", "out.h5")] * 2]
    assert [(channel.outport, channel.inport) for channel in plan.channels] == [(0, 1), (0, 2)]
    (note,) = plan.notes
    assert "workflow.yaml:7:19: note: task 'sim', outport 'out.h5': is listed at " in note
    assert "workflow.yaml:4:19, too; the entries are one port with the datasets of both" in note


@pytest.mark.parametrize(
    ("dset1", "dset2", "mode"),
    [
        ("passthru: 1", "passthru: 1", "file"),
        ("passthru: 0, metadata: 1", "", "memory"),
        ("passthru: 1, metadata: 0", "passthru: 0, metadata: 1", "both"),
    ],
)
def test_their_datasets_say_together_where_the_file_is(case: Case, dset1: str, dset2: str, mode: str) -> None:
    """As several datasets of one entry do."""
    assert doubled(case, dset1=dset1, dset2=dset2).plan().ports[0].mode == mode


def test_a_key_of_one_entry_is_the_ports(case: Case) -> None:
    plan = doubled(case, "queue: 5", "mode: file\n        publish: next").plan()
    assert plan.ports[0].mode == "file"
    assert plan.ports[0].publish.when == "next"
    assert plan.channels[0].queue == 5


@pytest.mark.parametrize(
    ("one", "two", "name"),
    [
        ("mode: file", "mode: memory", "mode"),
        ("queue: 3", "queue: 4", "queue"),
        ("publish: next", "publish: 2", "publish"),
        ("passthru: 1", "passthru: 0", "passthru"),
        ("range: [1]", "range: [2]", "range"),
    ],
)
def test_entries_that_contradict_are_an_error_that_names_both_places(case: Case, one: str, two: str, name: str) -> None:
    found = doubled(case, one, two).error()
    column = 11 + len(name)
    assert found.startswith(
        f"workflow.yaml:9:{column}: error: task 'sim', outport 'out.h5': {name!r} differs from that at "
    )
    assert f"workflow.yaml:6:{column}, in another entry of the same file" in found
    assert "give both the same, or keep one" in found


@pytest.mark.parametrize(
    ("one", "two"),
    [("io_freq: 2", "io_freq: 3"), ("io_freq: 2", ""), ("flow: {every: 2}", "io_freq: 2"), ("", "flow: latest")],
)
def test_in_ports_of_one_file_have_one_policy(pair: Pair, one: str, two: str) -> None:
    """Also if one of them gives none, which means all steps: a step holds all datasets of its file."""
    case = pair(inp=f"{one}\ndsets: [{{name: a}}]")
    case.write(case.path.read_text() + f"      - filename: 'plt*.h5'\n        dsets: [{{name: b}}]\n        {two}\n")
    found = case.error()
    assert "task 'ana', inport 'plt*.h5'" in found
    assert found.count("workflow.yaml:") == 2
    assert "give both the same" in found


def test_in_ports_of_one_file_with_one_policy(pair: Pair) -> None:
    """Written in either way; nreaders of one entry is the port's."""
    more = "      - {filename: 'plt*.h5', dsets: [{name: b}], flow: {some: 2}}\n"
    case = pair(ana="nprocs: 2", inp="io_freq: 2\nnreaders: 1\ndsets: [{name: a}]")
    (channel,) = case.write(case.path.read_text() + more).plan().channels
    assert (channel.every, channel.offset, channel.readers) == (2, 1, 1)


def test_the_same_dataset_twice_is_one(case: Case) -> None:
    case.write(
        FILE.replace("/grid", "/particles")
        .replace(", DSET1", "")
        .replace(", DSET2", "")
        .replace("ONE", "")
        .replace("TWO", "")
    )
    assert len(case.plan().channels) == 2
    assert [dset.name for dset in load(case.path).workflow.tasks[0].outports[0].dsets] == ["/particles"]


def test_an_entry_without_datasets_is_for_all(case: Case) -> None:
    text = FILE.replace("dsets: [{name: /grid, DSET2}]", "").replace(", DSET1", ", passthru: 1")
    plan = case.write(text.replace("ONE", "").replace("TWO", "")).plan()
    assert len(plan.channels) == 2
    assert plan.ports[0].mode == "file"
