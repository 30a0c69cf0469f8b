"""Pieces on unequal hosts: how much codes that are chosen per item store, beside fixed ones. A simulation, after D-Rex.

The hosts are those of D-Rex (Gonthier et al., arXiv 2506.02026): the ten models of disks that Backblaze uses most, and
the ten that fail most. The sizes of items have the shapes of the paper's traces: of MEVA and SWIM (Facebook) by the
quantiles of the traces in the paper's repository, of Sentinel-2 and IBM COS as log-normal, with the mean size of what
the paper's runs stored. Rooms are 1/250 of a disk's, and items are as large as they are: the paper stores MEVA 250
times.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Storage
from wilkins.tasks.checkpoint.archive.archive import Archive, Held, opened
from wilkins.tasks.checkpoint.archive.repairing import repair
from wilkins.tasks.checkpoint.placement.choice import Chooser, Fixed
from wilkins.tasks.checkpoint.placement.places import Place

TB, MB, NAN = 1e12, 1e6, float("nan")
SCALE = 250
MIXED = -1.0
"""Instead of a reliability: each item has its own, as in most of the paper's runs: after 0 to 5 nines at random."""
_MOST_USED = (
    (14, 281, 406, 1.35), (16, 209, 220, 0.80), (14, 208, 202, 0.97), (12, 197, 204, 1.18), (12, 193, 204, 1.80),
    (12, 190, 189, 0.64), (16, 168, 170, 0.31), (8, 164, 170, 1.84), (4, 112, 133, 2.60), (12, 110, 112, 0.90),
)  # fmt: skip
_MOST_FAILING = (
    (14, 223, 226, 14.64), (18, 214, 221, 3.58), (12, 193, 204, 1.80), (10, 184, 194, 2.42), (8, 183, 181, 5.66),
    (12, 175, 171, 2.31), (12, 166, 171, 2.11), (8, 160, 160, 5.38), (14, 125, 116, 24.29), (4, 112, 133, 2.60),
)  # fmt: skip
HOSTS = {"most-used": _MOST_USED, "most-failing": _MOST_FAILING}
"""TB, MB/s written, MB/s read, failures per year in percent."""
QUANTILES: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "MEVA": ((0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1), (1.4, 1.8, 2.2, 76.6, 123.3, 158, 220, 270, 856)),
    "SWIM": (
        (0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1),
        (1e-6, 1e-4, 0.0095, 2.3, 381, 53_330, 352_011, 5_329_472),
    ),
}
"""Megabytes at which shares of the items are smaller."""
LOG_NORMAL = {"Sentinel-2": (478.0, 0.8), "IBM COS": (2687.0, 2.0)}
"""Mean in megabytes, and the standard deviation of the logarithm, which is a guess."""
OFFERED = {"SWIM": 1.35}
"""Bytes that are offered, as multiples of the room of all hosts; else 1.014."""
FIXED = {
    "3 replicas": Fixed(((1, 2),)),
    "EC(3,2)": Fixed(((3, 2),)),
    "EC(4,2)": Fixed(((4, 2),)),
    "EC(6,3)": Fixed(((6, 3),)),
    "DAOS": Fixed(((8, 1), (8, 2), (1, 3), (1, 5))),
}
CHOSEN = {
    "GreedyLeastUsed": "least-used",
    "D-Rex LB": "drex-lb",
    "D-Rex SC": "drex-sc",
    "GreedyMinStorage": "least-storage",
    "least-cost": "least-cost",
}
RULES: Mapping[str, str | Fixed] = {**FIXED, **CHOSEN}
PAPER: Mapping[str, Mapping[float, tuple[float, ...]]] = {
    "MEVA": {
        0.99: (28.3, 45.0, 46.7, 40.0, 53.3, 66.7, 73.9, 84.1, 85.0),
        0.9999: (28.3, 45.0, 46.7, 40.0, 10.1, 50.1, 57.8, 71.8, 73.3),
        0.999999: (23.3, 0.0, 0.0, 0.0, 10.1, 40.0, 45.7, 56.2, 57.5),
        MIXED: (NAN, 47.4, 47.5, 40.0, 35.5, 57.5, 62.9, 73.5, 75.9),
    },
    "SWIM": {MIXED: (NAN, 46.1, 47.3, 40.0, 34.6, 60.6, 68.7, 77.6, 77.6)},
    "Sentinel-2": {MIXED: (NAN, 47.4, 47.5, 40.0, 35.5, 57.5, 62.9, 73.4, 75.9)},
    "IBM COS": {MIXED: (NAN, 47.0, 47.3, 40.0, 31.7, 57.7, 62.3, 74.1, 76.4)},
}
"""On the most used disks: `size_stored` of the paper's result files, in percent of the 120 TB; ordered as RULES."""


def hosts(name: str, per_rack: int = 1) -> list[Place]:
    """Ten hosts; `per_rack` neighbours are in a rack, which fails as a whole."""
    return [
        Place(
            f"host{number}", int(room * TB / SCALE), write * MB, read * MB, percent / 100, f"rack{number // per_rack}"
        )
        for number, (room, write, read, percent) in enumerate(HOSTS[name])
    ]


def sizes(trace: str, room: float, seed: int = 1) -> list[float]:
    """Bytes of the items of a trace, in the order in which they come, until as much is offered as the paper's."""
    rng = np.random.default_rng(seed)
    offered, found = 0.0, []
    while offered < OFFERED.get(trace, 1.014) * room:
        if trace in QUANTILES:
            shares, megabytes = QUANTILES[trace]
            size = float(np.exp(np.interp(rng.random(), shares, np.log(megabytes))))
        else:
            mean, spread = LOG_NORMAL[trace]
            size = float(rng.lognormal(np.log(mean) - spread**2 / 2, spread))
        size *= MB / (SCALE if trace == "SWIM" else 1)
        found.append(size)
        offered += size
    return found


def mixed(count: int, seed: int = 1) -> list[float]:
    """Reliabilities of items, as the paper draws them."""
    rng = np.random.default_rng(seed)
    base = 1 - 10.0 ** -rng.integers(0, 6, count)
    return list(base + rng.random(count) * (1 - base))


@dataclass(slots=True)
class Outcome:
    """What a run has stored."""

    items: int = 0
    offered: int = 0
    bytes: float = 0.0
    """Of the items, without parity."""
    taken: float = 0.0
    """With parity."""
    write_seconds: float = 0.0
    read_seconds: float = 0.0
    repair_bytes: float = 0.0
    """Expected in a year."""
    lost: int = 0
    lost_bytes: float = 0.0
    moved: float = 0.0
    """Bytes read and written by repairs."""
    worst: float = 0.0
    """The largest risk of an item."""
    least_room: float = 0.0
    """Left on a place that is there, at the end."""
    seconds: float = 0.0
    """Of choosing."""
    codes: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class _Item:
    size: float
    data: int
    parity: int
    places: list[int]

    @property
    def chunk(self) -> float:
        return self.size / self.data


def run(
    places: Sequence[Place],
    rule: str | Fixed,
    reliability: float,
    items: Sequence[float],
    *,
    judge: Sequence[Place] | None = None,
    deaths: Mapping[int, Sequence[int]] | None = None,
) -> Outcome:
    """Store items one after the other; whoever dies meanwhile loses its pieces, which are made again elsewhere.

    Args:
        places: as the rule sees them.
        rule: see `Chooser`.
        reliability: of each item, over a year; or `MIXED`.
        items: their bytes.
        judge: the places as they are, with domains that the rule may not know of; left out: `places`.
        deaths: after how many items which places are lost.
    """
    chooser, truth = Chooser(places, abs(reliability), 1.0, rule), Chooser(judge or places, abs(reliability))
    targets = mixed(len(items)) if reliability == MIXED else None
    space = np.array([one.space or 0 for one in places], float)
    free, out, held = space.copy(), Outcome(offered=len(items)), list[_Item]()
    for number, size in enumerate(items):
        for dead in (deaths or {}).get(number, ()):
            free[dead] = -1.0
        if deaths and number in deaths:
            held = _repaired(held, set(deaths[number]), free, chooser, out)
        began = time.perf_counter()
        choice = (chooser if targets is None else chooser.at(targets[number])).choose(
            size, free.tolist(), space.tolist()
        )
        out.seconds += time.perf_counter() - began
        if choice is None:
            continue
        free[list(choice.places)] -= choice.chunk
        out.items += 1
        out.bytes += size
        out.taken += choice.stored
        out.write_seconds += choice.write_seconds
        out.read_seconds += choice.read_seconds
        out.repair_bytes += choice.repair_bytes
        out.worst = max(out.worst, truth.risk_with(choice.places, choice.data))
        out.codes[choice.data, choice.parity] = out.codes.get((choice.data, choice.parity), 0) + 1
        held.append(_Item(size, choice.data, choice.parity, list(choice.places)))
    out.least_room = float(free[free != -1].min())
    return out


def _repaired(held: list[_Item], dead: set[int], free: np.ndarray, chooser: Chooser, out: Outcome) -> list[_Item]:
    left = []
    for item in held:
        kept = [one for one in item.places if one not in dead]
        missing = len(item.places) - len(kept)
        if len(kept) < item.data:
            out.lost += 1
            out.lost_bytes += item.size
            free[kept] += item.chunk
            continue
        if missing:
            new = chooser.replacements(kept, missing, len(item.places) - item.data, item.chunk, list(free))
            free[new] -= item.chunk
            out.moved += (item.size + item.chunk * len(new)) if new else 0.0
            item.places = [*kept, *new]
        left.append(item)
    return left


def _room(places: Sequence[Place]) -> float:
    return float(sum(one.space or 0 for one in places))


def table(trace: str, name: str, reliabilities: Sequence[float]) -> None:
    """What each rule stores of a trace on ten hosts, beside the paper's figures where it has them."""
    places = hosts(name)
    items = sizes(trace, _room(places))
    print(f"{trace}, {name} hosts: {len(items)} items, {sum(items) / TB:.3f} TB, on {_room(places) / TB:.2f} TB")
    print(
        f"{'reliability':>11}  {'rule':<17}{'items':>7}{'stored':>9}{'paper':>8}{'x size':>8}{'MB/s':>7}"
        f"{'repair':>8}  code most used"
    )
    for reliability in reliabilities:
        for number, (label, rule) in enumerate(RULES.items()):
            out = run(places, rule, reliability, items)
            paper = PAPER[trace].get(reliability, ()) if name == "most-used" else ()
            known = f"{paper[number]:.1f} %" if number < len(paper) and paper[number] == paper[number] else ""
            asked = "mixed" if reliability == MIXED else reliability
            print(f"{asked:>11}  {label:<17}{_row(out, _room(places), known)}", flush=True)
    print()


def _row(out: Outcome, room: float, paper: str) -> str:
    if not out.items:
        return f"{0:>7}{'0.0 %':>9}{paper:>8}"
    (data, parity), count = max(out.codes.items(), key=lambda one: one[1])
    return (
        f"{out.items:>7}{out.bytes / room:>9.1%}".replace("%", " %")
        + f"{paper:>8}{out.taken / out.bytes:>8.2f}"
        + f"{2 * out.bytes / (out.write_seconds + out.read_seconds) / MB:>7.0f}"
        + f"{out.repair_bytes / out.bytes:>8.3f}  {data}+{parity} ({count / out.items:.0%})"
    )


def domains(reliability: float) -> None:
    """Two hosts per rack, and a rack is lost: rules that know of racks, and the same that do not."""
    known, unknown = hosts("most-used", 2), hosts("most-used")
    items = sizes("MEVA", _room(known) / 2)
    print(f"racks of two hosts, reliability {reliability}; after 60 % of {len(items)} items a rack is lost")
    print(f"{'rule':<17}{'racks':>9}{'items':>7}{'x size':>8}{'largest risk':>14}{'lost':>6}{'moved':>8}")
    for label, rule in RULES.items():
        for seen, places in (("unknown", unknown), ("known", known)):
            out = run(places, rule, reliability, items, judge=known, deaths={len(items) * 6 // 10: (0, 1)})
            cost = f"{out.taken / out.bytes:.2f}" if out.items else "-"
            print(
                f"{label:<17}{seen:>9}{out.items:>7}{cost:>8}{out.worst:>14.1e}{out.lost:>6}{out.moved / 1e9:>8.0f}",
                flush=True,
            )
    print()


def failures(reliability: float, draws: int = 12) -> None:
    """Hosts that fail often, five of which are lost in the run, one after the other; repairs put pieces elsewhere.

    Which ones is drawn by their rates; four items of the trace are one here, to save time.
    """
    places = hosts("most-failing")
    items = [4 * size for size in sizes("MEVA", _room(places) / 2)[::4]]
    rates = np.array([one.annual_failure for one in places])
    print(
        f"most-failing hosts, reliability {reliability}; {len(items)} items for half of the room; five hosts are lost "
        f"in turn; means of {draws} draws of these"
    )
    print(f"{'rule':<17}{'items':>7}{'lost':>7}{'kept':>9}{'least':>9}{'most':>9}{'x size':>8}{'moved, GB':>11}")
    for label, rule in RULES.items():
        runs = []
        for seed in range(1, draws + 1):
            chosen = np.random.default_rng(seed).choice(len(places), 5, replace=False, p=rates / rates.sum())
            deaths = {len(items) * (place + 1) // 6: (int(one),) for place, one in enumerate(chosen)}
            runs.append(run(places, rule, reliability, items, deaths=deaths))
        kept = [100 * (out.bytes - out.lost_bytes) / sum(items) for out in runs]
        cost = sum(out.taken for out in runs) / sum(out.bytes for out in runs)
        print(
            f"{label:<17}{np.mean([out.items for out in runs]):>7.0f}{np.mean([out.lost for out in runs]):>7.1f}"
            f"{np.mean(kept):>7.1f} %{min(kept):>7.1f} %{max(kept):>7.1f} %{cost:>8.2f}"
            f"{np.mean([out.moved for out in runs]) / 1e9:>11.0f}",
            flush=True,
        )
    print()


def real(reliability: float, folder: Path | None = None) -> None:
    """On real folders: states are saved until no more fits, the older ones pruned, two places lost, and repaired."""
    unit = 1.5e6  # of a folder's room per terabyte, so that all takes a minute
    models = hosts("most-used")
    space = [int(room * unit) for room, _, _, _ in HOSTS["most-used"]]
    items = [40 * size * unit * SCALE / TB for size in sizes("MEVA", _room(models))[::40]]
    print(
        f"real folders, reliability {reliability}: {len(items)} states, {sum(items) / MB:.0f} MB, for "
        f"{sum(space) / MB:.0f} MB; then the older half is removed, and places 1 and 4 are lost"
    )
    print(
        f"{'rule':<17}{'simulated':>11}{'stored':>8}{'kept':>6}{'readable':>10}{'repaired':>10}{'read, MB':>10}"
        f"{'written, MB':>13}"
    )
    for label, rule in CHOSEN.items():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            places = [
                replace(one, path=str(Path(scratch) / one.path), space=size, domain=str(number))
                for number, (one, size) in enumerate(zip(models, space, strict=True))
            ]
            simulated = run([replace(one, domain="") for one in places], rule, reliability, items)
            storage = Storage(places, reliability=reliability, rule=rule, keep=10**6)
            stored = _saved(Path(scratch) / "versions", storage, items)
            with Archive(Storage(places, reliability=reliability, rule=rule, keep=stored // 2), None, 1) as archive:
                archive.prune()
                kept = len(archive.held())
            for lost in (1, 4):
                shutil.rmtree(places[lost].path)
            shutil.rmtree(Path(scratch) / "versions")
            with opened(Path(places[0].path)) as archive:
                readable = sum(_reads(archive, one, Path(scratch) / "brought") for one in archive.held())
                done = repair(archive)
                whole = sum(not one.sheet.pieces - len(one.where) for one in archive.held())
            moved = [sum(one.read for one in done) / MB, sum(one.written for one in done) / MB]
            print(
                f"{label:<17}{simulated.items:>11}{stored:>8}{kept:>6}{readable:>10}{whole:>10}{moved[0]:>10.0f}"
                f"{moved[1]:>13.0f}",
                flush=True,
            )
    print()


def _saved(folder: Path, storage: Storage, items: Sequence[float]) -> int:
    stored = 0
    with Checkpointer(folder, storage=storage, keep=1) as checkpointer:
        for step, size in enumerate(items):
            checkpointer.save(step, {"x": np.full(int(size), step % 251, np.uint8)})
            try:
                checkpointer.wait()
                stored += 1
            except CheckpointError as error:
                if "no places for" not in str(error):
                    raise
    return stored


def _reads(archive: Archive, one: Held, folder: Path) -> bool:
    """Whether a version can be made of its pieces, byte by byte."""
    folder.mkdir(exist_ok=True)
    try:
        shutil.rmtree(archive.fetch(one, folder).path)
    except CheckpointError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks placement", description="pieces on unequal hosts")
    parser.add_argument("--trace", choices=[*QUANTILES, *LOG_NORMAL, "all"], default="all")
    parser.add_argument("--hosts", choices=list(HOSTS), default="most-used")
    parser.add_argument("--reliability", type=float, action="append", help="0.9999; -1: mixed; may be repeated")
    parser.add_argument("--only", choices=("stored", "domains", "failures", "real"), help="one part of it")
    options = parser.parse_args(arguments)
    if options.only in (None, "stored"):
        for trace in [*QUANTILES, *LOG_NORMAL] if options.trace == "all" else [options.trace]:
            usual = list(PAPER[trace]) if options.hosts == "most-used" else [0.9999]
            table(trace, options.hosts, options.reliability or usual)
    if options.only in (None, "domains"):
        domains((options.reliability or [0.9999])[0])
    if options.only in (None, "failures"):
        failures((options.reliability or [0.999])[0])
    if options.only in (None, "real"):
        real((options.reliability or [0.9999])[0])


if __name__ == "__main__":
    main()
