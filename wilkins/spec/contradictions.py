"""Keys of a task that exclude each other: `gpus` and `device`, `restart` and its ports, keys of sets and of files."""

from __future__ import annotations

from collections.abc import Iterator

from wilkins.errors import Position, count_of
from wilkins.schema.compress import problems_of
from wilkins.schema.patterns import intersect
from wilkins.spec.gpu_names import VISIBLE, listed, number_of
from wilkins.spec.workflow import InPort, OutPort, Port, Task, ready_made

_OF_FILES = {
    "device": "device memory is for what HDF5 reads and writes",
    "compress": "such steps stay on one host",
    "checked": "checksums are of single files in memory",
    "dsets": "datasets are those of one HDF5 file",
    "as_": "the program calls them by their own names",
    "opens_per_step": "a step is opened as often as the program likes",
    "first": "the first open of a step waits",
}


def of_devices(task: Task) -> Iterator[tuple[Position, str]]:
    """Contradictions in a task's `gpus` and `device`, on any machine."""
    own = (task.env or {}).get(VISIBLE)
    if task.gpus is not None and own is not None:
        message = f"{task.label}: 'gpus' and {VISIBLE} under 'env' both say which GPUs it sees; remove one of them"
        yield task.where.of("gpus"), message
        return
    most = len(listed(task.instances.fill(own, 0))) if own is not None else task.gpus
    how = f"{VISIBLE} under 'env' leaves it {most or 'none'}" if own is not None else f"'gpus' is {most}"
    devices: dict[str, Port] = {}
    for noun, ports in (("inport", task.inports), ("outport", task.outports)):
        for port in ports:
            asked = port.device or "host"
            who = f"{task.label}, {noun} {port.filename!r}"
            where = port.where.of("device")
            needed = number_of(asked) + 1
            if asked.startswith(("cuda", "pinned")) and most is not None and most < needed:
                cure = "give it as many, or write a smaller number" if most else "give it one, or write 'device: host'"
                yield where, f"{who}: 'device: {asked}' needs {count_of(needed, 'GPU')}, but {how}; {cure}"
            if asked == "pinned" and port.mode == "file":
                message = "'device: pinned' is for steps in memory, and 'mode: file' has none; remove one of them"
                yield where, f"{who}: {message}"
            other = devices.setdefault(port.filename, port)
            if (other.device or "host") != asked:
                message = (
                    f"{who}: the out-port and the in-port of one name have one device, but the other says "
                    f"{other.device or 'host'!r} ({other.where.of('device')}); write the same on both"
                )
                yield where, message


def of_compression(task: Task) -> Iterator[tuple[Position, str]]:
    """Bounds of out-ports that allow nothing, or everything."""
    for port in task.outports:
        if "compress_when" in port.where and not port.compress:
            message = "'compress_when' goes with 'compress', which is not there; add it, or remove 'compress_when'"
            yield port.where.of("compress_when"), f"{task.label}, outport {port.filename!r}: {message}"
        for rule in port.compress:
            for problem in problems_of(rule):
                yield rule.where.position, f"{task.label}, outport {port.filename!r}: {problem}"


def of_failure(task: Task) -> Iterator[tuple[Position, str]]:
    """Contradictions among a task's keys for failures, and where they are."""
    for name in ("retries", "retry_delay"):
        if name in task.where and task.on_failure != "restart":
            yield (
                task.where.of(name),
                f"{task.label}: {name!r} goes with 'on_failure: restart', but that is {task.on_failure!r}; set it, or "
                f"remove {name!r}",
            )
    again = task.on_failure == "restart" or (task.restart is not None and task.restart.how == "each-step")
    for port in task.outports if again and task.inports else ():
        if port.rule.defers:
            yield (
                port.where.of("publish"),
                f"{task.label}, outport {port.filename!r}: with 'publish: {port.rule}' a file waits after its "
                "close, and is lost if the program fails while it handles the next step; publish at the close, or "
                f"remove '{'on_failure: restart' if task.on_failure == 'restart' else 'restart: each-step'}'",
            )
    if task.min_instances is None:
        return
    where = task.where.of("min_instances")
    if task.taskCount == 1:
        yield where, f"{task.label}: 'min_instances' is for an ensemble ('taskCount' or 'sweep'); remove it"
    elif task.min_instances > task.taskCount:
        yield (
            where,
            f"{task.label}: 'min_instances' is {task.min_instances}, more than its "
            f"{'sweep' if task.sweep else 'taskCount'!r} of {task.taskCount}",
        )
    if task.on_failure == "continue":
        yield (
            where,
            f"{task.label}: 'on_failure: continue' goes on without any number of instances, 'min_instances' only "
            "without some; remove one of them",
        )


def of_restart(task: Task) -> Iterator[tuple[Position, str]]:
    """Contradictions in a task's `restart`, and where they are."""
    rule = task.restart
    if rule is None:
        return
    where = task.where.of("restart")
    if ready_made(task) is not None and rule.how != "points":
        yield where, f"{task.label}: a ready-made task tells its restart points itself; remove 'restart'"
    elif rule.how == "each-step" and not task.inports:
        yield (
            where,
            f"{task.label}: 'restart: each-step' is for tasks that read steps, and it has no in-port; remove it",
        )
    for port in task.outports if rule.how == "files" else ():
        if intersect(port.filename, rule.files) and str(port.publish) != "close":
            yield (
                port.where.of("publish"),
                f"{task.label}, outport {port.filename!r}: a checkpoint to restart from ('restart: files') must be "
                f"complete when it is closed, not at '{port.publish}'; give checkpoints names of their own, or remove "
                "'publish'",
            )


def of_sets(task: Task) -> Iterator[tuple[Position, str]]:
    """Contradictions in ports whose steps are folders or several files, and in rules for these alone."""
    for noun, ports in (("inport", task.inports), ("outport", task.outports)):
        for port in ports:
            who = f"{task.label}, {noun} {port.filename!r}"
            if port.is_set:
                yield from _of_set(task, port, who)
            elif isinstance(port, OutPort) and port.publish.when in ("file", "end"):
                yield (
                    port.where.of("publish"),
                    f"{who}: 'publish: {port.publish}' is for folders and lists; end the name with '/' if each step is "
                    "a folder, or write another rule",
                )
            other = next((one for one in ports if one is not port and _shares_name(port, one)), None)
            if len(port.names) > 1 and other is not None:
                yield (
                    port.where.of("filename"),
                    f"{who}: a file of its names may also be one of the port {other.filename!r} "
                    f"({other.where.of('filename')}); a file belongs to one step: remove one of them",
                )


def _shares_name(one: Port, other: Port) -> bool:
    return any(intersect(mine.rstrip("/"), name.rstrip("/")) for mine in one.names for name in other.names)


def _of_set(task: Task, port: Port, who: str) -> Iterator[tuple[Position, str]]:
    what = "folders" if port.is_folder else "several files"
    if ready_made(task) is not None:
        yield port.where.of("filename"), f"{who}: a ready-made task reads and writes one HDF5 file a step, not {what}"
    for name, reason in _OF_FILES.items():
        key = name.rstrip("_")
        if key in port.where and getattr(port, name) != "host":
            yield port.where.of(key), f"{who}: the steps are {what}, and {reason}; remove '{key}'"
    if "**" in port.filename.split("/") and isinstance(port, InPort):
        yield port.where.of("filename"), f"{who}: '**' is for single files; write the folders above as they are"
    if not isinstance(port, OutPort):
        return
    if task.on_failure == "restart":
        yield (
            port.where.of("filename"),
            f"{who}: a program that is started again cannot write its {what} again; remove 'on_failure: restart'",
        )
    if port.memory:
        yield (
            port.where.of("memory"),
            f"{who}: the steps are {what}, whose memory is bounded by 'queue' alone; remove 'memory'",
        )
    moments = ("next", "file", "end") if port.is_folder else ("close", "next", "file", "end")
    if port.rule.when not in moments or port.rule.count > 1:
        whole = "a folder is" if port.is_folder else "files of one number are"
        rules = "'next', '{file: PATTERN}' or 'end'"
        rules = rules if port.is_folder else f"'close', {rules}"
        yield port.where.of("publish"), f"{who}: {whole} complete at {rules}, not at '{port.publish}'"
