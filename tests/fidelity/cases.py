"""Cases of Python programs: each writes one file, and tells what it saw; then its consumer reads it.

``python -m fidelity.cases write|read OUT FILE...`` runs all cases of some files in one process; a single file is run
the same way. OUT gets a section per case. ``only=NAME,NAME`` as a last word leaves out the others.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

Producer = Callable[[str], Any]
Consumer = Callable[[str], Any]


@dataclass(frozen=True)
class Case:
    """One file: how it is written, and how it is looked at besides the complete view."""

    name: str
    produce: Producer
    consume: Consumer
    pair: bool
    again: bool

    @property
    def file(self) -> str:
        return f"{'again' if self.again else 'case'}-{self.name}.h5"


CASES: list[Case] = []


def case(
    *_features: str, consume: Consumer | None = None, pair: bool = False, again: bool = False, refused: bool = False
) -> Callable[[Producer], Producer]:
    """Add a function that writes the file of a given name to the cases.

    The case may have a second file, its target (``pair``), or open its file ``again`` after its close, to add to it.
    The rig reads the rest from the source: the features that it is about (``features.py``), and whether a channel is to
    refuse it.
    """

    def add(produce: Producer) -> Producer:
        CASES.append(Case(produce.__name__, produce, consume or (take_both if pair else take), pair, again))
        return produce

    del refused
    return add


def target(name: str) -> str:
    """The second file of a case, which travels on a port of its own."""
    return "target-" + name.partition("-")[2]


def take(name: str) -> list[str]:
    """The least a consumer does: it opens the file, and reads its bytes."""
    return [attempt(lambda: h5py.File(name, "r").close()), attempt(lambda: len(Path(name).read_bytes()))]


def take_both(name: str) -> list[list[str]]:
    """The same with both files of a case."""
    return [take(name), take(target(name))]


def attempt(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """What a call returns, or how it fails, in words."""
    try:
        return repr(call(*arguments, **options))
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> str:
    """How a call failed, in words."""
    return f"{type(error).__name__}({getattr(error, 'errno', None)}): {error}"


def lines(value: Any, path: str = "") -> Iterator[str]:
    """A nest of dictionaries and lists as lines that each say where they belong."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from lines(part, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from lines(part, f"{path}[{number}]")
        yield f"{path} has {len(value)}"
    else:
        yield re.sub(r" at 0x[0-9a-f]+", "", f"{path}: {value}".replace("\n", "\\n"))


def tell(out: Any, name: str, value: Any) -> None:
    """Write a case's section."""
    print(f"== {name}", *lines(value), sep="\n", file=out, flush=True)


def begin_ports(kinds: set[str]) -> None:
    """Write two small files on every port: that a port's first name is not a stream, only its second file tells."""
    for kind in kinds:
        for number in 1, 2:
            Path(f"{kind}-{number}.h5").write_bytes(b"no case")


def main(action: str, out: str, *files: str) -> None:
    """Run the cases."""
    only: Sequence[str] = ()
    if files and files[-1].startswith("only="):
        only = files[-1].removeprefix("only=").split(",")
        files = files[:-1]
    for file in files:
        spec = importlib.util.spec_from_file_location(f"pairs.{Path(file).stem}", file)
        assert spec and spec.loader
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    if only:
        CASES[:] = [case for case in CASES if case.name in only]
    if action == "write":
        begin_ports({case.file.partition("-")[0] for case in CASES} | {"target" for case in CASES if case.pair})
    with Path(out).open("w", encoding="utf-8", errors="surrogateescape") as sections:
        for case in CASES:
            act = case.produce if action == "write" else case.consume
            try:
                seen = act(case.file)
            except Exception as error:
                seen = failure(error)
            tell(sections, case.name, seen)


if __name__ == "__main__":
    from fidelity import cases  # the module that the files of cases add theirs to, not this run of it

    cases.main(*sys.argv[1:])
