"""Producers, and a folder with the programs of a workflow."""

from __future__ import annotations

import textwrap
from pathlib import Path

from support.running import WILKINS, Finished, processes_in, run_tree

WRITE = """
    import sys, time, h5py, numpy as np
    for step in range(int(sys.argv[1])):
        with h5py.File(sys.argv[2].format(step), "w") as file:
            file["u"] = np.full((300, 1000), step, "f4")
            file.create_dataset("packed", data=np.arange(1000) + step, compression="gzip")
            file["name"] = f"step {step}"
            file.attrs["step"] = step
        time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 0)
"""

PUBLISH = """
    import sys, numpy as np, wilkins.transport
    for step in range(int(sys.argv[1])):
        name = sys.argv[2] % step
        rows = step * 1e6 + np.arange(9)[:, None] * 1000.0 + np.arange(12)
        if step % 2:
            arrays = {"rows": rows, "g": {"text": "grüße", "tag": [b"tag"]}}
            wilkins.transport.publish(name, arrays, {"step": np.int32(step)})
        else:
            with wilkins.transport.create(name) as new:
                new.empty("rows", (9, 12))[:] = rows
                new["g/text"], new["g/tag"] = "grüße", [b"tag"]
                new.attrs["step"] = np.int32(step)
"""


class Tasks:
    """A folder with the programs of a workflow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        """A Python program; it prints what the test looks at."""
        (self.folder / name).write_text(textwrap.dedent(text))

    def workflow(self, *tasks: str) -> None:
        """Each task in YAML."""
        (self.folder / "workflow.yaml").write_text("\n".join(["tasks:", *(f"  - {{{task}}}" for task in tasks)]))

    def run(self, *tasks: str, code: int = 0, job: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Finished:
        """Run the tasks; nothing may be left of them."""
        self.workflow(*tasks)
        done = run_tree([*job, *WILKINS, "run", "workflow.yaml"], 90, self.folder, env)
        logs = "\n".join(path.read_text() for path in (self.folder / "wilkins-runs" / "latest").glob("*.log"))
        assert done.code == code, f"{done.out}\n{done.err}\n{logs}"
        assert not processes_in(self.folder)
        return done

    def said(self, task: str) -> list[str]:
        """The lines that a task has printed."""
        return (self.folder / "wilkins-runs" / "latest" / f"{task}.log").read_text().splitlines()
