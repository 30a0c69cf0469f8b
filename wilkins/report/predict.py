"""Makes the model of a workflow from its file: what the tasks do, and what joins them."""

from __future__ import annotations

from collections.abc import Mapping

from wilkins.errors import Problem, WorkflowError
from wilkins.flow.model import Model, ModelChannel, ModelInPort, ModelOutPort, ModelTask
from wilkins.plan.graph import Wiring, instance_name
from wilkins.plan.plan import PortRef
from wilkins.spec.load import Document
from wilkins.spec.workflow import Task, TaskModel


def model_of(
    document: Document,
    wiring: Wiring,
    rate: float | None = None,
    measured: Mapping[str, float] | None = None,
    written: Mapping[str, int] | None = None,
    sizes: Mapping[tuple[str, str], int] | None = None,
) -> Model:
    """The model of a workflow that was read and wired.

    Args:
        rate: bytes per second that a rank copies; None: copies take no time.
        measured: computing time per step of task instances, in seconds, for tasks whose file gives none.
        written: steps of task instances that read none, likewise.
        sizes: bytes of a step, by name of the instance and pattern of the out-port, likewise.

    Raises:
        WorkflowError: a task without a duration, or one that would go on forever.
    """
    problems: list[Problem] = []
    tasks: list[ModelTask] = []
    outports: list[ModelOutPort] = []
    inports: list[ModelInPort] = []
    index: dict[tuple[PortRef, int], int] = {}
    read = {link.inport for link in wiring.links}
    specs: dict[str, Task] = {}
    for number, task in enumerate(document.workflow.tasks):
        said = task.model or TaskModel(where=task.where)
        for instance in range(task.taskCount):
            name = instance_name(task, instance)
            specs[name] = task
            step = said.step if said.step is not None else (measured or {}).get(name)
            if step is None:
                problems += _no_duration(task, name, measured is not None)
                step = 0.0
            place = len(tasks)
            steps = said.steps
            if steps is None and not any(
                PortRef(number, "in", position) in read for position in range(len(task.inports))
            ):
                steps = (written or {}).get(name)
            tasks.append(ModelTask(name=name, step=step, steps=steps, start=said.start, ranks=task.nprocs))
            for position, outport in enumerate(task.outports):
                index[PortRef(number, "out", position), instance] = len(outports)
                outports.append(
                    ModelOutPort(
                        task=place,
                        pattern=outport.pattern(instance),
                        size=said.size or (sizes or {}).get((name, outport.pattern(instance)), 0),
                        per_rank=said.files == "per-rank",
                        publish_at_next=outport.publish.when == "next",
                    )
                )
            for position, inport in enumerate(task.inports):
                reference = PortRef(number, "in", position)
                if reference in read:
                    index[reference, instance] = len(inports)
                    readers = inport.nreaders or task.nprocs
                    pattern = inport.pattern(instance)
                    first_waits = inport.first == "wait"
                    inports.append(ModelInPort(task=place, pattern=pattern, readers=readers, first_waits=first_waits))
    channels = []
    for link in wiring.links:
        outport = document.workflow.tasks[link.outport.task].outports[link.outport.port]
        policy = document.workflow.tasks[link.inport.task].inports[link.inport.port].policy(outport.queue)
        channels += [ModelChannel(index[link.outport, i], index[link.inport, j], policy) for i, j in link.pairs]
    model = Model(tuple(tasks), tuple(outports), tuple(inports), tuple(channels), rate)
    fed = {model.inports[channel.inport].task for channel in channels}
    endless = model.endless()
    roots = [task.name for place, task in enumerate(tasks) if task.name in endless and place not in fed]
    for name in roots or endless:
        message = f"task {name!r}: nothing says how many steps it makes; add 'model: {{steps: 10}}'"
        problems.append(Problem(specs[name].where.of("model"), message))
    if problems:
        raise WorkflowError(sorted(problems, key=lambda problem: (problem.position.line, problem.position.column)))
    return model


def _no_duration(task: Task, name: str, measured: bool) -> list[Problem]:
    cure = f"add 'model: {{step: 0.2s}}' to it, or give one for now: --set {task.name}.model.step=0.2s"
    reason = (
        "the run that was given shows no step of it, and the file gives no time" if measured else "it gives no time"
    )
    if not measured:
        cure += ", or take the times of a run: --from wilkins-runs/latest"
    return [Problem(task.where.of("model"), f"task {name!r}: {reason} that it computes per step; {cure}")]
