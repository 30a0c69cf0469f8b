"""The key `restart` of the workflow file: how it is read."""

from __future__ import annotations

from typing import Any

import yaml

from wilkins.errors import suggest
from wilkins.flow.restart import KEEP, RestartRule
from wilkins.schema.kinds import Words, integer
from wilkins.schema.patterns import pattern_problem
from wilkins.schema.reading import INVALID, Kind, Reader

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
