"""Ensembles in the workflow file: parameter lists, numbers of file names, own folders, and how a plan shows them."""

from __future__ import annotations

import time

import pytest
from front.front_case import Case
from hypothesis import given
from hypothesis import strategies as st

from wilkins.launch.begin import make_folders
from wilkins.plan.graph import blocks
from wilkins.report.show import plan_table
from wilkins.spec.ensemble import Join, braced, joins, numbers_text


def ensemble(writers: int, readers: int, out: str = "", inp: str = "") -> str:
    return (
        f"tasks:\n  - {{func: ./sim, taskCount: {writers}, outports: [{{filename: 'out.h5'{out}}}]}}\n"
        f"  - {{func: ./ana, taskCount: {readers}, inports: [{{filename: 'out.h5'{inp}}}]}}\n"
    )


def drawn(case: Case) -> list[str]:
    """The lines of the plan that say which instances are joined."""
    lines = plan_table(case.plan()).splitlines()
    return [line.strip() for line in lines if line.startswith("  ") and ("->" in line or "..." in line)]


def test_a_parameter_list_gives_each_instance_its_value(case: Case) -> None:
    case.write(
        "tasks:\n  - func: ./sim\n    taskCount: 3\n    args: [--temp, [1.0, 2.0, 3e1], [a, 'i{instance}', ''], end]\n"
    )
    assert [task.args for task in case.plan().tasks] == [
        ("--temp", "1.0", "a", "end"),
        ("--temp", "2.0", "i1", "end"),
        ("--temp", "3e1", "", "end"),
    ]


def test_a_parameter_list_of_a_single_task_has_one_value(case: Case) -> None:
    case.write("tasks:\n  - {func: ./sim, args: [[x]]}\n")
    assert case.plan().tasks[0].args == ("x",)


@pytest.mark.parametrize("suffix", ["", ".py"])
@pytest.mark.parametrize("func", ["prod", "./prod.hx", "./prod"])
def test_instances_with_a_program_each(case: Case, func: str, suffix: str) -> None:
    """As the original asks for copies of a program, since that may make file names of its own name."""
    for instance in range(11):
        case.program(f"prod-inst{instance}{suffix}", "#!/usr/bin/env python3\n" if suffix else "#!/bin/sh\n")
    case.write(f"tasks:\n  - {{func: {func}, taskCount: 11, args: [x]}}\n")
    plan = case.plan()
    programs = [task.args[0] if suffix else str(task.executable) for task in plan.tasks]
    assert programs == [f"{case.folder}/prod-inst{n}{suffix}" for n in range(11)]
    assert [task.name for task in plan.tasks] == [f"prod[{n}]" for n in range(11)]
    assert "prod[0..10]" in plan_table(plan)


def test_copies_for_some_instances_only_are_not_theirs(case: Case) -> None:
    case.program("sim-inst0")
    case.write("tasks:\n  - {func: ./sim, taskCount: 2}\n")
    assert {task.executable.name for task in case.plan().tasks} == {"sim"}


@pytest.mark.parametrize("values", ["[1, 2]", "[1, 2, 3, 4]", "[]"])
def test_a_parameter_list_of_the_wrong_length(case: Case, values: str) -> None:
    case.write(f"tasks:\n  - func: ./sim\n    taskCount: 3\n    args: [--temp, {values}]\n")
    count = values.count(",") + 1 if values != "[]" else 0
    assert case.error() == (
        f"workflow.yaml:4:20: error: task 'sim': 'args' item 2 lists {count} values, but the task has 3 instances "
        "('taskCount'); give one value for each instance"
    )


def test_the_name_of_a_step_may_stand_in_a_parameter_list(case: Case) -> None:
    case.write("tasks:\n  - func: ./sim\n    taskCount: 2\n    args: [['{filename}', '-']]\n")
    assert "the task has no in-port" in case.error()


def test_range_gives_the_numbers_of_file_names_beyond_100_too(case: Case) -> None:
    numbers = [*range(200, 80, -1)]
    case.write(
        f"tasks:\n  - {{func: ./sim, taskCount: 120, outports: [{{filename: 'o{{instance}}-*.h5', range: {numbers}}}]}}"
        "\n  - {func: ./ana, inports: [{filename: 'o1*.h5'}]}\n"
        "  - {func: ./ana, name: one, inports: [{filename: 'o150-*.h5'}]}\n"
    )
    plan = case.plan()
    assert [port.pattern for port in plan.ports[:120]] == [f"o{number}-*.h5" for number in numbers]
    joined = {
        (plan.tasks[plan.ports[c.outport].task].name, plan.tasks[plan.ports[c.inport].task].name) for c in plan.channels
    }
    assert ("sim[50]", "one") in joined
    assert {writer for writer, reader in joined if reader == "one"} == {"sim[50]"}
    assert {writer for writer, reader in joined if reader == "ana"} == {f"sim[{n}]" for n in range(1, 101)}


def test_ranges_on_both_sides_join_equal_numbers(case: Case) -> None:
    case.write(
        "tasks:\n  - {func: ./sim, taskCount: 3, outports: [{filename: 'o{instance}.h5', range: [5, 6, 7]}]}\n"
        "  - {func: ./ana, taskCount: 3, inports: [{filename: 'o{instance}.h5', range: [7, 5, 6]}]}\n"
    )
    plan = case.plan()
    assert drawn(case) == ["sim[0..1] -> ana[1..2], each to its own", "sim[2] -> ana[0]"]
    assert all(plan.ports[c.outport].pattern == plan.ports[c.inport].pattern for c in plan.channels)


def test_range_may_have_more_numbers_than_instances_and_not_fewer(case: Case) -> None:
    text = "tasks:\n  - {func: ./sim, taskCount: 3, outports: [{filename: 'o{instance}.h5', range: [%s]}]}\n"
    assert [port.pattern for port in case.write(text % "4, 9, 2, 1").plan().ports] == ["o4.h5", "o9.h5", "o2.h5"]
    assert case.write(text % "4, 9").error() == (
        "workflow.yaml:2:80: error: task 'sim', outport 'o{instance}.h5': 'range' has 2 numbers, but the task has 3 "
        "instances ('taskCount'); give one number for each instance"
    )


def test_range_without_instance_in_the_name_is_noted(case: Case) -> None:
    plan = case.write(ensemble(2, 2, ", range: [1]", ", range: [3, 4, 5]")).plan()
    assert [port.pattern for port in plan.ports] == ["out.h5"] * 4
    assert (
        sum("'range' has no effect, since the file name does not hold {instance}" in note for note in plan.notes) == 2
    )


def test_two_ensembles_may_write_one_pattern_with_different_numbers(case: Case) -> None:
    text = (
        "tasks:\n  - {func: ./sim, name: a, taskCount: 2, outports: [{filename: 'o{instance}.h5', range: [0, 1]}]}\n"
        "  - {func: ./sim, name: b, taskCount: 2, outports: [{filename: 'o{instance}.h5', range: [%s]}]}\n"
        "  - {func: ./ana, inports: [{filename: 'o*.h5'}]}\n"
    )
    assert len(case.write(text % "2, 3").plan().channels) == 4
    assert "task 'b': it and task 'a'" in case.write(text % "2, 1").errors()[0]
    assert "both write 'o1.h5'" in case.write(text % "2, 1").errors()[0]


def test_a_folder_for_each_instance_is_announced_and_made_by_the_run_alone(case: Case) -> None:
    (case.folder / "runs" / "1").mkdir(parents=True)
    case.write("tasks:\n  - {func: ./sim, taskCount: 4, cwd: 'runs/{instance}', outports: [{filename: out.h5}]}\n")
    plan = case.plan()
    assert [task.cwd for task in plan.tasks] == [case.folder / "runs" / str(n) for n in range(4)]
    told = "task 'sim': a run makes the folder 'runs/{instance}' for the instances [0,2..3]"
    assert any(note.endswith(told) for note in plan.notes)
    assert told in plan_table(plan)
    assert sorted(entry.name for entry in (case.folder / "runs").iterdir()) == ["1"]
    make_folders(plan)
    assert sorted(entry.name for entry in (case.folder / "runs").iterdir()) == ["0", "1", "2", "3"]
    assert not any("a run makes" in note for note in case.plan().notes)


def test_a_folder_that_cannot_be_made(case: Case) -> None:
    found = case.write("tasks:\n  - {func: ./sim, cwd: 'ana/{instance}'}\n").error()
    assert "workflow.yaml:2:24: error: task 'sim': the 'cwd'" in found
    assert "it is not a directory; mend the path" in found


def test_instances_in_folders_of_their_own_may_write_real_files_of_one_name(case: Case) -> None:
    case.write("tasks:\n  - {func: ./sim, taskCount: 2, cwd: 'runs/{instance}', outports: [{filename: out.h5}]}\n")
    assert len(case.plan().tasks) == 2


def test_a_plan_draws_2_to_5_and_5_to_2(case: Case) -> None:
    assert drawn(case.write(ensemble(2, 5))) == ["sim[0] -> ana[0..2]", "sim[1] -> ana[3..4]"]
    assert drawn(case.write(ensemble(5, 2))) == ["sim[0..2] -> ana[0]", "sim[3..4] -> ana[1]"]
    assert drawn(case.write(ensemble(3, 3))) == ["sim[0..2] -> ana[0..2], each to its own"]
    assert drawn(case.write(ensemble(3, 1))) == []


@pytest.mark.bench
def test_a_plan_of_1000_instances_is_short_and_quick(case: Case) -> None:
    case.write(ensemble(1000, 100))
    begun = time.process_time()
    text = plan_table(case.plan())
    assert time.process_time() - begun < 3
    assert len(text.splitlines()) < 30
    assert drawn(case) == [
        *(f"sim[{n}0..{n}9] -> ana[{n}]".replace("[00..09]", "[0..9]") for n in range(6)),
        "... 93 lines of the same kind ...",
        "sim[990..999] -> ana[99]",
    ]


def test_what_differs_between_instances_is_shown_in_braces(case: Case) -> None:
    case.write("tasks:\n  - {func: ./sim, taskCount: 6, args: [-n, '{instance}', [a, b, c, d, e, 'f g']]}\n")
    assert "-n {0,1,...,5} {a,b,...,'f g'}" in plan_table(case.plan())
    assert braced(["x", "x"]) == "x"


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12))))
def test_joins_lose_and_add_no_pair(pairs: list[tuple[int, int]]) -> None:
    def all_of(join: Join) -> list[tuple[int, int]]:
        if join.each:
            return list(zip(join.writers, join.readers, strict=True))
        return [(writer, reader) for writer in join.writers for reader in join.readers]

    told = [pair for join in joins(pairs) for pair in all_of(join)]
    assert sorted(told) == sorted(set(pairs))


@given(st.integers(1, 40), st.integers(1, 40))
def test_blocks_are_drawn_in_as_few_lines_as_there_are_blocks(writers: int, readers: int) -> None:
    assert len(joins(blocks(writers, readers))) <= min(writers, readers)


def test_numbers_are_shown_as_runs() -> None:
    assert numbers_text([3]) == "[3]"
    assert numbers_text([0, 1, 2, 5, 7, 8]) == "[0..2,5,7..8]"


SAME = "instances have the same command, arguments, environment, folder and input, so all of them do the same"


@pytest.mark.parametrize(
    ("keys", "noted"),
    [
        ("taskCount: 3", "note: task 'sim': its 3"),
        ("taskCount: 3, args: [a, [1, 1, 1]]", "note: task 'sim': its 3"),
        ("sweep: {grid: {dt: [1, 2]}}, outports: [{filename: 'o{dt}.h5'}]", "note: task 'sim': its 2"),
        ("taskCount: 3, args: ['{instance}']", ""),
        ("taskCount: 3, args: [[1, 1, 2]]", ""),
        ("taskCount: 3, env: {N: '{instance}'}", ""),
        ("taskCount: 3, cwd: 'run/{instance}'", ""),
        ("sweep: {grid: {dt: [1, 2]}}, args: ['{dt}']", ""),
        ("args: [a]", ""),
    ],
)
def test_instances_that_all_do_the_same_are_noted(case: Case, keys: str, noted: str) -> None:
    case.write(f"tasks:\n  - {{func: ./sim, {keys}}}\n")
    found = [note for note in case.plan().notes if SAME in note]
    assert len(found) == bool(noted)
    assert all(noted in note for note in found), found


def test_instances_that_read_from_others_do_not_all_do_the_same(case: Case) -> None:
    one = [note for note in case.write(ensemble(1, 2)).plan().notes if SAME in note]
    assert len(one) == 1, "both get every step"
    assert "task 'ana': its 2" in one[0]
    several = [note for note in case.write(ensemble(2, 2)).plan().notes if SAME in note]
    assert [note.partition("its")[0].rpartition("task ")[2] for note in several] == ["'sim': "]


def test_parameters_of_a_sweep_that_stand_nowhere_are_noted(case: Case) -> None:
    text = "tasks:\n  - {func: ./sim, sweep: {grid: {dt: [1, 2], seed: [1], n: [2]}}, args: ['{dt}']}\n"
    assert any(
        "task 'sim': seed, n of its sweep stand nowhere; write {seed} into 'args' or 'env'" in note
        for note in case.write(text).plan().notes
    )
