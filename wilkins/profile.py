"""Profiles: files that give options of the command line once for a site, or for a project (``--profile NAME``).

A profile holds values of options by their long names. Each command takes those that it has; what is typed comes before
what a profile gives, and adds to it where an option may be repeated.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from wilkins import arguments
from wilkins.errors import UsageError, WorkflowError, refused, suggest
from wilkins.schema.positions import compose, decoded
from wilkins.schema.reading import Reader, describe
from wilkins.values import dataclass, field

if TYPE_CHECKING:
    from wilkins.flow.placement import Host

_OF_ONE_RUN = {"builtin", "debug", "dry-run", "help", "profile", "resume", "run-dir"}
"""Options that say nothing of a site."""
_VARIABLES = "variables"
_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Profile:
    """What a profile gives."""

    file: Path
    words: Mapping[str, tuple[str, ...]]
    """By option: how it would be typed, a word for each value."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment, for where they are not set."""
    hostfile: Path | None = None
    host_words: str | None = None

    def __str__(self) -> str:
        words = [word for words in self.words.values() for word in words]
        words += [f"--hosts={self.host_words}"] if self.host_words else []
        words += [f"--hostfile={self.hostfile}"] if self.hostfile else []
        variables = "".join(f", {name}={shlex.quote(value)}" for name, value in self.variables.items())
        return f"profile {self.file}: {shlex.join(words) or 'no options'}{variables}"

    def hosts(self) -> tuple[Host, ...]:
        """Where runs go that no option, variable or allocation says of.

        Raises:
            ResourceError, UsageError, WorkflowError: the hosts are no hosts.
        """
        from wilkins.plan import hosts

        if self.hostfile is not None:
            return hosts.from_file(self.hostfile)
        try:
            return hosts.from_words(self.host_words) if self.host_words else ()
        except UsageError as error:
            raise UsageError(f"{error} (the profile {self.file} gives --hosts)") from error

    def words_for(self, parser: argparse.ArgumentParser) -> list[str]:
        """What it gives of the options that a command has."""
        has = {action.dest.replace("_", "-") for action in parser._actions}  # argparse gives them by no other way
        return [word for option, words in self.words.items() if option in has for word in words]

    def origin(self, message: str, typed: Sequence[str]) -> str:
        """What of the options that an error message names is from the profile, and was not typed; mostly nothing."""
        named = [
            f"--{name}"
            for name in self.words
            if re.search(rf"(?<![\w-])--{re.escape(name)}(?![\w-])", message)
            and not any(word.partition("=")[0] == f"--{name}" for word in typed)
        ]
        return f" (the profile {self.file} gives {', '.join(named)})" if named else ""


def found(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The file of a profile: its path, or its name in the folders of the user's and the system's configuration.

    The folders are those of the XDG base directory specification.

    Raises:
        UsageError: there is none.
    """
    if os.sep in name or name.endswith(_ENDINGS):
        path = _at_home(name)
        if not os.path.lexists(path):
            raise UsageError(f"--profile {name}: there is no such file; mend the path, or write it")
        return path.absolute()
    folders = list(_folders(environment))
    for folder in folders:
        for ending in _ENDINGS:
            if os.path.lexists(path := folder / f"{name}{ending}"):
                return path
    known = sorted({path.stem for folder in folders for path in folder.glob("*") if path.suffix in _ENDINGS})
    hint = suggest(name, known) or f"; write {folders[0] / name}.yaml, or give the path of a file"
    raise UsageError(f"--profile: there is no profile {name!r} in {' or '.join(map(str, folders))}{hint}")


def _at_home(path: str) -> Path:
    """With the folder of a user for a ``~`` at the beginning, if there is such a user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises an error if there is none


def _folders(environment: Mapping[str, str]) -> Iterator[Path]:
    own = environment.get("XDG_CONFIG_HOME", "")
    yield (Path(own) if Path(own).is_absolute() else _at_home("~/.config")) / "wilkins"
    for folder in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        if Path(folder).is_absolute():  # others are to be ignored
            yield Path(folder) / "wilkins"


def read(file: Path, environment: Mapping[str, str] = os.environ) -> Profile:
    """What a file gives. Paths in it are relative to its folder.

    Raises:
        ResourceError: it cannot be read.
        UsageError: it is no ordinary file.
        WorkflowError: it is no UTF-8 or YAML, or gives what no option takes; holds every problem.
    """
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise UsageError(f"{file}: a profile must be an ordinary file")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise refused(file, "read the profile", error) from error
    text = decoded(data, str(file))
    reader = Reader(str(file), environment)
    known = {name: action for name, action in _options() if name not in _OF_ONE_RUN}
    given: dict[str, list[str]] = {}
    variables: dict[str, str] = {}
    pairs = _pairs(reader, text)
    if "hosts" in pairs and "hostfile" in pairs:
        reader.problem(pairs["hostfile"][0], "give 'hosts' or 'hostfile', not both")
    for name, (name_node, value) in pairs.items():
        if name == _VARIABLES:
            variables = _variables(reader, value)
        elif name in known:
            given[name] = list(_values(reader, file, name, known[name], value))
        elif name in _OF_ONE_RUN:
            reader.problem(name_node, f"--{name} is for one run; give it on the command line")
        else:
            hint = suggest(name, [*known, _VARIABLES]) or "; see the options in `wilkins submit --help`"
            reader.problem(name_node, f"there is no option --{name} of `wilkins run` or `wilkins submit`{hint}")
    if reader.problems:
        raise WorkflowError(sorted(reader.problems, key=lambda one: (one.position.line, one.position.column)))
    hosts, hostfile = (next(iter(given.pop(name, ())), None) for name in ("hosts", "hostfile"))
    words = {name: tuple(_word(known[name], name, value) for value in values) for name, values in given.items()}
    return Profile(file, words, variables, None if hostfile is None else Path(hostfile), hosts)


def _options() -> Iterator[tuple[str, argparse.Action]]:
    """The options that commands have, by name."""
    for add_to in (arguments.of_run, arguments.of_submit):
        parser = argparse.ArgumentParser()
        add_to(parser)
        for action in parser._actions:
            for option in action.option_strings:
                if option.startswith("--"):
                    yield option.removeprefix("--"), action


def _pairs(reader: Reader, text: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return {}
    root = compose(text, reader.file)
    if not isinstance(root, yaml.MappingNode):
        reader.problem(root, f"a profile must be a mapping of options to values, not {describe(root)}")
        return {}
    return reader.pairs(root, "the profile")


def _variables(reader: Reader, node: yaml.Node) -> dict[str, str]:
    if not isinstance(node, yaml.MappingNode):
        reader.problem(node, f"{_VARIABLES!r} must be a mapping of names to texts, not {describe(node)}")
        return {}
    read = {}
    for name, (name_node, value) in reader.pairs(node, f"{_VARIABLES!r}").items():
        if not name or "=" in name or "\0" in name:
            reader.problem(name_node, f"{name!r} cannot be the name of a variable; it holds '=' or a zero byte")
        read[name] = reader.text(value, f"{_VARIABLES!r}, {name!r}", "a text")
    return read


def _values(reader: Reader, file: Path, name: str, action: argparse.Action, node: yaml.Node) -> Iterator[str]:
    """The values of an option; of one without values, a word if it is wanted."""
    who = f"{name!r}"
    if action.nargs == 0:
        if not isinstance(node, yaml.ScalarNode) or node.value not in ("true", "false"):
            reader.problem(node, f"{who} must be true or false, not {describe(node)}")
        elif node.value == "true":
            yield ""
        return
    several = isinstance(node, yaml.SequenceNode)
    if several and not isinstance(action.default, list):
        reader.problem(node, f"{who} takes one value, not a list")
        return
    for item in node.value if several else [node]:
        text = reader.text(item, who, f"a text: {(action.help or '').partition(';')[0]}")
        if not isinstance(text, str):
            continue
        if not text.strip() or len(text.splitlines()) > 1 or text != text.strip("\n"):
            reader.problem(item, f"{who} must be one line, and not empty, not {text!r}")
            continue
        if action.choices is not None and text not in action.choices:
            hint = suggest(text, list(action.choices)) or f"; give one of {', '.join(action.choices)}"
            reader.problem(item, f"{who} cannot be {text!r}{hint}")
        elif action.type is Path:
            yield str(file.parent / _at_home(text))
        elif (wrong := _wrong(action, text)) is not None:
            reader.problem(item, f"{who} {wrong}")
        else:
            yield text


def _wrong(action: argparse.Action, text: str) -> str | None:
    """Why an option does not take a text."""
    take: Any = action.type
    try:
        if take is not None:
            take(text)
    except (argparse.ArgumentTypeError, ValueError) as error:
        return str(error)
    return None


def _word(action: argparse.Action, name: str, value: str) -> str:
    return f"--{name}" if action.nargs == 0 else f"--{name}={value}"


def applied(name: str, words: Sequence[str], commands: Mapping[str, arguments.Command]) -> tuple[Profile, list[str]]:
    """A profile by its name, and a command line with what it gives to that command before what was typed.

    Raises:
        ResourceError, UsageError, WorkflowError: as `found` and `read`.
    """
    profile = read(found(name))
    place = next(number for number, word in enumerate(words) if word in commands) + 1
    parser = argparse.ArgumentParser(add_help=False)
    commands[words[place - 1]].add_to(parser)
    return profile, [*words[:place], *profile.words_for(parser), *words[place:]]
