"""The model of a workflow: its tasks with their durations, what joins them, and the hosts on which they run.

`wilkins.flow.simulation` predicts its timeline.
"""

from __future__ import annotations

from dataclasses import dataclass

from wilkins.flow.packing import Packing
from wilkins.flow.placement import Share
from wilkins.flow.policy import FlowPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTask:
    """A task instance. Times are in seconds."""

    name: str
    step: float
    """Computing time of each rank per iteration."""
    steps: int | None = None
    """Iterations; None: until an in-port has no more steps."""
    start: float = 0.0
    """From the beginning to the first iteration."""
    ranks: int = 1
    share: Share = ()
    """By index in the model's hosts, how many of its ranks are there, in their order; empty: all are on the first."""

    @property
    def hosts(self) -> Share:
        """Its hosts and the numbers of its ranks there."""
        return self.share or ((0, self.ranks),)

    @property
    def lead(self) -> int:
        """The host of its first rank."""
        return self.hosts[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHost:
    """A machine, and how it is joined to the others."""

    name: str
    latency: float = 0.0
    """Seconds that a small message takes to or from another host; between two hosts the larger time counts."""
    bandwidth: float | None = None
    """Bytes per second that it sends, and as many that it receives at the same time; None: they take no time."""
    cores: int = 1
    """Cores on which steps are packed: those that no rank has, one at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutPort:
    """A port that a task writes one step to in each iteration."""

    task: int
    """Index of the task."""
    pattern: str
    size: int = 0
    """Bytes of a step. The ranks of a task share the writing of a parallel file evenly."""
    per_rank: bool = False
    """Each rank writes files of its own and is a source by itself; else one parallel file is the task's."""
    publish_at_next: bool = False
    """A step is published when the next one is begun, or the task ends, instead of at its close."""
    packing: Packing = Packing()
    """What is made of a step on its way to another host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInPort:
    """A port that a task reads one step from in each iteration."""

    task: int
    pattern: str
    readers: int
    """Ranks that open the steps, the first ones, and share the reading evenly; the others wait for them."""
    first_waits: bool = True
    """False: the first iteration does without a step."""


@dataclass(frozen=True, slots=True)
class ModelChannel:
    """An edge from an out-port to an in-port, by their indices."""

    outport: int
    inport: int
    policy: FlowPolicy


@dataclass(frozen=True, slots=True)
class Model:
    """A workflow with its durations."""

    tasks: tuple[ModelTask, ...]
    outports: tuple[ModelOutPort, ...]
    inports: tuple[ModelInPort, ...]
    channels: tuple[ModelChannel, ...]
    rate: float | None = None
    """Bytes per second that one rank copies; None: copies take no time."""
    hosts: tuple[ModelHost, ...] = ()
    """Empty: all on one."""

    def endless(self) -> tuple[str, ...]:
        """Tasks that would run forever: neither they nor their producers, direct or not, give a number of steps.

        `simulate` needs a model without any.
        """
        writers: list[set[int]] = [set() for _ in self.inports]
        for channel in self.channels:
            writers[channel.inport].add(self.outports[channel.outport].task)
        ending = {index for index, task in enumerate(self.tasks) if task.steps is not None}
        before = -1
        while len(ending) > before:
            before = len(ending)
            ending |= {port.task for port, fed in zip(self.inports, writers, strict=True) if fed and fed <= ending}
        return tuple(task.name for index, task in enumerate(self.tasks) if index not in ending)
