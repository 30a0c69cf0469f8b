"""Becomes a program when its partner, the task of a number, waits or has ended: ``late.py NUMBER COMMAND...``."""

import os
import sys
import time
from pathlib import Path

from wilkins.transport.board import Board

PATIENCE = 1.5
"""Seconds after which the partner is taken to do something that no board tells of, such as looking again and again."""

board = Board.attach(Path(os.environ["WILKINS_RUN"]))
until = time.monotonic() + PATIENCE
while time.monotonic() < until:
    partner = board.report().tasks[int(sys.argv[1])]
    if partner.waits or partner.state == "ended":
        break
    time.sleep(0.01)
board.close()
os.execvp(sys.argv[2], sys.argv[2:])
