"""Habits of ends: files that are opened oftener than they come, and files of which a newer version is left unread."""

from __future__ import annotations

from habits.rig import Habit, Refusal, c, py, sh

SEVERAL_OPENS = Refusal(
    r"`opens_per_step: 2`",
    "a name that is written once is one step: say how often the program opens it, by `opens_per_step`",
)
SEVERAL_CLOSES = Refusal(
    r"`publish: 2`",
    "a file that is written several times is several steps: say at which close it is whole, by `publish`",
)
NEWER = Refusal(
    r"newer versions of files that had been read were left unread",
    "a file that is written several times is several steps: say at which close it is whole, by `publish`",
)

ONCE = py("""
put("state.dat", 3)
""")
ONCE5 = py("""
put5("state.h5", 3)
""")
DRAFT_THEN_WHOLE = py("""
import os
for k in range(4):
    put(f"plt{k}.dat", k + 10)
    put("draft", k)
    os.replace("draft", f"plt{k}.dat")
""")
GROWS = py("""
for k in range(4):
    for part in 0, 1:
        with open(f"plt{k}.dat", "wb") as file:
            file.write(text(k)[: None if part else 100])
""")
REOPENS = py("""
import h5py
for k in range(4):
    with h5py.File(f"plt{k}.h5", "w") as file:
        file["x"] = range(k + 10, k + 1010)
    with h5py.File(f"plt{k}.h5", "r+") as file:
        file["x"][...] = range(k, k + 1000)
""")
THREE_TIMES = py("""
for k in range(4):
    for version in 10, 20, 0:
        put(f"plt{k}.dat", k + version)
""")
EACH = py("""
for k in range(4):
    get(f"plt{k}.dat")
""")
EACH5 = py("""
for k in range(4):
    get5(f"plt{k}.h5")
""")
LOOKS_FIRST = py("""
import h5py
for k in range(4):
    for look in "kind", "names":
        with h5py.File(f"plt{k}.h5") as file:
            tell(look, list(file))
    get5(f"plt{k}.h5")
""")
TWO_OPENS = py("""
get("state.dat")
get("state.dat")
""")

HABITS = [
    Habit("open-twice", ONCE, TWO_OPENS, "state.dat", refused=SEVERAL_OPENS),
    Habit("open-twice-said", ONCE, TWO_OPENS, "state.dat", into={"opens_per_step": 2}),
    Habit(
        "open-twice-h5",
        ONCE5,
        py("""
for part in "ab":
    get5("state.h5")
"""),
        "state.h5",
        refused=SEVERAL_OPENS,
    ),
    Habit(
        "open-three-times",
        ONCE5,
        py("""
for part in "abc":
    get5("state.h5")
"""),
        "state.h5",
        refused=SEVERAL_OPENS,
    ),
    Habit(
        "open-twice-shell",
        ONCE,
        sh("""
show first < state.dat
show second < state.dat
"""),
        "state.dat",
        refused=SEVERAL_OPENS,
    ),
    Habit(
        "open-twice-c",
        ONCE,
        c("""
    for (int turn = 0; turn < 2; turn++) {
        FILE* file = fopen("state.dat", "r");
        must(file != NULL, "fopen");
        char line[64];
        must(fgets(line, sizeof line, file) != NULL, "fgets");
        printf("= %s", line);
        fclose(file);
    }
"""),
        "state.dat",
        refused=SEVERAL_OPENS,
    ),
    Habit("look-look-read", REOPENS, LOOKS_FIRST, "plt*.h5", refused=SEVERAL_CLOSES),
    Habit("look-look-read-said", REOPENS, LOOKS_FIRST, "plt*.h5", out={"publish": 2}),
    Habit("look-look-read-next", REOPENS, LOOKS_FIRST, "plt*.h5", out={"publish": "next"}),
    Habit("newer-replaced", DRAFT_THEN_WHOLE, EACH, "plt*.dat", refused=NEWER),
    Habit("newer-replaced-said", DRAFT_THEN_WHOLE, EACH, "plt*.dat", out={"publish": 2}),
    Habit("newer-rewritten", GROWS, EACH, "plt*.dat", refused=NEWER),
    Habit("newer-rewritten-said", GROWS, EACH, "plt*.dat", out={"publish": 2}),
    Habit("newer-reopened", REOPENS, EACH5, "plt*.h5", refused=NEWER),
    Habit("newer-reopened-said", REOPENS, EACH5, "plt*.h5", out={"publish": "next"}),
    Habit("newer-third", THREE_TIMES, EACH, "plt*.dat", refused=NEWER),
    Habit("newer-third-said", THREE_TIMES, EACH, "plt*.dat", out={"publish": 3}),
    Habit(
        "newer-of-some",
        DRAFT_THEN_WHOLE,
        py("""
for k in range(4):
    get(f"plt{k}.dat")
    if k % 2:
        get(f"plt{k}.dat")
"""),
        "plt*.dat",
        refused=NEWER,
    ),
    Habit(
        "newer-each-read",
        DRAFT_THEN_WHOLE,
        py("""
for k in range(4):
    get(f"plt{k}.dat")
    get(f"plt{k}.dat")
"""),
        "plt*.dat",
        expected=tuple(f"plt{k}.dat=#{number}" for k in range(4) for number in (k + 10, k)),
    ),
]
