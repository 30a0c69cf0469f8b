"""Several hosts on one machine, of namespaces: each has a name, an address, processes, an empty /dev/shm and an sshd.

Needs root, and Debian's openssh-server, openssh-client and iproute2. Several rigs may be up at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SO_RCVBUFFORCE = 33

NEEDS = ("sshd", "ssh", "ssh-keygen", "ip", "unshare", "nsenter", "pgrep")

# /sys is mounted anew, or MPI's libraries see the machine's network and not the host's. What a shell of the user's does
# first (that of sshd does) is slow, and may leave locks on the machine's disk when it is killed.
_FIRST = """
set -e
hostname "$0"
mount --rbind /sys/fs/cgroup /mnt && mount -t sysfs sys /sys && mount --rbind /mnt /sys/fs/cgroup
mount -t tmpfs shm /dev/shm
mkdir -p /run/sshd
mount --bind "$1/hosts" /etc/hosts
if [ -e ~/.bashrc ]; then mount --bind /dev/null ~/.bashrc; fi
ip link set lo up
while ! ip -br link show e0 up 2> /dev/null | grep -q UP; do sleep 0.02; done
exec "$2" -D -f "$1/sshd_config"
"""


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Rig:
    """Hosts node0, node1 and so on, up while the block lasts."""

    def __init__(self, count: int, *, only_ipv6: bool = False) -> None:
        self._network = ("fd77::", "/64 nodad") if only_ipv6 else ("10.77.0.", "/24")
        self.names = [f"node{number}" for number in range(count)]
        self._tag = f"{os.getpid() % 100000:05d}{int(time.monotonic() * 1000) % 1000:03d}"
        self._parents: dict[str, subprocess.Popen[bytes]] = {}
        self._first: dict[str, int] = {}
        self._delays: list[tuple[str, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> Rig:
        self.state = Path(tempfile.mkdtemp(prefix="wilkins-rig-"))
        try:
            self._make_keys()
            self._up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make_keys(self) -> None:
        for name in ("key", "hostkey"):
            _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.state / name)
        (self.state / "sshd_config").write_text(
            f"HostKey {self.state}/hostkey\nAuthorizedKeysFile {self.state}/key.pub\nPermitRootLogin yes\n"
            "StrictModes no\nUsePAM no\nPidFile none\nMaxStartups 100\n"
        )
        (self.state / "ssh_config").write_text(
            f"Host node*\n IdentityFile {self.state}/key\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n"
            " LogLevel ERROR\n"
        )
        ssh = self.state / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {_tool("ssh")} -F {self.state}/ssh_config "$@"\n')
        ssh.chmod(0o755)
        names = [f"{self._network[0]}{place + 1} {name}" for place, name in enumerate(self.names)]
        (self.state / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))

    def _up(self) -> None:
        _do("ip", "link", "add", self._bridge, "type", "bridge")
        _do("ip", "link", "set", self._bridge, "up")
        for place, name in enumerate(self.names):
            parent = subprocess.Popen(
                [
                    *("unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"),
                    *("--mount-proc", "--propagation", "private", "sh", "-c", _FIRST, name),
                    *(str(self.state), str(_tool("sshd"))),
                ],
                stdin=subprocess.DEVNULL,
                stdout=(self.state / f"{name}.log").open("wb"),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._parents[name] = parent
            first = self._first[name] = _child_of(parent.pid)
            link = self._link(name)
            _do("ip", "link", "add", link, "type", "veth", "peer", "name", "e0", "netns", str(first))
            _do("ip", "link", "set", link, "master", self._bridge, "up")
            where, length = self._network
            address = f"ip addr add {where}{place + 1}{length} dev e0; ip link set e0 up"
            _do("nsenter", "-t", str(first), "-n", "sh", "-c", address)
        self._meet()

    def _meet(self) -> None:
        """Wait until the first host reaches all others."""
        until = time.monotonic() + 20
        for name in self.names:
            while subprocess.run(self.on(self.names[0], "ssh", name, "true"), capture_output=True).returncode:
                if time.monotonic() > until:
                    raise TimeoutError(f"{name} does not come up: {(self.state / f'{name}.log').read_text()}")
                time.sleep(0.05)

    @property
    def _bridge(self) -> str:
        return f"wkb{self._tag}"

    def _link(self, name: str) -> str:
        return f"wkv{self._tag}{name.removeprefix('node')}"

    def on(self, host: str, *words: str | Path, folder: Path | None = None) -> list[str]:
        """The command that runs a program on a host, in a folder (default: this process's)."""
        where = f"-w{folder or Path.cwd()}"
        inside = ["nsenter", "-t", str(self._first[host]), "-m", "-u", "-n", "-i", "-p", where, "--"]
        return [*inside, "env", f"PATH={self.path}", *map(str, words)]

    @property
    def path(self) -> str:
        """PATH on the hosts: their `ssh` finds the others."""
        return f"{self.state}:{os.environ['PATH']}"

    def cut(self, host: str) -> None:
        """Take a host's network away."""
        _do("ip", "link", "set", self._link(host), "down")

    def join(self, host: str) -> None:
        """Give a host that was cut off its network back."""
        _do("ip", "link", "set", self._link(host), "up")
        self._meet()

    def slow(self, host: str, bits: int) -> None:
        """Let a host send so many bits per second, and receive as many."""
        shape = ("root", "tbf", "rate", str(bits), "burst", "64kb", "latency", "100ms")
        _do(*self.on(host, "tc", "qdisc", "replace", "dev", "e0", *shape))
        _do("tc", "qdisc", "replace", "dev", self._link(host), *shape)

    def delay(self, host: str, seconds: float, flips: int = 0) -> None:
        """Let all that a host sends, and all that it is sent, be under way for so long; `flips`: as of `delay.py`."""
        near, far = (f"wk{end}{self._link(host)[3:]}" for end in "nf")
        _do("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        _do("ip", "link", "set", self._link(host), "nomaster")
        _do("ip", "link", "set", near, "up")
        _do("ip", "link", "set", far, "master", self._bridge, "up")
        words = [
            sys.executable,
            str(Path(__file__).with_name("delay.py")),
            self._link(host),
            near,
            str(seconds),
            str(flips),
        ]
        passes = subprocess.Popen(words, stdout=subprocess.PIPE)
        self._delays.append((near, passes))
        assert passes.stdout is not None
        passes.stdout.readline()
        self._meet()

    def heard(self, host: str) -> socket.socket:
        """All that a host sends and is sent, as somebody on its line hears it."""
        line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        line.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 28)
        line.bind((self._link(host), 3))  # ETH_P_ALL
        return line

    def traffic(self, host: str) -> tuple[int, int]:
        """Bytes that a host has sent and received, with all headers."""
        return self._counts(host, "tx_bytes", "rx_bytes")

    def sent(self, host: str) -> tuple[int, int]:
        """Bytes that a host has sent, with all headers, and packets (of up to 64 KiB, with bare acknowledgements)."""
        return self._counts(host, "tx_bytes", "tx_packets")

    def _counts(self, host: str, one: str, other: str) -> tuple[int, int]:
        folder = "/sys/class/net/e0/statistics"
        words = self.on(host, "cat", f"{folder}/{one}", f"{folder}/{other}")
        first, second = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
        return int(first), int(second)

    def signal(self, host: str, pattern: str, number: int) -> None:
        """Send a signal to the programs on a host whose command line matches."""
        subprocess.run(self.on(host, "pkill", f"-{number}", "-f", pattern), check=False)

    def shared_memory(self, host: str) -> list[str]:
        """What lies in a host's /dev/shm."""
        return subprocess.run(
            self.on(host, "ls", "-A", "/dev/shm"), capture_output=True, text=True, check=True
        ).stdout.split()

    def memory_of(self, host: str) -> Path:
        """A host's /dev/shm, as this machine sees it while the host is up."""
        return Path("/proc") / str(self._first[host]) / "root/dev/shm"

    def kill(self, host: str) -> None:
        """End a host, with all that runs on it and what is in its memory."""
        os.kill(self._first[host], signal.SIGKILL)
        self._parents[host].wait(20)

    def processes(self, host: str, pattern: str) -> list[str]:
        """Command lines of the programs on a host that match."""
        words = self.on(host, "pgrep", "-a", "-f", pattern)
        lines = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
        return [line for line in lines if "pgrep" not in line]

    def running(self, host: str) -> dict[int, str]:
        """What was started on a host: command lines, by pid on this machine. Its sshd is none of them."""
        first = self._first[host]
        space = (Path("/proc") / str(first) / "ns/pid").stat().st_ino
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "ns/pid").stat().st_ino == space:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    if words and not words.startswith("sshd:"):
                        found[int(entry.name)] = words
        return found

    def __exit__(self, *_: object) -> None:
        for parent in self._parents.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
            parent.kill()
            parent.wait()
        for _near, passes in self._delays:
            passes.kill()
            passes.wait()
        links = [near for near, _ in self._delays] + [self._link(name) for name in self.names] + [self._bridge]
        for link in links:
            subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)
        shutil.rmtree(self.state, ignore_errors=True)


def _child_of(parent: int) -> int:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            if children:
                return int(children[0])
        time.sleep(0.01)
    raise TimeoutError("unshare has started nothing")


def _do(*words: str | Path) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, words))}: {done.stderr or done.stdout}")
