"""Flow policies with real programs: exactly which steps arrive, on every rank, and no policy meets another."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.build import build, parallel_c, serial_c

from support.running import WAITS, WILKINS, run_tree
from support.streams import Streams, by_writer, steps

WRITE = "  - {name: sim, func: ./write.py, args: [out.h5, COUNT, w], outports: [{filename: out.h5}]}\n"
READ = "  - {name: NAME, func: ./read.py, args: [out.h5, SECONDS], inports: [{filename: out.h5, POLICY}]}\n"


@pytest.fixture
def streams(tmp_path: Path) -> Streams:
    """A fresh folder."""
    return Streams(tmp_path)


def write(count: int, seconds: float = 0) -> str:
    return WRITE.replace("COUNT, w", f"{count}, w, {seconds}")


def read(policy: str, name: str = "ana", seconds: float = 0) -> str:
    return READ.replace("NAME", name).replace("POLICY", policy).replace("SECONDS", str(seconds))


@pytest.mark.usual("io_freq: 0", also_between_hosts=["flow: {every: 1, queue: 4}"])
@pytest.mark.parametrize("policy", ["io_freq: 0", "io_freq: 1", "io_freq: all", "flow: {every: 1, queue: 4}"])
def test_all_steps_arrive(streams: Streams, policy: str) -> None:
    streams.run(write(9) + read(policy, seconds=0.01))
    assert streams.got("ana") == steps("w", 9)


@pytest.mark.usual("2-10-io_freq: {n}", also_between_hosts=["5-10-flow: {{some: {n}}}", "50-5-io_freq: {n}"])
@pytest.mark.parametrize("policy", ["io_freq: {n}", "flow: {n}", "flow: {{some: {n}}}"])
@pytest.mark.parametrize(("n", "count"), [(2, 10), (3, 10), (5, 10), (4, 4), (50, 5)])
def test_some_n_keeps_the_nth_step_and_every_nth_after_it(streams: Streams, policy: str, n: int, count: int) -> None:
    """The last of ten for 2 and 5; of a run shorter than n nothing, and that is no error, but told."""
    ran = streams.run(write(count) + read(policy.format(n=n)))
    told = "ana: was given no step of 'out.h5', since sim published 5, and its in-port keeps every 50th from the 50th"
    assert (told in ran.out + ran.err) == (n == 50)
    assert streams.got("ana") == steps("w", range(n - 1, count, n))


@pytest.mark.usual("4-3-10", also_between_hosts=["3-1-10", "50-0-5"])
@pytest.mark.parametrize(("n", "offset", "count"), [(2, 0, 8), (3, 0, 10), (3, 1, 10), (4, 3, 10), (50, 0, 5)])
def test_every_n_begins_with_the_step_of_its_offset(streams: Streams, n: int, offset: int, count: int) -> None:
    """The first one, if none is given, also of a run shorter than n."""
    words = f"every: {n}, queue: 1" + (f", offset: {offset}" if offset else "")
    streams.run(write(count) + read(f"flow: {{{words}}}"))
    assert streams.got("ana") == steps("w", range(offset, count, n))


def test_a_program_per_step_is_started_for_the_nth_steps_only(streams: Streams) -> None:
    """As the analysis that gets the file's name, of 6 files with `io_freq: 2`; none of them of a run of one file."""
    streams.program(
        "one.py", "import sys, h5py\nwith h5py.File(sys.argv[1]) as file:\n    print('got w', file['step'][()])\n"
    )
    for count, expected in ((6, [1, 3, 5]), (1, [])):
        streams.run(
            WRITE.replace("out.h5", "'s-{}.h5'", 1)
            .replace("{filename: out.h5}", "{filename: 's-*.h5'}")
            .replace("COUNT", str(count))
            + "  - {name: ana, func: ./one.py, args: ['{filename}'], inports: [{filename: 's-*.h5', io_freq: 2}]}\n"
        )
        assert streams.got("ana") == steps("w", expected)


@pytest.mark.parametrize("policy", ["io_freq: -2", "flow: -2", "flow: {some: 0}", "flow: {every: 3, offset: 3}"])
def test_a_policy_that_is_none_is_refused_with_its_place(streams: Streams, policy: str) -> None:
    (streams.folder / "workflow.yaml").write_text("tasks:\n" + write(1) + read(policy))
    told = run_tree([*WILKINS, "run", "workflow.yaml"], 30, streams.folder)
    assert told.code == 2
    assert "workflow.yaml:3:" in told.err
    assert "task 'ana', inport 'out.h5'" in told.err
    assert not (streams.folder / "wilkins-runs").exists()


ONE_FILE = """\
import sys, time
import h5py
time.sleep(0.1)
with h5py.File(sys.argv[1], "r") as file:
    print("got", file["by"].asstr()[()], file["step"][()], sys.argv[1], flush=True)
"""
"""``one_file.py NAME``: is slow to start, and so opens the file of its name when many more have been published."""


@pytest.mark.usual(also_between_hosts=["latest-1"])
@pytest.mark.one_host(
    "ranks on several hosts cannot agree on steps left out while one of them is busy: the run is refused", "latest-2"
)
@pytest.mark.parametrize(("policy", "ranks"), [("latest", 1), ("latest", 2), ("drop-newest", 1)])
def test_a_start_for_each_step_has_its_step_however_late_it_opens_it(streams: Streams, policy: str, ranks: int) -> None:
    streams.program("one_file.py", ONE_FILE)
    flow = "io_freq: latest" if policy == "latest" else "flow: {queue: 1, when_full: drop-newest}"
    streams.run(
        "  - {name: sim, func: ./write.py, args: ['s-{}.h5', '120', w, '0.01'], outports: [{filename: 's-*.h5'}]}\n"
        f"  - {{name: ana, func: ./one_file.py, nprocs: {ranks}, args: ['{{filename}}'], "
        f"inports: [{{filename: 's-*.h5', {flow}}}]}}\n"
    )
    got = [line.split() for line in streams.got("ana")]
    assert all(name == f"s-{number}.h5" for _, number, name in got), "each start gets the step of its name"
    numbers = [int(number) for _, number, _ in got]
    starts = streams.summary()["ana"]["starts"]
    assert len(numbers) == ranks * starts, "every start succeeds"
    assert numbers == sorted(numbers)
    read = sorted(set(numbers))
    assert len(read) == starts < 60
    if policy == "latest":
        assert read[-1] == 119
    (channel,) = streams.record()["channels"]
    assert channel["read"] + channel["dropped"] == channel["published"] == 120
    assert channel["read"] == starts


def test_latest_gives_newer_and_newer_steps_and_always_the_last(streams: Streams) -> None:
    streams.run(write(40, 0.01) + read("io_freq: latest", seconds=0.06))
    numbers = by_writer(streams.got("ana"))["w"]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 39
    assert len(numbers) < 40
    summary = streams.summary()
    assert summary["ana"]["consumed"] + summary["ana"]["dropped"] == 40
    assert summary["sim"]["waiting_s"] < 0.1


@pytest.mark.one_host("two queues and a relay hold steps for which one host has no room")
def test_drop_newest_keeps_the_oldest(streams: Streams) -> None:
    """While the reader holds the first step, two more are queued; what comes then is not kept."""
    streams.program(
        "read.py",
        "import os, time, h5py\nwhile True:\n    try:\n        file = h5py.File('out.h5', 'r')\n"
        "    except FileNotFoundError:\n        break\n    with file:\n"
        "        print('got w', file['step'][()], flush=True)\n        open('first-read', 'w').close()\n"
        "        while not os.path.exists('all-written'):\n            time.sleep(0.01)\n",
    )
    streams.program(
        "write.py",
        "import os, time, h5py\nfor step in range(9):\n    with h5py.File('out.h5', 'w') as file:\n"
        "        file['step'] = step\n    while not os.path.exists('first-read'):\n        time.sleep(0.01)\n"
        "open('all-written', 'w').close()\n",
    )
    streams.run(write(9) + read("flow: {queue: 2, when_full: drop-newest}"))
    assert streams.got("ana") == steps("w", [0, 1, 2])


@pytest.mark.usual("3", also_between_hosts=["1"])
@pytest.mark.parametrize("queue", [1, 3])
def test_a_producer_is_never_further_ahead_than_its_queue(streams: Streams, queue: int, between_hosts: bool) -> None:
    """Between hosts, there is a queue on each, and a step in the hands of what carries them."""
    most = 2 * queue + 1 if between_hosts else queue
    streams.program(
        "write.py",
        "import os, h5py\nfor step in range(8):\n    with h5py.File('out.h5', 'w') as file:\n"
        "        file['step'] = step\n        file['by'] = 'w'\n"
        "    open('draft', 'w').write(str(step + 1))\n    os.rename('draft', 'written')\n",
    )
    streams.program(
        "read.py",
        f"{WAITS}\nimport time, h5py\ndef ahead():\n    return int(open('written').read()) - step\n"
        "for step in range(8):\n    while True:\n"
        f"        if step + {most} < 8:\n            waits.until_waits(0)\n"
        f"        if ahead() >= min({most}, 8 - step):\n            break\n"
        f"        time.sleep(0.01)\n    assert ahead() <= {most}, ahead()\n"
        "    with h5py.File('out.h5', 'r') as file:\n        print('got', 'w', file['step'][()], flush=True)\n",
    )
    streams.run(write(8) + read(f"queue: {queue}"))
    assert streams.got("ana") == steps("w", 8)


def test_every_consumer_has_its_own_policy(streams: Streams) -> None:
    """A policy on one channel of an out-port does not leak to another."""
    streams.run(
        write(12)
        + read("io_freq: 1", "all")
        + read("io_freq: 5", "fifth")
        + read("io_freq: latest", "last", seconds=0.05)
        + read("io_freq: 2", "second", seconds=0.02)
    )
    assert streams.got("all") == steps("w", 12)
    assert streams.got("fifth") == steps("w", [4, 9])
    assert streams.got("second") == steps("w", range(1, 12, 2))
    numbers = by_writer(streams.got("last"))["w"]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 11


def test_a_policy_on_one_port_does_not_leak_to_another_between_the_same_two_tasks(streams: Streams) -> None:
    streams.program(
        "write.py",
        "import h5py\nfor step in range(12):\n    for name in ('a.h5', 'b.h5', 'c.h5'):\n"
        "        with h5py.File(name, 'w') as file:\n            file['step'] = step\n",
    )
    streams.program(
        "read.py",
        "import h5py\n\n\ndef read(name):\n    with h5py.File(name, 'r') as file:\n"
        "        print('got', name, file['step'][()], flush=True)\n\n\n"
        "for step in range(12):\n    read('a.h5')\n    if step % 4 == 3:\n        read('b.h5')\n"
        "while True:\n    try:\n        read('c.h5')\n    except FileNotFoundError:\n        break\n",
    )
    names = ("a.h5", "b.h5", "c.h5")
    policies = dict(zip(names, ("io_freq: 1", "io_freq: 4", "io_freq: latest"), strict=True))
    outports = ", ".join(f"{{filename: {name}}}" for name in names)
    inports = ", ".join(f"{{filename: {name}, {policy}}}" for name, policy in policies.items())
    streams.run(
        f"  - {{name: sim, func: ./write.py, outports: [{outports}]}}\n"
        f"  - {{name: ana, func: ./read.py, inports: [{inports}]}}\n"
    )
    got = by_writer(streams.got("ana"))
    assert got["a.h5"] == list(range(12))
    assert got["b.h5"] == [3, 7, 11]
    # The writer is at most three steps ahead of the reader when that turns to c.h5, for the other ports hold it up.
    assert got["c.h5"] == sorted(set(got["c.h5"]))
    assert 8 <= got["c.h5"][0] <= got["c.h5"][-1] == 11


@pytest.mark.nightly
@pytest.mark.also_between_hosts
def test_the_steps_of_each_writing_instance_are_counted_for_themselves(streams: Streams) -> None:
    streams.run(
        "  - {name: sim, func: ./write.py, taskCount: 3, args: [out.h5, 7, 'w{instance}'], "
        "outports: [{filename: out.h5}]}\n" + read("io_freq: 3")
    )
    got = streams.got("ana")
    assert by_writer(got) == {f"w{n}": [2, 5] for n in range(3)}
    assert len(got) == 6


@pytest.mark.one_host(
    "ranks on several hosts cannot agree on steps left out while one of them is busy: the run is refused",
    "io_freq: latest",
    "flow: {queue: 1, when_full: drop-newest}",
)
@pytest.mark.usual("io_freq: latest", "flow: {queue: 1, when_full: drop-newest}")
@pytest.mark.needs("mpiexec.mpich", "h5pcc.mpich", "h5cc")
@pytest.mark.parametrize("policy", ["io_freq: latest", "io_freq: 3", "flow: {queue: 1, when_full: drop-newest}"])
def test_all_ranks_of_a_reader_get_the_same_steps(streams: Streams, policy: str) -> None:
    """Also where each rank opens the file for itself."""
    writer = build("stream.c", *serial_c(static=False))
    program = build("stream.c", *parallel_c("mpich", static=False), defines=("USE_MPI",))
    streams.run(
        f"  - {{name: sim, func: {writer}, args: [write, out.h5, 30, w], outports: [{{filename: out.h5}}]}}\n"
        f"  - {{name: ana, func: {program}, nprocs: 3, mpiexec: mpiexec.mpich, args: [read, out.h5, each], "
        f"inports: [{{filename: out.h5, {policy}}}]}}\n"
    )
    got = streams.got("ana")
    ranks = [[line.partition(" on ")[0] for line in got if line.endswith(f"on {rank}")] for rank in range(3)]
    assert ranks[0] == ranks[1] == ranks[2]
    if policy == "io_freq: 3":
        assert ranks[0] == steps("w", range(2, 30, 3))
    else:
        numbers = by_writer(ranks[0])["w"]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == 29 or policy != "io_freq: latest"


@pytest.mark.usual("True")
@pytest.mark.parametrize("by_turns", [True, False])
def test_processes_of_one_rank_that_share_a_stream_are_told_of(streams: Streams, by_turns: bool) -> None:
    """Processes that open files by turns, as workers of a DataLoader do; not those that follow each other."""
    streams.program(
        "read.py",
        "import subprocess, sys\n"
        "code = 'import sys, h5py\\nfor line in sys.stdin:\\n    with h5py.File(line.strip()): print(flush=True)'\n"
        "def start(): return subprocess.Popen([sys.executable, '-c', code], stdin=-1, stdout=-1, text=True)\n"
        f"workers = [start() for _ in range({2 if by_turns else 6})]\n"
        "for step in range(6):\n"
        "    worker = workers[step % len(workers)]\n"
        "    print(f's{step}.h5', file=worker.stdin, flush=True)\n"
        "    worker.stdout.readline()\n"
        "for worker in workers: worker.communicate()\n",
    )
    streams.program(
        "write.py",
        "import h5py\nfor k in range(6):\n    with h5py.File(f's{k}.h5', 'w') as f: f['x'] = k\n",
    )
    ran = streams.run(
        "  - {name: sim, func: ./write.py, outports: [{filename: 's*.h5'}]}\n"
        "  - {name: ana, func: ./read.py, inports: [{filename: 's*.h5'}]}\n"
    )
    told = "ana: several processes of one rank went through the files of 's*.h5' by turns"
    assert (told in ran.out + ran.err) == by_turns
