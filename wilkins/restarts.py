"""The key `restart` of the workflow file: how it is read, and what it asks of a task's ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import yaml

from wilkins.errors import Position, suggest
from wilkins.flow.restart import KEEP, RestartRule
from wilkins.kinds import Words, integer
from wilkins.patterns import intersect, pattern_problem
from wilkins.reading import INVALID, Kind, Reader

if TYPE_CHECKING:
    from wilkins.spec import Task

_KEYS = ("files", "args", "hook", "keep")
_WORDS = ("each-step", "points")


class Restart(Kind):
    """What a program can be restarted from."""

    meaning = "{files: PATTERN, args: [...], hook: COMMAND, keep: n}, 'each-step' or 'points'"

    def read(self, reader: Reader, node: yaml.Node, who: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._long(reader, node, who)
        value = reader.text(node, who, self.meaning)
        if value is INVALID:
            return INVALID
        if value not in _WORDS:
            return reader.problem(node, f"{who} must be {self.meaning}, not {value!r}{suggest(value, _WORDS)}")
        return RestartRule("points" if value == "points" else "each-step")

    def _long(self, reader: Reader, node: yaml.MappingNode, who: str) -> Any:
        pairs = reader.pairs(node, who)
        for name, (name_node, _) in pairs.items():
            if name not in _KEYS:
                hint = suggest(name, _KEYS) or f"; known are {', '.join(_KEYS)}"
                return reader.problem(name_node, f"{who}: unknown key {name!r}{hint}")
        if "files" not in pairs:
            cure = "add 'files: PATTERN', the checkpoints that the program writes"
            return reader.problem(node, f"{who}: the key 'files' is missing; {cure}")
        files = reader.text(pairs["files"][1], f"{who} 'files'", "a file name or pattern")
        words = {
            name: Words().read(reader, pairs[name][1], f"{who} {name!r}") for name in ("args", "hook") if name in pairs
        }
        keep = integer(1).read(reader, pairs["keep"][1], f"{who} 'keep'") if "keep" in pairs else KEEP
        if files is INVALID or keep is INVALID or any(value is INVALID for value in words.values()):
            return INVALID
        if problem := pattern_problem(files):
            return reader.problem(pairs["files"][1], f"{who} 'files': {problem}")
        return RestartRule("files", files, keep, words.get("args"), words.get("hook", ()))

    def schema(self) -> dict[str, Any]:
        words = Words().schema()
        long = {"files": {"type": "string", "minLength": 1}, "args": words, "hook": words}
        long["keep"] = integer(1).schema()
        return {
            "anyOf": [
                {"enum": list(_WORDS)},
                {"type": "object", "properties": long, "required": ["files"], "additionalProperties": False},
            ]
        }


def check(task: Task, *, is_ready_made: bool) -> Iterator[tuple[Position, str]]:
    """What is wrong with a task's `restart`, and where."""
    rule = task.restart
    if rule is None:
        return
    where = task.where.of("restart")
    if is_ready_made and rule.how != "points":
        yield where, f"{task.label}: a ready-made task tells its restart points itself; remove 'restart'"
    elif rule.how == "each-step" and not task.inports:
        yield (
            where,
            f"{task.label}: 'restart: each-step' is for tasks that read steps, and it has no in-port; remove it",
        )
    for port in task.outports if rule.how == "files" else ():
        if intersect(port.filename, rule.files) and str(port.publish) != "close":
            yield (
                port.where.of("publish"),
                f"{task.label}, outport {port.filename!r}: a checkpoint to restart from ('restart: files') must be "
                f"complete when it is closed, not at '{port.publish}'; give checkpoints names of their own, or remove "
                "'publish'",
            )
