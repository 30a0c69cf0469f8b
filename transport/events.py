"""What the layer inside the tasks says in a run's ``layer.log``, in one table: an event's code, arguments and English.

C++ calls the functions that ``python events.py FILE`` writes, one an event. A line of the log ends with the event's
code and its arguments, by which Python knows it (`read`); the sentence before them is for people who see the file.

In a text, ``{name}`` is an argument that is a text, ``{name:d}`` a number, ``{name:e}`` an errno, ``{name?this|that}``
a truth, ``{name:Choice}`` one of `CHOICES`; C++ gives them in the order of the text. ``{task}`` and ``{rank}`` are those that
speak, ``{who}`` both.

It is run before the package can be imported, and then imports nothing of it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

if __name__ == "__main__":
    from dataclasses import dataclass
else:
    from wilkins.values import dataclass

Kind = Literal["error", "hint", "note", ""]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the layer says."""

    kind: Kind
    """Events with a kind are reported to users at the end of the run."""
    text: str
    page: str = ""
    """Of `wilkins help`, that says more."""
    counted: bool = False
    """The summary tells of these with numbers."""


def error(text: str, page: str = "") -> Event:
    """Something is lost, or will fail."""
    return Event("error", text, page)


def hint(text: str, page: str = "", *, counted: bool = False) -> Event:
    """The program may mean something else than what it gets."""
    return Event("hint", text, page, counted)


def note(text: str, *, counted: bool = False) -> Event:
    """Something was done otherwise than the workflow file has it."""
    return Event("note", text, counted=counted)


def line(text: str) -> Event:
    """For who reads the log."""
    return Event("", text)


_LEADS = "by a virtual dataset, a link or as external data, and the step of that name"
_DOUBLE = (
    "have both published to its in-port '{inport}', so that chance decides which it gets; give each a name of its own, "
    "such as one with the number of its instance or rank, or let '{task}' take the steps in order "
    "(wilkins.transport.steps.names)"
)
_SERIES = "of steps such as '{such}', which wait to be listed all together ('listing: end' on an in-port)"
_REPLACED = (
    "their memory is that of later steps by now; if the program goes over its files more than once, give the in-port "
    "'{inport}' 'reorder: {keep:d}', or as many as it goes over, and so many stay"
)
_ANOTHER_NAME = "let it write to a file of another name, or its producer call each step by another name"
_LOOKING = "looking-at-files"

CHOICES: Mapping[str, Mapping[str, str]] = {
    "Missing": {
        "another_stands": "another name stands for the steps of the in-port",
        "read": "its task has read the step of this name, whose memory is that of a later one by now; to find more of "
        "them again, give the in-port a longer 'reorder'",
        "passed": "the step of this name was dropped or let go",
        "ended": "the stream has ended",
        "strange": "the stream has ended, and no producer has written a file of such a name; if it is to mean the next "
        "step, whatever that is called, give it to the in-port as its 'as'",
        "own_replaced": "its task has written it, but its readers have had it, and its memory holds a later step; a "
        "longer 'queue' of the port keeps more steps, 'mode: both' keeps every file on disk",
    },
    "Store": {
        "space": "free some space there, or write to another disk",
        "links": "this file system has no hard links, which 'mode: file' needs; use 'mode: both'",
        "other": "mend that, or use 'mode: memory'",
    },
}
"""Arguments that are one of several: what C++ calls them, and the words for them."""

ONCE = ("elsewhere", "missing", "listed_short", "newer", "replaced", "lost_changes")
"""What is said once for each port and run (`log_once`)."""

# fmt: off
EVENTS: Mapping[str, Event] = {
    # Opening and reading.
    "no_such_file": line("{who}: no such file '{name}': {why:Missing}"),
    "no_such_file_here": line("{who}: there is no file '{name}': the step of that name is in '{folder}', where task '{writer}' has written it; open it there"),
    "name_too_long": error("{who}: a file of port '{port}' has a name of {length:d} bytes, more than the {most:d} that a step can carry; open it by a shorter path, relative to the task's folder"),
    "rank_left_out": error("{who} opens '{name}', but the port's nreaders leaves this rank out; raise nreaders"),
    "begins_late": error("task '{task}': rank {rank} begins to read '{name}', after other ranks have read steps of it together, as if they alone did; give the in-port 'nreaders: {ranks:d}', so that every step waits for all ranks"),
    "too_many_open": error("{who} has {steps:d} steps open at once, and to open '{name}', too, the shared memory of {folder} is too full; close files that are no longer read, or free some memory there"),
    "own_file": line("{who} opens '{name}' to add to it, and all that could write it waits for this task: it is a file of the task's own; a pattern of the in-port '{inport}' that does not match it saves the wait"),
    "look_not_waited": line("{who} looks for '{name}', and all that could write it waits for this task: the look was answered with 'no such file', as later ones of the in-port '{inport}' will be; if the program goes on without the file that is right, and 'looks: now' on the in-port saves the wait; if it needs the file, give the in-port a longer 'queue'"),
    "listing_not_waited": line("{who} lists a folder in which files of its in-port '{inport}' will lie, and is shown none: a step could only come when this program goes on; 'looks: now' on the in-port says that its looks and listings are not to wait"),
    "looked_and_opened": hint("{who} looked at '{name}' when it had read it and no other was there, was shown what it had read, and opened the name again, which {other?led to the next step, of another size|found the end of the stream}; if it opens what it sees, give the in-port 'looks: wait', and each look waits for the next step", _LOOKING),
    "opened_again": hint("{who} opened '{name}' again, of which it had read the only step, found none, and went on to '{other}'; if it opens the same file several times, give the in-port '{name}' 'opens_per_step:' with a number as high", _LOOKING),
    "left_newer": hint("{who} went on to '{name}', and has not read the newer '{newer}', which was published after it had read that name; if each file is whole only when it was written n times, give the out-port '{outport}' 'publish: n', or 'publish: next' if it is reopened for that", 'appending'),
    "looked_for_replaced": hint("{who} looked for '{name}', which its task has read, and was told that there is no such file, as for others: " + _REPLACED, _LOOKING),
    "listed_without": hint("{who} listed its files, without {others:d} that its task has read: " + _REPLACED, _LOOKING),
    "listed_again_without": hint("{who} listed its files again, without {others:d} that its task has read, and reads again what it was shown: " + _REPLACED, _LOOKING),
    "opens_replaced": error("{who} {into?looks into|opens} '{name}' again, which its task has read: its memory is that of a later step by now{disk?, and on disk there is no file of that name, or another one|}; to have so many files stay in memory, give the in-port '{inport}' 'reorder: {keep:d}', or as many as the program goes over{both?; with 'mode: both' such files are read from the disk|}", _LOOKING),
    "leads_to_replaced": error("{who} reads a file that leads to '{name}', " + _LEADS + " that belongs to it is no longer in memory: later ones have been read, and have its memory; read the file before the next '{inport}' is opened, or give the files of each step names of their own"),
    "leads_to_gone": error("{who} reads a file that leads to '{name}', " + _LEADS + " is {read?no longer in memory: its task has read it, and a later one has its memory|skipped, dropped or no longer in memory}; HDF5 would go on with fill values; give the in-port '{inport}' 'reorder: {keep:d}', so that so many files stay in memory{both?, or its port 'mode: both', so that they are read from the disk|}", _LOOKING),
    "leads_to_untaken": error("{who} reads a file that leads to '{name}', by a virtual dataset or a link, which task '{writer}' has written in memory, and no in-port of the reader takes it; HDF5 would go on with fill values; give the reader an in-port for such files, as 'filename: \"{last}\"', or the out-port '{outport}' of '{writer}' 'mode: both'"),
    "leads_to_own": error("{who} reads a file of its own that leads to '{name}', " + _LEADS + " is no longer in memory: its readers have had it, and a later one has its memory; HDF5 would go on with fill values; give the out-port '{outport}' a longer 'queue', or 'mode: both', so that it is read from the disk"),
    "back_to_own": error("{who}: goes back to its own '{name}', which all its readers have had and whose memory is that of a later step; a longer 'queue' of the port '{port}' keeps more of them"),
    "other_library": line("{name}: the step that another library of the program has read is no longer in memory: this library gets the next one"),
    "looked_further": line("'{name}' was read further than a look, but could not be counted as read: {error:e}"),
    "no_swmr": line("'{name}' is exchanged in memory, where readers see whole steps: there is no SWMR (one writer with many readers at the same time). Open it without SWMR (publish: flush shows what is flushed), or leave it out of the ports to share the file on disk"),
    # Which step a name means.
    "double_ranks": error("task '{task}' asks for '{name}' by name, which ranks {first:d} and {second:d} of task '{writer}' " + _DOUBLE),
    "double_tasks": error("task '{task}' asks for '{name}' by name, which task '{first}' and task '{second}' " + _DOUBLE),
    "stands": line("task '{task}' opens '{name}', which from now on stands for the next step of its in-port '{inport}'"),
    "stands_not": line("task '{task}' opens '{name}', which no producer of its in-port '{inport}' has written: it does not stand for the next step, since a file of that name is on disk, which no run has left that the records tell of; remove the file, or give the in-port 'as: {name}'"),
    "stood_before": error("task '{task}' has opened '{stands}' for the next step of its in-port '{inport}', since no producer had written a file of such a name, and now task '{writer}' publishes '{name}', so that the name would have meant that file; give the file of '{writer}' another name, or the in-port 'as: {stands}' if the name is to stand for the steps all the same", _LOOKING),
    "let_go": line("'{name}' (step {step:d}) is let go, which {some?not every rank|no rank} of task '{task}' has read: its rank {rank} waits for '{awaited}', and all who could write that wait for room; give the in-port '{inport}' a longer 'reorder' than {steps:d} to keep it"),
    "last_step_gone": line("task '{task}': the step that it had opened last when it failed is gone, since memory was short: it goes on with the next one"),
    # Writing.
    "creates_inport": error("{who} creates '{name}', which is one of its in-ports; only the task that produces a file may create it"),
    "adds_too_early": error("{who} opens '{name}' to add to it, but rank {other:d} has not closed it yet"),
    "both_create": error("task '{task}': ranks {other:d} and {rank} both create '{name}'; let each rank write a name of its own, or write one file together through MPI-IO"),
    "series_too_long": error("{who}: {files:d} files of port '{port}' wait to be listed all together ('listing: end' on an in-port), more than can be kept at once; give that in-port a 'queue' as long as the series, or let its program read the files one by one", _LOOKING),
    "too_many_rest": error("{who}: {files:d} files of port '{port}' are closed but not yet published, more than can rest at once; its 'publish' says that they will be added to, which these files are not: mend that key"),
    "reopened": hint("{who} reopens '{name}' to add to it after it was published, which makes a second step that starts as a copy of the first; if its consumers are to see it only when it is whole, say so on the out-port '{outport}': 'publish: next', or 'publish: n' if it is closed n times", counted=True),
    "no_flush": note("{who} closed '{name}', which 'publish: flush' of its out-port publishes at every flush, without any; it is published now. Only a flush of the whole file counts (H5Fflush; file.flush() in h5py), not of a dataset; and in an HDF5 that is linked statically into the program none can be seen: link it with its shared HDF5 (h5cc -shlib)", counted=True),
    "no_write": note("{who} closed '{name}', which its out-port publishes after writes to {one?dataset |a dataset}{dataset}, but no such write was seen; it is published now. Is that the dataset's path in the file? Writes by an HDF5 that is linked statically into the program cannot be seen: link it with its shared HDF5 (h5cc -shlib), or use another 'publish'", counted=True),
    "not_flushed": error("{who}: '{name}' could not be flushed to be published after a write"),
    "changes_rewritten": hint("{who} changes '{name}', which it only reads and of which the next open means the next step: nobody will see what it writes there; " + _ANOTHER_NAME),
    "changes_outdated": hint("{who} changes '{name}', which it only reads, and a newer file of that name lies on the disk: nobody will see what it writes; " + _ANOTHER_NAME),
    "both_change": error("tasks '{other}' and '{task}' both change the step '{name}', which both read, and what one adds would replace what the other has added; give one of them a folder of its own by 'cwd', or let it write to a file of another name"),
    "changes_others": error("{who}: changes '{name}', which another task has written for all its readers; let it write under a name of its own"),
    "changes_published": error("{who}: changes '{name}', though the {list?step is|folder is} published already and may have been read; say with 'publish' on its out-port '{outport}' when it is complete: {next?'next', when a later step is begun, |}'{{file: PATTERN}}', when such a file was closed, or 'end'"),
    "not_passed_on": error("{who}: '{name}' cannot be passed on: {error:e}"),
    "passed_on_before": error("{who} opens '{name}' {change?to change it, but|again, which is gone since} it has passed it on, which it did as it went on to another file; let it do all that is to be done to a file before it opens the next one"),
    "passes_on_open": error("{who} opens the next step of '{name}', which it passes on, before it has closed the last one; let it close each first, or its producer number the names"),
    "renames_open": error("task '{task}' renames '{name}', which it is still writing, to a name of no port: close it before"),
    "links_to_nothing": error("task '{task}' makes '{name}' a symbolic link to '{target}', which is not there: no consumer sees what may be written to that later; make the link when the file is whole"),
    "not_kept": error("'{name}': what was written to it past the C library could not be kept: {error:e}"),
    "written_both_ways": error("{who}: the program {program} has written to '{name}' by a call that does not come from the C library (a raw system call, io_uring), among {bytes:d} bytes that it has written by write or pwrite, too, so that nobody can tell which of them are newer; write through the C library, or all of the file past it"),
    "changed_twice": error("{who}: '{name}' is changed by two processes at once, and by one of them through a C stream, or by a program that it has started, which began before the other one wrote: what one has written would be lost; open it after the other has closed it, or write by write, pwrite or a mapping"),
    "not_writable": error("'{name}' cannot be written any more: {error:e}; another process writes it, too"),
    "still_open": error("HDF5 opens '{name}', but another process of its task has not closed it yet"),
    # Storing and publishing.
    "not_stored": line("'{name}' could not be stored: {error:e}; the step is given up"),
    "not_stored_closed": error("{who}: '{name}' could not be stored when it was closed: {error:e}; no consumer gets it; if several processes change it at once, let them open it before any of them closes it"),
    "not_stored_by_child": error("{who}: '{name}', which a program that it started has written, could not be stored: {error:e}; {space?free some memory or disk, or write smaller steps|mend that}"),
    "not_on_disk": error("{who}: '{name}' could not be written to disk: {error:e}; {cure:Store}"),
    "changes_not_on_disk": error("{who}: what it has changed of '{name}' could not be stored on the disk: {error:e}"),
    "given_up": line("{who} gives '{name}' up: no consumer sees it"),
    "not_whole": error("{who}: '{name}' could not be written whole ({error:e}), so no consumer sees it"),
    "left_not_whole": error("'{name}' could not be written whole ({error:e}), so no consumer sees it"),
    "left_open": note("'{name}' was still open when its process ended, and not flushed since it was written last: no consumer sees it; close it before, or flush the whole file, if it is HDF5"),
    "left_resting": line("'{name}' was closed but not yet published when its program failed: no consumer sees it"),
    "cut_off": line("'{name}' was published when its task ended, though {holder} still had it open for writing: what that writes from now on no consumer sees; let the task's program wait for the processes that it starts"),
    "late_fork": error("'{name}' was published when the process that began it had closed it, since its forks waited for work; what one of them writes to it now no consumer sees: close it in that process after its forks have written"),
    "not_handed": error("'{name}' cannot be handed to another process: {error:e}; what that writes to it is lost"),
    "not_handed_on": error("'{name}' cannot be handed to the program that takes the process: {error:e}"),
    "not_kept_for_child": error("'{name}' is open as the program forks, and cannot be kept for its child: {error:e}"),
    "not_at_home": error("{who}: what it wrote of '{name}' did not all get to the host of the file: {error:e}"),
    "damaged_on_the_way": note("{who}: bytes of '{name}' ({owners}) were damaged on their way from {where}, as their checksum shows, and were asked for again; let somebody look at the network"),
    "stays_damaged": error("{who}: bytes of '{name}' were damaged on their way between hosts, as their checksum shows, and were not to be had otherwise; let somebody look at the network"),
    "changed_in_memory": error("{who}: bytes {begin:d} to {end:d} of '{name}', which is in memory as a{slot:d}, are not those that were published, as their checksum shows: the memory of this host was damaged, that of the step or that of its checksums (a{slot:d}.sums in the run's shared memory), or a program has changed one of both since; let somebody look at the memory, and run it again"),
    "mended_in_memory": note("{who}: bytes {begin:d} to {end:d} of '{name}' had changed in memory, as their checksum shows, and were mended from {where}: the memory of this host was damaged, or a program has changed them since they were published; let somebody look at the memory"),
    "did_not_come": error("{who}: bytes of '{name}' did not come from the host that has them: {error:e}"),
    # Memory.
    "no_addresses": error("no addresses are left for a step's memory; raise the limit of the process (ulimit -v), or lift it"),
    "seen_steps_fill": error("{who}: '{name}' needs {bytes:d} bytes, but programs can still see {steps:d} steps that are done with, which take {taken:d}: {holder}; let them end their mappings of these steps, and the processes that have them open, or {capped?raise the port's 'memory', or give it 'mode: file'|free some shared memory, or give the port 'mode: file'}"),
    "series_fills_disk": error("{who}: '{name}' needs {bytes:d} bytes, but the disk is full " + _SERIES + "; free some there, or write to another one", _LOOKING),
    "series_fills_port": error("{who}: '{name}' needs {bytes:d} bytes, but what 'memory' allows the port is full " + _SERIES + "; raise the port's 'memory', or give it 'mode: both', with which they wait on disk", _LOOKING),
    "series_fills_memory": error("{who}: '{name}' needs {bytes:d} bytes, but {folder} is full " + _SERIES + "; give their port 'mode: both', with which they wait on disk, or free some shared memory", _LOOKING),
    "port_full": error("{who}: '{name}' takes {bytes:d} bytes of shared memory (whole blocks of {block:d}){others?, beside other files that its program has open or will add to|}, more than the {most:d} that 'memory' allows its port; raise it, to several times a step's size"),
    "disk_full": error("{who}: '{name}' needs {bytes:d} bytes, but the disk is full; free some there, or write to another one"),
    "memory_full": error("{who}: '{name}' needs {bytes:d} bytes, but the shared memory of {folder} is full; free some there, make it larger, or give the port 'mode: file' (`wilkins help containers`)"),
    "no_memory": error("{function} fails, because there is no memory for what it has to keep"),
    "own_error": error("{function} fails, by an error in Wilkins itself: {what}"),
    # MPI, devices, actions.
    "cuda": error("{function} with a device pointer: CUDA error {code:d}"),
    "standard_abi": error("MPI-IO: parallel files in memory do not know the standard ABI of MPI 5 ({library}); link the program to the MPICH or Open MPI library proper"),
    "no_conversions": error("MPI-IO: this Open MPI lacks the handle conversions that parallel files in memory need"),
    "no_function": error("MPI-IO: the program's MPI has no {function}; parallel files in memory need MPI 3.0 or later"),
    "other_step": error("MPI-IO: '{name}' has {bytes:d} bytes here, and {others:d} on the host of rank 0 of the communicator: its ranks have come to different steps. Let all ranks open the same files in the same order"),
    "writes_inport": error('MPI-IO: {ranks:d} ranks open "{name}" together for writing, but their task only reads it; open it read-only, or let one rank change it by itself (MPI_COMM_SELF)'),
    "not_reached": error('MPI-IO: rank {place:d} of the communicator cannot reach the step of "{name}" that rank 0 opened: {error:e}'),
    "data_representation": error("{who} sets a view with data representation \"{representation}\" on '{name}', but data in memory is never converted; use \"native\", or leave the file out of the ports, so that it is on disk"),
    "shared_pointer": error("{who} calls {function} on '{name}', but files in memory have no file pointer that ranks share; let ranks agree on their places (MPI_Exscan) and use explicit offsets (MPI_File_write_at, MPI_File_read_at), or leave the file out of the ports, so that it is on disk"),
    "no_action": note("{method} of 'actions' does nothing: {why}"),
}
# fmt: on

_PLACE = re.compile(r"\{\{|\}\}|\{(?P<name>\w+)(?::(?P<type>\w+)|\?(?P<yes>[^{}|]*)\|(?P<no>[^{}|]*))?\}")


def _places(text: str) -> Iterator[str | re.Match[str]]:
    """A text in parts: words, and places for arguments."""
    text, end = text.replace("{who}", "task '{task}' rank {rank}"), 0
    for found in _PLACE.finditer(text):
        yield text[end : found.start()]
        yield found if found["name"] else found[0][0]
        end = found.end()
    yield text[end:]


def arguments_of(event: Event) -> dict[str, re.Match[str]]:
    """An event's arguments in order, by name: their first places."""
    found: dict[str, re.Match[str]] = {}
    for place in _places(event.text):
        if not isinstance(place, str) and place["name"] not in ("task", "rank"):
            found.setdefault(place["name"], place)
    return found


@dataclass(frozen=True, slots=True)
class Logged:
    """An event that a line tells of."""

    code: str
    task: str
    rank: int
    arguments: Mapping[str, str | int | bool]

    @property
    def event(self) -> Event:
        """What it is."""
        return EVENTS[self.code]

    @property
    def words(self) -> str:
        """The sentence, without its kind."""
        known = {"task": self.task, "rank": self.rank, **self.arguments}
        return "".join(
            one if isinstance(one, str) else _worded(one, known[one["name"]]) for one in _places(self.event.text)
        )


def _worded(place: re.Match[str], value: str | int | bool) -> str:
    if place["yes"] is not None:
        return place["yes"] if value else place["no"]
    if place["type"] == "e":
        return os.strerror(int(value))
    words = CHOICES[place["type"]][str(value)] if place["type"] in CHOICES else str(value)
    return re.sub(r"[\0-\x1f]", lambda found: f"\\u{ord(found[0]):04x}", words)


def read(text: str) -> Logged | None:
    """What a line of the log tells; None if it tells of no event, or is cut short."""
    try:
        _, code, values = text.rsplit("\t", 2)
        task, rank, *arguments = json.loads(values)
        return Logged(code, task, rank, dict(zip(arguments_of(EVENTS[code]), arguments, strict=True)))
    except (ValueError, KeyError, TypeError):
        return None


# As C++.

_TYPES = {None: ("const char*", "{}"), "d": ("int64_t", "{}"), "e": ("int", "Errno{{{}}}")}
_SPEAKER = {"task": "t", "rank": "r"}


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _marked(event: Event) -> str:
    """The text with a mark and a letter in each place."""
    letters = {name: chr(ord("a") + number) for number, name in enumerate(arguments_of(event))} | _SPEAKER
    parts = [one if isinstance(one, str) else f"\1{letters[one['name']]}" for one in _places(event.text)]
    return _literal("".join(parts)).replace("\1", "\\1")


def _function(code: str, event: Event) -> str:
    parameters, values = [], []
    for name, place in arguments_of(event).items():
        kind, value = _TYPES.get(place["type"]) or (place["type"], "word({})")
        if place["yes"] is not None:
            yes, no = _literal(place["yes"]), _literal(place["no"])
            kind, value = "bool", f'{{0}} ? Word{{{{"true", {yes}}}}} : Word{{{{"false", {no}}}}}'
        parameters.append(f"{kind} {name}")
        values.append(value.format(name))
    kind = f"{event.kind}: " if event.kind else ""
    made = f"{{{', '.join([_literal(code), _literal(kind), _marked(event), *values])}}}"
    return f"inline Event {code}({', '.join(parameters)}) {{ return {made}; }}"


def source() -> str:
    """The C++ header."""
    parts = ['// Generated from events.py: do not edit.\n#pragma once\n\n#include "board/event.hpp"\n']
    lines = [f"    {word} = {1 << place}," for place, word in enumerate(ONCE)]
    parts.append(
        "namespace wilkins {\n\nenum class Once : uint32_t {\n" + "\n".join(lines) + "\n};\n\nnamespace event {\n"
    )
    for name, words in CHOICES.items():
        table = ", ".join(f'{{"\\"{word}\\"", {_literal(text)}}}' for word, text in words.items())
        parts.append(f"enum class {name} {{ {', '.join(words)} }};")
        parts.append(f"inline Word word({name} one) {{\n    static constexpr Word words[] = {{{table}}};")
        parts.append("    return words[static_cast<int>(one)];\n}\n")
    parts += [_function(code, event) for code, event in EVENTS.items()]
    return "\n".join([*parts, "\n}  // namespace event\n}  // namespace wilkins\n"])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(source(), encoding="utf-8")
