"""The page about strategies of learning: docs/benchmarks/learning.md and its picture, as measured."""

from __future__ import annotations

import textwrap
from pathlib import Path

from .plot import draw
from .results import Results, Row
from .streams import DIGITS, FADING, MOVING, POINTS, PTYCHOGRAPHY, Stream
from .tables import size, table

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
BUFFERS = {DIGITS.name: (500, 64), MOVING.name: (1000, 32), FADING.name: (1000, 32), PTYCHOGRAPHY.name: (300, 64)}
"""By stream: size and representatives of the buffer that is measured with several numbers of passes."""

_TEXT = """\
# Learning from streams: what each strategy takes, and reaches

<!-- Written by `python -m benchmarks.learning --page`; run that instead of editing. -->

What the [strategies of continual learning](../guides/continual.md#strategies) reach, by the samples that go through the
model, the time of training, and the bytes that they keep: on digits, whose past is small and stored, and on streams
whose past is not.

Measured {date} on {cores} cores ({processor}), PyTorch {torch} with one thread, {seeds} seeds. Each step of a stream is
trained on by all settings in turn, so that other load on the machine (load average {load:.0f}) meets all of them.

- *samples pushed*: samples that went forwards and backwards through the model, recalled ones too, by the samples of
  the stream. Measuring errors does not count, neither here nor as time: no strategy needs it.
- *accuracy*, *error*: at the end, on samples that nothing was trained on; mean and standard deviation over the seeds.
  Errors of the rod and of ptychography are norms, by those of the targets.
- *seconds*, *of processor*: of training alone, by the clock and of processor time (the buffer's thread included):
  median, and range. All settings and seeds together took {cpu:.0f} minutes of processor, and {clock:.1f} times that by
  the clock.
- *kept*: bytes of samples, and of outputs kept with them, at the end; models and optimisers do not count.
- *recalled*: representatives for each batch; DER++ draws twice as many.
- Learning rate and batch are the same for all strategies on a stream, and were not tuned for any.

## In short

{short}

(In brackets: samples pushed, and processor time.)

![What is reached by samples pushed, and the rates of streams that are kept up with](learning.svg)

(Small numbers are passes, bars standard deviations. Lower right: processor time.)

## Digits: the past is small, and stored

The stream of `examples/stream_digits`: {digits_count:.0f} handwritten digits, two new classes in each of five steps.
Its model, its optimiser, and batches of 32, which are those of its two ranks together; the example's buffer is that of
500 samples, of which 64 are recalled.

{digits}

## A source that moves along a rod: the past is gone

A rod is heated by a source and cools by radiation (heat equation, {points} points). The model learns temperatures from
the source's place, power and width. The source moves along the rod once, in {steps} steps of {count:.0f} samples;
batches are of 32. The simulation makes {rate:,.0f} samples in a second of processor time, and
does not keep them. *Past* is the error on what came before the last step.

{moving}

- *follows*: samples of a step by the processor time of training on it. *Keeps up*: how many steps come before
  training on a step takes longer than making it; each has a core of its own.
- From scratch, what a step takes grows with the number of steps, and what the whole stream takes with its square.
  By these figures one pass keeps up for about {steps_kept_up:.0f} steps, and p passes for 1/p of that. A simulation
  that is ten times slower is kept up with for ten times as many, and no longer; so is this one, if only every tenth
  step is followed by training anew.
- In an hour this simulation makes {hour:.1f} million samples of {bytes} bytes: {memory}. Of a field of 512 x 512 x 512
  single-precision numbers, {fields:,.1f} samples take as much. One pass over the hour's samples would take
  {minutes:.1f} minutes of processor time; steps come every {each:.2f} s.

## A source that fades: the past is wrong

The same rod, with sources anywhere in each step, which fade to a fifth over the stream. The model cannot see it:
the same inputs have another answer at the end than they had at first. What counts is the error on the last step.

{fading}

## Ptychography

The detector of `examples/ptychography`, with patterns of 24 x 24 pixels: two families of specimens, one after the
other, {frames} frames of {patterns:.0f} patterns to train on. The network learns the views of the true objects; in the
example a solver computes them, which takes seconds for each frame. These are few patterns, so that errors are large for
all. A sample has {pattern_bytes} bytes. *Past* is the error on all frames but the last.

{ptychography}
"""


def text(results: Results) -> str:
    """The page."""
    rate, counts, size_of = results.rate(MOVING.name), results.counts(MOVING.name), results.bytes_of(MOVING.name)
    once = _row(results, MOVING, "from-scratch", 1)
    pushed_per_second = once.pushed * counts.sum() / once.cpu.median
    frames = results.counts(PTYCHOGRAPHY.name)
    cpu = sum(sum(one.cpu) for one in results.courses)
    return _TEXT.format(
        date=results.machine["date"][:10],
        cores=results.machine["cores"],
        processor=results.machine["processor"],
        torch=results.machine["torch"],
        load=results.machine["load"],
        seeds=len({course.seed for course in results.courses}),
        cpu=cpu / 60,
        clock=sum(sum(one.seconds) for one in results.courses) / cpu,
        short=_short(results),
        digits_count=results.counts(DIGITS.name).sum(),
        digits=table(results, DIGITS.name),
        points=POINTS,
        steps=len(counts),
        count=counts[0],
        rate=rate,
        moving=table(results, MOVING.name),
        hour=3600 * rate / 1e6,
        bytes=size_of,
        memory=size(3600 * rate * size_of),
        fields=3600 * rate * size_of / (4 * 512**3),
        steps_kept_up=pushed_per_second / rate,
        minutes=60 * rate / pushed_per_second,
        each=counts[0] / rate,
        fading=table(results, FADING.name),
        frames=len(frames),
        patterns=frames[0],
        pattern_bytes=results.bytes_of(PTYCHOGRAPHY.name),
        ptychography=table(results, PTYCHOGRAPHY.name),
    )


def _short(results: Results) -> str:
    """What follows from it all, point by point."""

    def of(stream: Stream, strategy: str, *passes: int) -> str:
        """What a strategy reaches, by how many samples and in what processor time."""
        rows = [_row(results, stream, strategy, one) for one in passes]
        return _listed([f"{_reached(row, stream)} ({row.pushed:.0f} x, {row.cpu.median:.2g} s)" for row in rows])

    def follows(strategy: str, passes: int) -> str:
        first, *_, last = _row(results, MOVING, strategy, passes).rates
        return f"{first:,.0f} samples a second in the first step and {last:,.0f} in the last one"

    def kept(stream: Stream, strategy: str) -> str:
        return size(_row(results, stream, strategy, 3).kept)

    points = {
        "The past is small and stored: train from scratch, with few passes.": (
            f"On digits, three and ten passes from scratch reach {of(DIGITS, 'from-scratch', 3, 10)}.",
            f"With three, five and ten passes rehearsal reaches {of(DIGITS, 'rehearsal', 3, 5, 10)},",
            f"and DER++ {of(DIGITS, 'der++', 3, 5, 10)}.",
            f"From scratch keeps {kept(DIGITS, 'from-scratch')}, a buffer of 500 samples {kept(DIGITS, 'rehearsal')},",
            f"with outputs {kept(DIGITS, 'der++')}.",
        ),
        "The past is gone, and still counts: rehearsal.": (
            f"On the moving source, ten passes with rehearsal come to errors of {of(MOVING, 'rehearsal', 10)}.",
            f"They keep {kept(MOVING, 'rehearsal')} however long the stream is, and follow {follows('rehearsal', 10)};",
            f"the simulation makes {results.rate(MOVING.name):,.0f}.",
            f"From scratch, ten passes come to {of(MOVING, 'from-scratch', 10)}, follow {follows('from-scratch', 10)},",
            f"and keep {kept(MOVING, 'from-scratch')}, more with each step;",
            f"three passes come to {of(MOVING, 'from-scratch', 3)}, and follow {follows('from-scratch', 3)}.",
            f"Incremental training forgets: {of(MOVING, 'incremental', 3)}.",
        ),
        "A model is needed at the end only, and all samples are stored: train once, then.": (
            f"Ten passes from scratch over the moving source come to {of(MOVING, 'from-scratch', 10)},",
            f"of which the last model alone takes {_row(results, MOVING, 'from-scratch', 10).setting.passes} x.",
            f"Ten passes with rehearsal come to {of(MOVING, 'rehearsal', 10)}.",
        ),
        "The past is wrong: train on new samples only.": (
            f"On the fading source, the errors after three passes are {of(FADING, 'incremental', 3)} incrementally,",
            f"{of(FADING, 'rehearsal', 3)} with rehearsal, {of(FADING, 'der++', 3)} with DER++",
            f"and {of(FADING, 'from-scratch', 3)} from scratch.",
        ),
    }
    return "\n".join(_point(title, " ".join(sentences)) for title, sentences in points.items())


def _reached(row: Row, stream: Stream) -> str:
    if stream is DIGITS:
        return f"{100 - 100 * row.every.mean:.1f} %"
    now = f"{100 * row.now.mean:.0f} %"
    return now if stream is FADING else f"{100 * row.past.mean:.0f} % on the past and {now} on the last step"


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _point(title: str, words: str) -> str:
    wrapper = textwrap.TextWrapper(118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return wrapper.fill(f"- **{title}** {words}")


def _row(results: Results, stream: Stream, strategy: str, passes: int) -> Row:
    """With the buffer that there are several numbers of passes for, if the strategy has one; the nearest passes."""
    rows = [row for row in results.rows(stream.name) if row.setting.strategy == strategy]
    mine = [row for row in rows if (row.setting.buffer, row.setting.representatives) in ((0, 0), BUFFERS[stream.name])]
    return min(mine, key=lambda row: abs(row.setting.passes - passes))


def write(results: Results, folder: Path = FOLDER) -> None:
    """Write the page and its picture."""
    (folder / "learning.md").write_text(text(results), encoding="utf-8")
    draw(results, folder / "learning.svg", BUFFERS)
