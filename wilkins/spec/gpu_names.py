"""How GPUs are named: by `CUDA_VISIBLE_DEVICES`, and by a port's `device`, and whether a file asks for some. No I/O."""

from __future__ import annotations

from wilkins.spec.workflow import Workflow

VISIBLE = "CUDA_VISIBLE_DEVICES"


def asks(workflow: Workflow) -> bool:
    """Whether the workflow file says anything about GPUs or devices."""
    ports = (port for task in workflow.tasks for port in (*task.inports, *task.outports))
    return any(task.gpus is not None for task in workflow.tasks) or any(port.device for port in ports)


def visible(setting: str | None, count: int) -> tuple[str, ...]:
    """The GPUs that a process sees of `count`, under a setting of `CUDA_VISIBLE_DEVICES`; None: it is not set.

    The first entry that names no GPU hides itself and all that follow, as the CUDA Programming Guide has it.
    """
    if setting is None:
        return tuple(str(number) for number in range(count))
    there = [not name.isdecimal() or int(name) < count for name in listed(setting)] if count else []
    return listed(setting)[: there.index(False) if False in there else len(there)]


def listed(setting: str) -> tuple[str, ...]:
    """The GPUs that a setting of `CUDA_VISIBLE_DEVICES` names, up to the first entry that cannot be one."""
    found = []
    for entry in setting.split(","):
        name = entry.strip()
        if not (name.isdecimal() or name.upper().startswith(("GPU-", "MIG-"))):
            break
        found.append(name)
    return tuple(found)


def number_of(device: str) -> int:
    """The number of ``cuda`` or ``cuda:k`` among the GPUs that the process sees."""
    return int(device.partition(":")[2] or 0)
