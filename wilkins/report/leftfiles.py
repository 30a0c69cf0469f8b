"""Files that a run's out-ports have left on the disk, by their names."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

from wilkins.plan.plan import PortPlan


def patterns_of(port: PortPlan) -> list[str]:
    """The names or patterns of a port's files, or folders."""
    return [port.pattern, *(str(Path(port.pattern).with_name(name)) for name in port.beside)]


def matching(folder: Path, pattern: str) -> Iterator[Path]:
    """Files and folders of a name or pattern, which is one below a folder unless it is absolute."""
    for name in glob.iglob(pattern, root_dir=folder, recursive=True):  # noqa: PTH207 - a pattern may be absolute
        yield folder / name
