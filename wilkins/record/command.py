"""``wilkins record``: run the program, show its accesses, and write the task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wilkins import atomic
from wilkins.errors import ResourceError, UsageError, WorkflowError, refused
from wilkins.record.access import Accesses, accesses_of
from wilkins.record.kinds import KNOWN, is_data
from wilkins.record.ports import Port, ports_of
from wilkins.record.run import Command, record
from wilkins.record.show import as_text
from wilkins.record.task import begun, extended, indent_of, is_utf8, joined, own_name, task_text
from wilkins.schema.file_names import names_of
from wilkins.schema.patterns import intersect
from wilkins.spec.editors import put_schema
from wilkins.spec.load import load
from wilkins.terminal import streams

_MOST_NAMED = 5
"""Files of a program that a message names."""


def run(command: Command, output: Path | None, name: str | None, files: Sequence[str] = ()) -> int:
    """Record a program; returns the exit code.

    Args:
        output: the workflow file that gets the task; None: show it.
        name: of the task; None: the program's.
        files: patterns of files that ports are for, whatever they hold.

    Raises:
        WilkinsError: the program cannot be recorded, or its task not be written.
    """
    cwd = Path.cwd()
    _check_words(command)
    text = _before(output)
    patterns = [] if output is None or text is None else _outports(output)
    recorded = record(command)
    if recorded.exit_code:
        how = f"exit code {recorded.exit_code}" if recorded.exit_code > 0 else f"signal {-recorded.exit_code}"
        streams.log(f"wilkins: the program ended with {how}; this is what it did until then")
    accesses = accesses_of(recorded.events)
    named = [str(cwd / pattern) for pattern in files]
    ports = ports_of(
        accesses,
        lambda one: is_data(one, named) or _written_as(one.name, patterns) is not None,
        None if text is None else lambda file: _written_as(file, patterns),
    )
    if not ports:
        raise ResourceError(_no_data(accesses, cwd))
    streams.show(as_text(ports, cwd))
    home = cwd if output is None else output.resolve().parent
    indent = "  " if text is None else indent_of(text)
    assert indent is not None
    task = task_text(command, name, ports, home, cwd, indent)
    if output is None:
        streams.show(f"\n{task}", end="")
        return 0
    written = [own_name(port.pattern, cwd) for port in ports if port.direction == "out"]
    whole = extended(begun(output, put_schema(home)) if text is None else joined(text, written), task)
    _write(output, text, whole)
    streams.show(f"\n{'wrote' if text is None else 'added the task to'} {output}:\n{task}", end="")
    if text is None:
        streams.log(_next(ports))
    return 0


def _check_words(command: Command) -> None:
    """Refuse words that the task could not hold, before the program runs for hours."""
    for word in command.words:
        if not is_utf8(word):
            raise UsageError(f"{word!r} is not UTF-8, which workflow files are; give the file another name")


def _no_data(accesses: Accesses, cwd: Path) -> str:
    """Why there is no port, and what to do."""
    there = [one.name for one in accesses.files.values() if one.is_written and Path(one.name).is_file()]
    words = f"the program was seen to write and read no file of data that is known by how it begins ({KNOWN})"
    if there:
        names = ", ".join(repr(own_name(name, cwd)) for name in there[:_MOST_NAMED])
        more = f" and {len(there) - _MOST_NAMED} more" if len(there) > _MOST_NAMED else ""
        words += f"; it wrote {names}{more}: give those that other programs read with --files PATTERN"
    return f"{words}; if another program that it starts does, wilkins doctor says whether that one can be reached"


def _before(output: Path | None) -> str | None:
    """The workflow file as it is; None: there is none yet.

    Raises:
        UsageError: no task can be added to it.
    """
    if output is None or not output.exists():
        return None
    try:
        text = output.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{output} cannot be read: {error}; give another file") from error
    if indent_of(text) is None:
        raise UsageError(
            f"{output}: a task is added to the end of a file that ends with its list of tasks, each with a dash; move "
            "`tasks:` to its end, or record without -o and put the task in yourself"
        )
    return text


def _outports(output: Path) -> list[str]:
    """The patterns of files that the workflow's tasks write."""
    return [port.filename for task in load(output).workflow.tasks for port in task.outports]


def _written_as(file: str, patterns: Sequence[str]) -> str | None:
    return next((pattern for pattern in patterns if any(intersect(name, file) for name in names_of(pattern))), None)


def _write(output: Path, before: str | None, whole: str) -> None:
    """Put the file in place; one that is no workflow file is taken back.

    Raises:
        UsageError: the file with this task is none.
    """
    try:
        atomic.put(output, whole)
        load(output)
    except OSError as error:
        raise refused(output, "be written", error) from error
    except WorkflowError as error:
        if before is None:
            output.unlink()
        else:
            atomic.put(output, before)
        raise UsageError(
            f"{error}\n{output} was left as it was; a --name of its own tells the task from others"
        ) from None


def _next(ports: Sequence[Port]) -> str:
    """The advice on the next command."""
    other = "writes" if any(port.direction == "in" for port in ports) else "reads"
    return f"wilkins: record a program that {other} these files with the same -o, and the two are joined"
