"""The table of habits, docs/developers/habits.md: ``cd tests && python -m habits.table`` writes it.

What its cells say follows from what the habits, and `known.yaml`, say; the tests show by running them that it is so.
"""

from __future__ import annotations

from pathlib import Path

from habits import known
from habits.every import FAMILIES
from habits.rig import MODES

PAGE = Path(__file__).parents[2] / "docs" / "developers" / "habits.md"
HEAD = """# Files as programs use them

Programs look for files before they open them, list folders, read in another order than that of writing, read twice, in
several processes, by redirection, through links. This page says of each of these habits whether a consumer under a
workflow reads what it would have read from files.

A habit is a producer and a consumer of a few lines each (`tests/habits`, a file per family), perhaps with
[stages](../reference/stages.md) between them, and the keys of the workflow file that their user would write. What they
read from files, one after the other, is compared with what they read under a workflow, side by side: names, contents
and order; so is what lies on disk afterwards.
Each runs with the steps in memory, in memory and on disk (`mode: both`) and on disk only (`mode: file`), and as fast as
it comes, or with a producer that begins when the consumer waits, a consumer that begins when the producer waits, or
random delays. `make fuzz` compares random sequences of such calls in the same way.

- **same**: all is as on files.
- **refused**: it cannot be as on files; the run says so, and the note what to do.
- **wrong**: it is not as on files yet; the note says what happens.

The page is made by `cd tests && python -m habits.table`; `python -m habits NAME` there runs a habit.

"""

TITLES = {
    "look": "Looking before opening",
    "list": "Listing folders",
    "poll": "Asking again and again",
    "order": "Order",
    "pass": "Several passes",
    "process": "Processes and threads",
    "end": "Ends of processes",
    "thread": "Threads and ranks that wait",
    "descriptor": "Descriptors and the calls on them",
    "redirect": "Redirection, and the shell's tools",
    "link": "Links",
    "rename": "Renames and removals",
    "folder": "Folders",
    "temporary": "Temporary files",
    "lock": "Locks",
    "annotate": "What readers write",
    "stage": "Stages between the two",
    "set": "Folders as steps",
    "exit": "Ends in failure, and newer versions",
    "life": "How long a step's memory lives",
    "gone": "Files that memory has let go of",
    "onefile": "One file for a task",
}


def page() -> str:
    """The page."""
    notes: list[str] = []
    wrong = known.load()
    parts = []
    for family, habits in FAMILIES.items():
        rows = [f"## {TITLES[family]}", "", "| habit | memory | both | file |", "|---|---|---|---|"]
        for habit in habits:
            cells = []
            for mode in MODES:
                word, why = "same", wrong.get(f"{family}-{habit.name}", {}).get(mode, "")
                if why:
                    word = "wrong"
                elif refusal := habit.refusal(mode):
                    word, why = "refused", refusal.because
                if why and why not in notes:
                    notes.append(why)
                cells.append(f"{word} [{notes.index(why) + 1}]" if why else word)
            rows.append(f"| {family}-{habit.name} | " + " | ".join(cells) + " |")
        parts.append("\n".join(rows) + "\n")
    told = "".join(f"{number}. {text.replace('|', chr(92) + '|')}\n" for number, text in enumerate(notes, 1))
    count = sum(len(habits) for habits in FAMILIES.values())
    return f"{HEAD}{count} habits.\n\n" + "\n".join(parts) + (f"\n## Notes\n\n{told}" if told else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
