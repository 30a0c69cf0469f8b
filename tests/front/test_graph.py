"""Which tasks are joined, by what, and which graphs are wrong."""

from __future__ import annotations

import pytest
from front.front_case import Case
from hypothesis import given
from hypothesis import strategies as st

import wilkins
from wilkins.plan.graph import blocks
from wilkins.report.show import plan_table


def edges(case: Case) -> list[tuple[str, str, str]]:
    graph = wilkins.compile(case.path)
    return sorted((writer, reader, data["outport"]) for writer, reader, data in graph.edges(data=True))


def task(name: str, out: str = "", inp: str = "", more: str = "") -> str:
    """A task in the file; ports by the names of their files."""
    lines = [f"  - {{func: ./sim, name: {name}, {more}"]
    for key, names in (("outports", out), ("inports", inp)):
        ports = ", ".join(f"{{filename: '{word}'}}" for word in names.split())
        lines.append(f"      {key}: [{ports}],")
    return "\n".join(lines).rstrip(",") + "}\n"


def test_a_diamond(case: Case) -> None:
    case.write(
        "tasks:\n"
        + task("a", "a.h5")
        + task("b", "b.h5", "a.h5")
        + task("c", "c.h5", "*.h5")
        + task("d", "", "[bc].h5")
    )
    assert edges(case) == [
        ("a", "b", "a.h5"),
        ("a", "c", "a.h5"),
        ("b", "c", "b.h5"),
        ("b", "d", "b.h5"),
        ("c", "d", "c.h5"),
    ]


def test_a_cycle(case: Case) -> None:
    case.write("tasks:\n" + task("a", "a.h5", "c.h5") + task("b", "b.h5", "a.h5") + task("c", "c.h5", "b.h5"))
    assert edges(case) == [("a", "b", "a.h5"), ("b", "c", "b.h5"), ("c", "a", "c.h5")]


def test_two_channels_between_two_tasks(case: Case) -> None:
    case.write("tasks:\n" + task("a", "x.h5 y.h5") + task("b", "", "x.h5 y.h5"))
    assert edges(case) == [("a", "b", "x.h5"), ("a", "b", "y.h5")]


def test_a_task_never_reads_what_it_writes(case: Case) -> None:
    case.write("tasks:\n" + task("a", "a.h5") + task("b", "b.h5", "*.h5") + task("c", "", "b.h5"))
    assert ("b", "b", "b.h5") not in edges(case)


def test_datasets_join_unless_disjoint(case: Case) -> None:
    def text(one: str, other: str) -> str:
        return (
            f"tasks:\n  - func: ./sim\n    outports: [{{filename: a.h5, dsets: [{{name: {one}}}]}}]\n"
            f"  - func: ./ana\n    inports: [{{filename: a.h5, dsets: [{{name: {other}}}]}}]\n"
        )

    assert edges(case.write(text("/g", "/g/x"))) == [("sim", "ana", "a.h5")]
    assert "task 'sim' writes such files, but other dsets" in case.write(text("/g", "/h")).error()


def test_a_port_nobody_writes(case: Case) -> None:
    case.write("tasks:\n" + task("a", "plot.h5") + task("b", "", "plt.h5"))
    assert case.error().endswith("task 'b', inport 'plt.h5': no task writes it; did you mean 'plot.h5'?")
    case.write("tasks:\n" + task("a", "xyz.nc") + task("b", "", "plt.h5"))
    assert (
        "no task writes it; written are 'xyz.nc'; add it to a task's 'outports', or write 'mode: file'" in case.error()
    )
    case.write("tasks:\n" + task("b", "", "plt.h5"))
    assert "no task writes it; add it to a task's 'outports'" in case.error()


def test_a_task_alone_with_its_output(case: Case) -> None:
    case.write("tasks:\n" + task("a", "a.h5", "a.h5"))
    assert "only the task itself writes it, and would wait for itself" in case.error()


def test_two_writers_of_one_name(case: Case) -> None:
    case.write("tasks:\n" + task("a", "a.h5") + task("b", "./a.h5") + task("c", "", "a.h5"))
    assert "task 'b': it and task 'a'" in case.errors()[0]
    assert "both write 'a.h5'" in case.errors()[0]
    case.write("tasks:\n" + task("a", "a*.h5") + task("b", "a*.h5") + task("c", "", "a*.h5"))
    assert len(edges(case)) == 2


@pytest.mark.parametrize(
    ("writers", "readers", "expected"),
    [
        (1, 1, [(0, 0)]),
        (4, 2, [(0, 0), (1, 0), (2, 1), (3, 1)]),
        (2, 4, [(0, 0), (0, 1), (1, 2), (1, 3)]),
        (3, 3, [(0, 0), (1, 1), (2, 2)]),
        (5, 2, [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)]),
    ],
)
def test_blocks(writers: int, readers: int, expected: list[tuple[int, int]]) -> None:
    assert list(blocks(writers, readers)) == expected


@given(st.integers(1, 60), st.integers(1, 60))
def test_blocks_are_balanced_and_contiguous(writers: int, readers: int) -> None:
    pairs = blocks(writers, readers)
    assert len(pairs) == max(writers, readers)
    assert list(pairs) == sorted(pairs)
    for side, count in ((0, writers), (1, readers)):
        loads = [sum(pair[side] == number for pair in pairs) for number in range(count)]
        assert min(loads) >= 1
        assert max(loads) - min(loads) <= 1


def test_ensembles(case: Case) -> None:
    case.write("tasks:\n" + task("s", "a.h5", more="taskCount: 4,") + task("r", "", "a.h5", more="taskCount: 2,"))
    assert [(writer, reader) for writer, reader, _ in edges(case)] == [
        ("s[0]", "r[0]"),
        ("s[1]", "r[0]"),
        ("s[2]", "r[1]"),
        ("s[3]", "r[1]"),
    ]


def test_instance_names_decide_and_1_is_not_10(case: Case) -> None:
    case.write(
        "tasks:\n"
        + task("s", "run{instance}.h5", more="taskCount: 12,")
        + task("r", "", "run{instance}.h5", more="taskCount: 12,")
    )
    assert sorted((writer[1:], reader[1:]) for writer, reader, _ in edges(case)) == sorted(
        (f"[{n}]", f"[{n}]") for n in range(12)
    )
    case.write("tasks:\n" + task("s", "run{instance}.h5", more="taskCount: 12,") + task("r", "", "run1.h5"))
    assert edges(case) == [("s[1]", "r", "run1.h5")]


def test_large_ensembles_with_names_take_no_time(case: Case) -> None:
    name = "run{instance}-*.h5"
    case.write("tasks:\n" + task("s", name, more="taskCount: 3000,") + task("r", "", name, more="taskCount: 3000,"))
    assert wilkins.compile(case.path).number_of_edges() == 3000


def test_an_instance_left_without_input(case: Case) -> None:
    case.write(
        "tasks:\n"
        + task("s", "run{instance}.h5", more="taskCount: 2,")
        + task("r", "", "run{instance}.h5", more="taskCount: 3,")
    )
    assert "no task writes 'run2.h5' for instance 2" in case.error()


def test_instances_may_not_share_a_real_file(case: Case) -> None:
    case.write("tasks:\n" + task("s", "a.h5", more="taskCount: 2,"))
    assert "all 2 instances would write this one file; put {instance} into the name" in case.error()


def test_an_output_nobody_reads_is_a_file(case: Case) -> None:
    plan = case.write("tasks:\n" + task("s", "a.h5")).plan()
    assert [port.mode for port in plan.ports] == ["plain"]
    assert "no task reads it; it is written to disk" in plan.notes[0]


@pytest.mark.parametrize(
    ("out", "inp", "mode"),
    [
        ("", "", "memory"),
        ("mode: file", "", "file"),
        ("", "mode: file", "file"),
        ("mode: both", "", "both"),
        ("", "mode: both", "both"),
        ("passthru: 1, metadata: 0", "", "file"),
        ("passthru: 1", "", "file"),
        ("metadata: 1, passthru: 1", "", "both"),
        ("dsets: [{name: x, file: 1, memory: 0}]", "", "file"),
        ("dsets: [{name: x, file: 1, memory: 1}]", "", "both"),
        ("dsets: [{name: x, file: 1, memory: 0}, {name: y, memory: 1}]", "", "both"),
        ("mode: both, dsets: [{name: x, file: 1, memory: 1}]", "", "both"),
        ("", "dsets: [{name: x, passthru: 1, metadata: 0}]", "file"),
        ("metadata: 1", "mode: file", "memory"),
        ("dsets: [{name: x, passthru: 0, metadata: 1}]", "dsets: [{name: x, passthru: 1, metadata: 0}]", "memory"),
        ("mode: file", "mode: memory", "file"),
        ("mode: both", "mode: memory", "both"),
    ],
)
def test_modes(case: Case, out: str, inp: str, mode: str) -> None:
    plan = case.write(
        f"tasks:\n  - func: ./sim\n    outports: [{{filename: a.h5, {out}}}]\n"
        f"  - func: ./ana\n    inports: [{{filename: a.h5, {inp}}}]\n"
    ).plan()
    assert [port.mode for port in plan.ports] == [mode, mode]
    assert len(plan.channels) == 1


def test_readers_that_disagree(case: Case) -> None:
    text = "tasks:\n  - {func: ./sim, outports: [{filename: a.h5}]}\n"
    text += "".join(
        f"  - {{func: ./ana, inports: [{{filename: a.h5, mode: {mode}}}]}}\n" for mode in ("file", "memory")
    )
    plan = case.write(text).plan()
    assert [port.mode for port in plan.ports] == ["both"] * 3


def test_everything_on_files(case: Case) -> None:
    text = "tasks:\n" + task("s", "a.h5") + "  - {func: ./ana, inports: [{filename: a.h5}]}\n" + task("t", "b.h5")
    plan = case.write(text).plan(files=True)
    assert [port.mode for port in plan.ports] == ["file", "file", "plain"]


def test_producers_in_different_modes(case: Case) -> None:
    text = "tasks:\n  - {func: ./sim, name: a, outports: [{filename: a.h5, mode: file}]}\n"
    text += "  - {func: ./sim, name: b, outports: [{filename: b.h5}]}\n"
    text += '  - {func: ./ana, inports: [{filename: "*.h5"}]}\n'
    assert [port.mode for port in case.write(text).plan().ports] == ["file", "memory", "both"]


def test_an_input_that_is_on_disk(case: Case) -> None:
    plan = case.write("tasks:\n  - {func: ./ana, inports: [{filename: mesh.h5, mode: file}]}\n").plan()
    assert [port.mode for port in plan.ports] == ["plain"]


def test_a_plan_says_which_looks_do_not_wait(case: Case) -> None:
    """Those at what closes a cycle: it comes from a task that stands later, and follows from what is written."""
    loop = (
        task("a", "a.h5", "c.h5") + task("b", "b.h5", "a.h5") + task("c", "c.h5", "b.h5") + task("d", "", "b.h5 e.h5")
    )
    plan = case.write("tasks:\n" + loop + task("e", "e.h5")).plan()
    looks = {(plan.tasks[port.task].name, port.pattern): port.looks for port in plan.ports if port.direction == "in"}
    assert looks == {
        ("a", "c.h5"): "now",
        ("b", "a.h5"): "wait",
        ("c", "b.h5"): "wait",
        ("d", "b.h5"): "wait",
        ("d", "e.h5"): "wait",  # later in the file, but in no cycle
    }
    assert "a looks at c.h5 without waiting for it: the in-port closes a cycle; 'looks: wait' lets them" in plan_table(
        plan
    )
    said = case.path.read_text().replace("inports: [{filename: 'c.h5'}", "inports: [{filename: 'c.h5', looks: wait}")
    plan = case.write(
        said.replace("inports: [{filename: 'b.h5'}, ", "inports: [{filename: 'b.h5', looks: now}, ")
    ).plan()
    assert [port.looks for port in plan.ports if port.direction == "in"] == ["always", "wait", "wait", "now", "wait"]
    assert "d looks at b.h5 without waiting for it: by 'looks: now'" in plan_table(plan)
    assert "a looks at" not in plan_table(plan)
