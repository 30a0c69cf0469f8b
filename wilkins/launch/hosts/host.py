"""The head's record of a host, and the processes that connect the head to hosts."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wilkins.errors import ResourceError
from wilkins.launch.hosts.clocks import Clock
from wilkins.launch.hosts.control import Control
from wilkins.launch.hosts.partreport import PartReport
from wilkins.launch.hosts.remote import address, remote_command
from wilkins.launch.hosts.status import HostResult, HostStatus
from wilkins.launch.programs.process import give_limit_back
from wilkins.plan.split import HostPart
from wilkins.values import dataclass


@dataclass(slots=True)
class Host:
    """The head's record of one host."""

    part: HostPart
    name: str
    address: str
    """The address by which other hosts reach it."""
    process: subprocess.Popen[bytes] | None
    """The process that connects the head to it; None: its keeper has connected by itself."""
    control: Control
    heard: float
    stands: float = 0.0
    """Seconds for which its keeper stands still, by the last sign of life."""
    ready: Mapping[str, str] | None = None
    """Where its keeper and servers of files listen, once it has said so; without an address: at all of the host's."""
    state: HostStatus = HostStatus()
    steps: Sequence[int] = ()
    """By task of the part: the number of its steps at the last heartbeat."""
    report: PartReport | None = None
    """The last report of its board that the head has asked for."""
    clock: Clock | None = None
    stays: bool = False
    """Its programs have ended, and other hosts may still read its memory."""
    ended: HostResult | None = None
    gone: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing more will come from it."""
        return self.gone or self.ended is not None

    def kill(self) -> None:
        """Kill the process that connects the head to it."""
        if self.process is not None:
            self.process.kill()


def started(part: HostPart, name: str, run: Path) -> Host:
    """A host on which a keeper was started.

    Args:
        name: of the host.
        run: the run's directory.

    Raises:
        ResourceError: what starts it cannot be started.
    """
    words = remote_command(name, [sys.executable, "-m", "wilkins.launch.hosts.keeper"], run)
    with (run / "hosts" / f"{name}.log").open("ab") as log:
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                preexec_fn=give_limit_back,
            )
        except OSError as error:
            raise ResourceError(f"the host {name} cannot be reached: {words[0]}: {error.strerror}") from error
    assert process.stdin is not None
    assert process.stdout is not None
    control = Control(process.stdout.fileno(), process.stdin.fileno(), waits=False)
    return Host(part, name, address(name), process, control, time.monotonic())


def cleaning(lost: Sequence[str], run: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Processes that clean up on hosts whose keepers are lost.

    Args:
        run: the run's directory.
    """
    for name in lost:
        with contextlib.suppress(OSError):  # there may be no ssh where something else has started the keepers
            yield subprocess.Popen(
                remote_command(name, [sys.executable, "-m", "wilkins.launch.hosts.cleanup", str(run), name], run),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )


def end(processes: Sequence[subprocess.Popen[bytes]], within: float) -> None:
    """Wait for their ends for so many seconds in all, and kill those that go on."""
    until = time.monotonic() + within
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, until - time.monotonic()))
        process.kill()
        process.wait()
