"""Chooses what each task of a run goes back to, so that on every channel no step is lost and none comes twice. Pure.

A *restart point* of a task says how far it was on each stream of steps when its state was saved: how many steps it had
consumed, how many it had published. A stream is one rank's publications on one out-port. A *cut* is one
point per task. A channel is whole in it if its producer goes back at least as far as its consumer: the steps between
are made again, and those that the consumer has read already are left out for it. So are steps made again that were in
queues.

Producers that have to go back may drag others with them, down to the beginning of all. There is always one greatest
cut, which asks for the least to be done again (recovery lines: B. Randell, System Structure for Software Fault
Tolerance, 1975; of messages: R. Strom and S. Yemini, Optimistic Recovery in Distributed Systems, 1985).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Stream = TypeVar("Stream", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Position(Generic[Stream]):
    """How far a task had come. A stream that is not named: not begun."""

    consumed: Mapping[tuple[int, Stream], int]
    """By channel (its number) and stream: the task is done with all steps of lower numbers."""
    published: Mapping[Stream, int]
    """By stream: the number of the step that the task publishes next."""


@dataclass(frozen=True, slots=True)
class Joint(Generic[Stream]):
    """One stream on one channel: what joins a producer to a consumer."""

    channel: int
    stream: Stream
    producer: int
    consumer: int


def latest_cut(points: Sequence[Sequence[Position[Stream]]], joints: Sequence[Joint[Stream]]) -> list[int]:
    """The greatest consistent cut: for each task, which of its points it goes back to.

    Args:
        points: by task, the oldest first. The first one is the task's beginning, where it has published nothing; of
            two points, the later one is not behind the earlier on any stream.
        joints: between which tasks steps go.

    Returns:
        By task, the place of its point. No consistent cut has a later point of any task.
    """
    chosen = [len(of_task) - 1 for of_task in points]
    moved = True
    while moved:
        moved = False
        for joint in joints:
            there = points[joint.consumer][chosen[joint.consumer]].consumed.get((joint.channel, joint.stream), 0)
            while points[joint.producer][chosen[joint.producer]].published.get(joint.stream, 0) > there:
                chosen[joint.producer] -= 1
                moved = True
    return chosen
