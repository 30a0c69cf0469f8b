"""Random workflows of h5py programs, made from a seed: what runs, and what must then have arrived and lie on the disk.

A seed decides everything: the rule by which steps are published, mode, policies, names, libver, sizes, limits of
memory, pauses, the numbers of producers, consumers, instances and ranks, how consumers ask for their steps, and delays
inside the layer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import wilkins
from support.hooks import faults
from support.running import MPIEXEC, WILKINS, Finished, processes_in, run_tree, write_program
from wilkins.flow.machine import ChannelQueue, Kept, Opened, Skipped
from wilkins.flow.policy import FlowPolicy, from_flow
from wilkins.flow.trace import Event
from wilkins.launch.records.hosttraces import trace_of
from wilkins.plan import planfile

HOSTS = {"WILKINS_RSH": str(Path(__file__).parents[1] / "hosts" / "here")}
"""Every host is this machine."""

LIMIT = 120.0
"""Seconds that a workflow may take on a busy machine."""

COMMON = """
import json, os, sys, time
import h5py, numpy as np
case = json.load(open("case.json"))
def data(tag, number, key):
    size = case["sizes"][number % len(case["sizes"])]
    seed = [case["seed"], number, *tag.encode(), *key.encode()]
    return np.random.default_rng(seed).integers(0, 1 << 40, size)
"""

WRITE = (
    COMMON
    + """
tag = sys.argv[1]
open("run-folder", "w").write(os.environ["WILKINS_RUN"])
def write(file, operation, *rest):
    if operation == "number":
        file.attrs["tag"], file.attrs["number"] = tag, rest[0]
    elif operation == "part":
        number, key = rest
        how = {"chunks": True, "compression": "gzip"} if (number + len(key)) % 3 == 0 else {}
        file.create_dataset(key, data=data(tag, number, key), **how)
    elif operation == "frames":
        width = max(case["sizes"])
        file.create_dataset("x", shape=(0, width), maxshape=(None, width), dtype="i8", chunks=(1, width))
    elif operation == "frame":
        number, frame = rest
        line = data(tag, number, str(frame))
        file["x"].resize(frame + 1, axis=0)
        file["x"][frame, : len(line)] = line
    elif operation == "flush":
        file.flush()
    else:
        time.sleep(rest[0])
plan = case["producers"][tag]
for place, (name, mode, operations) in enumerate(plan):
    file = h5py.File(name, mode, libver=case["libver"])
    for operation in operations:
        write(file, *operation)
    if place + 1 < len(plan) or not case["left_open"]:
        file.close()
"""
)
"""``write.py TAG``: carries out the producer's plan, a list of (name, mode to open it in, what to do with it)."""

CHECK = """
def check(file):
    tag, number = file.attrs["tag"], int(file.attrs["number"])
    step = case["steps"][tag][number]
    if "frames" in step:
        right = set(file) == {"x"} and len(file["x"]) == len(step["frames"])
        for frame, written in enumerate(step["frames"] if right else ()):
            line, expected = file["x"][frame], data(tag, written, str(frame))
            right = right and (line[: len(expected)] == expected).all() and not line[len(expected) :].any()
    else:
        right = set(file) == set(step["parts"]) and all((file[key][()] == data(tag, number, key)).all() for key in file)
    return tag, number, bool(right)
"""

READ = (
    COMMON
    + CHECK
    + """
port, who = case["consumers"][sys.argv[1]], "-".join([sys.argv[1], sys.argv[2], os.environ.get("RANK", "0")])
os.makedirs("got", exist_ok=True)
got = open(f"got/{who}", "a")
relayed = 0
def read(name):
    global relayed
    told = []
    for again in range(port["opens"]):
        with h5py.File(name, port["mode"]) as file:
            told.append(check(file))
            assert file.attrs.get("changed_by", who) == who, (name, file.attrs["changed_by"])
            assert "changed_by" in file.attrs or again == 0 or not port["keeps_changes"], name
            if again == 0 and port["relays"]:
                with h5py.File(port["relays"].format(relayed), "w", libver=case["libver"]) as copy:
                    for key in file:
                        file.copy(key, copy)
                    copy.attrs.update(file.attrs)
                relayed += 1
            if port["mode"] == "r+":
                file.attrs["changed_by"] = who
        time.sleep(port["pause"] * (again + 1 == port["opens"]))
    assert told == told[:1] * len(told), told
    print(json.dumps(told[0]), file=got, flush=True)
def all_of(names):
    found = 0
    for name in names:
        try:
            read(name)
        except FileNotFoundError:
            if port["asks"] == "by number":
                continue
            # (Who fails after fewer than two steps of a name has failed: nothing tells that it loops.)
            sys.exit(0 if port["asks"] == "loop" or found < 2 else 3)
        found += 1
        if found == port["at_most"]:
            break
if port["asks"] == "names":
    from wilkins.transport import steps
    all_of(steps.names(port["pattern"]))
elif port["asks"] == "by number":
    all_of(port["names"])
else:
    all_of(iter(lambda: port["called"] or port["pattern"], None))
"""
)
"""``read.py CONSUMER INSTANCE``: notes each step it gets, and whether it is whole, in ``got/CONSUMER-INSTANCE-RANK``; a
relay writes it anew."""


@dataclass
class Consumer:
    """A task that reads, perhaps to hand on."""

    pattern: str
    flow: Any
    asks: str
    """``loop``: opens a fixed name until there is none. ``one``: opens it once, and is started again. ``names``: asks
    for the names. ``by number``: opens the names that it knows will be written, passing over those it does not get."""
    pause: float
    opens: int = 1
    mode: str = "r"
    at_most: int = 0
    instances: int = 1
    ranks: int = 1
    relays: str = ""
    names: list[str] = field(default_factory=list)
    called: str = ""
    """The name by which it calls all that it reads, if it has one of its own."""
    keeps_changes: bool = False
    """Does it change what it reads under names that stay those of these steps, so that it finds its changes there?"""

    @property
    def policy(self) -> FlowPolicy:
        """Of its channels."""
        return from_flow(self.flow)

    @property
    def stops_early(self) -> bool:
        """Does it end by itself?"""
        return self.at_most > 0

    @property
    def loses_changes(self) -> bool:
        """Does it change what it reads under a name that means the next step then?"""
        return self.mode == "r+" and not self.keeps_changes


@dataclass
class Case:
    """A workflow, and what is known of it beforehand."""

    seed: int
    publish: Any = "close"
    mode: str = "memory"
    libver: str = "earliest"
    sizes: list[int] = field(default_factory=list)
    """Numbers per dataset, by the number of the step."""
    left_open: bool = False
    """Does the producer end without closing its last file?"""
    pattern: str = "out.h5"
    faults: str = ""
    one_job: bool = False
    producers: dict[str, list[tuple[str, str, list[list[Any]]]]] = field(default_factory=dict)
    """What each does, by tag."""
    steps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What each must publish, by tag: the file's name, and its parts, or the numbers of the steps that its frames were
    written for."""
    consumers: dict[str, Consumer] = field(default_factory=dict)
    relay_mode: str = "memory"
    memory: int = 0
    """Most bytes that the producers' steps may take in shared memory; 0: no limit."""
    hosts: str = ""
    """Where it runs, as ``--hosts`` has it; empty: on this machine."""

    @property
    def ranks(self) -> int:
        """Of all tasks."""
        return len(self.producers) + sum(consumer.instances * consumer.ranks for consumer in self.consumers.values())


def make(seed: int) -> Case:
    """The workflow of a seed."""
    draw = random.Random(seed)
    case = Case(seed)
    case.publish = draw.choice(["close", "close", draw.randint(2, 3), "next", "flush", {"write": draw.randint(1, 3)}])
    if isinstance(case.publish, dict) and draw.random() < 0.5:
        case.publish["dset"] = "/x"
    case.mode = draw.choice(["memory", "memory", "both", "file"])
    case.libver = draw.choice(["earliest", "latest", "v110"])
    case.sizes = [draw.choice([1, 7, 1000, 9000, 40_000]) for _ in range(draw.randint(1, 3))]
    case.left_open = draw.random() < 0.15
    case.one_job = draw.random() < 0.1
    if draw.random() < 0.75:
        case.faults = f"seed={seed},delay=2ms,chance=0.2"
    instances = draw.choice([1, 1, 1, 2, 3])
    names = draw.choice(["fixed", "fixed", "numbered", "numbered", "again"])
    if names == "fixed" and instances > 1 and case.mode != "memory":
        names = "numbered"
    case.pattern = "out.h5" if names == "fixed" else "out-*.h5"
    again = draw.randint(1, 3) if names == "again" else 10**6
    files = draw.randint(2, 9 if instances == 1 else 5)
    for instance in range(instances):
        of_file = ["out.h5" if names == "fixed" else f"out-{instance}-{number % again}.h5" for number in range(files)]
        tag = f"sim{instance}"
        case.producers[tag], case.steps[tag] = _plan(case, of_file, draw)
    unique = names == "numbered" and not isinstance(case.publish, dict) and case.publish != "flush"
    if draw.random() < 0.2:
        most = max(len(step.get("parts", step.get("frames", ()))) for steps in case.steps.values() for step in steps)
        # Of the file being written, its snapshot and a step that is read, and what HDF5 adds.
        case.memory = 6 * instances * (most * max(case.sizes) * 8 + (1 << 17))
    for number in range(draw.choice([1, 1, 2, 3])):
        case.consumers[f"ana{number}"] = _named(_consumer(case, unique, draw), random.Random(f"{seed} {number}"))
    if draw.random() < 0.25:
        relay = _consumer(case, unique, draw, relays=True)
        relay.relays = draw.choice(["relay.h5", "relay-{}.h5"])
        if relay.policy.offset >= max(map(len, case.steps.values())):
            relay.flow = "all"  # it would get no step, and a task that never uses its out-port fails
        case.consumers["relay"] = relay
        case.relay_mode = draw.choice(["memory", "both", "file"])
        asks = draw.choice(["loop", "names"] if relay.relays == "relay.h5" else ["names"])
        pattern = relay.relays.replace("{}", "*")
        case.consumers["last"] = Consumer(pattern, _flow(draw), asks, draw.choice([0, 0.01]))
    _settle_changes(case, unique)
    return case


def make_between_hosts(seed: int) -> Case:
    """The workflow of a seed, on hosts: each task is on another one, or has its ranks there."""
    case = make(seed)
    case.one_job = False
    draw = random.Random(f"hosts {seed}")
    case.hosts = ",".join(f"h{number}:{draw.choice([1, 1, 2])}" for number in range(draw.randint(1, 5))) + ",last:64"
    return case


def _settle_changes(case: Case, unique: bool) -> None:
    """Of the programs that change what they read, leave those that may: one alone a file that is its own then.

    Under one name for all steps, each has a copy of its own, but for the last one's file on disk.
    """
    changed = False
    for consumer in case.consumers.values():
        under_one_name = "*" not in consumer.pattern or bool(consumer.called)
        if consumer.mode != "r+" or (under_one_name and case.mode == "memory"):
            continue
        alone = consumer.ranks == 1 and consumer.instances == 1 and not changed
        if unique and not under_one_name and alone:
            consumer.keeps_changes = changed = True
        else:
            consumer.mode = "r"


def _plan(case: Case, names: list[str], draw: random.Random) -> tuple[list[Any], list[dict[str, Any]]]:
    plan: list[Any] = []
    steps: list[dict[str, Any]] = []
    pause = draw.choice([0, 0, 0.005, 0.02])
    for name in names:
        if case.publish == "flush" or isinstance(case.publish, dict):
            frames: list[int] = []
            for session in range(draw.choice([1, 1, 2])):
                operations: list[list[Any]] = [] if session else [["frames"]]
                for group in reversed(range(draw.randint(1, 4))):
                    number = len(steps)
                    writes = draw.randint(1, 2) if case.publish == "flush" else case.publish["write"]
                    if group == 0:  # what is left at the close
                        writes = draw.randint(1, writes)
                    operations.append(["number", number])
                    for _ in range(writes):
                        operations.append(["frame", number, len(frames)])
                        frames.append(number)
                    if case.publish == "flush" and (group or draw.random() < 0.5):
                        operations.append(["flush"])
                    operations.append(["sleep", pause])
                    steps.append({"name": name, "frames": list(frames)})
                plan.append((name, "r+" if session else "w", operations))
        else:
            number = len(steps)
            closes = draw.randint(1, 3) if case.publish == "next" else 1 if case.publish == "close" else case.publish
            parts = [f"part{place}" for place in range(closes)]
            for place, key in enumerate(parts):
                operations = [["part", number, key], ["sleep", pause / closes]]
                plan.append((name, "r+" if place else "w", operations if place else [["number", number], *operations]))
            steps.append({"name": name, "parts": parts})
    return plan, steps


def _flow(draw: random.Random) -> Any:
    every = draw.randint(1, 3)
    full = {
        "every": every,
        "offset": draw.randrange(every),
        "queue": draw.randint(1, 4),
        "when_full": draw.choice(["block", "drop-oldest", "drop-newest"]),
    }
    return draw.choice(["all", "all", draw.randint(2, 4), "latest", {"some": draw.randint(1, 3)}, full, full])


def _consumer(case: Case, unique: bool, draw: random.Random, relays: bool = False) -> Consumer:
    fixed = "*" not in case.pattern
    asks = draw.choice(
        ["loop", "loop", "loop", "one", "names"] if fixed else ["names", "by number"] if unique else ["names"]
    )
    if asks == "one" and (relays or sum(map(len, case.steps.values())) > 8):
        asks = "loop"
    made = Consumer(case.pattern, _flow(draw), asks, draw.choice([0, 0, 0.005, 0.03]))
    if asks in ("loop", "one") and draw.random() < 0.2 and not relays:
        made.opens = 2
    elif asks in ("names", "by number") and draw.random() < 0.2 and not relays:
        made.opens = 2  # a name that is not rewritten may be opened again
    if draw.random() < 0.2:
        made.mode = "r+"
    if asks != "one" and not relays:
        if draw.random() < 0.1:
            made.at_most = draw.randint(2, 3)
        if draw.random() < 0.15:
            made.ranks = 2
        if asks != "by number" and draw.random() < 0.2:
            made.instances = 2
    if asks == "by number":
        streams = case.steps.values()
        made.names = [
            steps[number]["name"]
            for number in range(max(map(len, streams)))
            for steps in streams
            if number < len(steps)
        ]
    return made


def _named(made: Consumer, draw: random.Random) -> Consumer:
    """The consumer, perhaps with a name of its own for all that it reads."""
    if draw.random() < 0.3:
        made.called = draw.choice(["in.h5", "out-0-0.h5", "out.h5"])
        made.asks = "loop" if made.asks == "by number" or draw.random() < 0.5 else made.asks
    return made


def workflow(case: Case) -> dict[str, Any]:
    """As a workflow file says it."""
    outport: dict[str, Any] = {"filename": case.pattern, "publish": case.publish, "mode": case.mode}
    if case.memory:
        outport["memory"] = case.memory
    if case.seed % 3 == 0:
        outport["compress"] = [{"dset": "*"}]
    if case.seed % 5 < 2:
        outport["checked"] = True
    producer: dict[str, Any] = {"name": "sim", "func": "./write.py", "args": ["sim{instance}"], "outports": [outport]}
    tasks = [producer | {"taskCount": len(case.producers)}]
    for name, consumer in case.consumers.items():
        inport: dict[str, Any] = {"filename": consumer.pattern, "flow": consumer.flow}
        if consumer.asks in ("loop", "one") and consumer.opens > 1:
            inport["opens_per_step"] = consumer.opens
        if consumer.called:
            inport["as"] = consumer.called
        task: dict[str, Any] = {"name": name, "func": "./read.py", "args": [name, "{instance}"], "inports": [inport]}
        if consumer.relays:
            task["outports"] = [{"filename": consumer.relays.replace("{}", "*"), "mode": case.relay_mode}]
        if (
            consumer.stops_early
        ):  # also if it got one step of each producer, as a program that is meant to be started again
            task["rerun"] = "never"
            task["enough"] = True
        if consumer.ranks > 1:
            task["mpiexec"] = MPIEXEC
        tasks.append(task | {"taskCount": consumer.instances, "nprocs": consumer.ranks})
    return {"tasks": tasks}


def run(case: Case, folder: Path) -> Finished:
    """Run the workflow, with all its files in a folder."""
    write_program(folder / "write.py", WRITE)
    write_program(folder / "read.py", READ)
    (folder / "workflow.yaml").write_text(yaml.safe_dump(workflow(case), sort_keys=False))
    known = {**vars(case), "consumers": {name: vars(consumer) for name, consumer in case.consumers.items()}}
    (folder / "case.json").write_text(json.dumps(known))
    before = (MPIEXEC, "-n", str(case.ranks)) if case.one_job else ()
    env = faults(case.faults) if case.faults else {}
    hosts = ["--hosts", case.hosts] if case.hosts else []
    # Steps that a reader left which is to read them all would be told, and make the run fail; so do lost changes.
    return run_tree([*before, *WILKINS, "run", "--strict", *hosts, "workflow.yaml"], LIMIT, folder, env | HOSTS)


Step = tuple[str, int]
"""Tag of its producer, and its number there."""


def check(case: Case, folder: Path, finished: Finished) -> None:
    """Everything that must hold after a run."""
    lost = "changed steps where nobody can see it" in " ".join(finished.err.split())
    assert lost == _loses_changes(case, folder), f"{finished.out}\n{finished.err}"
    assert finished.code == int(lost), f"exit code {finished.code}\n{finished.out}\n{finished.err}"
    assert "did not read" not in finished.err, finished.err
    assert "Traceback" not in finished.err + finished.out, f"{finished.out}\n{finished.err}"
    assert not processes_in(folder)
    assert not Path((folder / "run-folder").read_text()).exists()
    hidden = [str(path) for path in folder.rglob(".wilkins-*")]
    assert not hidden, hidden
    latest = folder / "wilkins-runs" / "latest"
    events = trace_of(latest, planfile.loads((latest / "plan.json").read_text()))
    _check_published(case, events)
    graph = wilkins.compile(folder / "workflow.yaml")
    relayed: list[Step] = []
    for name, consumer in sorted(case.consumers.items(), key=lambda item: item[0] == "last"):
        for instance in range(consumer.instances):
            got = [_got(folder, f"{name}-{instance}-{rank}") for rank in range(consumer.ranks)]
            assert all(read == got[0] for read in got) or consumer.stops_early, f"the ranks of {name} got {got}"
            node = name if consumer.instances == 1 else f"{name}[{instance}]"
            if name == "last":
                streams = [relayed]
            else:
                writers = {str(source) for source, _ in graph.in_edges(node)}
                streams = [
                    [(tag, number) for number in range(len(steps))]
                    for place, (tag, steps) in enumerate(case.steps.items())
                    if (f"sim[{place}]" if len(case.steps) > 1 else "sim") in writers
                ]
            assert streams, f"{node} is joined to nobody"
            for read in got:
                _check_read(node, consumer, streams, read)
            relayed = got[0] if name == "relay" else relayed
            # Where a relay had taken a step before it was opened on another host, no event tells.
            told = not (case.hosts and consumer.policy.drops)
            if told and not consumer.stops_early and (len(case.producers) == 1 or "*" in consumer.pattern):
                source_pattern = consumer.pattern
                for writer in {str(source) for source, _ in graph.in_edges(node)}:
                    _replay(events, writer, node, source_pattern, consumer)
    _check_disk(case, folder, relayed)


def _loses_changes(case: Case, folder: Path) -> bool:
    """Has a program read a step, and changed it where nobody can see that?"""
    changers = [name for name, consumer in case.consumers.items() if consumer.loses_changes]
    return any(path.read_text() for name in changers for path in (folder / "got").glob(f"{name}-*"))


def _check_published(case: Case, events: list[Event]) -> None:
    for place, (tag, steps) in enumerate(case.steps.items()):
        task = f"sim[{place}]" if len(case.steps) > 1 else "sim"
        published = [
            (event.sequence, event.name) for event in events if event.event == "publish" and event.task == task
        ]
        assert published == list(enumerate(step["name"] for step in steps)), f"{tag} published {published}"


def _got(folder: Path, who: str) -> list[Step]:
    path = folder / "got" / who
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    assert all(right for _, _, right in found), f"{who} read a step that is not whole: {found}"
    return [(tag, number) for tag, number, _ in found]


def _check_read(node: str, consumer: Consumer, streams: list[list[Step]], read: list[Step]) -> None:
    """What one rank got, against what the policy promises."""
    policy, told = consumer.policy, f"{node} ({consumer.policy}) got {read} of {streams}"
    assert set(read) <= {step for stream in streams for step in stream}, told
    for stream in streams:
        kept = stream[policy.offset :: policy.every]
        got = [step for step in read if step in set(stream)]
        assert [step for step in kept if step in set(got)] == got, f"order, or a step twice: {told}"
        if consumer.stops_early:
            continue
        if policy.when_full == "block":
            assert got == kept, f"a step is lost: {told}"
        elif policy.when_full == "drop-oldest":
            assert got[-policy.queue :] == kept[-policy.queue :], f"one of the newest is lost: {told}"
        else:
            assert got[: policy.queue] == kept[: policy.queue], f"one of the oldest is lost: {told}"
    if consumer.stops_early:
        assert len(read) <= consumer.at_most, told
        if policy.when_full == "block":
            wanted = sum(len(stream[policy.offset :: policy.every]) for stream in streams)
            assert len(read) == min(consumer.at_most, wanted), told


def _replay(events: list[Event], writer: str, reader: str, pattern: str, consumer: Consumer) -> None:
    """What happened on a channel must be what the reference machine does."""
    policy = consumer.policy
    queue = ChannelQueue(policy, consumer.ranks)
    names = {event.name for event in events if event.event == "publish" and event.task == writer}
    opened: set[tuple[int, int]] = set()
    asked: list[str] = []
    for event in events:
        if event.pattern != pattern or event.name not in names:
            continue
        if event.event == "publish" and event.task == writer:
            said = queue.publish()
            if isinstance(said, Skipped):
                asked.append(f"{'drop' if said.step % policy.every == policy.offset else 'skip'} {said.step}")
            elif isinstance(said, Kept) and said.dropped is not None:
                asked.append(f"drop {said.dropped}")
        elif event.task == reader and event.event in ("skip", "drop"):
            asked.append(f"said {event.event} {event.sequence}")
        elif event.task == reader and event.event == "open" and (event.rank, event.sequence) not in opened:
            opened.add((event.rank, event.sequence))
            said_open = queue.open(event.rank)
            assert said_open == Opened(event.sequence), f"{reader} opened {event.sequence} where {said_open} was due"
    machine = [words for words in asked if not words.startswith("said")]
    layer = [words.removeprefix("said ") for words in asked if words.startswith("said")]
    assert machine == layer, f"{writer} -> {reader}: the machine {machine}, the layer {layer}"


def _check_disk(case: Case, folder: Path, relayed: list[Step]) -> None:
    """The files are those, with the content, that the programs alone would have left."""
    expected: dict[str, Step] = {}
    if case.mode != "memory":
        expected |= {
            step["name"]: (tag, number) for tag, steps in case.steps.items() for number, step in enumerate(steps)
        }
    changers = {name for name, consumer in case.consumers.items() if consumer.keeps_changes}
    changed = {case.steps[tag][k]["name"]: (tag, k) for name in changers for tag, k in _got(folder, f"{name}-0-0")}
    expected |= changed
    relay = case.consumers.get("relay")
    if relay and case.relay_mode != "memory":
        expected |= {relay.relays.format(number): step for number, step in enumerate(relayed)}
    assert sorted(expected) == sorted(path.name for path in folder.glob("*.h5"))
    if not expected:
        return
    program = write_program(folder / "look.py", COMMON + CHECK + LOOK)
    told = run_tree([*PYTHON, program], LIMIT, folder)
    assert told.code == 0, told.err
    assert dict(_lines(told.out, changed)) == expected


LOOK = """
from pathlib import Path
for name in sorted(str(path) for path in Path().glob("*.h5")):
    with h5py.File(name) as file:
        print(json.dumps([name, *check(file), "changed_by" in file.attrs]))
"""
PYTHON = WILKINS[:1]


def _lines(text: str, changed: dict[str, Step]) -> Iterator[tuple[str, Step]]:
    for line in text.splitlines():
        name, tag, number, right, was_changed = json.loads(line)
        assert was_changed == (name in changed), f"on the disk, {name} is {'' if was_changed else 'not '}changed"
        assert right, f"on the disk, {name} is not whole"
        yield name, (tag, number)
