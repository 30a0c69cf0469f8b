"""The notebook of the examples, run by Jupyter's kernel in an empty folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.running import processes_in

NOTEBOOK = Path(__file__).parents[2] / "examples" / "walkers.ipynb"


def shown(cell: Any) -> str:
    """All that a cell shows as text, and which pictures."""
    texts = []
    for output in cell.outputs:
        texts += [output.text] if output.output_type == "stream" else list(output.data)
        texts += [output.data["text/plain"]] if "data" in output else []
    return "\n".join(texts)


@pytest.mark.needs("python:nbclient", "python:ipykernel", "python:pandas", "python:matplotlib")
def test_the_notebook_runs(tmp_path: Path) -> None:
    """It shows the graph, tables and plots, and finds what theory says."""
    import nbclient
    import nbformat

    notebook: Any = nbformat.reads(NOTEBOOK.read_text(encoding="utf-8"), 4)  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    cells = {cell.source.splitlines()[0]: cell for cell in notebook.cells if cell.cell_type == "code"}
    assert "image/svg+xml" in shown(cells["from wilkins import Workflow"])
    tasks = shown(cells["run = await workflow.start()"])
    assert tasks.count("done") >= 5
    assert "image/png" in shown(cells["import io"])
    assert "image/png" in shown(cells['events = run.frame("events")'])
    growth = cells["growth = (table.iloc[-1] - table.iloc[0]) / (snapshots - 1)"].outputs[0].data["text/plain"]
    rows = [line.split() for line in growth.splitlines()[2:]]
    assert [float(row[2]) for row in rows] == [2.0, 4.5, 8.0, 12.5]
    for row in rows:
        assert float(row[1]) == pytest.approx(float(row[2]), rel=0.15)
    assert processes_in(tmp_path) == []


def test_the_notebook_is_kept_without_results() -> None:
    """They would be of another day, and make each change of it large."""
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert '"execution_count": null' in text
    assert '"output_type"' not in text
