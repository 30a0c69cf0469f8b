"""Publishes model versions: when they are due, under which names, and after a resumed run the newest one once more."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wilkins.tasks.continual.options import default_filename
from wilkins.tasks.continual.task.model_file import ModelVersion, write_model
from wilkins.tasks.continual.task.relatives import folder_of
from wilkins.tasks.group import Group
from wilkins.tasks.registry import Ports
from wilkins.transport import points

if TYPE_CHECKING:
    from wilkins.tasks.continual.learner.training_loop import Learner


class Versions:
    """The versions of a training; rank 0 writes them."""

    def __init__(self, options: Mapping[str, Any], ports: Ports, ranks: Group) -> None:
        publish = options["publish"] or {"when": "step", "every": 1, "filename": None}
        self._when: str = publish["when"] if ports.outports else ""
        self._every: int = publish["every"]
        self._filename = str(publish["filename"] or default_filename("".join(ports.outports), "{version:05}"))
        self._factory: str = options["model"]
        self._arguments: Mapping[str, Any] = options["model_args"] or {}
        self._ranks = ranks
        self._keeps = bool(folder_of(options["save"])) and points.POINTS in os.environ
        self._newest: ModelVersion | None = None
        self._published_at = -1
        self._first = (
            0  # of the run: a save of an earlier one, which is not resumed, brings versions that had other ports
        )
        self.count = 0
        """How many there are so far."""

    def after_step(self, number: int, learner: Learner, loss: float, error: float) -> None:
        """A step of the stream was trained on, the `number`-th from 1 on."""
        if self._when == "step" and number % self._every == 0:
            self._publish(learner, loss, error)

    def after_update(self, learner: Learner, loss: float, error: float) -> None:
        """The learner has made an optimiser step."""
        if self._when == "update" and learner.steps % self._every == 0:
            self._publish(learner, loss, error)

    def publish_last(self, learner: Learner, loss: float, error: float) -> None:
        """Publish the learner's state, unless it was published last."""
        if self._when and self._published_at != learner.steps:
            self._publish(learner, loss, error)

    def _publish(self, learner: Learner, loss: float, error: float) -> None:
        self._published_at = learner.steps
        if self._ranks.rank == 0:
            version = ModelVersion(
                version=self.count,
                step=learner.steps,
                steps_seen=learner.position.experience,
                factory=self._factory,
                factory_args=self._arguments,
                loss=loss,
                error=error,
                state=learner.model.state_dict(),
            )
            self._write(version)
            if self._keeps:
                state = {name: tensor.detach().cpu().clone() for name, tensor in version.state.items()}
                self._newest = replace(version, state=state)
        self.count += 1

    def _write(self, version: ModelVersion) -> None:
        write_model(self._filename.format(version=version.version), version)

    @property
    def from_here(self) -> int:
        """The step of the out-port that a training publishes first that is resumed from `state`: the newest version."""
        return max(0, self.count - 1 - self._first)

    def state(self) -> dict[str, Any]:
        """The state for a save: plain values, and the newest version's tensors where a run can be resumed."""
        newest = self._newest
        return {
            "versions": self.count,
            "first": self._first,
            "published_at": self._published_at,
            "newest": newest
            and {name: getattr(newest, name) for name in ("version", "step", "steps_seen", "loss", "error", "state")},
        }

    def restore(self, state: Mapping[str, Any], *, resumed: bool) -> None:
        """Go on from a `state`.

        With `resumed`, whoever read the newest version may be a new process that knows none: it is published again, as
        what it was.
        """
        self.count, newest = state["versions"], state["newest"]
        if not resumed:
            self._first = self.count
            return
        self._first, self._published_at = state["first"], state["published_at"]
        if newest is not None:
            self._newest = ModelVersion(**newest, factory=self._factory, factory_args=self._arguments)
            self._write(self._newest)
