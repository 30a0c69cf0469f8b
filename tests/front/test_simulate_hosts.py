"""`wilkins simulate --hosts`: what crosses, what the run is bound by, mistakes; `wilkins plan --hosts` with sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running import WILKINS, Finished, run_tree, write_program
from wilkins.schema.kinds import parse_rate

ENSEMBLE = """
tasks:
  - func: ./simulate
    nprocs: 8
    taskCount: %d
    outports: [{filename: "field-*.h5"}]
    model: {step: 1s, steps: 5, size: 100MB}
  - func: ./collect
    nprocs: 8
    inports: [{filename: "field-*.h5"}]
    model: {step: 1ms}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workflow.yaml").write_text(ENSEMBLE % 3)
    return tmp_path


def wilkins(folder: Path, *words: str) -> Finished:
    return run_tree([*WILKINS, *words], 60, folder, {"PYTHONIOENCODING": "utf-8"})


def test_what_crosses_and_what_the_run_is_bound_by(folder: Path) -> None:
    hosts = ("--hosts", "node0:8,node1:8,node2:8,node3:8")
    done = wilkins(folder, "simulate", "workflow.yaml", *hosts, "--latency", "50us", "--bandwidth", "1GB/s")
    assert done.code == 0, done.err
    for number in range(3):
        row = f"simulate[{number}] -> collect  field-*.h5  node{number} -> node3      5  500 MB  500 MB        13"
        assert " ".join(row.split()) in " ".join(done.out.split())
    assert "bound by: task simulate[0] and 2 alike" in done.out
    slow = wilkins(folder, "simulate", "workflow.yaml", *hosts, "--bandwidth", "10GB/s", "--bandwidth", "node3=0.1GB/s")
    assert "bound by: network of node3, receiving" in slow.out
    of_some = wilkins(folder, "simulate", "workflow.yaml", *hosts, "--latency", "node[0-1,3]=2s")
    assert "bound by: simulate[0] -> collect over node0 -> node3 and 2 alike" in of_some.out
    assert "one step at a time: 0 % its bytes, 100 % its messages" in of_some.out


@pytest.mark.parametrize(
    ("words", "rate"),
    [
        ("1GB/s", 10**9),
        ("1GB", 10**9),
        ("1G", 10**9),
        ("12.5 MiB/s", 25 * 2**19),
        ("1Gb/s", 10**9 // 8),
        ("1Gbit/s", 10**9 // 8),
        ("100 Gbps", 10**11 // 8),
        ("10Mbit/s", 10**7 // 8),
        ("8Kibit/s", 1024),
        ("300", 300),
        ("300B/s", 300),
    ],
)
def test_bits_per_second_are_no_bytes(words: str, rate: int) -> None:
    assert parse_rate(words) == rate


def test_two_thousand_hosts_are_bound_by_the_one_that_collects(folder: Path) -> None:
    (folder / "workflow.yaml").write_text(ENSEMBLE % 1999)
    (folder / "hosts").write_text("".join(f"n{number}:8\n" for number in range(2000)))
    done = wilkins(folder, "simulate", "workflow.yaml", "--hostfile", "hosts", "--bandwidth", "12.5GB/s")
    assert "bound by: network of n1999, receiving" in done.out
    assert "... and 1979 more crossings with 990 GB" in done.out
    assert "... and 1960 more tasks" in done.out
    assert "/dev/shm" not in done.err, "which is that of this machine"


def test_a_plan_says_what_crosses_with_each_step(folder: Path) -> None:
    for name in ("simulate", "collect"):
        write_program(folder / name, "#!/bin/sh\n")
    done = wilkins(folder, "plan", "workflow.yaml", "--hosts", "node0:8,node1:8,node2:16")
    ways = "through shared memory (1 of 3 channels); over the network: node0 -> node2, node1 -> node2"
    assert f"{ways}, 2 x 100 MB a step" in done.out
    assert "3 x 100 MB a step" in wilkins(folder, "plan", "workflow.yaml", "--hosts", "a:8,b:8,c:8,d:8").out
    one = wilkins(folder, "plan", "workflow.yaml", "--hosts", "a:16,b:16", "--set", "simulate.taskCount=2")
    assert "through shared memory" not in one.out
    assert "over the network: a -> b, 2 x 100 MB a step" in one.out


MANY_READERS = """
tasks:
  - {func: ./simulate, outports: [{filename: "field-*.h5"}], model: {step: 0s, steps: 40, size: 100MB}}
  - {func: ./read, taskCount: 8, inports: [{filename: "field-*.h5"}], model: {step: 0s}}
"""


def test_many_hosts_hand_steps_on(tmp_path: Path) -> None:
    """The host of the producer, which bounds the run, sends each step twice: 40 steps of 100 MB in 8 s and a little."""
    (tmp_path / "workflow.yaml").write_text(MANY_READERS)
    for name in ("simulate", "read"):
        write_program(tmp_path / name, "#!/bin/sh\n")
    hosts = ("--hosts", ",".join(f"n{number}:1" for number in range(9)))
    plan = wilkins(tmp_path, "plan", "workflow.yaml", *hosts)
    ways = "n0 -> n1 and n2, n1 -> n3 and n4, n2 -> n5 and n6, n3 -> n7 and n8, 8 x 100 MB a step"
    assert f"over the network: {ways}" in plan.out
    done = wilkins(tmp_path, "simulate", "workflow.yaml", *hosts, "--bandwidth", "1GB/s")
    assert done.code == 0, done.err
    assert "read[7] field-*.h5 n3 -> n8 40 4 GB 4 GB 83" in " ".join(done.out.split())
    assert "the workflow: 8.1 s" in done.out
    assert "bound by: network of n0, sending and 3 alike" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--latency", "1ms"], ["--latency is of the network between hosts", "--hosts node0:8,node1:8"]),
        (["--hosts", "a:32", "--latency", "fast"], ["--latency must be a time such as 50us or 0.2ms", "not 'fast'"]),
        (
            ["--hosts", "a:32", "--bandwidth", "a=0"],
            ["--bandwidth must be a rate in bytes (12GB/s) or bits (100"],
        ),
        (["--hosts", "a:32", "--bandwidth", "10Mx/s"], ["100Gb/s) per second, or HOST=12GB/s, not '10Mx/s'"]),
        (["--hosts", "a:32", "--bandwidth", "b=1GB"], ["there is no host 'b'"]),
        (["--hosts", "a:32", "--hostfile", "x"], ["give --hosts or --hostfile, not both"]),
    ],
)
def test_mistakes(folder: Path, options: list[str], words: list[str]) -> None:
    done = wilkins(folder, "simulate", "workflow.yaml", *options)
    assert done.code == 2
    for word in words:
        assert word in done.err


def test_tasks_on_several_hosts(folder: Path) -> None:
    """One of those that write is on two hosts, from both of which its steps come; and the reader is on two."""
    done = wilkins(folder, "simulate", "workflow.yaml", "--hosts", "a:4,b:32")
    assert done.code == 0, "each fits on the second host"
    words = ("--hosts", "a:12,b:12,c:4,d:4", "--bandwidth", "1GB/s", "--latency", "50us")
    done = wilkins(folder, "simulate", "workflow.yaml", *words)
    assert done.code == 0, done.err
    rows = [" ".join(line.split()) for line in done.out.splitlines() if "field-*.h5" in line]
    ways = [("a -> c", 13), ("a -> d", 13), ("b -> c", 13), ("b -> d", 13), ("a -> c", 13), ("a -> d", 23)]
    assert rows == [
        f"simulate[{number // 2}] -> collect field-*.h5 {way} 5 500 MB 250 MB {messages}"
        for number, (way, messages) in enumerate(ways)
    ], "what d reads of the last one, b has written, which d has to ask for it"
