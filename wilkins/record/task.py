"""The task of a recorded program, as text for a workflow file. Pure code."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import yaml

from wilkins.record.ports import FROM_DISK, Port
from wilkins.record.run import Command
from wilkins.schema.file_names import names_of
from wilkins.schema.patterns import intersect
from wilkins.spec.editors import MODELINE

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?[a-z]?")
_WIDTH = 100
_HEAD = "# Written by `wilkins record`. Look it over, then: wilkins check {file} && wilkins run {file}\ntasks:\n"


def task_text(command: Command, name: str | None, ports: Sequence[Port], home: Path, cwd: Path, indent: str) -> str:
    """The task.

    Args:
        home: the folder of the workflow file.
        cwd: the folder in which the program ran.
        indent: what stands before the dash of each task.
    """
    func = _func(command.words[0], home, cwd)
    lines = [f"- func: {_scalar(func)}"]
    if name := name or _script_name(command.words):
        lines.append(f"  name: {_scalar(name)}")
    if len(command.words) > 1:
        lines.append(f"  args: {_words(command.words[1:])}")
    if command.nprocs > 1:
        lines.append(f"  nprocs: {command.nprocs}")
    if command.mpiexec:
        lines.append(f"  mpiexec: {_words(command.mpiexec)}")
    if cwd != home:
        lines.append(f"  cwd: {_scalar(os.path.relpath(cwd, home))}")
    for direction in ("out", "in"):
        chosen = [port for port in ports if port.direction == direction]
        if chosen:
            lines.append(f"  {direction}ports:")
        for port in chosen:
            lines += _port(port, cwd)
    return _in_utf8("".join(f"{indent}{line}\n" for line in lines))


def is_utf8(name: str) -> bool:
    """Whether a workflow file can hold a name as it is."""
    return not _NO_UTF8.search(os.fsencode(name).decode("utf-8", "surrogateescape"))


def _in_utf8(text: str) -> str:
    """A text with names, as a workflow file takes it. For bytes of a name that are no UTF-8 stands a `?`, which matches
    each of them."""
    return _NO_UTF8.sub("?", os.fsencode(text).decode("utf-8", "surrogateescape"))


def _port(port: Port, cwd: Path) -> list[str]:
    names = [own_name(name, cwd) for name in names_of(port.pattern)]
    lines = [f"    - filename: {json.dumps(names if len(names) > 1 else names[0], ensure_ascii=False)}"]
    for key in port.keys:
        lines += [*_comment(key.why), f"      {key.name}: {_scalar(key.value)}"]
    for remark in port.remarks:
        lines += _comment(remark)
    return lines


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="      # ", subsequent_indent="      # ")


def _words(words: Sequence[str]) -> str:
    """A list in one line. `${NAME}` of a word stands for itself."""
    return f"[{', '.join(json.dumps(word.replace('${', '$${'), ensure_ascii=False) for word in words)}]"


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _func(word: str, home: Path, cwd: Path) -> str:
    """A program as the workflow file calls it: one that is named with its folder, from the file's."""
    path = Path(word).expanduser()
    if path.is_absolute() or ("/" not in word and path.suffix != ".py"):
        return word
    relative = os.path.relpath(cwd / path, home)
    return relative if relative.startswith("../") or path.suffix == ".py" else f"./{relative}"


def _script_name(words: Sequence[str]) -> str:
    """Of a Python that is named itself: the script or module that it runs, after which the task is called; else empty.

    All such tasks would be called `python` otherwise.
    """
    if not _PYTHON.fullmatch(Path(words[0]).name):
        return ""
    for place, word in enumerate(words[1:], 1):
        if word == "-m" and place + 1 < len(words):
            return words[place + 1].rpartition(".")[2]
        if not word.startswith("-"):
            return Path(word).stem if word.endswith(".py") else ""
    return ""


def own_name(pattern: str, cwd: Path) -> str:
    """A name as the program would give it: from its folder, if it is below that."""
    return pattern.removeprefix(f"{cwd}/")


def extended(text: str, task: str) -> str:
    """A workflow file with one more task at the end of `tasks:`."""
    return text + ("" if text.endswith("\n") else "\n") + task


def joined(text: str, patterns: Sequence[str]) -> str:
    """A workflow file in which in-ports that were read from disk, as no task wrote their files, are no longer so where
    a task now writes files of these patterns."""
    kept: list[str] = []
    lines = iter(text.splitlines(keepends=True))
    filename = ""
    for line in lines:
        if found := re.match(r"\s*- filename: (.*)", line):
            filename = str(yaml.safe_load(found[1]))
        if line.strip() == f"# {FROM_DISK}" and any(intersect(filename, pattern) for pattern in patterns):
            line = next(lines, "")
            if line.strip() == "mode: file":
                continue
        kept.append(line)
    return "".join(kept)


def begun(file: Path, has_schema: bool) -> str:
    """The head of a new workflow file. `has_schema`: the schema is beside it."""
    return (MODELINE if has_schema else "") + _HEAD.format(file=file.name)


def indent_of(text: str) -> str | None:
    """The indentation of each task's dash; None unless the tasks are a list with dashes at the end of the file."""
    found = re.search(r"^tasks:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*([ \t]*)- ", text, re.MULTILINE)
    if found is None or re.search(r"\n[A-Za-z_]", text[found.end() :]):
        return None
    return found[1]
