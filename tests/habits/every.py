"""All habits, by family: what a family shares is what its programs do with files besides reading them."""

from __future__ import annotations

from habits import (
    annotated,
    descriptors,
    ends,
    exits,
    gone,
    lifetimes,
    lists,
    looks,
    names,
    onefile,
    orders,
    passes,
    polls,
    processes,
    redirections,
    sets,
    stages,
    threads,
)
from habits.rig import Habit

FAMILIES = {
    "look": looks.HABITS,
    "list": lists.HABITS,
    "poll": polls.HABITS,
    "order": orders.HABITS,
    "pass": passes.HABITS,
    "process": processes.HABITS,
    "end": ends.HABITS,
    "thread": threads.HABITS,
    "descriptor": descriptors.HABITS,
    "onefile": onefile.HABITS,
    "redirect": redirections.HABITS,
    "link": names.LINKS,
    "rename": names.RENAMES,
    "folder": names.FOLDERS,
    "temporary": names.TEMPORARY,
    "lock": names.LOCKS,
    "gone": gone.HABITS,
    "life": lifetimes.HABITS,
    "exit": exits.HABITS,
    "annotate": annotated.HABITS,
    "stage": stages.HABITS,
    "set": sets.HABITS,
}
HABITS: dict[str, Habit] = {f"{family}-{habit.name}": habit for family, habits in FAMILIES.items() for habit in habits}
