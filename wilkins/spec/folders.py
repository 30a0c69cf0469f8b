"""What a port cannot have whose steps are folders."""

from __future__ import annotations

from collections.abc import Iterator

from wilkins.errors import Position
from wilkins.spec.workflow import InPort, OutPort, Task, ready_made

_OF_FILES = {
    "mode": "a folder is in memory",
    "metadata": "a folder is in memory",
    "passthru": "a folder is in memory",
    "file": "a folder is in memory",
    "device": "device memory is for what HDF5 reads and writes",
    "dsets": "datasets are those of an HDF5 file",
    "as_": "the program calls a folder by its own name",
    "opens_per_step": "a folder is opened as often as the program likes",
    "first": "the first open of a folder waits",
}


def of_folders(task: Task) -> Iterator[tuple[Position, str]]:
    """What is wrong with ports of a task whose names end with a slash, and with rules that are for those alone."""
    for noun, ports in (("inport", task.inports), ("outport", task.outports)):
        for port in ports:
            who = f"{task.label}, {noun} {port.filename!r}"
            publish = port.publish if isinstance(port, OutPort) and "publish" in port.where else None
            if not port.is_folder:
                if publish is not None and publish.when in ("file", "end"):
                    yield (
                        port.where.of("publish"),
                        f"{who}: 'publish: {publish}' is for folders; end the name with '/' if each step is one, or "
                        "write another rule",
                    )
                continue
            if ready_made(task) is not None:
                yield port.where.of("filename"), f"{who}: a ready-made task reads and writes HDF5 files, no folders"
            for name, reason in _OF_FILES.items():
                key = name.rstrip("_")
                if key in port.where and getattr(port, name) not in ("memory", "host"):
                    yield port.where.of(key), f"{who}: the steps are folders, and {reason}; remove '{key}'"
            if isinstance(port, OutPort) and task.on_failure == "restart":
                yield (
                    port.where.of("filename"),
                    f"{who}: a program that is started again cannot write its folders again; remove "
                    "'on_failure: restart'",
                )
            if isinstance(port, OutPort) and port.memory:
                yield (
                    port.where.of("memory"),
                    f"{who}: the steps are folders, whose memory is bounded by 'queue' alone; remove 'memory'",
                )
            if isinstance(port, InPort) and port.is_folder and "**" in port.filename.split("/"):
                yield port.where.of("filename"), f"{who}: '**' is for files; write the folders above as they are"
            if publish is not None and publish.when not in ("next", "file", "end"):
                yield (
                    port.where.of("publish"),
                    f"{who}: a folder is complete at 'next', '{{file: PATTERN}}' or 'end', not at '{publish}'",
                )
