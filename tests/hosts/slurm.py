"""A Slurm over hosts made of namespaces, up while a block lasts. Needs root, and Debian's Slurm and munge."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from hosts import rig

NEEDS = ("root", "sbatch", "slurmd", "slurmctld", "munged", "setpriv", "namespaces", *rig.NEEDS)

_LIMIT_S = 30.0
"""Seconds for Slurm to come up, and for a command of its."""

_DAEMONS = """set -e
mkdir -p /run/munge
mount -t tmpfs run /run/munge
chown munge: /run/munge
chmod 755 /run/munge
setpriv --reuid munge --regid munge --clear-groups munged --force --key-file="$0/munge/key" \
    --log-file="$0/munge/$1.log" --pid-file="$0/munge/$1.pid" --seed-file="$0/munge/$1.seed"
[ "$1" != node0 ] || slurmctld -L "$0/slurmctld.log"
exec slurmd -N "$1" -L "$0/slurmd-$1.log"
"""

_CONFIGURATION = """ClusterName=test
SlurmctldHost=node0
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={0}/state
SlurmdSpoolDir={0}/spool-%n
TmpFS={0}/tmp-%n
SlurmctldPidFile={0}/slurmctld.pid
SlurmdPidFile={0}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=10
SlurmdParameters=config_overrides
NodeName={1} CPUs=8 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A Slurm with nodes `node0` and so on, that have 8 CPUs each on paper."""

    def __init__(self, nodes: int = 1) -> None:
        self.rig = rig.Rig(nodes)

    def __enter__(self) -> Slurm:
        self.rig.__enter__()
        try:
            self._write()
            for name in self.rig.names:
                subprocess.run(self.on("sh", "-c", _DAEMONS, self._state, name, host=name), check=True)
            self._await_nodes()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _write(self) -> None:
        state = self._state = self.rig.state / "slurm"
        self.rig.state.chmod(0o711)
        (state / "state").mkdir(parents=True)
        (state / "munge").mkdir()
        (state / "munge/key").write_bytes(os.urandom(1024))
        for path in (state / "munge", state / "munge/key"):
            shutil.chown(path, "munge", "munge")
        (state / "munge/key").chmod(0o400)
        for name in self.rig.names:  # PMIx's folders have one name on all nodes
            (state / f"tmp-{name}").mkdir()
        (state / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (state / "slurm.conf").write_text(_CONFIGURATION.format(state, ",".join(self.rig.names)))

    def _await_nodes(self) -> None:
        until = time.monotonic() + _LIMIT_S
        while self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() != str(len(self.rig.names)):
            if time.monotonic() > until:
                logs = "\n".join(f"{log}:\n{log.read_text()}" for log in self._state.glob("*.log"))
                raise TimeoutError(f"Slurm does not come up\n{logs}")
            time.sleep(0.1)

    def on(self, *words: str | Path, host: str = "node0", folder: Path | None = None) -> list[str]:
        """The command that runs a program on a node, in a folder (default: this process's)."""
        variables = [f"PATH={self.rig.path}:/usr/sbin:/sbin", f"SLURM_CONF={self._state / 'slurm.conf'}"]
        return self.rig.on(host, "env", *variables, *words, folder=folder)

    def run(self, *words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program on the first node to its end."""
        command = self.on(*words, folder=cwd)
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
        self.rig.__exit__()
