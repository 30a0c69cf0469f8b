"""`device` and `gpus` of a workflow file: the errors, what the plan says, and what the processes are told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from front.front_case import Case

from wilkins.plan import planfile
from wilkins.plan.plan import Plan
from wilkins.report.show import plan_table
from wilkins.transport.devices.ports import PortDevice, configured

Pair = Callable[..., Case]
CUDA = "device: cuda"


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs."""
    monkeypatch.setenv("WILKINS_GPUS", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def told_of(plan: Plan, task: int) -> dict[str, PortDevice]:
    """What the processes of a task are told."""
    return configured(plan.tasks[task].env)


@pytest.mark.parametrize(
    ("task", "port", "line", "words"),
    [
        ("gpus: 0", CUDA, 9, "'device: cuda' needs 1 GPU, but 'gpus' is 0; give it one, or write 'device: host'"),
        ("gpus: 0", "device: pinned", 9, "'device: pinned' needs 1 GPU, but 'gpus' is 0"),
        ("gpus: 2", "device: cuda:2", 9, "'device: cuda:2' needs 3 GPUs, but 'gpus' is 2; give it as many"),
        ("env: {CUDA_VISIBLE_DEVICES: ''}", CUDA, 9, "CUDA_VISIBLE_DEVICES under 'env' leaves it none"),
        ("env: {CUDA_VISIBLE_DEVICES: '0,1'}", "device: cuda:2", 9, "under 'env' leaves it 2"),
        ("", "device: pinned\nmode: file", 8, "'device: pinned' is for steps in memory, and 'mode: file' has none"),
        ("gpus: 1\nenv: {CUDA_VISIBLE_DEVICES: 0}", "", 6, "'gpus' and CUDA_VISIBLE_DEVICES under 'env' both say"),
    ],
)
def test_contradictions(pair: Pair, task: str, port: str, line: int, words: str) -> None:
    found = pair(ana=task, inp=port).error()
    assert found.startswith(f"workflow.yaml:{line}:"), found
    assert ": error: task 'ana'" in found
    assert words in found


def test_an_outport_and_an_inport_of_one_name_have_one_device(case: Case) -> None:
    found = case.write(
        "tasks:\n- func: ./sim\n  outports: [{filename: a.h5, device: cuda}]\n  inports: [{filename: a.h5}]\n"
        "- func: ./ana\n  outports: [{filename: a*.h5}]\n  inports: [{filename: a.h5}]\n"
    ).errors()
    assert any("of one name have one device, but the other says 'host'" in line and ":3:39:" in line for line in found)


@pytest.mark.parametrize("word", ["${WHERE}", "cuda:0"])
def test_a_device_may_be_left_to_the_environment(pair: Pair, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("WHERE", "cuda:0")
    assert told_of(pair(inp=f"device: '{word}'").plan(), 1) == {"plt*.h5": PortDevice("cuda:0", "pinned")}


def test_without_devices_nothing_is_said(pair: Pair) -> None:
    plan = pair().plan()
    assert [task.env for task in plan.tasks] == [{}, {}]
    assert [task.gpus for task in plan.tasks] == [None, None]
    assert not plan.channels[0].why
    shown = plan_table(plan)
    assert "GPU" not in shown and "path" not in shown


def test_both_ends_on_one_gpu(pair: Pair) -> None:
    plan = pair(out=CUDA, inp=CUDA).plan()
    assert (plan.channels[0].path, plan.channels[0].why) == ("ipc", "both ends use GPU 0")
    assert told_of(plan, 0) == told_of(plan, 1) == {"plt*.h5": PortDevice("cuda", "ipc", ipc=True)}
    assert "CUDA_VISIBLE_DEVICES" not in plan.tasks[0].env
    assert "sim -> ana  plt*.h5  ipc   both ends use GPU 0" in plan_table(plan)


def test_each_task_gets_gpus_of_its_own(pair: Pair) -> None:
    plan = pair(sim="gpus: 1", out=CUDA, ana="gpus: 1", inp="device: auto").plan()
    assert [task.env["CUDA_VISIBLE_DEVICES"] for task in plan.tasks] == ["0", "1"]
    assert plan.channels[0].path == "pinned"
    assert told_of(plan, 1) == {"plt*.h5": PortDevice("cuda", "pinned")}
    table = plan_table(plan)
    assert "no GPU in common: the writer uses GPU 0, the reader GPU 1" in table
    assert any(line.split()[:5] == ["ana", "1", "1", "plain", "1"] for line in table.splitlines())
    assert "shared" not in table


def test_more_gpus_than_there_are_are_shared(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WILKINS_GPUS", "1")
    plan = pair(sim="gpus: 1", out=CUDA, ana="gpus: 1", inp=CUDA).plan()
    assert [task.gpus for task in plan.tasks] == [("0",), ("0",)]
    assert plan.channels[0].path == "ipc"
    assert not plan.lacking
    assert "note: GPUs are shared: the tasks ask for 2, and this machine has 1" in plan.notes


def test_gpus_are_dealt_from_those_of_the_launching_process(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WILKINS_GPUS", "8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa,5")
    plan = pair(sim="gpus: 1", ana="gpus: 2", inp="device: cuda:1").plan()
    assert [task.env["CUDA_VISIBLE_DEVICES"] for task in plan.tasks] == ["GPU-aa", "5,GPU-aa"]
    assert "the reader uses GPU GPU-aa" in plan.channels[0].why
    assert any(
        "the launching process has CUDA_VISIBLE_DEVICES='GPU-aa,5', which leaves 2 of" in note for note in plan.notes
    )


def test_the_env_of_a_task_says_what_it_sees(pair: Pair) -> None:
    env = "env: {CUDA_VISIBLE_DEVICES: 1}"
    plan = pair(sim=env, out="device: auto", ana=env, inp=CUDA).plan()
    assert plan.channels[0].why == "both ends use GPU 1"
    assert plan.tasks[0].env["CUDA_VISIBLE_DEVICES"] == "1"
    assert plan.tasks[0].gpus is None


def test_no_gpus_hides_all(pair: Pair) -> None:
    plan = pair(sim="gpus: 0", out="device: auto").plan()
    assert plan.tasks[0].env == {"CUDA_VISIBLE_DEVICES": ""}
    assert plan.channels[0].why == "the writer sees no GPU"
    assert not plan.lacking


def test_the_instances_of_an_ensemble_get_gpus_of_their_own(pair: Pair) -> None:
    many = pair(sim="gpus: 1\ntaskCount: 4", out=f"{CUDA}", ana="env: {CUDA_VISIBLE_DEVICES: 0}", inp=CUDA)
    plan = many.plan()
    assert [task.env.get("CUDA_VISIBLE_DEVICES") for task in plan.tasks] == ["0", "1", "0", "1", "0"]
    assert [channel.path for channel in plan.channels] == ["ipc", "pinned", "ipc", "pinned"]
    table = plan_table(plan)
    assert "sim[0,2] -> ana  plt*.h5  ipc     both ends use GPU 0" in table
    assert "sim[1,3] -> ana  plt*.h5  pinned  no GPU in common: the writer uses GPU 1, the reader GPU 0" in table
    assert told_of(plan, 4) == {"plt*.h5": PortDevice("cuda", "pinned", ipc=True)}, "it must look at each step"
    assert told_of(plan, 0)["plt*.h5"].path == "ipc"


def test_an_outport_with_readers_on_several_paths(case: Case) -> None:
    plan = case.write(
        "tasks:\n- func: ./sim\n  outports: [{filename: '*.h5', device: cuda}]\n"
        "- func: ./ana\n  name: learn\n  inports: [{filename: '*.h5', device: cuda}]\n"
        "- func: ./ana\n  name: look\n  inports: [{filename: '*.h5'}]\n"
        "- func: ./ana\n  name: keep\n  inports: [{filename: '*.h5', device: pinned}]\n"
    ).plan()
    assert [channel.path for channel in plan.channels] == ["ipc", "pinned", "pinned"]
    assert told_of(plan, 0) == {"*.h5": PortDevice("cuda", "pinned", ipc=True)}
    assert told_of(plan, 1) == {"*.h5": PortDevice("cuda", "ipc", ipc=True)}
    assert told_of(plan, 2) == {"*.h5": PortDevice("host", "pinned")}
    assert told_of(plan, 3) == {"*.h5": PortDevice("pinned", "pinned")}


def test_steps_on_disk(pair: Pair) -> None:
    both = pair(out=f"{CUDA}\nmode: both", inp=CUDA).plan()
    assert (both.channels[0].path, both.channels[0].why) == ("pinned", "the file on disk is written from host memory")
    on_disk = pair(out=CUDA, inp=CUDA).plan(files=True)
    assert (on_disk.channels[0].path, on_disk.channels[0].why) == ("host", "the steps are on disk only")
    assert told_of(on_disk, 1) == {"plt*.h5": PortDevice("cuda", "host")}, "the arrays are wanted there all the same"


def test_a_machine_without_gpus(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WILKINS_GPUS", "0")
    plan = pair(sim="gpus: 1", out="device: auto", inp=CUDA).plan()
    assert len(plan.lacking) == 2
    assert "workflow.yaml:3:11: error: task 'sim': asks for 1 GPU, but this machine has none;" in plan.lacking[0]
    assert "'device: cuda' cannot be had: the task sees no GPU (this machine has none)" in plan.lacking[1]
    assert sum("; a run would fail here" in note for note in plan.notes) == 2
    assert "the writer sees no GPU; the reader sees no GPU" in plan_table(plan)
    plan = pair(out="device: auto", inp="device: pinned").plan()
    assert not plan.lacking and [task.env for task in plan.tasks] == [{}, {}]
    assert plan.channels[0].why == "the writer has no 'gpus'; the reader sees no GPU"


def test_a_task_may_not_ask_for_more_than_the_machine_has(pair: Pair) -> None:
    assert "asks for 3 GPUs, but this machine has 2; run it where" in pair(ana="gpus: 3").plan().lacking[0]
    assert "sees 2 of the 3 GPUs that 'cuda:2' needs" in pair(inp="device: cuda:2").plan().lacking[0]


def test_the_plan_of_a_run_holds_it_all(pair: Pair) -> None:
    plan = pair(sim="gpus: 1", out=CUDA, ana="gpus: 3", inp=CUDA).plan()
    assert planfile.loads(planfile.dumps(plan)) == plan
