"""Habits of polling: a program asks again and again until something is so."""

from __future__ import annotations

from habits.common import BYTES, HDF5
from habits.rig import Habit, Refusal, c, py, sh

RENAMED = py("""
import os
for k, name in enumerate(NAMES):
    put("draft", k)
    os.rename("draft", name)
""")

MARKED_AT_THE_END = py("""
for k, name in enumerate(NAMES):
    put(name, k)
open("finished", "w").close()
""")

UNTIL_FINISHED = py("""
import glob, os, time
while not os.path.exists("finished"):
    time.sleep(0.01)
for name in sorted(glob.glob("plt*.dat")):
    get(name)
""")

HABITS = [
    Habit(
        "until-exists",
        RENAMED,
        py("""
import os, time
for name in NAMES:
    while not os.path.exists(name):
        time.sleep(0.01)
    get(name)
"""),
        beside=True,
    ),
    Habit(
        "until-exists-h5",
        HDF5,
        py("""
import os, time
for name in NAMES5:
    while not os.path.exists(name):
        time.sleep(0.01)
    get5(name)
"""),
        "plt*.h5",
    ),
    Habit(
        "shell-until-f",
        RENAMED,
        sh("""
for k in $(steps); do
    until [ -f plt000$k.dat ]; do sleep 0.01; done
    cat plt000$k.dat | show $k
done
"""),
        beside=True,
    ),
    Habit(
        "until-n-files",
        RENAMED,
        py("""
import glob, time
while len(glob.glob("plt*.dat")) < N:
    time.sleep(0.01)
for name in NAMES:
    get(name)
"""),
        beside=True,
    ),
    Habit(
        "until-n-files-shell",
        RENAMED,
        sh("""
while [ $(ls | grep -c '^plt') -lt $N ]; do sleep 0.01; done
for f in plt*.dat; do cat $f | show $f; done
"""),
        beside=True,
    ),
    Habit(
        "until-last-exists",
        RENAMED,
        py("""
import os, time
while not os.path.exists(NAMES[-1]):
    time.sleep(0.01)
for name in NAMES:
    get(name)
"""),
        beside=True,
    ),
    Habit(
        "until-size-stable",
        BYTES,
        py("""
import os, time
for name in NAMES:
    size, before = -1, -2
    while size != before or size <= 0:
        time.sleep(0.02)
        before, size = size, os.path.getsize(name) if os.path.exists(name) else -1
    get(name)
"""),
    ),
    Habit(
        "until-size-stable-shell",
        BYTES,
        sh("""
for k in $(steps); do
    before=-1
    size=-2
    while [ "$size" != "$before" ]; do
        before=$size
        sleep 0.02
        size=$(stat -c %s plt000$k.dat 2>/dev/null || echo "-$(date +%N)")
    done
    cat plt000$k.dat | show $k
done
"""),
    ),
    Habit(
        "until-large-enough",
        BYTES,
        py("""
import os, time
for k, name in enumerate(NAMES):
    while True:
        try:
            if os.stat(name).st_size >= len(text(k)):
                break
        except FileNotFoundError:
            pass
        time.sleep(0.01)
    get(name)
"""),
        beside=True,
    ),
    Habit(
        "until-opens",
        RENAMED,
        py("""
import time
for name in NAMES:
    while True:
        try:
            get(name)
            break
        except FileNotFoundError:
            time.sleep(0.01)
"""),
        beside=True,
    ),
    Habit(
        "until-opens-h5",
        HDF5,
        py("""
import time
for name in NAMES5:
    while True:
        try:
            get5(name)
            break
        except (OSError, KeyError):
            time.sleep(0.01)
"""),
        "plt*.h5",
    ),
    Habit(
        "until-c-access",
        RENAMED,
        c("""
    for (int k = 0; k < N; k++) {
        while (access(name_of(k), F_OK)) usleep(10000);
        int fd = open(name_of(k), O_RDONLY);
        show(name_of(k), content, read(fd, content, sizeof content));
        close(fd);
    }
"""),
        beside=True,
    ),
    Habit(
        "marker-on-disk",
        py("""
for k, name in enumerate(NAMES):
    put(name, k)
    open(name + ".done", "w").close()
"""),
        py("""
import os, time
for name in NAMES:
    while not os.path.exists(name + ".done"):
        time.sleep(0.01)
    get(name)
"""),
        beside=True,
    ),
    Habit(
        "marker-of-the-port",
        py("""
for k, name in enumerate(NAMES):
    put(name, k)
    open(name.replace(".dat", ".ok"), "w").close()
"""),
        py("""
import os, time
for name in NAMES:
    while not os.path.exists(name.replace(".dat", ".ok")):
        time.sleep(0.01)
    get(name)
"""),
        "plt*",
        beside=True,
    ),
    Habit(
        "marker-touched-by-shell",
        sh("""
for k in $(steps); do
    text $k > draft
    cp draft plt000$k.dat
    touch plt000$k.ok
done
"""),
        sh("""
for k in $(steps); do
    while [ ! -e plt000$k.ok ]; do sleep 0.01; done
    cat plt000$k.dat | show $k
done
"""),
        "plt*",
        beside=True,
    ),
    Habit(
        "marker-after-all",
        MARKED_AT_THE_END,
        UNTIL_FINISHED,
        beside=True,
        refused=Refusal(
            "for room to write plt0002.dat, on consumer",
            "The consumer waits for a file that is no port's, until all steps are written, and the producer waits for "
            "room; nothing tells that the consumer waits. The report of the stuck run names the producer, and whom it "
            "waits for; `queue:` with as many steps as the consumer lets come mends it.",
        ),
    ),
    Habit("marker-after-all-with-room", MARKED_AT_THE_END, UNTIL_FINISHED, into={"queue": 8}, beside=True),
    Habit(
        "gives-up-after-a-while",
        RENAMED,
        py("""
import os, time
k, idle = 0, 0
while idle < 30:
    if os.path.exists(f"plt{k:04d}.dat"):
        get(f"plt{k:04d}.dat")
        k, idle = k + 1, 0
    else:
        time.sleep(0.01)
        idle += 1
"""),
    ),
    Habit(
        "mtime-of-one-name",
        py("""
import os
for k in range(N):
    put("draft", k)
    os.rename("draft", "state.dat")
"""),
        py("""
import os, time
had, last = None, b""
while last != text(N - 1):
    try:
        now = os.stat("state.dat").st_mtime_ns
    except FileNotFoundError:
        continue
    if now == had:
        time.sleep(0.005)
        continue
    had = now
    with open("state.dat", "rb") as file:
        last = file.read()
    show("state.dat", last)
"""),
        "state.dat",
        expected=tuple(f"state.dat=#{k}" for k in range(6)),
        part="subset",
        beside=True,
    ),
    Habit(
        "content-of-one-name",
        py("""
import os
for k in range(N):
    put("draft", k)
    os.rename("draft", "state.dat")
"""),
        py("""
import os, time
last = None
while last != text(N - 1):
    if os.path.exists("state.dat"):
        with open("state.dat", "rb") as file:
            now = file.read()
        if now != last:
            show("state.dat", now)
            last = now
    time.sleep(0.005)
"""),
        "state.dat",
        expected=tuple(f"state.dat=#{k}" for k in range(6)),
        part="subset",
        beside=True,
    ),
    Habit(
        "counts-and-takes-new",
        RENAMED,
        py("""
import glob, time
read = 0
while read < N:
    names = sorted(glob.glob("plt*.dat"))
    for name in names[read:]:
        get(name)
    read = len(names)
    time.sleep(0.01)
"""),
        beside=True,
    ),
    Habit(
        "next-exists-so-this-is-whole",
        BYTES,
        py("""
import os, time
for k, name in enumerate(NAMES):
    following = f"plt{k + 1:04d}.dat"
    while k + 1 < N and not os.path.exists(following):
        time.sleep(0.01)
    get(name)
"""),
    ),
]
