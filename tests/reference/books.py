"""The books that a run of random habits keeps, and what they must say."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from reference.circles import Filled, LetGo, Relief
from reference.programs import MORE, RESTS, WORKERS, Broken, Got, Program
from reference.records import Channel, InPort, Listed, Missing, Opened, OutPort, Process, Published, Seen, Step
from reference.scenarios import LEFT_OPEN, Scenario
from reference.store import Store

from wilkins.flow.machine import SPARE_STEPS


@dataclass
class Written:
    """A file that is begun."""

    of: tuple[int, int]
    """The rank that writes it."""
    name: str
    openers: dict[Process, bool]
    """Who has it open, and whether it has written to it."""
    begun_by: Process
    flushed: bool = False
    closed: bool = False
    """By who began it."""


@dataclass
class Passed:
    """A file that a stage has opened, and not passed on."""

    openers: list[Process]
    last: Process
    """Who has opened it last."""


class Books:
    """What the programs of a scenario have done, and what a machine has answered."""

    def __init__(self, scenario: Scenario, machine: type[Store]) -> None:
        self.scenario = scenario
        producers = len(scenario.files)
        self.reader, self.other = producers, producers + 1 if scenario.second != "none" else -1
        self.stages = dict(enumerate(scenario.stages, producers + 1))
        self.store = store = machine(*self.layout())
        self.programs: dict[Process, Program] = {}
        self.calls: dict[Process, tuple[Any, ...]] = {}
        self.got: dict[tuple[int, int], Got] = {
            (task, rank): [] for task, n in enumerate(store.tasks) for rank in range(n)
        }
        self.told: list[tuple[Process, Relief]] = []
        self.idle = 0
        """How often nothing moved but those that poll, since a step was published or opened, or a channel gave way."""
        self.polled = False
        """The reader was ended, since it did nothing but poll."""
        self.children = 0
        self.filled = False
        """The run was ended for want of memory."""
        self.noted = 0
        self.published: list[Step] = []
        self.away: dict[tuple[int, Step], str] = {}
        """What became of steps that a channel did not keep."""
        self.offered: dict[tuple[int, int], int] = {}
        self.had: list[dict[int, list[Step]]] = [{rank: [] for rank in range(port.readers)} for port in store.inports]
        self.gone: list[set[Step]] = [set() for _ in store.inports]
        self.passed: dict[tuple[int, str], set[int]] = {}
        """Ranks that were told that a name of an in-port is gone."""
        self.writing: list[Written] = []
        """Files that are begun, and no steps yet."""
        self.passing: dict[tuple[int, str], Passed] = {}
        """Files that stages have opened, in that order, by task and name."""
        self.failed: set[int] = set()
        self.views: dict[Process, list[Step]] = {}
        """Steps that processes have open, or can see."""

    def layout(self) -> tuple[list[int], list[OutPort], list[InPort], list[Channel]]:
        """Ranks of the tasks, their ports, and what joins these. Readers take the files of the last stage."""
        scenario, producers = self.scenario, self.reader
        outports = [
            OutPort(task, pattern, scenario.retained, scenario.memory, scenario.raw)
            for task in range(producers)
            for pattern in scenario.patterns
        ]
        inports = [
            InPort(self.reader, pattern, scenario.readers, scenario.reorder, scenario.looks)
            for pattern in scenario.inports
        ]
        tasks = [*map(len, scenario.files), scenario.readers]
        channels: list[Channel] = []
        nearest = range(len(outports))
        for task, stage in self.stages.items():
            tasks.append(stage.ranks)
            first = len(inports)
            inports += [InPort(task, pattern, stage.ranks, scenario.reorder) for pattern in scenario.patterns]
            channels += [Channel(out, first + scenario.patterns.index(outports[out].pattern)) for out in nearest]
            nearest = range(len(outports), len(outports) + len(scenario.patterns))
            outports += [OutPort(task, pattern, scenario.retained, scenario.memory) for pattern in scenario.patterns]
        channels += [
            Channel(out, into, scenario.policy)
            for out in nearest
            for into in range(len(scenario.inports))
            if inports[into].pattern in ("*", outports[out].pattern)
        ]
        if scenario.second != "none":
            tasks.append(1)
            inports += [InPort(self.other, pattern, 1, scenario.reorder) for pattern in scenario.patterns]
            channels += [
                Channel(out, len(scenario.inports) + scenario.patterns.index(port.pattern))
                for out, port in enumerate(outports)
            ]
        if scenario.second == "after":
            outports.append(OutPort(self.reader, "made-*", scenario.retained))
            inports.append(InPort(self.other, "made-*"))
            channels.append(Channel(len(outports) - 1, len(inports) - 1))
        return tasks, outports, inports, channels

    def made(self) -> int:
        """How many files the reader makes."""
        return len(self.scenario.names()[0])

    # Books.

    def note_view(self, who: Process, kind: str, step: Step) -> None:
        views = self.views.setdefault(who, [])
        if kind == "keep":
            views.append(step)
        elif step in views:
            views.remove(step)
        else:
            self.passing[who.task, step.name].openers.remove(who)

    def note_written(self, who: Process, kind: str, name: str) -> None:
        file = next(one for one in self.writing if one.name == name and who in one.openers)
        if kind == "publish":
            del file.openers[who]
            file.closed |= who == file.begun_by
        else:
            file.flushed = kind == "flush"
            file.openers[who] = True

    def note_published(self, published: Published) -> None:
        step = published.step
        self.idle = 0
        if step.sequence != sum(one[:2] == step[:2] for one in self.published):
            raise Broken(f"{step} is not the next one")
        self.published.append(step)
        for index, channel in enumerate(self.store.channels):
            if channel.outport != step.outport or not fnmatchcase(
                step.name, self.store.inports[channel.inport].pattern
            ):
                continue
            before = self.offered.get((index, step.rank), 0)
            self.offered[index, step.rank] = before + 1
            policy = channel.policy
            if index not in published.kept:
                self.away[index, step] = "dropped" if policy.keeps(before) else "skipped"
                if policy.keeps(before) and policy.when_full != "drop-newest":
                    raise Broken(f"{step} is not kept")
            elif not policy.keeps(before):
                raise Broken(f"{step} is kept")
            unread = [one for one in self.kept(index) if one[:2] == step[:2] and not self.was_had(channel.inport, one)]
            bound = self.store.limit(index) if policy.when_full == "block" else policy.queue + 1 + SPARE_STEPS
            bound = max(bound, policy.queue) + (LEFT_OPEN if self.scenario.leaves_open else 0)
            if stage := self.stages.get(self.store.outports[step.outport].task):
                # Its processes may each have some to pass on; a rank behind another one, all that this has copied.
                bound += 2 * WORKERS if policy.every == 1 and stage.spread != "all" else SPARE_STEPS
            if len(unread) > bound and self.store.inports[channel.inport].task not in self.store.ended:
                raise Broken(f"{len(unread)} steps wait on channel {index}")
        for index, step in published.dropped:
            self.away[index, step] = "dropped"

    def kept(self, channel: int) -> list[Step]:
        """Steps that the channel took and has not given up."""
        outport = self.store.channels[channel].outport
        pattern = self.store.inports[self.store.channels[channel].inport].pattern
        steps = [step for step in self.published if step.outport == outport and fnmatchcase(step.name, pattern)]
        return [step for step in steps if (channel, step) not in self.away]

    def was_had(self, inport: int, step: Step) -> bool:
        return step in self.gone[inport] or any(step in steps for steps in self.had[inport].values())

    def channel(self, inport: int, step: Step) -> int:
        return next(
            index
            for index, channel in enumerate(self.store.channels)
            if channel.inport == inport and channel.outport == step.outport
        )

    def inport(self, who: Process, name: str) -> int:
        return next(
            k for k, port in enumerate(self.store.inports) if port.task == who.task and fnmatchcase(name, port.pattern)
        )

    # Rules.

    def note_taken(self, who: Process, inport: int, step: Step) -> None:
        """A process of a stage has opened a step: the first to do so makes it a file of the stage's."""
        key = who.task, step.name
        if key in self.passing:
            self.passing[key].openers.append(who)
            self.passing[key].last = who
        elif self.store.outports[step.outport].task == who.task:  # It was passed on, and is read again.
            self.views.setdefault(who, []).append(step)
        else:
            self.check_step(inport, who.rank, step.name, step)
            if self.was_had(inport, step):
                raise Broken(f"stage {who.task} is given {step} twice")
            for steps in self.had[inport].values():
                steps.append(step)
            self.passing[key] = Passed([who], who)

    def check_files(self, turned: Process | None = None) -> None:
        """What was published is what nobody writes any more; of a stage, what those have had that turn to another file
        or end. All of that was."""
        news = self.store.published[self.noted :]
        self.noted = len(self.store.published)
        placed = {key: place for place, key in enumerate(self.passing)}
        places: list[tuple[Process, int]] = []
        for published in news:
            step = published.step
            task = self.store.outports[step.outport].task
            if task in self.stages:
                copy = self.passing.pop((task, step.name), None)
                if copy is None or copy.openers or task in self.failed:
                    raise Broken(f"{step} is passed on twice, or while it is open, or by a stage that has failed")
                if copy.last in self.programs and copy.last != turned:
                    raise Broken(f"{step} is passed on before {copy.last} is done with it")
                places.append((copy.last, placed[task, step.name]))
            else:
                named = [one for one in self.writing if one.of == (task, step.rank) and one.name == step.name]
                file = next((one for one in named if not self.is_held(one)), None)
                if file is None:
                    raise Broken(f"{step} is published, and is torn or still open")
                self.writing.remove(file)
            self.note_published(published)
        if places != sorted(places, key=lambda one: one[1]) and len({who for who, _ in places}) == 1:
            raise Broken(f"{news} are not passed on in the order in which they were opened")
        if turned and (left := [k for k, one in self.passing.items() if one.last == turned and not one.openers]):
            raise Broken(f"{turned} goes on, and {left} is not passed on")
        if done := [file for file in self.writing if not self.is_held(file)]:
            raise Broken(f"{done} is not published")

    def check_torn(self) -> None:
        """Nothing is left of files whose writers have ended."""
        begun = {(*source.rank, file.name) for source in self.store.sources for file in source.writing}
        known = {(*file.of, file.name) for file in self.writing}
        known.update((task, rank, name) for task, name in self.passing for rank in (0, 1))
        if torn := begun - known:
            raise Broken(f"{torn} is left of processes that have ended")

    def is_held(self, file: Written) -> bool:
        """Whether somebody writes the file, or may yet."""
        return any(wrote or self.calls[who][0] not in RESTS for who, wrote in file.openers.items())

    def seen(self) -> set[Step]:
        """What programs have open, or can see."""
        return {step for steps in self.views.values() for step in steps}

    def check_memory(self) -> None:
        """What a program can see is there, and no port takes more memory than it has."""
        seen = self.seen()
        if gone := [step for step in seen if not self.store.slot(step).there]:
            raise Broken(f"{gone} can be seen, and the memory is that of other steps")
        if self.scenario.memory is None:
            return
        for outport, port in enumerate(self.store.outports):
            begun = [(file.of[0], file.name) for file in self.writing] + list(self.passing)
            begun = [one for one in begun if one[0] == port.task and fnmatchcase(one[1], port.pattern)]
            if port.memory and len(begun) + sum(step.outport == outport for step in seen) > port.memory:
                raise Broken(f"port {outport} takes more memory than it has")

    def check_filled(self, filled: Filled) -> None:
        """The run may end: the memory is full of what is needed, or seen by those that wait."""
        seen = {step for step in self.seen() if step.outport == filled.outport}
        if self.scenario.fits() or not seen.issuperset(step for _, step in filled.views) or not filled.views:
            raise Broken(f"{filled}, and they see {seen}")
        for who, step in filled.views:
            if step not in self.views.get(who, ()):
                raise Broken(f"{who} does not see {step}")
            if who not in self.store.waits and self.calls[who][0] not in RESTS:
                raise Broken(f"{who} may yet be done with {step}")
        for source in self.store.sources:
            for slot in source.present if source.outport == filled.outport else ():
                if slot.step not in seen and not self.is_wanted(slot.step):
                    raise Broken(f"{slot.step} takes memory, and nobody needs it")

    def is_wanted(self, step: Step) -> bool:
        """Whether some rank has not had the step, and a channel has it."""
        return any(
            channel.outport == step.outport
            and fnmatchcase(step.name, self.store.inports[channel.inport].pattern)
            and (index, step) not in self.away
            and any(step not in had for had in self.had[channel.inport].values())
            for index, channel in enumerate(self.store.channels)
        )

    def check_answer(self, who: Process, answer: Any) -> None:
        """The answer is right, by what was published, had and told so far."""
        kind, what = self.calls[who][0], (*self.calls[who], None)[1]
        if kind == "create":
            self.writing.append(Written(who.of, what, {who: True}, who))
        if kind not in ("open", "look", "list"):
            return
        inport = what if kind == "list" else self.inport(who, what)
        if isinstance(answer, Opened):
            self.idle = 0
            if who.task in self.stages:
                self.note_taken(who, inport, answer.step)
                return
            self.check_step(inport, who.rank, what, answer.step)
            self.had[inport][who.rank].append(answer.step)
            self.views.setdefault(who, []).append(answer.step)
        elif isinstance(answer, Seen):
            if answer.step.name != what or answer.step not in self.published:
                raise Broken(f"{who} looks at {what} and sees {answer.step}")
        elif isinstance(answer, Missing):
            self.check_missing(inport, who, what, answer)
        elif isinstance(answer, Listed):
            for step in answer.steps:
                if step in self.gone[inport] or step not in self.published:
                    raise Broken(f"{who} is shown {step}")

    def check_step(self, inport: int, rank: int, name: str, step: Step) -> None:
        """A rank may be given the step for this name."""
        had = self.had[inport][rank]
        if step.name != name or step not in self.published:
            raise Broken(f"rank {rank} opens {name} and gets {step}")
        if step in self.gone[inport]:
            raise Broken(f"{step} was had before its task was started again")
        if self.away.get((self.channel(inport, step), step)) and not self.was_had(inport, step):
            raise Broken(f"{step} was {self.away[self.channel(inport, step), step]}, and is given")
        named = [one for one in self.published if one[:2] == step[:2] and one.name == name]
        if step in had:
            if len(named) > 1 and not self.told_alike(inport, rank, step):
                raise Broken(f"{step} is given twice, and its name was published anew")
            return
        kept = [one for one in named if (self.channel(inport, one), one) not in self.away]
        before = [one for one in kept if one.sequence < step.sequence and not self.was_had(inport, one)]
        if before:
            raise Broken(f"{step} is given before {before[0]}")

    def told_alike(self, inport: int, rank: int, step: Step) -> bool:
        """Another rank was given it so, in calls that were the same."""
        return any(other != rank and steps.count(step) > 1 for other, steps in self.had[inport].items())

    def check_missing(self, inport: int, who: Process, name: str, missing: Missing) -> None:
        """The rank may be told that there is no such file."""
        kind = self.calls[who][0]
        may_come = any(
            self.store.outports[channel.outport].task not in self.store.ended
            for channel in self.store.channels
            if channel.inport == inport
        )
        if missing.why == "now":
            drops = self.scenario.policy.when_full != "block"
            if kind == "open" or not (self.store.inports[inport].looks == "now" or drops):
                raise Broken(f"{who} is told at once that there is no {name}")
            return
        if missing.why == "circle":
            if kind == "open":
                raise Broken(f"{who} is told of a circle")
            return
        if missing.why == "ended" and may_come:
            raise Broken(f"{who} is told that no {name} will come")
        linked = {channel.outport for channel in self.store.channels if channel.inport == inport}
        steps = [step for step in self.published if step.name == name and step.outport in linked]
        if missing.why == "passed" and not steps:
            raise Broken(f"{who} is told that {name} was there")
        self.passed.setdefault((inport, name), set()).add(who.rank)
        if missing.why == "passed" and self.passed[inport, name] != {who.rank}:
            return  # Ranks that make the same calls are answered alike.
        had = self.had[inport][who.rank]
        order = {step: place for place, step in enumerate(self.published)}
        for step in steps:
            told = self.away.get((self.channel(inport, step), step))
            if told or step in had or step in self.gone[inport]:
                continue
            later = any(order[one] > order[step] for one in had)
            if not (self.was_had(inport, step) and later):
                raise Broken(f"{who} does not get {step}, of which nobody was told ({missing.why})")

    def check_wait(self, who: Process) -> None:
        """Nobody waits for a file that is gone, of a source of which the rank has had nothing."""
        kind, name = self.calls[who]
        if kind not in ("open", "look") or not self.scenario.distinct():
            return
        inport = self.inport(who, name)
        linked = {channel.outport for channel in self.store.channels if channel.inport == inport}
        for step in self.published:
            if step.outport not in linked:
                continue
            read = any(one[:2] == step[:2] for one in [*self.had[inport][who.rank], *self.gone[inport]])
            if step.name == name and not read and (self.channel(inport, step), step) in self.away:
                raise Broken(f"{who} waits for {step}, which is gone")

    def check_let_go(self, relief: LetGo) -> None:
        """A step may be let go from a channel that is stretched to its end."""
        if self.store.bound(relief.channel) < self.store.limit(relief.channel) and self.scenario.memory is None:
            raise Broken(f"{relief.step} is let go before the channel is stretched")
        if self.away.get((relief.channel, relief.step)):
            raise Broken(f"{relief.step} is let go twice")
        for key, copy in self.passing.items():
            if copy.last not in self.programs and any(who.of == copy.last.of for who, _ in relief.waits):
                raise Broken(f"{relief.step} is let go, and {key} of one that is over is not passed on")

    def check_end(self) -> None:
        """Nothing is lost, doubled or wrong that the account does not tell."""
        for index, channel in enumerate(self.store.channels):
            pattern = self.store.inports[channel.inport].pattern
            offered = [
                step for step in self.published if step.outport == channel.outport and fnmatchcase(step.name, pattern)
            ]
            had = [step for step in offered if self.was_had(channel.inport, step)]
            fates = [self.away.get((index, step), "kept") for step in offered if step not in had]
            books = [len(offered), len(had), *(fates.count(fate) for fate in ("skipped", "dropped", "let go", "kept"))]
            if list(self.store.account(index)) != books:
                raise Broken(f"the account of channel {index} is {self.store.account(index)}, not {books}")
        written = sum(map(len, self.scenario.sources())) + self.made() * (self.scenario.second == "after")
        if sum(self.store.outports[step.outport].task not in self.stages for step in self.published) != written:
            raise Broken("a file was not published")
        if self.stages and self.scenario.passes_all():
            for rank, names in enumerate(self.scenario.names()):
                if {name for name, step in self.got[self.reader, rank] if step} != set(names):
                    raise Broken(f"behind stages, rank {rank} has read {self.got[self.reader, rank]}")
        if self.scenario.is_exact():
            self.check_exact()

    def check_exact(self) -> None:
        """Each rank has read what it would read of files."""
        for _, relief in self.told:
            if isinstance(relief, LetGo):
                raise Broken(f"{relief}: the reader is within its window")
        if self.scenario.habit == "more":
            if not self.polled or any(self.got[self.reader, rank] for rank in range(self.scenario.readers)):
                raise Broken(f"it is not ended while polling, and has read {self.got}")
            return
        if self.scenario.habit in ("list", "each step"):
            expected = sorted({name for _, name in self.scenario.written()})
            for rank in range(self.scenario.readers):
                if sorted(name for name, _ in self.got[self.reader, rank]) != expected:
                    raise Broken(f"rank {rank} has read {self.got[self.reader, rank]}")
            return
        times = {"again": 2, "twice": 2, "two passes": 2}.get(self.scenario.habit, 1)
        for (task, rank), got in self.got.items():
            if task == self.reader and self.scenario.distinct():
                names = sorted(self.scenario.names()[rank] * times)
                if sorted(name for name, step in got if step or name == MORE) != names:
                    raise Broken(f"rank {rank} has read {got}")
            elif task == self.reader:
                for name in {name for name, _ in got}:
                    numbers = [step.sequence if step else None for asked, step in got if asked == name]
                    steps = [step.sequence for step in self.published if step.name == name]
                    if numbers != steps:
                        raise Broken(f"rank {rank} has read {numbers} of {name}, not {steps}")
            elif task == self.other and any(step is None for _, step in got) and self.scenario.distinct():
                raise Broken(f"the second reader has read {got}")
