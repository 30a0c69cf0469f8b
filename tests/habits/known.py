"""What habits still read wrongly, in `known.yaml`: by habit and mode, what happens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from habits.every import HABITS
from habits.rig import MODES

FILE = Path(__file__).with_name("known.yaml")
HEAD = """\
# What habits still read wrongly, by habit and mode: what happens. `python -m habits --update` writes what it finds.
# A test fails when one of them becomes right, but for those that are wrong only sometimes.
"""
SOMETIMES = "sometimes: "

SENTENCES = {
    "did not end": "the run does not end",
    "exit code 1": "a program fails, since it does not find what it would find on disk",
    "exit code 2": "the workflow file is refused",
    "exit code 4": "the run is stuck, and says so",
    "account tells of no": "what is read is not what was written, and the run says nothing",
    "and the account tells": "not all steps are read, and the run tells how many were not",
    "=empty": "a step is read as empty, and the run says nothing",
    "zeros": "a step is read as zeros, and the run says nothing",
    "read instead": "something else is read, and the run says nothing",
    "lost": "steps are not read, and the run says nothing",
    "in another order": "steps are read in another order",
    "on disk": "other files are on disk than the programs alone leave",
}
"""By what an outcome says, in the order in which they are looked for."""

Known = dict[str, dict[str, str]]


def load() -> Known:
    """All that is known."""
    return yaml.safe_load(FILE.read_text(encoding="utf-8")) or {}


def is_right(outcome: str) -> bool:
    """Whether a habit came out as on files, or was refused where that is expected; who is late may be spared that."""
    return outcome in ("same", "refused")


def wrong_as_known(name: str, mode: str, outcomes: Mapping[str, str]) -> str:
    """What is not as it is known to be of a habit in a mode, by pace; empty if all is."""
    wrong = {pace: outcome for pace, outcome in outcomes.items() if not is_right(outcome)}
    reason = load().get(name, {}).get(mode)
    if wrong and reason is None:
        return "\n".join(f"{name}, {mode}, {pace}: {outcome}" for pace, outcome in wrong.items())
    if reason is not None and not wrong and not reason.startswith(SOMETIMES):
        return f"{name}, {mode}: this is right now: take it out of {FILE.name} (python -m habits --update {name})"
    return ""


def in_short(outcome: str) -> str:
    """What happens where a habit does not come out as on files: one of a few sentences."""
    for part, sentence in SENTENCES.items():
        if part in outcome:
            return sentence
    return outcome


def update(outcomes: Mapping[tuple[str, str], list[str]]) -> None:
    """Write down how habits, in modes, came out, each as often as it was run."""
    known = load()
    for (name, mode), found in outcomes.items():
        wrong = [outcome for outcome in found if not is_right(outcome)]
        cells = known.setdefault(name, {})
        cells.pop(mode, None)
        if wrong:
            cells[mode] = (SOMETIMES if len(wrong) < len(found) else "") + in_short(wrong[0])
    lines = {
        name: {mode: known[name][mode] for mode in MODES if mode in known[name]} for name in HABITS if known.get(name)
    }
    FILE.write_text(HEAD + yaml.safe_dump(lines, sort_keys=False, width=1000, allow_unicode=True), encoding="utf-8")
