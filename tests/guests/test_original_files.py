"""Workflow files of the original Wilkins, as they are: the same files arrive, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running import WILKINS, run_tree

WORKFLOW = """\
tasks:
  - func: "./prod-test.py"
    nprocs: 1
    actions: ["passthru-actions", "prod_callback"]
    outports:
      - filename: "outfile.h5"
        dsets:
          - name: "/particles"
            passthru: PASSTHRU
            metadata: METADATA
      - filename: "outfile.h5"
        dsets:
          - name: "/grid"
            passthru: PASSTHRU
            metadata: METADATA
  - func: "./con1-test.py"
    nprocs: 1
    actions: ["passthru-actions", "con_callback"]
    inports:
      - filename: "outfile.h5"
        dsets:
          - name: "/particles"
            passthru: PASSTHRU
            metadata: METADATA
  - func: "./con2-test.hx"
    nprocs: 1
    start_proc: 2
    actions: ["passthru-actions", "con_callback"]
    inports:
      - filename: "outfile.h5"
        io_freq: 5
        dsets:
          - name: "/grid"
            passthru: PASSTHRU
            metadata: METADATA
"""
"""One producer of a file with two datasets, listed one by one, and a consumer of each."""
WRITE = """
import h5py
for step in range(10):
    with h5py.File("outfile.h5", "w") as file:
        file["particles"] = [step]
        file["grid"] = [step, step]
"""
READ = """
import h5py
while True:
    try:
        with h5py.File("outfile.h5", "r") as file:
            print("got", file["DSET"][()].tolist(), flush=True)
    except FileNotFoundError:
        break
"""


@pytest.mark.usual("passthru")
@pytest.mark.parametrize("passthru", [True, False], ids=["passthru", "memory"])
def test_one_file_listed_twice_for_two_consumers(tmp_path: Path, passthru: bool) -> None:
    """With the original's callbacks; of ten steps, `io_freq: 5` gives the fifth and the last."""
    programs = {"prod": WRITE, "con1": READ.replace("DSET", "particles"), "con2": READ.replace("DSET", "grid")}
    for name, text in programs.items():
        (tmp_path / f"{name}-test.py").write_text(text)
    text = WORKFLOW.replace("PASSTHRU", str(int(passthru))).replace("METADATA", str(int(not passthru)))
    (tmp_path / "workflow.yaml").write_text(text)
    ran = run_tree([*WILKINS, "run", "workflow.yaml"], 60, tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert "the entries are one port" in ran.err
    got = {name: (tmp_path / "wilkins-runs" / "latest" / f"{name}-test.log").read_text() for name in ("con1", "con2")}
    assert got["con1"] == "".join(f"got [{step}]\n" for step in range(10))
    assert got["con2"] == "".join(f"got [{step}, {step}]\n" for step in (4, 9))
    assert (tmp_path / "outfile.h5").exists() == passthru
