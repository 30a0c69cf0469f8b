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
    """By how much a way takes more than one without checksums, as parts of that."""

    rounds: Sequence[float]
    """Against the message without checksums of the same round."""
    fastest: float
    """Of the times that one message in ten is below: what others do on the machine matters least there."""

    @property
    def median(self) -> float:
        """Half of the rounds took more."""
        return statistics.median(self.rounds)

    def __str__(self) -> str:
        low, _, high = statistics.quantiles(self.rounds, n=4)
        return f"{self.median:+6.1%} ({low:+.1%} .. {high:+.1%}), {self.fastest:+.1%}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What messages over a line took, by their way."""

    took: Mapping[Way, Sequence[Message]]

    def seconds(self, way: Way = "without") -> list[float]:
        """Of each message."""
        return [message.seconds for message in self.took[way]]

    def cpu(self, way: Way = "without") -> list[float]:
        """The same of the CPU time."""
        return [message.cpu for message in self.took[way]]

    def more_seconds(self, way: Way) -> More:
        """What checksums add to the time of a message."""
        return _more(self.seconds(way), self.seconds())

    def more_cpu(self, way: Way) -> More:
        """The same of the CPU time."""
        return _more(self.cpu(way), self.cpu())


def _more(some: Sequence[float], plain: Sequence[float]) -> More:
    fast, fast_plain = (statistics.quantiles(one, n=10, method="inclusive")[0] for one in (some, plain))
    return More([one / other - 1 for one, other in zip(some, plain, strict=True)], fast / fast_plain - 1)


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
        far = [str(NATIVE / "far" / name) for name in ("connection.cpp", "sealing.cpp")]
        sources = [str(PROGRAMS / "crossing.cpp"), *far, str(checksum)]
        options = ["-std=c++17", "-O3", "-DNDEBUG", f"-I{NATIVE}"]
        subprocess.run([compiler, *options, *sources, "-o", str(built[sums]), "-ldl"], check=True)
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
    """Send messages of so many bytes in all ways in turns.

    Each way has its own pair of programs, and none is twice in a row: caches hold as little of its bytes for one as for
    another. Each round begins with another way.

    Args:
        gigabits: a second, of the line; 0: the loopback interface.
        rounds: that count.
    """
    took: dict[Way, list[Message]] = {way: [] for way in WAYS}
    with contextlib.ExitStack() as stack:
        over = stack.enter_context(line(gigabits))
        senders = {way: stack.enter_context(_pair(programs[way != "without"], over, size)) for way in WAYS}
        for number in range(WARM + rounds):
            for place in range(len(WAYS)):
                way = WAYS[(number + place) % len(WAYS)]
                message = _one(senders[way], way)
                if number >= WARM:
                    took[way].append(message)
    return Cost(took)


def rates(program: Path) -> tuple[float, float]:
    """Bytes that are summed in a second of CPU time: from a core's cache, and from memory."""
    done = subprocess.run([str(program), "sum"], capture_output=True, text=True, check=True)
    cached, memory = map(float, done.stdout.split())
    return cached, memory


def row(what: str, mib: int, times: Sequence[float], others: Sequence[More], rest: str = "") -> str:
    """One of the table."""
    told = "  ".join(f"{one!s:<36}" for one in others)
    return f"{what:>6}  {mib:3}  {1e3 * statistics.median(times):7.1f}  {told}{rest}".rstrip()


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
        print("What a message takes without checksums, and what they add: medians of rounds (quartiles), and by the")
        print("fastest tenth of messages. Known checksums were made when the step was published.")
        head = f"{'Gbit/s':>6}  MiB  {'ms':>7}  {'checksums':<36}  {'known checksums':<36}"
        print(f"\n{head}  of the line")
        costs = []
        for gigabits in options.gigabits:
            for mib in options.mib:
                cost = measure(programs, gigabits, mib << 20, options.rounds * max(1, 128 // mib))
                name = f"{gigabits:g}" if gigabits else "cores"
                costs.append((name, mib, cost))
                used = 8e-9 * (mib << 20) / statistics.median(cost.seconds()) / gigabits if gigabits else 0
                more = [cost.more_seconds("with"), cost.more_seconds("known")]
                print(row(name, mib, cost.seconds(), more, f"  {used:.0%}" if gigabits else ""), flush=True)
        print(f"\n{head}  (CPU time of both sides)")
        for name, mib, cost in costs:
            print(row(name, mib, cost.cpu(), [cost.more_cpu("with"), cost.more_cpu("known")]))
