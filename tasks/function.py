"""A Python function as a task: what its processes execute, with the function's name, its ports and its arguments."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wilkins.transport import NewStep


class OutPort:
    """Files that a function writes: each call publishes the next step."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        """The out-port's ``filename``."""
        self.count = 0
        """Steps published so far."""

    def publish(self, arrays: Mapping[str, Any], name: str | None = None, **more: Any) -> str:
        """Publish a step with these datasets, as `wilkins.transport.publish` does; returns its file's name.

        Args:
            name: of the file; left out: the pattern with the number of the step for its ``*``, in six digits.
            more: ``attrs`` and ``dset_attrs``.

        Raises:
            ValueError: the pattern has other wildcards, so that a name must be given.
        """
        import wilkins.transport

        name = self._name(name)
        wilkins.transport.publish(name, arrays, **more)
        self.count += 1
        return name

    @contextlib.contextmanager
    def create(self, name: str | None = None) -> Iterator[NewStep]:
        """A step to be filled in place, as `wilkins.transport.create` gives it. `name`, and errors: as of `publish`."""
        import wilkins.transport

        with wilkins.transport.create(self._name(name)) as step:
            yield step
        self.count += 1

    def _name(self, name: str | None) -> str:
        if name is not None:
            return name
        if any(sign in self.pattern for sign in "?[") or self.pattern.count("*") > 1:
            raise ValueError(f"the files of {self.pattern!r} can have several names; give one: publish(arrays, name)")
        return self.pattern.replace("*", f"{self.count:06}")


def argument(word: str) -> int | float | bool | str:
    """A word of ``args`` as the value that it looks like: a number, true or false, else text."""
    with contextlib.suppress(ValueError):
        return int(word)
    with contextlib.suppress(ValueError):
        return float(word)
    return {"true": True, "false": False}.get(word, word)


def main(name: str, ports: str, words: list[str]) -> int:
    """Call the function on this rank, and return the exit code.

    Args:
        name: of the function, as `wilkins.tasks.code` finds it.
        ports: as JSON, the patterns of the in-ports and of the out-ports, and the workflow file's folder.
        words: further arguments.
    """
    import wilkins.transport
    from wilkins.tasks.code import load
    from wilkins.tasks.errors import TaskError

    inports, outports, folder = json.loads(ports)
    try:
        function = load(name, "func", [Path(folder)])
    except TaskError as error:
        print(f"wilkins: error: {error}", file=sys.stderr, flush=True)
        return 1
    function(*map(wilkins.transport.open, inports), *map(OutPort, outports), *map(argument, words))
    return 0


if __name__ == "__main__":
    del sys.path[0]  # modules beside this file must not hide others
    if importlib.util.find_spec("wilkins") is None:  # a checkout that only this file's path leads to
        sys.path.append(str(Path(__file__).parents[2]))
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
