"""Another package adds a ready-made task: its section is checked by the front, and it runs on all its ranks."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from support.running import MPIEXEC, WILKINS, run_tree

OPTIONS = """
    from wilkins.schema.kinds import integer
    from wilkins.schema.reading import Where, key
    from wilkins.tasks.registry import ReadyMade
    from wilkins.values import dataclass

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Counting:
        start: int = key(integer(0), default=0, doc="The first number.")
        where: Where

    TASK = ReadyMade(
        name="counting", doc="Counts.", options=Counting, module="other.run", section="count"
    )
"""

RUN = """
    from wilkins.transport import steps

    def main(options, ports, ranks):
        seen = ranks.allgather([f"{options['start'] + n}:{name}" for n, name in enumerate(steps.names(*ports.inports))])
        if ranks.rank == 0:
            print("counted", *seen[-1], "on", len(seen))
"""

WORKFLOW = """
    tasks:
      - func: producer.py
        outports: [{filename: "x*.h5"}]
      - func: wilkins.tasks.counting
        nprocs: 2
        inports: [{filename: "x*.h5"}]
        count: {start: 7}
"""

PRODUCER = """
    import h5py
    for step in range(2):
        h5py.File(f"x{step}.h5", "w").close()
"""


@pytest.mark.needs(MPIEXEC)
def test_a_task_of_another_package(tmp_path: Path) -> None:
    files = {
        "site/other/__init__.py": "",
        "site/other/options.py": OPTIONS,
        "site/other/run.py": RUN,
        "site/other-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n",
        "site/other-1.0.dist-info/entry_points.txt": "[wilkins.tasks]\ncounting = other.options:TASK\n",
        "producer.py": PRODUCER,
        "workflow.yaml": WORKFLOW,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    path = {"PYTHONPATH": f"{tmp_path}/site:{os.environ.get('PYTHONPATH', '')}"}
    done = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path, path)
    assert done.code == 0, done.out + done.err
    assert "counted 7:x0.h5 8:x1.h5 on 2" in done.out
    schema = run_tree([*WILKINS, "schema", "--format", "markdown"], 60, tmp_path, path)
    assert "## The ready-made task `wilkins.tasks.counting`: `count`" in schema.out
    wrong = run_tree([*WILKINS, "check", "workflow.yaml", "--set", "counting.count.start=-1"], 60, tmp_path, path)
    assert "task 'counting', count: 'start' must be a whole number of 0 or more" in wrong.err
