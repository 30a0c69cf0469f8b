"""Workflows and runs as objects of Python, for scripts and notebooks: `wilkins.Workflow`, `wilkins.Run`."""

from wilkins.scripting.notebook import register

register()
