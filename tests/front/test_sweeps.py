"""Sweeps in the workflow file: parameters give the instances of an ensemble, their names, and what is wrong."""

from __future__ import annotations

import json
import math
import random

import pytest
from front.front_case import Case

from wilkins.plan import planfile


def sweep(case: Case, text: str, args: str = "['{dt}', '{seed}']", more: str = "") -> Case:
    """A workflow with one task, of a sweep."""
    return case.write(f"tasks:\n  - func: ./sim\n    sweep: {text}\n    args: {args}\n{more}")


def instances(case: Case) -> list[tuple[str, ...]]:
    """The arguments of all instances, in their order."""
    return [task.args for task in case.plan().tasks]


def test_a_grid_has_each_value_with_each_in_the_order_of_the_file_as_written(case: Case) -> None:
    plan = sweep(case, "{grid: {dt: [0.10, 1e-1], seed: [3, 1]}}").plan()
    assert [task.args for task in plan.tasks] == [("0.10", "3"), ("0.10", "1"), ("1e-1", "3"), ("1e-1", "1")]
    assert [task.name for task in plan.tasks] == [
        "sim[dt=0.10,seed=3]",
        "sim[dt=0.10,seed=1]",
        "sim[dt=1e-1,seed=3]",
        "sim[dt=1e-1,seed=1]",
    ]
    assert plan.tasks[1].parameters == {"dt": "0.10", "seed": "1"}
    assert planfile.loads(planfile.dumps(plan)).tasks == plan.tasks


def test_zip_takes_the_first_values_together(case: Case) -> None:
    sweep(case, "{zip: {dt: [0.1, 0.2], seed: [1, 2]}}")
    assert instances(case) == [("0.1", "1"), ("0.2", "2")]


def test_a_list_gives_each_instance_its_values_in_any_order_of_keys(case: Case) -> None:
    sweep(case, "{list: [{dt: .1, seed: 1}, {seed: 2, dt: '.2'}]}")
    assert instances(case) == [(".1", "1"), (".2", "2")]


def test_a_csv_file_gives_a_row_for_each_instance(case: Case) -> None:
    (case.folder / "params.csv").write_text('\ufeffdt, seed,note\n0.1,1,"a, b"\n\n.2,2,\n', encoding="utf-8")
    sweep(case, "{csv: params.csv}", "['{dt}', '{seed}', '{note}', '{instance}']")
    assert instances(case) == [("0.1", "1", "a, b", "0"), (".2", "2", "", "1")]


def test_random_values_are_those_of_the_documented_generator(case: Case) -> None:
    draws = "a: {uniform: [-1, 3]}, b: {loguniform: [1e-5, 1e-1]}, n: {integer: [1, 8]}, kind: {choice: [x, y, z]}"
    sweep(case, f"{{random: {{count: 24, seed: 7, {draws}}}}}", "['{a}', '{b}', '{n}', '{kind}']")
    generator = random.Random(7)
    expected = []
    for _ in range(24):
        a, b, n, kind = (generator.random() for _ in range(4))
        value = math.exp(math.log(1e-5) + (math.log(1e-1) - math.log(1e-5)) * b)
        expected.append((f"{-1 + 4 * a:.6g}", f"{value:.6g}", str(1 + int(n * 8)), "xyz"[int(kind * 3)]))
    assert instances(case) == expected
    assert instances(case)[0] == ("0.295331", "4.01233e-05", "6", "x"), "in every version of Python"
    assert case.plan("sim.sweep.random.seed=8").tasks[0].args != expected[0]


def test_parameters_stand_wherever_the_instance_may(case: Case) -> None:
    for value in ("a", "b"):
        (case.folder / f"in.{value}").touch()
    case.write(
        "tasks:\n  - func: ./sim\n    sweep: {grid: {k: [a, b]}}\n    env: {K: '<{k}{instance}>', S: '$${k}'}\n"
        "    cwd: 'runs/{k}'\n    stdin: 'in.{k}'\n    restart: {files: 'c-{k}-*.h5', args: [-r, '{file}', '{k}']}\n"
        "    outports: [{filename: 'o-{k}-*.h5'}]\n"
        "  - {func: ./ana, sweep: {grid: {k: [b, a]}}, args: ['{k}'],\n"
        "     inports: [{filename: 'o-{k}-*.h5', as: 'i{k}.h5'}]}\n"
    )
    plan = case.plan()
    second = plan.tasks[1]
    assert second.env["K"] == "<b1>"
    assert second.env["S"] == "${k}", "is a shell's"
    assert second.cwd == case.folder / "runs" / "b"
    assert second.makes_cwd
    assert second.stdin == case.folder / "in.b"
    assert second.restart is not None
    assert (second.restart.files, second.restart.args) == ("c-b-*.h5", ("-r", "{file}", "b"))
    joined = {
        (plan.tasks[plan.ports[c.outport].task].name, plan.tasks[plan.ports[c.inport].task].name) for c in plan.channels
    }
    assert joined == {("sim[k=a]", "ana[k=a]"), ("sim[k=b]", "ana[k=b]")}
    assert plan.ports[plan.channels[0].inport].stands in ("ia.h5", "ib.h5")


def test_a_ready_made_task_takes_parameters_in_the_texts_of_its_options(case: Case) -> None:
    case.write(
        "tasks:\n  - {func: ./sim, outports: [{filename: 'x*.h5'}]}\n"
        "  - func: wilkins.tasks.checkpoint\n    sweep: {list: [{disk: 'a\"b'}, {disk: c}]}\n"
        "    inports: [{filename: 'x*.h5'}]\n    checkpoint: {folder: '{disk}'}\n"
    )
    assert [task.args[2].count('"folder": "a\\"b"') for task in case.plan().tasks[1:]] == [1, 0]


def test_names_are_safe_in_the_names_of_files_and_each_is_another(case: Case) -> None:
    values = "[/data/fine.msh, 'a b', 'a:b', 1]"
    sweep(case, f"{{grid: {{m: {values}}}}}", "['{m}']")
    names = [task.name for task in case.plan().tasks]
    assert names == ["sim[m=fine.msh]", "sim[1,m=a_b]", "sim[2,m=a_b]", "sim[m=1]"]
    long = ", ".join(f"p{n}: [{n}{'x' * 20}, y]" for n in range(5))
    sweep(case, f"{{grid: {{{long}}}}}", "['{p0}']")
    names = [task.name for task in case.plan().tasks]
    assert len(set(names)) == 32
    assert max(map(len, names)) <= 100
    assert names[0].startswith("sim[0,p0=0xxx")


def test_a_sweep_of_one_instance_is_one(case: Case) -> None:
    assert [task.name for task in sweep(case, "{grid: {dt: [1]}}", "['{dt}']").plan().tasks] == ["sim[dt=1]"]


def test_a_sweep_of_the_most_instances_is_planned(case: Case) -> None:
    sweep(case, f"{{grid: {{dt: {list(range(100))}, seed: {list(range(100))}}}}}")
    assert len(case.plan().tasks) == 10_000
    sweep(case, f"{{grid: {{dt: {list(range(101))}, seed: {list(range(100))}}}}}")
    assert "3:19: error: task 'sim': 'sweep' 'grid' makes 10100 instances, more than the 10000" in case.error()


WRONG = {
    "{zip: {dt: [1, 2], seed: [1]}}": "3:37: 'sweep' 'zip': 'seed' has 1 value, but 'dt' has 2; give each as many",
    "{grid: {}}": "3:19: 'sweep' 'grid' must be a mapping of parameters to lists",
    "{grid: {dt: [], seed: [1]}}": "3:24: 'sweep' 'grid' 'dt' is empty; give at least one value",
    "{grid: {dt: 1, seed: [1]}}": "3:24: 'sweep' 'grid' 'dt' must be a list of values, such as [1], not '1'",
    "{gird: {dt: [1]}}": "3:13: 'sweep': unknown key 'gird'; did you mean 'grid'?",
    "{grid: {dt: [1]}, csv: x}": "3:12: 'sweep' must be a mapping with one of grid, zip, list, random and csv, and has",
    "[1]": "3:12: 'sweep' must be a mapping with one of",
    "{list: [{dt: 1, seed: 1}, {dt: 1}]}": "3:38: 'sweep' 'list' item 2 gives dt, and the first one dt, seed; give all",
    "{list: []}": "3:19: 'sweep' 'list' must be a list with a mapping",
    "{grid: {instance: [1]}}": "3:20: 'sweep' 'grid': {instance} stands for something else",
    "{grid: {1x: [1]}}": "3:20: 'sweep' 'grid': the name of a parameter has only letters",
    "{random: {count: 2, dt: {uniform: [0, 1]}}}": "3:21: 'sweep' 'random' must have a count, a seed and a parameter",
    "{random: {count: 2, seed: 1, dt: {normal: [0, 1]}}}": "3:45: 'sweep' 'random' 'dt' must be a distribution: {uni",
    "{random: {count: 2, seed: 1, dt: {uniform: [1, 0]}}}": "3:55: 'sweep' 'random' 'dt' 'uniform' must be a list of t",
    "{random: {count: 2, seed: 1, dt: {loguniform: [0, 1]}}}": "3:58: 'sweep' 'random' 'dt' 'loguniform': the lower",
    "{random: {count: 20000, seed: 1, dt: {uniform: [0, 1]}}}": "3:29: 'sweep' 'random' makes 20000 instances, more",
    "{csv: no.csv}": "3:18: 'sweep' 'csv': there is no file '",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_sweep_is_said_with_its_place(case: Case, text: str) -> None:
    place, _, message = WRONG[text].partition(": ")
    assert sweep(case, text).error().startswith(f"workflow.yaml:{place}: error: task 'sim': {message}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dt,seed\n1,2\n3\n", "params.csv:3:1: error: task 'sim': 'sweep' 'csv': the line has 1 value, and the first"),
        ("dt,seed\n1,2,3\n", "params.csv:2:1: error: task 'sim': 'sweep' 'csv': the line has 3 values, and the first"),
        ("dt,dt\n1,2\n", "params.csv:1:1: error: task 'sim': 'sweep' 'csv': two columns are named 'dt'"),
        ("dt,s d\n1,2\n", "params.csv:1:1: error: task 'sim': 'sweep' 'csv': the name of a parameter has only"),
        ('dt,seed\n"1,2\n', "params.csv:2:1: error: task 'sim': 'sweep' 'csv': cannot read the line"),
        ("dt,seed\n", "params.csv: error: task 'sim': 'sweep' 'csv': the file has no row of values"),
        ("", "params.csv: error: task 'sim': 'sweep' 'csv': the file has no row of values"),
    ],
)
def test_what_is_wrong_in_a_csv_file_is_said_with_its_line(case: Case, text: str, expected: str) -> None:
    (case.folder / "params.csv").write_text(text)
    assert any(line.startswith(expected) for line in sweep(case, "{csv: params.csv}").errors())


def test_a_placeholder_that_is_no_parameter_is_an_error(case: Case) -> None:
    assert sweep(case, "{grid: {dt: [1], seed: [2]}}", "['{dt}', '{sed}', '{ x }', '{\"a\": 1}']").error() == (
        "workflow.yaml:4:11: error: task 'sim': {sed} is no parameter of its sweep; did you mean 'seed'?"
    )
    more = "    outports: [{filename: 'o-{alpha}.h5'}]\n"
    assert (
        sweep(case, "{grid: {dt: [1], seed: [2]}}", more=more)
        .error()
        .startswith(
            "workflow.yaml:5:27: error: task 'sim': {alpha} is no parameter of its sweep; its parameters are dt, seed"
        )
    )


def test_a_sweep_has_no_count_of_its_own(case: Case) -> None:
    assert sweep(case, "{grid: {dt: [1], seed: [2]}}", more="    taskCount: 1\n").error() == (
        "workflow.yaml:5:16: error: task 'sim': 'sweep' and 'taskCount' both say how many instances it has; remove "
        "'taskCount'"
    )


def test_a_value_that_cannot_be_part_of_a_file_name_is_an_error_only_there(case: Case) -> None:
    text = "{grid: {dt: ['a/b', '*'], seed: [1]}}"
    assert len(sweep(case, text).plan().tasks) == 2
    assert (
        "{dt} may be 'a/b', which cannot be part of a file's name; use {instance} there"
        in sweep(case, text, more="    outports: [{filename: 'o-{dt}.h5'}]\n").error()
    )


def test_instances_must_not_all_write_one_file_on_disk(case: Case) -> None:
    more = "    outports: [{filename: '%s', mode: both}]\n  - {func: ./ana, inports: [{filename: 'o*.h5'}]}\n"
    assert (
        "all 2 instances would write this one file"
        in sweep(case, "{grid: {dt: [1, 2], seed: [1]}}", more=more % "o.h5").error()
    )
    assert sweep(case, "{grid: {dt: [1, 2], seed: [1]}}", more=more % "o{dt}.h5").plan()


def trainer(case: Case, options: str) -> Case:
    """A ready-made task in a sweep."""
    (case.folder / "net.py").write_text("def net(width, name=None): ...\n")
    return case.write(
        "tasks:\n  - {func: ./sim, outports: [{filename: 'x*.h5'}]}\n  - func: wilkins.tasks.continual\n"
        "    sweep: {list: [{lr: 0.1, width: 8}, {lr: 1e-3, width: 16}]}\n    inports: [{filename: 'x*.h5'}]\n"
        f"    train: {{model: 'net.py:net', inputs: /x, targets: /y, loss: mse, {options}}}\n"
    )


@pytest.mark.needs("python:torch")
def test_a_parameter_alone_is_a_value_of_the_options_own_kind(case: Case) -> None:
    plan = trainer(case, "optimizer: {lr: '{lr}'}, model_args: {width: '{width}', name: 'w{width}'}").plan()
    options = [json.loads(task.args[2]) for task in plan.tasks[1:]]
    assert [one["optimizer"]["lr"] for one in options] == [0.1, 0.001]
    assert [one["model_args"] for one in options] == [{"width": 8, "name": "w8"}, {"width": 16, "name": "w16"}]
    assert [task.name for task in plan.tasks[1:]] == ["continual[lr=0.1,width=8]", "continual[lr=1e-3,width=16]"]


def test_a_value_that_an_option_cannot_have_is_an_error_at_the_option(case: Case) -> None:
    trainer(case, "batch: '{lr}'")
    assert case.error() == (
        "workflow.yaml:6:77: error: task 'continual', train: 'batch' must be a whole number of 1 or more, not '0.1'"
    )
