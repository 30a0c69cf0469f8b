"""What the head of a run over hosts, and a host by itself, make of what hosts tell."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from wilkins.flow.placement import Host
from wilkins.launch.hosts.clashes import clashes
from wilkins.launch.hosts.clocks import Clock
from wilkins.launch.hosts.crossings import host_trace
from wilkins.launch.hosts.hostpolls import HostPolls
from wilkins.launch.hosts.messages import EndWait, Grow
from wilkins.launch.hosts.relaynames import relay_name_replacer
from wilkins.launch.hosts.status import HostStatus
from wilkins.launch.hosts.waits import StuckDetector, not_ended_message, sole_active
from wilkins.launch.records.tracednames import names_of
from wilkins.plan.graph import wire
from wilkins.plan.placing import placed
from wilkins.plan.plan import Plan
from wilkins.plan.planner import make_plan
from wilkins.plan.split import HostPart, host_parts
from wilkins.spec.load import load
from wilkins.transport.report_table import Report, TaskFacts
from wilkins.values import replace, restored

PAIR = """
tasks:
  - {func: ./sim.py, nprocs: RANKS, outports: [{filename: "s*.h5"}]}
  - {func: ./ana.py, inports: [{filename: "s*.h5", io_freq: 2}]}
"""


def planned(folder: Path, ranks: int = 1) -> tuple[Plan, tuple[HostPart, ...]]:
    """A producer, and a reader of every second step on a host of its own."""
    for name in ("sim.py", "ana.py"):
        (folder / name).touch(mode=0o755)
    (folder / "workflow.yaml").write_text(PAIR.replace("RANKS", str(ranks)))
    document = load(folder / "workflow.yaml", [])
    hosts = tuple(Host(f"h{k}", 1) for k in range(ranks + 1))
    plan = placed(make_plan(document, wire(document)), document, hosts)
    return plan, host_parts(plan)


def state(
    part: HostPart,
    *,
    waits: bool = True,
    unsure: bool = False,
    polls: bool = False,
    among: bool = False,
    leaving: bool = False,
) -> HostStatus:
    """Of a host on which nothing moves; `waits`: so does the program, and the relay does; `among`: in its MPI."""
    wait = [{"rank": 0, "unsure": unsure}]
    poll = [{"rank": 0}] if polls else []
    tasks = [
        {
            "name": task.name,
            "state": "running",
            "nprocs": 1,
            "waits": wait if task.is_relay or waits else [],
            "polls": [] if task.is_relay else poll,
            "among": [0] if among and not task.is_relay else [],
            "leaving": [0] if leaving and not task.is_relay else [],
        }
        for task in part.plan.tasks
    ]
    return restored(HostStatus, {"report": {"tasks": tasks}})


def verdicts(found: StuckDetector, states: list[tuple[HostPart, HostStatus]], until: float) -> list[tuple[float, str]]:
    """What is said at which second, if nobody can help; each verdict but the usual one."""
    said: list[tuple[float, str]] = []
    for second in range(int(until) + 1):
        verdict = found.verdict(states, float(second))
        if verdict != "goes on":
            said.append((float(second), verdict))
        if verdict.startswith("may"):
            found.tried(Grow(1) if verdict == "may grow" else EndWait(), did=False)
    return said


@pytest.mark.parametrize(("unsure", "ends", "stuck"), [(False, 2.0, [(5.0, "stuck")]), (True, 10.0, [])])
def test_a_queue_grows_then_a_wait_ends_then_the_run_is_stuck(
    tmp_path: Path, unsure: bool, ends: float, stuck: list[tuple[float, str]]
) -> None:
    """Not where a thread of a rank may yet do something else."""
    _, found = planned(tmp_path)
    said = verdicts(StuckDetector(), [(part, state(part, unsure=unsure)) for part in found], 20 if unsure else 5)
    assert said == [(1.0, "may grow"), (ends, "may end a wait"), *stuck]


@pytest.mark.parametrize("sender", ["pending", "running"])
def test_a_relay_that_has_not_started_holds_nothing_up_but_one_that_starts_does(
    tmp_path: Path, sender: Literal["pending", "running"]
) -> None:
    """A sender starts with its first step; then it connects, for which its receiver starts."""
    _, found = planned(tmp_path)
    states = []
    for part in found:
        own = state(part)
        assert own.report is not None
        senders = dict(part.senders)
        tasks = [
            replace(task, state=sender if place in senders else "running", waits=())
            if place >= len(part.tasks)
            else task
            for place, task in enumerate(own.tasks)
        ]
        states.append((part, replace(own, report=replace(own.report, tasks=tuple(tasks)))))
    said = [verdict for _, verdict in verdicts(StuckDetector(), states, 5)]
    assert said[-1:] == (["stuck"] if sender == "pending" else [])


def test_a_rank_in_its_mpi_waits_for_one_that_waits(tmp_path: Path) -> None:
    """Of a task of which none waits for a file, nobody knows whether it goes on."""
    _, found = planned(tmp_path, ranks=2)
    states = [(part, state(part, waits=part.host != 1, among=part.host == 1)) for part in found]
    assert [verdict for _, verdict in verdicts(StuckDetector(), states, 5)][-1:] == ["stuck"]
    states = [(part, state(part, waits=False, among=True)) for part in found]
    assert verdicts(StuckDetector(), states, 5) == []


def test_after_a_wait_has_ended_all_begins_anew(tmp_path: Path) -> None:
    _, found = planned(tmp_path)
    still = StuckDetector()
    states = [(part, state(part)) for part in found]
    assert verdicts(still, states, 1) == [(1.0, "may grow")]
    still.tried(EndWait(), did=True)
    assert verdicts(still, states, 1) == [(1.0, "may grow")]
    assert still.step == 1


def test_a_run_with_a_program_that_polls_is_not_stuck(tmp_path: Path) -> None:
    _, found = planned(tmp_path)
    states = [(part, state(part, waits=part.host == 0, polls=part.host == 1)) for part in found]
    assert "stuck" not in [verdict for _, verdict in verdicts(StuckDetector(), states, 30)]


def test_processes_that_do_not_end_after_all_tasks_have(tmp_path: Path) -> None:
    """No queue need grow, and nobody waits for a step."""
    _, found = planned(tmp_path)
    ended = TaskFacts("", 1, "ended")
    states = [(part, HostStatus(report=Report(tasks=(ended,) * len(part.plan.tasks)))) for part in found]
    said = verdicts(StuckDetector(), states, 25)
    assert said[0] == (20.0, "does not end")
    assert {verdict for _, verdict in said} == {"does not end"}


def test_processes_that_do_not_end_while_their_readers_wait_for_more(tmp_path: Path) -> None:
    """All ranks of a task are in MPI_Finalize, on both of its hosts; those of one host alone wait for the others."""
    plan, found = planned(tmp_path, ranks=2)
    states = [(part, state(part, waits=part.host == 2, leaving=part.host < 2)) for part in found]
    assert verdicts(StuckDetector(), states, 20) == [(20.0, "does not end")]
    assert "processes of sim have done their work" in not_ended_message(plan, states)
    states = [(part, state(part, waits=part.host > 0, leaving=part.host == 0)) for part in found]
    assert verdicts(StuckDetector(), states, 5)[-1:] == [(5.0, "stuck")]


def test_one_task_is_alone_where_all_others_wait(tmp_path: Path) -> None:
    _, found = planned(tmp_path)
    assert sole_active([(part, state(part, waits=part.host == 0)) for part in found]) == {1}
    assert sole_active([(part, state(part)) for part in found]) == set()
    assert sole_active([(part, state(part, waits=False)) for part in found]) == set()
    assert (
        sole_active([(part, state(part, waits=part.host == 0) if part.host else HostStatus(0.1)) for part in found])
        == set()
    )


def test_messages_call_a_relay_by_its_task(tmp_path: Path) -> None:
    plan, _ = planned(tmp_path)
    says = relay_name_replacer(plan)
    assert says("task 'sim-from-h0-0' has published; sim-to-h1-0.") == "task 'sim' has published; sim."
    assert says("its output is in hosts/h1/sim-from-h0-0.log") == "its output is in hosts/h1/sim-from-h0-0.log"


def test_messages_tell_which_host_of_a_task_on_several(tmp_path: Path) -> None:
    plan, _ = planned(tmp_path, ranks=2)
    assert relay_name_replacer(plan)("'sim-from-h0-0' and 'sim-from-h1-1'") == "'sim on h0' and 'sim on h1'"


def test_polls_on_a_host_are_told_with_the_name_of_the_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay that writes in its place is not named."""
    plan, found = planned(tmp_path)
    polls = HostPolls(plan, found[1], ())
    names = [{"name": "x0.h5", "uses": 5}]
    relay = {
        "name": "sim-from-h0-0",
        "state": "ended",
        "nprocs": 1,
        "waits": [],
        "polls": [],
        "among": [],
        "unmatched_names": [],
    }
    reader = {**relay, "name": "ana", "state": "running", "unmatched_names": names}
    ports = [
        {"task": 0, "direction": "in", "pattern": "s*.h5", "steps": 0, "bytes": 0},
        {"task": 1, "direction": "out", "pattern": "s*.h5", "steps": 1, "bytes": 8},
    ]
    channels = [{"outport": 1, "inport": 0, "next": "x_0.h5", "queued": 1}]
    report = {"tasks": [reader, relay], "ports": ports, "channels": channels}
    said: list[str] = []
    for second in range(40):
        monkeypatch.setattr("wilkins.launch.hosts.hostpolls.time.monotonic", lambda now=second: float(now))
        names[0]["uses"] = second
        said = polls.messages(restored(Report, report))
    (line,) = said
    assert "did you mean 'x_0.h5', which sim has published" in line


@pytest.mark.parametrize(
    ("begin", "end", "ahead", "within", "clash"),
    [
        (150, 250, 0, 0, True),
        (200, 300, 0, 0, False),
        (150, 250, 0, 60, False),
        (1150, 1250, 1000, 10, True),
        (1250, 1350, 1000, 10, False),
    ],
    ids=["at once", "one after the other", "not surely", "a clock ahead", "after the other, a clock ahead"],
)
def test_a_file_that_two_hosts_write_at_once(
    tmp_path: Path, begin: int, end: int, ahead: int, within: int, clash: bool
) -> None:
    """By the clock of the head, and only if the clocks are known so well."""
    plan, found = planned(tmp_path, ranks=2)
    for host, times in (("h0", (100, 200)), ("h1", (begin, end))):
        (tmp_path / host).mkdir()
        kinds = zip(("create", "publish"), times, strict=True)
        lines = "".join(f"{at}\t{kind}\tsim\t0\ts*.h5\ts0.h5\t0\t8\n" for kind, at in kinds)
        (tmp_path / host / "trace.tsv").write_text(lines)
    traces = [(part, tmp_path / plan.hosts[part.host].name / "trace.tsv") for part in found]
    told = clashes(plan, traces, {0: Clock(0, 0), 1: Clock(ahead, within)})
    if not clash:
        assert told == []
        return
    (said,) = told
    assert said.startswith("task 'sim': ranks 0 (on h0) and 1 (on h1) both create 's0.h5'; let each rank write a name")
    assert clashes(plan, traces, {0: Clock(0, 0)}) == []


def test_steps_of_several_hosts_are_named(tmp_path: Path) -> None:
    """What the sender left out is not unread, and the reader's host counts from 0."""
    plan, found = planned(tmp_path)
    lines = {
        "h0": [
            *(("publish", "sim", "s*.h5", f"s{n}.h5", n) for n in range(6)),
            *(("skip", "sim-to-h1-0", "s*.h5", f"s{n}.h5", n) for n in (0, 2, 4)),
            *(("open", "sim-to-h1-0", "s*.h5", f"s{n}.h5", n) for n in (1, 3, 5)),
        ],
        "h1": [("open", "ana", "s*.h5", "s1.h5", 0)],
    }
    for host, events in lines.items():
        (tmp_path / host).mkdir()
        text = "".join(f"{k}\t{e}\t{t}\t0\t{p}\t{n}\t{s}\t8\n" for k, (e, t, p, n, s) in enumerate(events))
        (tmp_path / host / "trace.tsv").write_text(text)
    traces = [host_trace(plan, part, tmp_path / plan.hosts[part.host].name / "trace.tsv") for part in reversed(found)]
    channel = ("sim", "s*.h5", "ana", "s*.h5")
    told = names_of(traces, [channel])[channel]
    assert told.unread.all == ["s3.h5", "s5.h5"]
    assert told.written.all == [f"s{n}.h5" for n in range(6)]
