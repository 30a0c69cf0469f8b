"""Notes on ensembles whose instances all do the same, and on parameters of sweeps that stand nowhere."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from wilkins.plan.graph import Wiring
from wilkins.plan.plan import PortRef
from wilkins.schema.reading import plain
from wilkins.spec.ensemble import PerInstance, placeholders
from wilkins.spec.load import texts_of
from wilkins.spec.workflow import Task, function_of, ready_made


def notes(number: int, task: Task, wiring: Wiring, programs: int) -> Iterator[str]:
    """What the user may have forgotten to write into an entry.

    Args:
        number: that of the entry.
        programs: how many different ones its instances start.
    """
    if task.taskCount > 1 and programs == 1 and not _differ(task) and not _read_apart(number, wiring):
        cure = f"write {{{task.sweep.names[0]}}}" if task.sweep else "write {instance}, or a list of values,"
        yield (
            f"{task.where.of('sweep' if task.sweep else 'taskCount')}: note: {task.label}: its {task.taskCount} "
            f"instances have the same command, arguments, environment, folder and input, so all of them do the same; "
            f"{cure} into 'args' or 'env'{'' if task.sweep else ', or give it a sweep (`wilkins help sweeps`)'}"
        )
    elif task.sweep and not task.variants and (unused := _unused(task)):
        names = ", ".join(unused)
        yield (
            f"{task.where.of('sweep')}: note: {task.label}: {names} of its sweep {'stand' if unused[1:] else 'stands'} "
            f"nowhere; write {{{unused[0]}}} into 'args' or 'env', if the program is to know it"
        )


def _differ(task: Task) -> bool:
    """Whether the file gives something else to each instance."""
    if task.variants or any(isinstance(word, PerInstance) and len(set(word.values)) > 1 for word in task.args):
        return True
    texts = [text for _, some in texts_of(task, ports=_knows_ports(task)) for text in some]
    options = json.dumps([plain(options) for options in task.sections.values()])
    return any(map(task.instances.differs, [*texts, options]))


def _knows_ports(task: Task) -> bool:
    """Whether what is started is told the patterns of its ports."""
    return ready_made(task) is not None or function_of(task) is not None


def _read_apart(number: int, wiring: Wiring) -> bool:
    """Whether some instance reads from others than another one does."""
    writers: dict[int, set[tuple[PortRef, int]]] = defaultdict(set)
    for link in wiring.links:
        for writer, reader in link.pairs if link.inport.task == number else ():
            writers[reader].add((link.outport, writer))
    return any(one != writers[0] for one in writers.values())


def _unused(task: Task) -> list[str]:
    """Parameters of a sweep that stand nowhere in the task."""
    used = {name for _, texts in texts_of(task) for text in texts for name in placeholders(text)}
    return [name for name in task.instances.names if name not in used]
