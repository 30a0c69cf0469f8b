"""The page about speed: docs/benchmarks/speed.md and its picture, as measured."""

from __future__ import annotations

from pathlib import Path

from . import tables
from .goals import goals
from .plot import draw
from .results import Results, spread
from .scenes import BESIDE, MEMCPY
from .times import BLOCKED

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"

_TEXT = """\
# Speed: what moves steps, side by side

<!-- Written by `python -m benchmarks speed --page`; run that instead of editing. -->

How long a step of {sizes} takes by Wilkins, and by everything that a user could take instead.
All take turns in one run; a ratio is that of two values of one turn; {turns} in all: medians, and ranges in brackets.

Measured {date} on {cores} cores ({processor}), {memory:.0f} GB, {system}; huge pages: {pages}; commit {commit};
{versions}. {loud}

## Goals

{met} of {count} goals are met. *What bounds it* is the same comparison, in the same turns, for what does the least that
anybody could do: the one copy or the two copies by hand, HDF5 by itself, Python with its imports alone.

{goals}

What was tried for goals that are not met:

- *Rates*: mpi4py's one copy goes from array to array, while the producer waits for it. A step of HDF5 is copied
  twice, since the producer goes on meanwhile, and two copies at once share the memory's rate; by hand it takes as
  long. Copies that always go past the caches, or never (glibc's `x86_non_temporal_threshold`), changed nothing: 18 to
  21 ms a step of 128 MiB each, three turns.
- *Steps of Python*: HDF5 and h5py by themselves take most of what is not a copy; see HDF5's core driver in the
  tables.
- *Small steps*: in a stream of 1 KiB, HDF5's own code takes six times the processor time of the layer's (`perf`). A
  step of 1,000 datasets takes its producer 64.9 million instructions, and as many with HDF5's core driver, 0.4 million
  of them the layer's (`valgrind`); what it takes longer, in some turns a quarter, in others nothing, is not the layer's
  code. Of twelve system calls of a producer's step three are gone, two more where programs have processors of their
  own, and all that took memory from the kernel and gave it back. In its first twentieth of a second a stream of 1 KiB
  takes three times as long as later: on this virtual machine the scheduler wakes the consumer on its producer's
  processor, though the other one is idle, and for so long both share it (`perf sched`). Bound to a processor each
  (`taskset`), a step takes what one of files on /dev/shm does, whose programs poll. Publishing 1 KiB from Python takes
  310 us, 490 before: properties of files and datasets are made once.
- *First steps*: memory that is new to a program costs six to ten times a copy, by hand, too. It is made ready beside
  the start of the programs from the second run on, or by `model: {{size: ...}}`; then what is left is HDF5's own
  first file, 1.2 ms. A program that gets there earlier waits while its memory is being made ready (1.97 x before, at
  128 MiB). Huge pages on demand did not mend the first run's (below).
- *Starting*: 318 ms at first, 178 before data classes shared their methods (`dataclasses` compiles six functions for
  each of 70) and expressions were compiled when they are used. The structures of `msgspec` would take 17 to import
  (tried). Python took 15 ms to end; with `gc.freeze()`, 7. What the launcher imports of Python's modules
  and PyYAML takes 43, its own 24. Consumers in Python waited for the first file of their producer before they imported
  anything, where `PYTHONPATH` is set. Each of 256 tasks looked through the board's records of all, which cost 1.3 ms
  in it; a start and an end rang all bells, 98,304 system calls that woke nobody; and the names of 32 functions of HDF5
  were searched for one by one.
- *Parallel files*: with MPI-IO on a null device, that copies and does nothing else, HDF5 under MPICH takes longer
  than Wilkins does: each of its ten collectives lasts 8 ms, while ranks that wait spin through the slices of time of
  those they wait for. Where ranks share cores, Wilkins lets these calls sleep (115 ms before, under MPICH; 44 under
  Open MPI). Memory of which several ranks write parts was cleared first, a third of the time; now it is not, but for
  what is around the ends of writes. What is left beside NumPy by hand: a dozen collectives of HDF5 when it creates and
  closes the file, 0.3 ms each where four ranks share two cores (`perf sched`: 3.7 and 1.8 ms), and a copy out of
  arrays of 4 KB pages, where NumPy's are of huge ones. Sleeps of a quarter to a thousandth of the time waited so far,
  from the start or after 10 us to 2 ms of yielding, and without the kernel's slack of 50 us, made one MPI faster by a
  tenth at best, and the other one slower.
- *The launcher's second process* is a shell that sleeps from beginning to end. It ends the programs, and frees the
  memory, of a launcher that was killed, which no thread of that launcher could.

## Steps

Each cell: producer blocked / create to last read / per step in a long stream. First as multiples of the time of a
memcpy of as many bytes while another process copies as many, then in ms. The first two are medians of steps that begin
when their consumer waits for them.

{steps}

![Time of a step by its size](speed.svg)

- *Producer blocked*: from the call that creates the file until the one that closes it returns; of a message or a
  memcpy, the call.
- *Create to last read*: until the consumer has read it all, or has a view of it.
- Producers and consumers of plain files, and of shared memory by hand, poll a word in shared memory to wait for each
  other.
- MPI in C has arrays of 4 KB pages, NumPy's are of huge pages where the system allows it.

## Where a step's time goes

{parts}

- *create* makes the file and the dataset; *write* is the copy into shared memory; *close* is HDF5's own end of the
  file, and the publication.
- *close to open* is from the call of close until the consumer, which waits asleep, has the file open: publication,
  waking up, HDF5's own open.
- Some closes take 2 to 8 ms: the consumer wakes on the producer's core, and the kernel lets it run for a while. Of 36
  closes of 64 MiB (`getrusage` around each) the 17 slow ones had one involuntary switch of context, the others none.
- *read* is the copy out of shared memory. The first step also pays for memory that is new. Huge pages on demand
  (`MADV_COLLAPSE`) did not mend that on a virtual machine: some take 4.5 ms, forty times the others, probably
  those that the host has yet to give (128 MiB cold: 70 to 100 ms with them, 85 without, 11 warm; the kernel
  compacted nothing).
- Each stream here runs in a folder of its own, for the first time; *run again* is the first step of the same workflow's
  second run there: its memory is ready by then.
- From 16 MiB on, *write* and *read* are most of a step, which is the time of two copies.

## Starting, small things, ranks

{others}

- Starting is all from the command to its end. By hand, the shell starts the same two programs side by side; of 256,
  each consumer after its producer.
- Calls: on a file of HDF5's core driver whose name matches no port, by a task and without the layer; the fastest of 100
  parts of a million.
- NumPy by hand: four processes copy their columns into one array in shared memory, then two copy theirs out.
{left_out}"""


def text(results: Results) -> str:
    """The page."""
    machine, reached = results.machine, goals(results)
    sizes = tables.sizes_of(results)
    left_out = [f"- Not measured: {line}." for line in results.left_out]
    return _TEXT.format(
        sizes=f"{sizes[0]} to {sizes[-1]}",
        turns="1 turn" if len(machine["busy"]) == 1 else f"{len(machine['busy'])} turns",
        date=machine["date"],
        cores=machine["cores"],
        processor=machine["processor"],
        memory=machine["memory"] / 1e9,
        system=machine["system"],
        pages=machine["huge pages"],
        commit=machine["commit"],
        versions=", ".join(f"{name} {version}" for name, version in machine["versions"].items()),
        loud=loudness(results),
        met=sum(goal.met is True for goal in reached),
        count=len(reached),
        goals=tables.of_goals(reached),
        steps=tables.of_steps(results),
        parts=tables.of_parts(results),
        others=tables.of_others(results),
        left_out="".join(f"{line}\n" for line in left_out),
    )


def loudness(results: Results) -> str:
    """How much else the machine had to do."""
    busy = [100 * part for part in results.machine["busy"]]
    rows = {name: [1e3 * value for value in results.values(f"{BLOCKED}, 128 MiB", name)] for name in (MEMCPY, BESIDE)}
    memcpys = [f"; {name}, 128 MiB: {tables.ranged(spread(values), 'ms')}" for name, values in rows.items() if values]
    return (
        f"Other programs used {tables.ranged(spread(busy), '%')} of the processors before the turns; "
        f"load average at the start {results.machine['load']:.1f}{''.join(memcpys)}."
    )


def write(results: Results, folder: Path = FOLDER) -> None:
    """Write the page and its picture."""
    (folder / "speed.md").write_text(text(results), encoding="utf-8")
    draw(results, folder / "speed.svg")
