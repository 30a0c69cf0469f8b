"""A Slurm of one node in namespaces of its own, up while a block lasts. Needs root, and Debian's Slurm and munge."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

NEEDS = ("root", "sbatch", "slurmd", "slurmctld", "munged", "nsenter", "setpriv", "ip", "namespaces")
SYSTEM_FOLDERS = "/usr/sbin:/sbin"

_LIMIT_S = 30.0
"""Seconds for Slurm to come up, and for a command of its."""

# The namespaces hide the network, the processes and the shared memory; they end with this process.
# Slurm resolves no name where there is only the loopback device.
_FIRST = """set -e
hostname node0
mount -t tmpfs shm /dev/shm
mount --bind "$0/hosts" /etc/hosts
ip link set lo up
ip link add e0 type veth peer name e1
ip addr add 10.78.0.1/24 dev e0
ip link set e0 up
ip link set e1 up
mkdir -p /run/munge
mount -t tmpfs run /run/munge
chown munge: /run/munge
chmod 755 /run/munge
setpriv --reuid munge --regid munge --clear-groups munged --force --key-file="$0/munge/key" \
    --log-file="$0/munge/log" --pid-file="$0/munge/pid" --seed-file="$0/munge/seed"
slurmctld -L "$0/slurmctld.log"
slurmd -N node0 -L "$0/slurmd.log"
exec sleep infinity
"""

_CONFIGURATION = """ClusterName=test
SlurmctldHost=node0(10.78.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={0}/state
SlurmdSpoolDir={0}/spool
SlurmctldPidFile={0}/slurmctld.pid
SlurmdPidFile={0}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=10
SlurmdParameters=config_overrides
NodeName=node0 CPUs=8 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A Slurm with one node, `node0`, that has 8 CPUs on paper."""

    def __enter__(self) -> Slurm:
        self._state = Path(tempfile.mkdtemp(prefix="wilkins-slurm-"))
        self._state.chmod(0o711)
        self._write()
        path = f"{os.environ['PATH']}:{SYSTEM_FOLDERS}"
        namespaces = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
        with (self._state / "first.log").open("wb") as log:
            self._parent = subprocess.Popen(
                ["unshare", *namespaces, "--propagation", "private", "sh", "-c", _FIRST, str(self._state)],
                env={**os.environ, "PATH": path, "SLURM_CONF": str(self._state / "slurm.conf")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._await_node()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _write(self) -> None:
        state = self._state
        (state / "state").mkdir()
        (state / "munge").mkdir()
        (state / "munge/key").write_bytes(os.urandom(1024))
        for path in (state / "munge", state / "munge/key"):
            shutil.chown(path, "munge", "munge")
        (state / "munge/key").chmod(0o400)
        (state / "hosts").write_text("127.0.0.1 localhost\n10.78.0.1 node0\n")
        (state / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (state / "slurm.conf").write_text(_CONFIGURATION.format(state))

    def _await_node(self) -> None:
        until = time.monotonic() + _LIMIT_S
        while "idle" not in self.run("sinfo", "-h", "-o", "%T").stdout:
            if time.monotonic() > until or self._parent.poll() is not None:
                logs = "\n".join(f"{log}:\n{log.read_text()}" for log in self._state.glob("*.log"))
                raise TimeoutError(f"Slurm does not come up\n{logs}")
            time.sleep(0.1)

    def on(self, *words: str | Path) -> list[str]:
        """The command that runs a program on the node, in this process's folder."""
        children = Path(f"/proc/{self._parent.pid}/task/{self._parent.pid}/children").read_text().split()
        where = ["-t", children[0] if children else "0", "-m", "-u", "-n", "-i", "-p"]
        path = f"{os.environ['PATH']}:{SYSTEM_FOLDERS}"
        variables = [f"PATH={path}", f"SLURM_CONF={self._state / 'slurm.conf'}"]
        return ["nsenter", *where, f"-w{Path.cwd()}", "--", "env", *variables, *map(str, words)]

    def run(self, *words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program on the node to its end."""
        command = self.on("sh", "-c", f"cd {shlex.quote(str(cwd or Path.cwd()))} && {shlex.join(map(str, words))}")
        return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)

    def job(self, number: str) -> dict[str, str]:
        """What Slurm says of a job: `JobState`, `ExitCode` and more."""
        said = self.run("scontrol", "show", "job", "-o", number).stdout
        return dict(re.findall(r"(\w+)=(\S*)", said))

    def await_job(self, number: str, timeout: float) -> dict[str, str]:
        """What Slurm says of a job once it has ended.

        Raises:
            TimeoutError: it has not ended within `timeout` seconds.
        """
        until = time.monotonic() + timeout
        while (said := self.job(number)).get("JobState") in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            if time.monotonic() > until:
                raise TimeoutError(f"job {number} has not ended: {said}")
            time.sleep(0.2)
        return said

    def __exit__(self, *_: object) -> None:
        os.killpg(self._parent.pid, signal.SIGKILL)
        self._parent.wait()
        shutil.rmtree(self._state, ignore_errors=True)
