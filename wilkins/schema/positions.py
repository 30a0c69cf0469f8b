"""Reads a YAML file into nodes that know their position, within limits that no honest workflow file meets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from wilkins.errors import Position, Problem, WorkflowError
from wilkins.names import own_form
from wilkins.schema.mistakes import mistake

MAX_BYTES = 4 << 20
MAX_DEPTH = 32
MAX_NODES = 400_000
"""Nodes once every alias is followed."""

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_PROGRAMS = {".py", ".sh", ".ipynb"}
"""Suffixes of programs, which somebody may give for a workflow file."""


def position_of(node: yaml.Node, file: str) -> Position:
    """Where a node begins. Values of ``--set`` carry the option itself as their mark's name."""
    mark = node.start_mark
    if mark.name.startswith("--set"):
        return Position(mark.name)
    return Position(file, mark.line + 1, mark.column + 1)


def compose_option(text: str, option: str) -> yaml.Node:
    """The node of a value given on the command line; its position is the option.

    Raises:
        WorkflowError: not YAML, or not UTF-8.
    """
    empty = yaml.ScalarNode("tag:yaml.org,2002:str", "")
    try:
        text = os.fsencode(text).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WorkflowError([Problem(Position(option), "not UTF-8 text; write it in UTF-8")]) from error
    root = compose(text, option, first_line=0) if text.strip() else empty
    stack = [root]
    while stack:
        node = stack.pop()
        node.start_mark = yaml.Mark(option, 0, 0, 0, None, 0)
        stack.extend(_children(node))
    return root


def read_text(path: Path) -> str:
    """The text of a workflow file.

    Raises:
        WorkflowError: missing, unreadable, a directory, too large, or not UTF-8.
    """

    def fail(message: str) -> WorkflowError:
        return WorkflowError([Problem(Position(str(path)), message)])

    try:
        if path.suffix in _PROGRAMS:
            raise fail(f"it is a program, and a workflow file is YAML; name it in one, as 'func: {path}' of a task")
        if not path.exists():
            raise fail(
                "there is no such file; give the path of a workflow file, or write a starter with 'wilkins init'"
            )
        if path.is_dir():
            raise fail("this is a directory; give the workflow file in it, for example " + _example_in(path))
        if not path.is_file():
            raise fail("this is not a regular file; give the path of a workflow file")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise fail(f"the file has {size} bytes, more than the {MAX_BYTES} a workflow file may have")
        data = path.read_bytes()
    except OSError as error:
        raise fail(f"cannot read the workflow file: {error.strerror}; check its permissions") from error
    text = decoded(data, str(path))
    if not text.strip():
        raise fail("the file is empty; it needs a list 'tasks:' (see 'wilkins init')")
    return text


def decoded(data: bytes, name: str) -> str:
    """The text of a file.

    Raises:
        WorkflowError: not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        position = Position(name, before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1)
        raise WorkflowError([Problem(position, "not UTF-8 text; save the file as UTF-8")]) from error


def compose(text: str, name: str, first_line: int = 1) -> yaml.Node:
    """The root node of a YAML text, checked against the limits, with its scalars as names in this process's own form.

    Raises:
        WorkflowError: not YAML, or beyond a limit.
    """

    def fail(mark: Any, message: str) -> WorkflowError:
        position = Position(name, mark.line + first_line, mark.column + 1) if mark and first_line else Position(name)
        return WorkflowError([Problem(position, message)])

    try:
        depth = 0
        for count, event in enumerate(yaml.parse(text, Loader=Loader)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                raise fail(event.start_mark, f"nested deeper than {MAX_DEPTH} levels; no workflow file needs that")
            if count > 2 * MAX_NODES:
                raise fail(event.start_mark, "more entries than a workflow file may have")
        loader = Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if "nesting depth" in str(error.problem):  # since 6.0.4, found before the event above
            raise fail(mark, f"nested deeper than {MAX_DEPTH} levels; no workflow file needs that") from error
        if error.context_mark and error.problem == "could not find expected ':'":
            mark = error.context_mark  # the line that lacks it; the other is where the search ended
        context = f" ({error.context})" if error.context else ""
        lines = text.splitlines()
        known = mistake(lines[mark.line], mark.column, str(error.problem)) if mark and mark.line < len(lines) else None
        said = known or f"{error.problem}{context}; check indentation, quotes and tabs here"
        raise fail(mark, f"not valid YAML: {said}") from error
    except yaml.YAMLError as error:
        raise fail(None, f"not valid YAML: {error}; check the file for control characters") from error
    except RecursionError as error:
        raise fail(None, "nested too deeply; no workflow file needs that") from error
    if node is None:
        raise fail(None, "the file holds no data; it needs a list 'tasks:' (see 'wilkins init')")
    bomb = _expansion_problem(node)
    if bomb:
        raise fail(node.start_mark, bomb)
    if not text.isascii():
        _take_own_form(node)
    return node


def _take_own_form(root: yaml.Node) -> None:
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, yaml.ScalarNode):
            node.value = own_form(node.value)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.extend(_children(node))


def _expansion_problem(root: yaml.Node) -> str | None:
    """What is wrong with the document's aliases: one that contains itself, or too many nodes when all are followed."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack: list[tuple[yaml.Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        children = _children(node)
        if done:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
            if sizes[id(node)] > MAX_NODES:
                return f"its aliases expand to more than {MAX_NODES} entries; write the values out instead"
            continue
        if id(node) in open_nodes:
            return "an alias here contains itself; write the values out instead"
        if id(node) in sizes:
            continue
        open_nodes.add(id(node))
        stack.append((node, True))
        stack.extend((child, False) for child in children if id(child) not in sizes)
    return None


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _example_in(folder: Path) -> str:
    found = sorted(path.name for pattern in ("*.yaml", "*.yml") for path in folder.glob(pattern))
    return f"'{folder / (found[0] if found else 'workflow.yaml')}'"
