"""What the layer says in a run's log: a line for people, whose end Python reads."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from support.small_workflows import Workflow
from wilkins.launch.records.layerlog import events
from wilkins.transport.events import CHOICES, EVENTS, Logged, arguments_of

STRANGE = b'a\n\t"\\\xff.dat'
READ = f"""
open("a0.dat", "rb").read()
try:
    open({STRANGE!r}, "rb").read()
except FileNotFoundError:
    pass
"""


def test_any_name_comes_back(tmp_path: Path) -> None:
    workflow = Workflow(tmp_path)
    workflow.task("write", 'open("a0.dat", "wb").write(b"x")', outports=[{"filename": "a*.dat"}])
    workflow.task("read", READ, inports=[{"filename": "a*.dat"}])
    workflow.run()
    log = tmp_path / "wilkins-runs" / "latest" / "layer.log"
    (line,) = log.read_bytes().splitlines()
    (one,) = events(log)
    assert (one.code, one.task, one.rank) == ("no_such_file", "read", 0)
    assert one.arguments == {"name": os.fsdecode(STRANGE), "why": "strange"}
    assert one.words.startswith("task 'read' rank 0: no such file 'a\\u000a\\u0009\"\\")
    assert os.fsencode(one.words) in line, "people read the same"


def test_each_event_has_words() -> None:
    for code, event in EVENTS.items():
        values = {
            name: next(iter(CHOICES[place["type"]])) if place["type"] in CHOICES else errno.ENOSPC
            for name, place in arguments_of(event).items()
        }
        words = Logged(code, "sim", 3, values).words
        assert words and "{" not in words.replace("{file: PATTERN}", ""), code
