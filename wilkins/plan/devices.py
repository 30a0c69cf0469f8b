"""Applies `gpus` and `device` of a workflow file to the tasks and channels of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from wilkins.errors import Position, Problem, count_of
from wilkins.plan.gpus import End, Machine, channel_path, deal, settle
from wilkins.plan.plan import Plan, PortPlan
from wilkins.spec.gpu_names import VISIBLE, visible
from wilkins.spec.workflow import Port, Task, Workflow
from wilkins.transport.devices import ports as device_ports
from wilkins.transport.plan_table import DevicePath


def place(plan: Plan, workflow: Workflow, machine: Machine) -> Plan:
    """The plan with GPUs assigned to its tasks, a transfer path for each channel, and the variables for both."""
    entries = [task for task in workflow.tasks for _ in range(task.taskCount)]
    dealt = deal([entry.gpus for entry in entries], machine.pool)
    seen = [
        gpus if gpus is not None else visible(task.env.get(VISIBLE, machine.outer), machine.count)
        for task, gpus in zip(plan.tasks, dealt, strict=True)
    ]
    spec = [port for entry in entries for port in (*entry.inports, *entry.outports)]
    ends = [
        settle(
            port.device,
            seen[planned.task],
            given=entries[planned.task].gpus is not None or VISIBLE in plan.tasks[planned.task].env,
        )
        for planned, port in zip(plan.ports, spec, strict=True)
    ]
    paths: dict[int, list[DevicePath]] = defaultdict(list)
    channels = []
    for channel in plan.channels:
        path, why = channel_path(plan.ports[channel.outport].mode, ends[channel.outport], ends[channel.inport])
        paths[channel.outport].append(path)
        paths[channel.inport].append(path)
        is_asked = spec[channel.outport].device or spec[channel.inport].device
        channels.append(replace(channel, path=path, why=why if is_asked else ""))
    ports: dict[int, list[PortPlan]] = defaultdict(list)
    for port in plan.ports:
        ports[port.task].append(port)
    tasks = [
        replace(task, gpus=gpus, env=task.env | _variables(ports[task.index], gpus, ends, paths))
        for task, gpus in zip(plan.tasks, dealt, strict=True)
    ]
    lacking = list(dict.fromkeys(_lacking(entries, plan, spec, ends, machine)))
    notes = [f"{where}: note: {message}; a run would fail here" for where, message in lacking]
    wanted = sum(task.gpus or 0 for task in entries)
    if wanted > len(machine.pool) > 0:
        notes.append(f"note: GPUs are shared: the tasks ask for {wanted}, and {machine}")
    return replace(
        plan,
        tasks=tuple(tasks),
        channels=tuple(channels),
        notes=(*plan.notes, *notes),
        lacking=tuple(str(Problem(where, message)) for where, message in lacking),
    )


def _variables(
    ports: list[PortPlan], gpus: tuple[str, ...] | None, ends: list[End], paths: Mapping[int, list[DevicePath]]
) -> dict[str, str]:
    """Environment variables for the processes of the task with these ports."""
    variables = {} if gpus is None else {VISIBLE: ",".join(gpus)}
    by_pattern: dict[str, list[PortPlan]] = defaultdict(list)
    for port in ports:
        by_pattern[port.called].append(port)
    devices = {}
    for pattern, alike in by_pattern.items():
        through = [path for port in alike for path in paths.get(port.index, ())]
        devices[pattern] = device_ports.joined(ends[alike[0].index].device, through)
    if any(port != device_ports.HOST for port in devices.values()):
        variables[device_ports.VARIABLE] = device_ports.dumps(devices)
    return variables


def _lacking(
    entries: list[Task], plan: Plan, spec: list[Port], ends: list[End], machine: Machine
) -> Iterator[tuple[Position, str]]:
    """Why this machine cannot run the plan."""
    for task in entries:
        if task.gpus is not None and task.gpus > len(machine.pool):
            cure = f"run it where there are enough, or change it: --set {task.name}.gpus={min(1, len(machine.pool))}"
            yield task.where.of("gpus"), f"{task.label}: asks for {count_of(task.gpus, 'GPU')}, but {machine}; {cure}"
    for planned, port, end in zip(plan.ports, spec, ends, strict=True):
        task = entries[planned.task]
        if end.lacks and not task.gpus:
            yield (
                port.where.of("device"),
                f"{task.label}, {planned.direction}port {port.filename!r}: 'device: {port.device}' cannot be had: the "
                f"task {end.why} ({machine}); run it where there are enough, or write 'device: host'",
            )
