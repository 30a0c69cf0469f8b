"""Looks into containers: whether the layer can be preloaded into their programs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from wilkins.doctor.facts import ContainerFacts
from wilkins.launch.programs import environment as env
from wilkins.plan import containers, glibc
from wilkins.plan.environments import find_container
from wilkins.schema.kinds import Image
from wilkins.spec.load import load

_ASK = "getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1"
_LIMIT = 300.0
"""Seconds to start a container, which may have to be brought first."""


def of_workflow(file: Path) -> Iterator[ContainerFacts]:
    """The containers of a workflow file.

    Raises:
        WorkflowError: the file is wrong.
    """
    document = load(file)
    home = document.path.resolve().parent
    for image in dict.fromkeys(task.container for task in document.workflow.tasks if task.container):
        yield _of_image(image, home)


def _of_image(wanted: Image, home: Path) -> ContainerFacts:
    name = wanted.name
    try:
        container = find_container(name, wanted.binds, home, os.environ.get("PATH"))
    except ValueError as error:
        return ContainerFacts(name, problem=str(error))
    image = Path(container.image)
    if image.is_dir():
        return ContainerFacts(name, container.program, glibc.of_root(image) or (), glibc.needed())
    words = containers.command(container, "/", [], {}, {}, env.entries_of(image))
    try:
        done = subprocess.run(
            [*words, "/bin/sh", "-c", _ASK],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return ContainerFacts(name, container.program, problem=f"it cannot be started: {error}; try: {' '.join(words)}")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return ContainerFacts(name, container.program, problem=f"it cannot be started: {said}; mend what it says")
    found = re.search(r"(\d+)\.(\d+)", done.stdout) if "musl" not in done.stdout else None
    return ContainerFacts(name, container.program, (int(found[1]), int(found[2])) if found else (), glibc.needed())
