"""Timelines in the Trace Event Format: what viewers need of it, and that nothing of a timeline is missing."""

from __future__ import annotations

import json
from typing import Any

from wilkins.flow.timeline import Opening, RankTimeline, Segment, StepTimeline, TaskTimeline, Timeline
from wilkins.report.perfetto import perfetto

Event = dict[str, Any]

WRITER = RankTimeline(0, (Segment("computing", 0.0, 1.0), Segment("moving", 1.0, 1.25, "a\\b.h5")))
READER = RankTimeline(1, (Segment("waiting for data", 0.0, 1.25, "a\\b.h5"), Segment("computing", 1.25, 2.0)))
TIMELINE = Timeline(
    tasks=(TaskTimeline("simulate", 1.25, (WRITER,)), TaskTimeline("analyse[0]", 2.0, (READER,))),
    steps=(
        StepTimeline("simulate", 0, "a\\b.h5", 0, 1.25, (Opening("analyse[0]", 1, 1.25, ranks=3),)),
        StepTimeline("simulate", 0, "a\\b.h5", 1, 1.25, (), ("analyse[0]",)),
    ),
)


def events(*panels: tuple[str, Timeline]) -> list[Event]:
    text = json.loads(perfetto(panels))
    assert set(text) == {"traceEvents", "displayTimeUnit"}
    assert text["displayTimeUnit"] in ("ms", "ns"), "the format allows no other"
    found: list[Event] = text["traceEvents"]
    return found


def of(found: list[Event], phase: str, category: str = "") -> list[Event]:
    return [event for event in found if event["ph"] == phase and event.get("cat", "") == (category or event.get("cat"))]


def test_tasks_are_processes_and_ranks_threads() -> None:
    found = events(("run", TIMELINE))
    names = {event["pid"]: event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert list(names.values()) == ["simulate (run)", "analyse[0] (run)"]
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in found if event["name"] == "thread_name"}
    assert list(threads.values()) == ["rank 0", "rank 1"]
    assert {(event["pid"], event["tid"]) for event in found if event["ph"] != "M"} == set(threads)


def test_every_activity_is_a_slice_in_microseconds() -> None:
    slices = of(events(("run", TIMELINE)), "X", "activity")
    assert [(one["name"], one["ts"], one["dur"], one.get("args")) for one in slices] == [
        ("computing", 0, 1e6, None),
        ("moving", 1e6, 0.25e6, {"port": "a\\b.h5"}),
        ("waiting for data", 0, 1.25e6, {"port": "a\\b.h5"}),
        ("computing", 1.25e6, 0.75e6, None),
    ]


def test_an_arrow_leads_from_the_slice_of_a_publication_to_that_of_an_opening() -> None:
    """A viewer leaves an arrow out whose ends lie in no slice, or whose number another one has."""
    found = events(("run", TIMELINE), ("again", TIMELINE))
    begins = {event["id"]: event for event in of(found, "s", "step")}
    ends = {event["id"]: event for event in of(found, "f", "step")}
    assert len(begins) == len(ends) == 2, "two timelines with one arrow each"
    assert set(begins) == set(ends)
    for arrows, kind in ((begins, "published"), (ends, "opened")):
        for arrow in arrows.values():
            assert arrow["name"] == "a\\b.h5, step 0"
            within = [
                one
                for one in of(found, "X", kind)
                if (one["pid"], one["tid"], one["name"]) == (arrow["pid"], arrow["tid"], arrow["name"])
                and one["ts"] <= arrow["ts"] < one["ts"] + one["dur"]
            ]
            assert len(within) == 1, kind
    assert all(end["bp"] == "e" for end in ends.values()), "else the arrow would lead to the next slice"
    assert [one["args"] for one in of(found, "X", "opened")] == [{"ranks": 3}] * 2


def test_steps_that_nobody_got() -> None:
    found = events(("run", TIMELINE))
    assert [one["name"] for one in of(found, "X", "published")] == ["a\\b.h5, step 0", "a\\b.h5, step 1"]
    (dropped,) = of(found, "i", "dropped")
    assert (dropped["name"], dropped["args"]) == ("a\\b.h5, step 1, dropped", {"for": "analyse[0]"})
    assert dropped["s"] == "t", "shown on its thread"


def test_timelines_side_by_side_share_no_process() -> None:
    found = events(("predicted", TIMELINE), ("measured", TIMELINE))
    names = {event["pid"]: event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert len(names) == 4
    assert len(set(names.values())) == 4
