"""What it costs to encrypt: steps of two runs take turns, of which one encrypts."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from hosts.rig import NEEDS, Rig
from hosts.test_rate import PROGRAMS, WARM, times

from support.running import WILKINS, run_tree

pytestmark = [
    pytest.mark.bench,
    pytest.mark.needs("root", "namespaces", *NEEDS),
    pytest.mark.timeout(150),
]

WORKFLOW = """
tasks:
  - {{func: {python}, name: w, args: [{carry}, w, {steps}, {size}, {turn}], outports: [{{filename: "carried-*.raw"}}]}}
  - {{func: {python}, name: r, args: [{carry}, r, {steps}, {size}, {turn}], inports: [{{filename: "carried-*.raw"}}]}}
"""


def took(rig: Rig, folder: Path, size: int, steps: int) -> list[list[float]]:
    """Seconds of each step from its close until it could be read elsewhere, encrypted and in clear."""
    (folder / "turn-0").touch()
    runs = []
    for turn, options in enumerate((["--encrypt"], [])):
        text = WORKFLOW.format(python=sys.executable, carry=PROGRAMS / "carry.py", steps=steps, size=size, turn=turn)
        (folder / f"{turn}.yaml").write_text(text)
        words = [*WILKINS, "run", "--hosts", "node0:1,node1:1", "--run-dir", f"run-{turn}", "--quiet", *options]
        words.append(f"{turn}.yaml")
        runs.append(rig.on("node0", *words, folder=folder))
    with subprocess.Popen(runs[0], stderr=subprocess.PIPE, text=True) as beside:
        try:
            done = run_tree(runs[1], 120, folder)
            _, said = beside.communicate(timeout=60)
        finally:
            beside.kill()
    assert done.code == 0, done.err
    assert beside.returncode == 0, said
    found = []
    for turn in range(2):
        written, read = (times((folder / f"run-{turn}/{task}.log").read_text()) for task in ("w", "r"))
        found.append([after - before for before, after in zip(written, read, strict=True)])
    return found


@pytest.mark.parametrize(
    ("size", "steps"),
    [(1 << 30, 12), (128 << 20, 30), (16 << 20, 60), (1 << 10, 300)],
    ids=["1 GB", "128 MB", "16 MB", "1 KB"],
)
def test_an_encrypted_step_crosses_at_half_the_rate_or_more(tmp_path: Path, size: int, steps: int) -> None:
    """Both hosts share their cores, and encrypt and decrypt on them."""
    with Rig(2) as rig:
        encrypted, clear = ([1e3 * one for one in some[WARM:]] for some in took(rig, tmp_path, size, steps))
    ratio = statistics.median(encrypted) / statistics.median(clear)
    pairs = [one / other for one, other in zip(encrypted, clear, strict=True)]
    print(
        f"{size} bytes: {statistics.median(encrypted):.2f} ms encrypted, {statistics.median(clear):.2f} ms in clear: "
        f"{ratio:.2f}, quartiles {[round(one, 2) for one in statistics.quantiles(pairs, n=4)]}"
    )
    assert ratio < 2
