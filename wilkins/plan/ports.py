"""The ports of a plan, and when the files of each are steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wilkins.flow.publish import PublishRule
from wilkins.plan.graph import Wiring, closing
from wilkins.plan.plan import PortPlan, PortRef, TaskPlan
from wilkins.schema.patterns import intersect
from wilkins.spec.workflow import InPort, OutPort, Port, Task, Workflow
from wilkins.transport.plan_table import Looks, ReadKeys, values_of


class Ports:
    """Plans the ports of one task after the other.

    Attributes:
        planned: of all tasks that were added.
        index: where each port of each instance is among these.
    """

    def __init__(self, workflow: Workflow, wiring: Wiring) -> None:
        self._workflow = workflow
        self._wiring = wiring
        self._closes = closing(wiring.links)
        self.planned: list[PortPlan] = []
        self.index: dict[tuple[PortRef, int], int] = {}

    def add(self, of: TaskPlan) -> None:
        """Plan the ports of a task."""
        task = self._workflow.tasks[of.entry]
        for position, inport in enumerate(task.inports):
            reference = PortRef(of.entry, "in", position)
            self._add(of, reference, inport, self._of_inport(inport, reference, of.instance))
        for position, outport in enumerate(task.outports):
            reference = PortRef(of.entry, "out", position)
            self._add(of, reference, outport, self._of_outport(outport, reference, task))
        if task.restart and task.restart.files and not _declares(task, task.restart.files):
            # Nobody reads its checkpoints; the layer sees when each is whole.
            self.planned.append(
                PortPlan(
                    index=len(self.planned),
                    task=of.index,
                    direction="out",
                    pattern=task.instances.fill(task.restart.files, of.instance),
                    mode="file",
                    origin=str(task.where.of("restart")),
                    keep=task.restart.keep,
                )
            )

    def _add(self, of: TaskPlan, reference: PortRef, port: Port, own: Mapping[str, Any]) -> None:
        """`own`: the fields that only ports of its direction have."""
        passes_on = reference in self._wiring.passing
        self.index[reference, of.instance] = len(self.planned)
        self.planned.append(
            PortPlan(
                index=len(self.planned),
                task=of.index,
                direction=reference.direction,
                pattern=port.pattern(of.instance),
                mode=self._wiring.modes[reference],
                origin=str(port.where.position),
                publish=_publishing(port, passes_on),
                publish_given="publish" in port.where or passes_on,
                passes_on=passes_on,
                is_folder=port.is_folder,
                beside=port.beside(of.instance),
                closes_cycle=reference in self._closes,
                dsets=tuple(dset.name for dset in port.dsets),
                **own,
            )
        )

    def _of_inport(self, port: InPort, reference: PortRef, instance: int) -> dict[str, Any]:
        return values_of(ReadKeys, port) | {
            "looks": _looks(port, reference in self._closes),
            "stands": port.called(instance) if port.as_ else "",
        }

    def _of_outport(self, port: OutPort, reference: PortRef, task: Task) -> dict[str, Any]:
        mode = self._wiring.modes[reference]
        cap = self._workflow.memory if port.memory is None else port.memory
        return {
            "cap_bytes": cap if mode in ("memory", "both") else 0,
            "compress": tuple((rule.dset, rule.absolute, rule.relative) for rule in port.compress),
            "compress_when": port.compress_when,
            "checked": port.checked,
            "keep": _kept(task, port) if mode in ("both", "file") else 0,
            "step_bytes": task.model.size if task.model else 0,
            "per_rank": bool(task.model and task.model.files == "per-rank"),
        }


def _publishing(port: Port, passes_on: bool) -> PublishRule:
    """When a port's files are steps. Steps that a task passes on count as its own."""
    if passes_on:
        return PublishRule("next")
    return port.rule if isinstance(port, OutPort) else PublishRule()


def _looks(port: InPort, closes_cycle: bool) -> Looks:
    """Whether looks at names of an in-port wait. In a cycle one task has to begin without."""
    if port.looks == "wait":
        return "always"
    return port.looks or ("now" if closes_cycle else "wait")


def _declares(task: Task, files: str) -> bool:
    """Whether the task's checkpoints are files of an out-port."""
    return any(intersect(port.filename, files) for port in task.outports)


def _kept(task: Task, port: OutPort) -> int:
    """How many of a port's files are kept, to restart from."""
    rule = task.restart
    is_checkpoint = rule and rule.files and intersect(port.filename, rule.files)
    return rule.keep if rule and is_checkpoint else 0
