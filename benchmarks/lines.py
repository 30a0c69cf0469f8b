"""A line of so many bits a second between two hosts, which are network namespaces of this machine. Needs root."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ADDRESSES = ("10.78.0.1", "10.78.0.2")
# A packet of the kernel's, of up to 64 KiB, fits in: it need not be cut up, as a network card would do.
_BURST = "256kb"


@dataclass(frozen=True, slots=True)
class Line:
    """Its ends are hosts 0 and 1."""

    pids: Sequence[int]
    """Of a process on each; none: both are this machine."""

    def on(self, host: int, *words: str) -> list[str]:
        """The command that runs a program on a host."""
        return ["nsenter", "-t", str(self.pids[host]), "-n", "--", *words] if self.pids else list(words)

    def address(self, host: int) -> str:
        """By which a host is reached."""
        return ADDRESSES[host] if self.pids else "127.0.0.1"


@contextlib.contextmanager
def line(gigabits: float) -> Iterator[Line]:
    """A line of so many Gbit/s each way; 0: the loopback interface, which nothing but the cores bounds.

    Raises:
        OSError: this process may not make one.
    """
    if gigabits == 0:
        yield Line(())
        return
    # They end with this process, which holds the other end of their input; and the line ends with them.
    hosts = [
        subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in ADDRESSES
    ]
    try:
        made = Line([host.pid for host in hosts])
        if not all(host.stdout and host.stdout.readline() for host in hosts):
            raise OSError(
                "unshare makes no network: run this as root; a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
            )
        peer = ("type", "veth", "peer", "name", "e0", "netns", str(hosts[1].pid))
        _do(made.on(0, "ip", "link", "add", "e0", *peer))
        for host, address in enumerate(ADDRESSES):
            _do(made.on(host, "ip", "address", "add", f"{address}/24", "dev", "e0"))
            _do(made.on(host, "ip", "link", "set", "e0", "up"))
            shape = ("rate", f"{gigabits * 1e9:.0f}", "burst", _BURST, "latency", "100ms")
            _do(made.on(host, "tc", "qdisc", "add", "dev", "e0", "root", "tbf", *shape))
        yield made
    finally:
        for process in hosts:
            process.kill()
            process.communicate()


def _do(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr or done.stdout}")
