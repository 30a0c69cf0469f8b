"""Trains by all strategies on one stream, step by step in turns, and notes what each of them takes and reaches."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch

from wilkins.tasks.continual import FromScratch, Learner, RehearsalOptions, Step, make_strategy

from .streams import Samples, Stream

WITH_BUFFER = ("rehearsal", "der", "der++")


@dataclass(frozen=True, slots=True)
class Setting:
    """How to train."""

    strategy: str
    passes: int
    buffer: int = 0
    """Samples that the rehearsal buffer has room for; 0: there is none."""
    representatives: int = 0
    """Samples that are recalled with each batch; by DER++ twice as many."""


def grid(
    incremental: Sequence[int], from_scratch: Sequence[int], passes: Sequence[int], buffer: tuple[int, int],
    others: Sequence[tuple[int, int]] = (), usual: int = 1, strategies: Sequence[str] = WITH_BUFFER,
) -> list[Setting]:  # fmt: skip
    """Settings: those with a buffer have this one, of its size and representatives, in so many passes, and others in
    the `usual` passes."""
    rooms = {(one, *buffer) for one in passes} | {(usual, *other) for other in others}
    return [
        *(Setting("incremental", one) for one in incremental),
        *(Setting("from-scratch", one) for one in from_scratch),
        *(Setting(name, *room) for name in strategies for room in sorted(rooms)),
    ]


@dataclass(slots=True)
class Course:
    """What a setting has come to, with one seed."""

    stream: str
    seed: int
    setting: Setting
    pushed: list[int] = field(default_factory=list)
    """For each step of the stream: samples that went through the model, forwards and backwards, recalled ones too."""
    seconds: list[float] = field(default_factory=list)
    """For each step of the stream, of training alone."""
    cpu: list[float] = field(default_factory=list)
    """The processor time, likewise."""
    errors: list[float] = field(default_factory=list)
    """At the end, on what each step of the stream has to test with: the part of wrong classes, or the norm of the error
    over that of the targets."""
    kept: int = 0
    """Bytes of samples, and of outputs kept with them, at the end."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a producer has made, with one seed."""

    stream: str
    seed: int
    samples: list[int]
    """To train on, for each step."""
    bytes: int
    """Bytes of a sample."""
    cpu: list[float]
    """Processor time for each step; 0: not known."""


def _learner(stream: Stream, setting: Setting, seed: int) -> Learner:
    torch.manual_seed(seed)
    model = stream.model()
    options = None
    if setting.buffer:
        options = RehearsalOptions(
            batch=stream.batch, candidates=stream.batch, representatives=setting.representatives,
            samples=setting.buffer, label="y" if stream.loss == "cross_entropy" else None, seed=seed,
        )  # fmt: skip
    strategy = make_strategy(setting.strategy, options)
    return Learner(model, strategy, stream.optimizer(model.parameters()), stream.loss, batch=stream.batch, seed=seed)


def error_of(learner: Learner, samples: Samples) -> float:
    """How wrong a model is on samples."""
    found = learner.evaluate(samples)
    if learner.loss.classes:
        return 1 - found.accuracy
    return math.sqrt(found.loss / float((samples["y"] ** 2).mean()))


def kept_by(learner: Learner) -> int:
    """Bytes of samples that a strategy keeps, and of outputs kept with them."""
    if isinstance(learner.strategy, FromScratch):
        return sum(tensor.nbytes for tensor in learner.strategy.state_dict()["past"].values())
    statistics = learner.strategy.statistics()
    return statistics.size * statistics.sample_bytes if statistics else 0


def train(stream: Stream, settings: Sequence[Setting], seed: int, quick: bool) -> tuple[Made, list[Course]]:
    """Train by all settings: each step of the stream by one after the other, so that other load on the machine meets
    all of them. The step is then let go of, except by who keeps it."""
    torch.set_num_threads(1)
    courses = [Course(stream.name, seed, setting) for setting in settings]
    counts: list[int] = []
    making: list[float] = []
    tests: list[Samples] = []
    size = 0
    with ExitStack() as stack:
        learners = [stack.enter_context(_learner(stream, setting, seed)) for setting in settings]
        for step in stream.steps(seed, quick):
            count = len(step.train["y"])
            size = sum(array.nbytes for array in step.train.values()) // count
            counts.append(count)
            making.append(step.seconds)
            tests.append(step.test)
            for course, learner in zip(courses, learners, strict=True):
                _follow(course, learner, step.train)
        for course, learner in zip(courses, learners, strict=True):
            course.errors = [error_of(learner, test) for test in tests]
            course.kept = kept_by(learner)
    return Made(stream.name, seed, counts, size, making), courses


def _follow(course: Course, learner: Learner, samples: Samples) -> None:
    pushed = 0

    def count(step: Step) -> None:
        nonlocal pushed
        pushed += step.samples + step.recalled

    began, cpu = time.perf_counter(), time.process_time()
    learner.experience(samples, course.setting.passes, after_step=count)
    course.seconds.append(time.perf_counter() - began)
    course.cpu.append(time.process_time() - cpu)
    course.pushed.append(pushed)
