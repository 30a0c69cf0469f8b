"""Keys and values: unknown, wrong, missing, given twice; every error found, each at its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from front.front_case import Case

Pair = Callable[..., Case]


def test_unknown_key_with_suggestion(pair: Pair) -> None:
    assert pair(sim="nproc: 4").error() == (
        "workflow.yaml:3:5: error: task 'sim': unknown key 'nproc'; did you mean 'nprocs'?"
    )


def test_unknown_key_of_a_port(pair: Pair) -> None:
    assert pair(inp="iofreq: 2").error() == (
        "workflow.yaml:8:9: error: task 'ana', inport 'plt*.h5': unknown key 'iofreq'; did you mean 'io_freq'?"
    )


def test_unknown_key_without_suggestion_lists_what_there_is(pair: Pair) -> None:
    found = pair().write("tasks: [{func: ./sim}]\nzzz: 1\n").error()
    assert "unknown key 'zzz'; known are tasks, name, doc, memory" in found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nprocs: four", "'nprocs' must be a whole number of 1 or more, not 'four'"),
        ("nprocs: 0", "'nprocs' must be a whole number of 1 or more, not 0"),
        ("nprocs: -3", "not -3"),
        ("nprocs: 2.5", "not 2.5"),
        ("nprocs: 99999999999999999999999999", "the most is 2147483647"),
        ("nprocs:", "has no value"),
        ("nprocs: [1]", "must be a whole number of 1 or more, not a list"),
        ("env: 3", "'env' must be a mapping of names to texts"),
        ("args: {a: b}", "must be a list of words"),
        ("args: [a, [1, 2]]", "'args' item 2 lists 2 values, but the task has 1 instance ('taskCount')"),
        ("args: [[1, [2]]]", "'args' item 1 value 2 must be a text, not a list"),
        ('args: "\'open"', "cannot split"),
        ("timeout: soon", "must be a time such as"),
        ("rerun: sometimes", "must be 'auto' or 'always' or 'never'"),
        ("rerun: alway", "did you mean 'always'?"),
        ("strict_end: maybe", "must be true or false"),
        ("nwriters: 3", "'nwriters' is 3, more than its 'nprocs' of 1"),
        ("args: ['{filename}']", "the task has no in-port"),
        ("taskCount: 1000000000", "the most is 100000"),
        ("gpus: -1", "'gpus' must be a whole number of 0 or more, not -1"),
        ("actions: [a]", "must be [module, function]"),
        ("actions: [a, 'b c']", "that of a function in it"),
        ("name: 'a/b'", "has a name that cannot be used for logs"),
    ],
)
def test_wrong_value_of_a_task(pair: Pair, line: str, words: str) -> None:
    found = pair(sim=line).error()
    assert found.startswith("workflow.yaml:3:")
    assert "error: task '" in found
    assert words in found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("io_freq: often", "'often' is not an io_freq: write 1 or 'all'"),
        ("io_freq: -2", "not an io_freq"),
        ("flow: {every: 2, wait: 1}", "a flow has 'every', 'offset', 'queue' and 'when_full', not 'wait'"),
        ("flow: {every: 3, offset: 3}", "'offset' must be 0 or more and less than 'every' (3), not 3"),
        ("flow: {offset: 1}", "'offset' must be 0 or more and less than 'every' (1), not 1"),
        (
            "flow: {some: 3, queue: 1}",
            "'some' stands alone; for {some: n} with more write {every: n, offset: n - 1, ...}",
        ),
        ("flow: {when_full: drop}", "'when_full' must be one of block, drop-oldest, drop-newest, not 'drop'"),
        ("flow: {queue: 0}", "'queue' must be 1 or more, not 0"),
        ("flow: {queue: many}", "'queue' must be a whole number, not 'many'"),
        ("flow: all\nio_freq: 1", "give 'flow' or 'io_freq', not both"),
        ("flow: {queue: 2}\nqueue: 3", "the queue is given twice"),
        ("flow: latest\nqueue: 3", "'queue' goes with a flow that blocks"),
        ("nreaders: 2", "'nreaders' is 2, more than its task's 'nprocs' of 1"),
        ("mode: disk", "not 'disk'"),
        ("device: cuda:x", "'device' must be 'auto', 'host', 'pinned', 'cuda' or 'cuda:k' with the number of a GPU"),
        ("device: gpu", "not 'gpu' (did you mean 'cuda'?)"),
        ("device: pined", "did you mean 'pinned'?"),
        ("range: 3", "'range' must be a list of different whole numbers of 0 or more, such as [10, 11, 12]"),
        ("range: [1, two]", "'range' item 2 must be a whole number of 0 or more, not 'two'"),
        ("range: [1, 2, 1]", "'range': items 1 and 3 are both 1, and two instances would share their files"),
        ("dsets: [{nam: x}]", "unknown key 'nam'"),
        ("mode: file\nmetadata: 1", "'mode: file' and its other keys, which mean 'memory', differ"),
        ("dsets: [{name: x, metadata: 0, passthru: 0}]", "neither memory nor file would carry the data"),
    ],
)
def test_wrong_value_of_an_inport(pair: Pair, line: str, words: str) -> None:
    assert any(words in found for found in pair(inp=line).errors())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("memory: 1GiX", "must be a number of bytes such as"),
        ("memory: 1", "a limit of 1 bytes holds no file"),
        ("publish: flsh", "not 'flsh'; did you mean 'flush'?"),
        ("publish: 0", "it counts from 1, not 0"),
        ("publish: {write: 0}", "'write' must be a whole number of 1 or more, not 0"),
        ("publish: {dset: /x}", "lacks 'write'; write {write: n, dset: PATH}"),
        ("queue: 0", "'queue' must be a whole number of 1 or more"),
    ],
)
def test_wrong_value_of_an_outport(pair: Pair, line: str, words: str) -> None:
    assert words in pair(out=line).error()


@pytest.mark.parametrize("name", ["*/", "/", ".", "a" * 600])
def test_names_that_no_file_can_have(case: Case, name: str) -> None:
    text = f"tasks:\n  - func: ./sim\n    outports: [{{filename: '{name}'}}]\n"
    assert "workflow.yaml:3:27: error: task 'sim', outport" in case.write(text).errors()[0]


@pytest.mark.parametrize("name", ["*", "./*", "**", "*/*", "/*", "*?"])
def test_a_pattern_of_every_file_is_refused(case: Case, name: str) -> None:
    text = f"tasks:\n  - func: ./sim\n    outports: [{{filename: '{name}'}}]\n"
    assert "this matches every file that the program opens" in case.write(text).errors()[0]


@pytest.mark.parametrize("name", ["./a*.h5", "b/../a*.h5", ".//a*.h5", "[./a*.h5]"])
def test_names_are_taken_as_programs_names_are(case: Case, name: str) -> None:
    """Else no name that a program says would ever match."""
    case.program("sim")
    assert (
        case.write(f"tasks:\n  - func: ./sim\n    outports: [{{filename: {name}}}]\n").plan().ports[0].pattern
        == "a*.h5"
    )


@pytest.mark.parametrize("count", [1, 3])
def test_words_in_braces_that_stand_for_nothing(case: Case, count: int) -> None:
    case.program("sim")
    text = f"tasks:\n  - func: ./sim\n    taskCount: {count}\n    args: ['{{instnce}}', '{{step}}']\n"
    text += "    outports: [{filename: 'a{step}-{instance}.h5'}]\n"
    args, port = case.write(text).errors()
    assert args == "workflow.yaml:4:11: error: task 'sim': {instnce} stands for nothing; did you mean 'instance'?"
    assert port.startswith(
        "workflow.yaml:5:27: error: task 'sim': {step} stands for nothing; write '*' for what differs"
    )


def test_missing_key(case: Case) -> None:
    found = case.write("tasks:\n  - nprocs: 2\n").error()
    assert found.startswith("workflow.yaml:2:5: error: task 1: the key 'func' is missing; add 'func: ...'")


def test_a_port_that_is_a_name_alone(case: Case) -> None:
    found = case.write("tasks:\n  - func: ./sim\n    outports: ['a.h5']\n").error()
    assert found.endswith("outport 1 must be a mapping of keys to values, not 'a.h5'; write {filename: \"a.h5\"}")


def test_a_key_that_stands_for_the_one_that_is_missing(case: Case) -> None:
    missing, _ = case.write("tasks:\n  - func: ./sim\n    outports: [{file: a.h5}]\n").errors()
    assert missing.endswith("is missing; add 'filename: ...'; or is it what you mean by 'file'?")


def test_no_tasks(case: Case) -> None:
    assert "is empty; give at least 1 task" in case.write("tasks: []\n").error()
    assert "must be a list of tasks" in case.write("tasks: {func: ./sim}\n").error()


def test_duplicate_key(case: Case) -> None:
    found = case.write("tasks:\n  - func: ./sim\n    nprocs: 1\n    nprocs: 2\n").error()
    assert found == (
        f"workflow.yaml:4:5: error: task 'sim': the key 'nprocs' is given twice (first at {case.path}:3:5); remove one"
    ).replace(f"{case.folder}/", "")


def test_all_errors_are_reported_in_order(case: Case) -> None:
    text = "tasks:\n  - func: ./sim\n    nprocs: x\n    foo: 1\n  - func: ./ana\n    inports:\n      - file: 3\n"
    places = [line.split(" error")[0] for line in case.write(text).errors()]
    assert places == ["workflow.yaml:3:13:", "workflow.yaml:4:5:", "workflow.yaml:7:9:", "workflow.yaml:7:15:"]


def test_two_tasks_of_one_name(case: Case) -> None:
    text = "tasks:\n  - {func: ./sim, name: a}\n  - {func: ./ana, name: a}\n"
    assert "two tasks are named 'a'" in case.write(text).error()


def test_a_program_used_twice_gets_two_names(case: Case) -> None:
    plan = case.write("tasks:\n  - func: ./sim\n  - func: ./sim\n").plan()
    assert [task.name for task in plan.tasks] == ["sim", "sim-2"]


def test_anchors_and_merge_keys(case: Case) -> None:
    text = (
        "tasks:\n  - &one\n    func: ./sim\n    nprocs: 1\n    args: [a]\n  - <<: *one\n    args: [b]\n    name: two\n"
    )
    plan = case.write(text).plan()
    assert [(task.name, task.args) for task in plan.tasks] == [("sim", ("a",)), ("two", ("b",))]


def test_arguments_are_given_as_they_are_written(case: Case) -> None:
    plan = case.write("tasks:\n  - func: ./sim\n    args: [1e-3, yes, 0x10, 007, '', \"a b\"]\n").plan()
    assert plan.tasks[0].args == ("1e-3", "yes", "0x10", "007", "", "a b")
    plan = case.write("tasks:\n  - func: ./sim\n    args: -n 3 'a b'\n").plan()
    assert plan.tasks[0].args == ("-n", "3", "a b")


def test_variables(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKS", "3")
    monkeypatch.delenv("NOT_SET", raising=False)
    words = "['n${RANKS}', '${NOT_SET:-x y}', '$${RANKS}', '$HOME']"
    text = f"tasks:\n  - func: ./sim\n    threads: ${{RANKS}}\n    args: {words}\n"
    plan = case.write(text).plan()
    assert plan.tasks[0].env == {"OMP_NUM_THREADS": "3"}
    assert plan.tasks[0].args == ("n3", "x y", "${RANKS}", "$HOME")
    found = case.write("tasks:\n  - func: ./sim\n    args: ['${NOT_SET}', '${a b}']\n").errors()
    assert found[0].startswith(
        "workflow.yaml:3:12: error: task 'sim': 'args' item 1 uses the environment variable 'NOT_SET'"
    )
    assert "'${a b}' in task 'sim': 'args' item 2 is not a variable" in found[1]


def test_variables_cannot_add_structure(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIL", "1\n    func: other")
    assert "must be a whole number" in case.write("tasks:\n  - func: ./sim\n    nprocs: ${EVIL}\n").error()


class TestSet:
    """`--set task.key=value`."""

    def test_values(self, pair: Pair) -> None:
        plan = pair().plan("sim.args=[a, 'b c']", "ana.inports.0.queue=7", "memory=1GiB", "name=other")
        assert plan.tasks[0].args == ("a", "b c")
        assert plan.channels[0].queue == 7
        assert plan.ports[0].cap_bytes == 2**30
        assert plan.name == "other"
        assert pair(sim="args: [x]").plan("sim.args=").tasks[0].args == ()

    def test_names_are_not_prefixes(self, case: Case) -> None:
        text = "tasks:\n  - {func: ./sim, name: sim}\n  - {func: ./ana, name: sim-analysis}\n"
        plan = case.write(text).plan("sim.args=a", "sim-analysis.args=b")
        assert [task.args for task in plan.tasks] == [("a",), ("b",)]

    def test_shared_nodes_are_not_touched(self, case: Case) -> None:
        text = "tasks:\n  - {func: ./sim, env: &e {A: 1}}\n  - {func: ./ana, env: *e}\n"
        plan = case.write(text).plan("sim.env.A=2")
        assert [task.env for task in plan.tasks] == [{"A": "2"}, {"A": "1"}]

    @pytest.mark.parametrize(
        ("override", "words"),
        [
            ("sim.nprocs", "write it as task.key=value"),
            ("sin.nprocs=2", "the workflow has no task 'sin'; did you mean 'sim'?"),
            ("sim.nproc=2", "task 'sim': unknown key 'nproc'; did you mean 'nprocs'?"),
            ("sim.nprocs=two", "'nprocs' must be a whole number of 1 or more, not 'two'"),
            ("sim.outports.3.queue=2", "there is no '3' to set"),
            ("sim.func.x=2", "there is no 'x' to set"),
            ("sim.args=[", "not valid YAML"),
        ],
    )
    def test_mistakes(self, pair: Pair, override: str, words: str) -> None:
        found = pair().error(override)
        assert found.startswith(f"--set {override}: error: ")
        assert words in found
