"""Draws accuracy.json, which compare.py writes: the accuracy on the classes so far, for each strategy."""

from wilkins.tasks.continual.metrics import draw, read_json

draw("accuracy.png", read_json("accuracy.json"))
