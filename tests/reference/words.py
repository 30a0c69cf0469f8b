"""The step store's reference machine, driven by words: `cases.json` holds cases of its rules in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference.circles import Divided, Filled, LetGo, Relief, Settled, Stretched, relieve
from reference.records import Answer, Channel, InPort, Listed, Missing, Opened, OutPort, Process, Published, Seen
from reference.store import Store

from wilkins.flow import FlowPolicy
from wilkins.flow.machine import Go, Wait

TABLE = Path(__file__).with_name("cases.json")


@dataclass(frozen=True, slots=True)
class StoreCase:
    """Events, and what a machine must answer to each.

    =====================  ============================================================================
    ``T.R create NAME``    by rank R of task T: ``go`` or ``wait``
    ``T.R publish NAME``   ``kept N`` (on some channel), ``kept N, dropped M`` or ``skipped N``
    ``T.R open NAME``      ``opened N``, ``wait``, ``missing: passed`` or ``missing: ended``
    ``T.R look NAME``      ``there N``, ``wait``, or ``missing: now`` and as for open
    ``T.R list PORT``      the names with commas between, or ``wait``
    ``T.R close NAME N``   ``-``: the n-th step of the name's source
    ``T.R retry``          by one that waits: as the call that it made
    ``T.R relieve``        by one that waits: ``-``, ``stretched to N``, ``divided``, ``missing: circle``,
                           ``let go N``, ``filled:`` and who sees which steps, or ``stopped``
    ``T.R rest``           it sleeps until another one of its rank wakes it, or another rank of its task;
    ``T.R wake``           and does so no more
    ``T.R fork K``         process K of the rank begins, as a child of this one; its calls are those of ``T.R.K``
    ``T.R write NAME``     ``-``: to a file that it has open;
    ``T.R flush NAME``     and HDF5 flushes that
    ``T.R keep NAME N``    ``-``: it sees the n-th step of the name's source, also when it has closed it;
    ``T.R forget NAME N``  and does so no more
    ``T.R exit END``       by ``return``, ``_exit`` or ``signal``: the numbers of the steps that it has left, or ``-``
    ``restart T``          ``-``
    ``start T N``          for the next step of in-port N: its name
    ``end T``              ``-``; ``end T failed``
    =====================  ============================================================================
    """

    name: str
    setup: dict[str, Any]
    """Ranks of each task, out-ports, in-ports and channels, by their fields."""
    events: tuple[tuple[str, str], ...]


def store_table() -> list[StoreCase]:
    """The cases of the table."""
    lines = json.loads(TABLE.read_text(encoding="utf-8"))
    return [StoreCase(line["name"], line["setup"], tuple(map(tuple, line["events"]))) for line in lines]


class ReferenceStore:
    """`reference.store` and `reference.circles`."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.store = Store(
            setup["tasks"],
            [OutPort(**port) for port in setup["outports"]],
            [InPort(**port) for port in setup["inports"]],
            [Channel(one["outport"], one["inport"], FlowPolicy(*one.get("policy", ()))) for one in setup["channels"]],
        )

    def do(self, event: str) -> str:
        """Let something happen."""
        first, *words = event.split()
        if first in ("end", "restart"):
            if first == "end":
                self.store.end(int(words[0]), failed=words[1:] == ["failed"])
            else:
                self.store.restart(int(words[0]))
            return "-"
        if first == "start":
            step = self.store.start_for(*map(int, words))
            return step.name if step else "-"
        who = Process(*map(int, first.split(".")))
        match words:
            case ["create" | "open" | "look" as call, name]:
                answer: Answer = getattr(self.store, call)(who, name)
                return _told(answer)
            case ["publish", name]:
                return _published(self.store.publish(who, name))
            case ["list", port]:
                return _told(self.store.list_steps(who, int(port)))
            case ["close" | "keep" | "forget" as call, name, number]:
                getattr(self.store, call)(who, self._step(name, int(number)))
                return "-"
            case ["write" | "flush" as call, name]:
                getattr(self.store, call)(who, name)
                return "-"
            case ["retry"]:
                return _told(self.store.retry(who))
            case ["relieve"]:
                return _relief(relieve(self.store, who))
            case ["rest" | "wake" as call]:
                getattr(self.store, call)(who)
                return "-"
            case ["fork", number]:
                self.store.fork(Process(who.task, who.rank, int(number)), who)
                return "-"
            case ["exit", "return" | "_exit" | "signal" as end]:
                return ", ".join(str(one.step.sequence) for one in self.store.exit(who, end)) or "-"
        raise ValueError(event)

    def _step(self, name: str, number: int) -> Any:
        steps = [slot.step for source in self.store.sources for slot in source.slots]
        return next(step for step in steps if step.name == name and step.sequence == number)


def _published(published: Published | None) -> str:
    if published is None:
        return "-"
    number = published.step.sequence
    dropped = "".join(f", dropped {step.sequence}" for _, step in published.dropped)
    return f"kept {number}{dropped}" if published.kept else f"skipped {number}"


def _told(answer: Answer) -> str:
    match answer:
        case Go():
            return "go"
        case Wait():
            return "wait"
        case Opened(step):
            return f"opened {step.sequence}"
        case Seen(step):
            return f"there {step.sequence}"
        case Listed(names):
            return ", ".join(names)
        case Missing(why):
            return f"missing: {why}"
    raise TypeError(answer)


def _relief(relief: Relief | None) -> str:
    match relief:
        case None:
            return "-"
        case Stretched(_, bound):
            return f"stretched to {bound}"
        case Settled():
            return "settled"
        case Divided():
            return "divided"
        case LetGo(_, step):
            return f"let go {step.sequence}"
        case Missing() | Listed():
            return _told(relief)
        case Filled(_, views):
            return "filled: " + ", ".join(f"{who.task}.{who.rank} sees {step.sequence}" for who, step in views)
    return "stopped"
