"""What crosses from host to host is counted: no step more than the readers get, and two messages for each."""

from __future__ import annotations

from pathlib import Path

import pytest
from hosts import pseudo

from support.running import WILKINS, run_tree
from wilkins.terminal.tables import size
from wilkins.transport.relay_messages import OF_A_STEP, OF_ALL

SIZE = 80_000
PAIR = """
tasks:
  - {func: ./write.py, args: ["f{}.h5", 10, 80000, 0.1], outports: [{filename: "f*.h5"}]}
  - {func: ./read.py, args: [0.05], inports: [{filename: "f*.h5"}]}
"""
FAN_OUT = """
tasks:
  - {func: ./write.py, args: ["f{}.h5", 20, 80000, 0], outports: [{filename: "f*.h5"}]}
  - {func: ./read.py, name: ana, args: [0], inports: [{filename: "f*.h5"}]}
  - {func: ./read.py, name: near, args: [0], inports: [{filename: "f*.h5"}], placement: {with: ana}}
  - {func: ./read.py, name: far, args: [0], inports: [{filename: "f*.h5", io_freq: 5}]}
"""
FAN_IN = """
tasks:
  - {func: ./write.py, taskCount: 3, args: ["f{instance}-{}.h5", 7, 80000, 0], outports: [{filename: "f*.h5"}]}
  - {func: ./read.py, args: [0], inports: [{filename: "f*.h5"}]}
"""


@pytest.mark.usual("fan-out")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("workflow", "hosts", "steps"),
    [(FAN_OUT, "a:1,b:2,c:1", [20, 4]), (FAN_IN, "a:1,b:1,c:1,d:1", [7, 7, 7]), (FAN_OUT, "a:4", [])],
    ids=["fan-out", "fan-in", "one host"],
)
def test_two_messages_for_each_step_that_crosses(tmp_path: Path, workflow: str, hosts: str, steps: list[int]) -> None:
    pseudo.programs(tmp_path)
    crossings = pseudo.run(tmp_path, workflow, hosts)["crossings"]
    assert [one["steps"] for one in crossings] == steps
    for one in crossings:
        assert one["messages"] == OF_A_STEP * one["steps"] + OF_ALL
        assert SIZE <= one["bytes"] / one["steps"] < SIZE + 10_000, "the data, and what HDF5 has beside it"


@pytest.mark.timeout(120)
def test_a_run_on_hosts_gives_a_prediction_its_times_and_sizes(tmp_path: Path) -> None:
    """For other hosts, and a network that these do not have."""
    pseudo.programs(tmp_path)
    crossings = pseudo.run(tmp_path, PAIR, "a:1,b:1")["crossings"]
    words = ["simulate", "workflow.yaml", "--from", "latest", "--hosts", "c:1,d:1", "--bandwidth", "0.2MB/s"]
    done = run_tree([*WILKINS, *words], 30, tmp_path)
    assert done.code == 0, done.err
    (row,) = [line.split() for line in done.out.splitlines() if "c -> d" in line and "over" not in line]
    sizes = size(crossings[0]["bytes"]).split()
    assert row[-6:] == ["10", *sizes, *sizes, "23"]
    assert "bound by: network of c, sending" in done.out
    assert "bound by: task write" in run_tree([*WILKINS, *words[:-2]], 30, tmp_path).out
