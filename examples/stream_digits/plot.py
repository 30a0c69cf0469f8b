"""Draws accuracy.json, which compare.py writes: the accuracy on the classes so far, for each strategy."""

import sys

from wilkins.tasks.continual.metrics import draw, read_json
from wilkins.tasks.errors import TaskError

try:
    draw("accuracy.png", read_json("accuracy.json"))
except FileNotFoundError:
    sys.exit("there is no accuracy.json here; compare.py writes it: python compare.py 1")
except TaskError as error:  # matplotlib is missing
    sys.exit(str(error))
