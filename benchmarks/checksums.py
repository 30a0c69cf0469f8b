"""What checksums cost of messages between hosts: with and without them in turns, by the class that carries all steps.

The same program is built twice, with the layer's own checksum, and with one that does nothing. Messages cross the
loopback interface, where nothing but the cores bounds them, and lines of so many Gbit/s (needs root).
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .lines import Line, line

Way = Literal["without", "with", "known"]
"""`known`: the checksums were made when the step was published, as those of `checked: true`."""
WAYS: tuple[Way, ...] = ("without", "with", "known")
PROGRAMS = Path(__file__).parent / "programs"
NATIVE = Path(__file__).parents[1] / "transport/native"
WARM = 3
"""First rounds, in which a connection finds its pace."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one took."""

    seconds: float
    """From its begin to the receiver's answer."""
    cpu: float
    """Seconds of CPU time of both sides."""


@dataclass(frozen=True, slots=True)
class More:
    """By how much a way takes more than one without checksums: parts of that, one for each round."""

    rounds: Sequence[float]

    @property
    def median(self) -> float:
        """Half of the rounds took more."""
        return statistics.median(self.rounds)

    def __str__(self) -> str:
        low, _, high = statistics.quantiles(self.rounds, n=4)
        return f"{self.median:+6.1%} ({low:+.1%} .. {high:+.1%})"


@dataclass(frozen=True, slots=True)
class Cost:
    """What messages over a line took, by their way."""

    took: Mapping[Way, Sequence[Message]]

    def seconds(self, way: Way = "without") -> float:
        """The median."""
        return statistics.median(message.seconds for message in self.took[way])

    def cpu(self, way: Way = "without") -> float:
        """The median of the CPU time."""
        return statistics.median(message.cpu for message in self.took[way])

    def more_seconds(self, way: Way) -> More:
        """Against the message without checksums of the same round."""
        pairs = zip(self.took[way], self.took["without"], strict=True)
        return More([one.seconds / plain.seconds - 1 for one, plain in pairs])

    def more_cpu(self, way: Way) -> More:
        """The same of the CPU time."""
        pairs = zip(self.took[way], self.took["without"], strict=True)
        return More([one.cpu / plain.cpu - 1 for one, plain in pairs])


def build(folder: Path) -> dict[bool, Path]:
    """The program, with checksums and without.

    Raises:
        RuntimeError: there is no C++ compiler.
    """
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise RuntimeError("no C++ compiler: install g++")
    built = {}
    for sums, checksum in ((True, NATIVE / "far/checksum.cpp"), (False, PROGRAMS / "no_checksum.cpp")):
        built[sums] = folder / ("with" if sums else "without")
        sources = [str(PROGRAMS / "crossing.cpp"), str(NATIVE / "far/connection.cpp"), str(checksum)]
        options = ["-std=c++17", "-O3", "-DNDEBUG", f"-I{NATIVE}"]
        subprocess.run([compiler, *options, *sources, "-o", str(built[sums])], check=True)
    return built


@contextlib.contextmanager
def _pair(program: Path, over: Line, size: int) -> Iterator[subprocess.Popen[str]]:
    """A receiver, and the sender that it hears."""
    address = over.address(1)
    words = over.on(1, str(program), "receive", address, str(size))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        words = over.on(0, str(program), "send", address, port, str(size))
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sender:
            yield sender


def _one(sender: subprocess.Popen[str], way: Way) -> Message:
    assert sender.stdin is not None
    assert sender.stdout is not None
    sender.stdin.write(f"{way}\n")
    sender.stdin.flush()
    seconds, sent, received = map(float, sender.stdout.readline().split())
    return Message(seconds, sent + received)


def measure(programs: Mapping[bool, Path], gigabits: float, size: int, rounds: int) -> Cost:
    """Send messages of so many bytes in all ways in turns. Their order turns round from round to round.

    Args:
        gigabits: a second, of the line; 0: the loopback interface.
        rounds: that count.
    """
    took: dict[Way, list[Message]] = {way: [] for way in WAYS}
    with (
        line(gigabits) as over,
        _pair(programs[True], over, size) as sums,
        _pair(programs[False], over, size) as without,
    ):
        for number in range(WARM + rounds):
            for way in WAYS if number % 2 else reversed(WAYS):
                message = _one(without if way == "without" else sums, way)
                if number >= WARM:
                    took[way].append(message)
    return Cost(took)


def rates(program: Path) -> tuple[float, float]:
    """Bytes that are summed in a second of CPU time: from a core's cache, and from memory."""
    done = subprocess.run([str(program), "sum"], capture_output=True, text=True, check=True)
    cached, memory = map(float, done.stdout.split())
    return cached, memory


HEADER = f"{'Gbit/s':>6}  MiB      ms  of the line  {'with':<25} {'known':<25} CPU, ms  {'with':<25} known"


def row(cost: Cost, gigabits: float, mib: int) -> str:
    """One of the table."""
    carried = f"{8e-9 * (mib << 20) / cost.seconds() / gigabits:.0%}" if gigabits else ""
    return (
        f"{f'{gigabits:g}' if gigabits else 'cores':>6}  {mib:3}  {1e3 * cost.seconds():6.1f}  {carried:>11}  "
        f"{cost.more_seconds('with')!s:<25} {cost.more_seconds('known')!s:<25} "
        f"{1e3 * cost.cpu():7.1f}  {cost.more_cpu('with')!s:<25} {cost.more_cpu('known')}"
    )


def main(arguments: Sequence[str]) -> None:
    """A line for each line, and size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks checksums", description=__doc__)
    parser.add_argument("gigabits", type=float, nargs="*", default=[0, 1, 2.5, 5, 10], help="0: loopback")
    parser.add_argument("--mib", type=int, nargs="+", default=[128, 16], help="sizes of messages")
    parser.add_argument("--rounds", type=int, default=25, help="of 128 MiB; of less, more: as many bytes")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        programs = build(Path(folder))
        cached, memory = rates(programs[True])
        print(f"GB/s that a core sums: {cached / 1e9:.1f} from its cache, {memory / 1e9:.1f} from memory")
        print("Without checksums, and what they add: medians of rounds (quartiles). known: made at publication.")
        print(HEADER)
        for gigabits in options.gigabits:
            for mib in options.mib:
                cost = measure(programs, gigabits, mib << 20, options.rounds * max(1, 128 // mib))
                print(row(cost, gigabits, mib), flush=True)
