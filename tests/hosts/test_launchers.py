"""Keepers, and ranks on several hosts, are started by the launcher of the scheduler that the hosts come from.

Stand-ins do what the documentation of Flux, PBS and LSF (for `pbs_tmrsh`, its source) says of the real ones, for hosts
that are addresses of this machine. `tests/hosts/test_slurm.py` has a real Slurm.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hosts import pseudo
from hosts.rig import NEEDS, Rig
from hosts.test_tasks_of_several_hosts import all_have_read, together

from support.running import WILKINS, Finished, run_tree, write_program

FLUX = """#!/bin/sh
if [ "$1 $2" = "resource R" ]; then
    echo '{{"version": 1, "execution": {{"R_lite": [{{"rank": "0-1", "children": {{"core": "0-3"}}}}],'
    echo '"nodelist": ["127.0.0.[2-3]"], "starttime": 0.0, "expiration": 0.0}}}}'
    exit
fi
case $1$2 in exec--rank=0) host=127.0.0.2 ;; exec--rank=1) host=127.0.0.3 ;; *) echo "flux: $*" >&2; exit 1 ;; esac
echo "$host" >> "{folder}/started"
shift 2
"$@" > "{folder}/kept" 2> "{folder}/kept.err"
code=$?
cat "{folder}/kept"
exit $code
"""
BLAUNCH = """#!/bin/sh
echo "$1" >> "{folder}/started"
shift
cd /
exec sh -c "$*"
"""
PBS_TMRSH = """#!/bin/sh
grep -qx "$1" "$PBS_NODEFILE" || {{ echo "pbs_tmrsh: host \"$1\" is not a node in job <1>" >&2; exit 255; }}
echo "$1" >> "{folder}/started"
shift
cd /
exec env -i PATH=/usr/bin:/bin HOME="$HOME" "$@" < /dev/null >> "{folder}/job.out" 2>> "{folder}/job.err"
"""
NODEFILE = "127.0.0.2\n" * 4 + "127.0.0.3\n" * 4
ALLOCATIONS = {
    "flux": (FLUX, {"FLUX_URI": "local:///run/flux/local"}),
    "pbs_tmrsh": (PBS_TMRSH, {"PBS_NODEFILE": "{folder}/nodefile"}),
    "blaunch": (BLAUNCH, {"LSB_MCPU_HOSTS": "127.0.0.2 4 127.0.0.3 4"}),
}


def allocation(folder: Path, command: str) -> dict[str, str]:
    """The variables of an allocation of two hosts, whose launcher is first in PATH."""
    script, variables = ALLOCATIONS[command]
    (folder / "bin").mkdir()
    write_program(folder / "bin" / command, script.format(folder=folder))
    (folder / "nodefile").write_text(NODEFILE)
    own = {name: value.format(folder=folder) for name, value in variables.items()}
    return {**own, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "OMPI_MCA_btl": "tcp,self"}


def run(folder: Path, environment: dict[str, str], *options: str) -> Finished:
    return run_tree([*WILKINS, "run", *options, "workflow.yaml"], 90, folder, environment)


@pytest.mark.usual("pbs_tmrsh")
@pytest.mark.parametrize("command", ALLOCATIONS)
def test_hosts_of_an_allocation_are_reached_by_its_launcher(command: str, tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text("""
tasks:
  - {func: ./write.py, args: ["f{}.h5", 5, 1000000, 0], placement: [127.0.0.2], outports: [{filename: "f*.h5"}]}
  - {func: ./read.py, args: [0], placement: [127.0.0.3], inports: [{filename: "f*.h5"}]}
""")
    finished = run(tmp_path, allocation(tmp_path, command))
    assert finished.code == 0, finished.err
    assert finished.out.count("opened") == 5
    assert sorted((tmp_path / "started").read_text().split()) == ["127.0.0.2", "127.0.0.3"]
    left = [path.name for path in (tmp_path / "wilkins-runs/latest/hosts").iterdir()]
    assert not [name for name in left if name.startswith(("streams-", "key"))]


@pytest.mark.nightly
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("command", ALLOCATIONS)
def test_ranks_on_hosts_of_an_allocation_are_started_by_its_launcher(command: str, mpi: str, tmp_path: Path) -> None:
    together(tmp_path, mpi, writers="[2, 2]", readers="[1, 2]")
    all_have_read(run(tmp_path, allocation(tmp_path, command)), 6)
    assert len((tmp_path / "started").read_text().split()) > 2


@pytest.mark.parametrize("command", ["flux", "pbs_tmrsh"])
def test_a_host_that_is_not_of_the_allocation_is_named(command: str, tmp_path: Path) -> None:
    pseudo.programs(tmp_path)
    (tmp_path / "workflow.yaml").write_text("""
tasks:
  - {func: ./write.py, args: ["f{}.h5", 5, 1000, 0], outports: [{filename: "f*.h5"}]}
  - {func: ./read.py, args: [0], inports: [{filename: "f*.h5"}]}
""")
    finished = run(tmp_path, allocation(tmp_path, command), "--hosts", "127.0.0.2:1,127.0.0.4:1")
    assert finished.code in (1, 3)
    assert "the host 127.0.0.4 is" in finished.said


BROKERS = """[bootstrap]
curve_cert = "{state}/curve.cert"
default_port = 8050
default_bind = "tcp://e0:%p"
default_connect = "tcp://%h:%p"
hosts = [{{host = "node[0-2]"}}]
"""


@pytest.mark.nightly
@pytest.mark.needs("root", "namespaces", "flux", *NEEDS)
def test_hosts_of_a_real_flux(tmp_path: Path) -> None:
    """A broker on each of three hosts; nobody has an ssh that leads to the others."""
    together(tmp_path, "openmpi", writers="[0, 3, 1]", readers="[1, 0, 2]")
    with Rig(3) as rig:
        (rig.state / "flux.toml").write_text(BROKERS.format(state=rig.state))
        subprocess.run(["flux", "keygen", str(rig.state / "curve.cert")], check=True, capture_output=True)
        (rig.state / "ssh").write_text("#!/bin/sh\nexit 255\n")
        broker = ["flux", "broker", f"--config-path={rig.state}/flux.toml"]
        others = [subprocess.Popen(rig.on(name, *broker, folder=tmp_path)) for name in rig.names[1:]]
        run = [*WILKINS, "run", "--hosts", "node0:1,node1:4,node2:3", "workflow.yaml"]
        words = rig.on("node0", *broker, *run, folder=tmp_path)
        all_have_read(run_tree(words, 90, tmp_path), 6)
        assert [other.wait(20) for other in others] == [0, 0]
        assert not any(rig.shared_memory(name) for name in rig.names)
