"""Versions as safetensors files, read back by the package of that name."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs.same_state import same

from support.running import MPIEXEC, must_run
from wilkins.cli import main
from wilkins.tasks.checkpoint import CheckpointError, Damaged, Unsupported, to_safetensors

from .conftest import Opener
from .test_torch import DTYPES, bytes_of, trained

PROGRAM = Path(__file__).parents[1] / "programs" / "checkpointed.py"
READER = pytest.mark.needs("python:safetensors")
TORCH = pytest.mark.needs("python:torch")
SCRIPT = """
import sys
from wilkins.cli import main
assert main(sys.argv[1:]) == 0
assert "torch" not in sys.modules
"""


def saved(opened: Opener, state: Any) -> None:
    """A version of one rank."""
    checkpointer = opened()
    checkpointer.save(3, state)
    checkpointer.close()


def read(file: Path) -> dict[str, Any]:
    """The arrays of a file, as NumPy's."""
    found: dict[str, Any] = importlib.import_module("safetensors.numpy").load_file(file)
    return found


def metadata_of(file: Path) -> dict[str, str]:
    """What a file says of itself."""
    with importlib.import_module("safetensors").safe_open(file, "np") as opened:
        found: dict[str, str] = opened.metadata()
    return found


@READER
def test_numpy_arrays(opened: Opener, tmp_path: Path) -> None:
    """Of all types that the format has, of any layout and byte order, empty or of one element."""
    rng = np.random.default_rng(1)
    kinds = [*"?BbHhIiLl", "f2", "f4", "f8", "c8"]
    plain: dict[str, Any] = {
        np.dtype(kind).name: rng.integers(0, 2 if kind == "?" else 100, (7, 5)).astype(kind) for kind in kinds
    }
    strange = {
        "big": np.arange(5, dtype=">f8"),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "none": np.zeros((0, 3)),
        "one": np.array(1.5),
        "slices": np.arange(200.0).reshape(20, 10)[::3, ::2],
    }
    saved(opened, plain | {"deep": [strange], 3: np.arange(3)})
    file = tmp_path / "all.safetensors"
    done = to_safetensors(tmp_path / "latest", file)
    found = read(file)
    expected = plain | {f"deep/0/{name}": one for name, one in strange.items()} | {"3": np.arange(3)}
    expected["deep/0/big"] = expected["deep/0/big"].astype("<f8")
    assert same({name: found[name] for name in sorted(found)}, {name: expected[name] for name in sorted(expected)})
    assert set(done.names) == set(found) and not done.tied and done.bytes == sum(one.nbytes for one in found.values())
    assert metadata_of(file) == {"format": "np", "wilkins.version": "000001-step-3"}
    assert list(tmp_path.glob(".*.part")) == []


@READER
@TORCH
def test_torch_dtypes(opened: Opener, tmp_path: Path) -> None:
    torch = importlib.import_module("torch")
    dtypes = [*DTYPES, "float8_e4m3fnuz", "float8_e5m2fnuz"]
    state = {
        name: torch.randint(0, 2 if name == "bool" else 256, (30, 20, getattr(torch, name).itemsize), dtype=torch.uint8)
        .view(getattr(torch, name))
        .squeeze(-1)
        .t()
        for name in dtypes
    }
    saved(opened, state)
    file = tmp_path / "all.safetensors"
    to_safetensors(tmp_path / "latest", file)
    found = importlib.import_module("safetensors.torch").load_file(file)
    assert set(found) == set(dtypes)
    for name in dtypes:
        assert found[name].dtype == state[name].dtype and found[name].shape == (20, 30)
        assert bytes_of(torch, found[name]) == bytes_of(torch, state[name])


@pytest.mark.nightly
@READER
@TORCH
def test_a_model_with_tied_weights(opened: Opener, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Written once; `load_model` knows the other name. By the command line, which needs no torch for it."""
    torch = importlib.import_module("torch")
    model, optimizer = trained(torch)
    saved(opened, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3})
    file = tmp_path / "model.safetensors"
    words = ["ckpt", "export", str(tmp_path), str(file), "--root", "model"]
    out = must_run(tmp_path, sys.executable, "-c", SCRIPT, *words)
    assert "of 000001-step-3 to" in out and out.endswith("2.weight is 0.weight\n")
    assert metadata_of(file)["2.weight"] == "0.weight" and metadata_of(file)["format"] == "pt"
    other, _ = trained(torch, 1)
    missing, unexpected = importlib.import_module("safetensors.torch").load_model(other, file)
    assert not missing and not unexpected
    assert all(torch.equal(one, other.state_dict()[name]) for name, one in model.state_dict().items())
    assert main(["ckpt", "export", str(tmp_path), str(file)]) == 1
    told = capsys.readouterr().err
    assert "no arrays" in told and "optimizer/param_groups/0/lr (float)" in told and "--only PATTERN" in told
    assert main(["ckpt", "export", str(tmp_path), str(file), "--only", "*.bias", "--only", "optimizer/state"]) == 0
    assert set(importlib.import_module("safetensors.torch").load_file(file)) > {
        "model/0.bias",
        "optimizer/state/0/step",
    }


@READER
@pytest.mark.needs(MPIEXEC)
def test_shards_are_joined(tmp_path: Path) -> None:
    """Replicas once, boxes as one array; of what each rank has of its own, one rank's, if that is said."""
    folder, file = tmp_path / "versions", tmp_path / "all.safetensors"
    must_run(tmp_path, MPIEXEC, "-n", "3", sys.executable, PROGRAM, "run", folder, "2", timeout=150)
    with pytest.raises(Unsupported, match=r"no arrays.*: optimizer/lr \(float\), words/0 \(str\).* and 1 more"):
        to_safetensors(folder / "latest", file)
    arrays = ("model", "optimizer/0", "grid", "own")
    with pytest.raises(Unsupported, match=r"each rank has its own own, .* --rank K"):
        to_safetensors(folder / "latest", file, only=arrays)
    assert not file.exists()
    done = to_safetensors(folder / "latest", file, only=arrays, rank=2)
    found = read(file)
    assert sorted(found) == sorted(done.names) == ["grid", "model/bias", "model/weight", "optimizer/0/moment", "own"]
    assert same(found["grid"], np.random.default_rng(1).standard_normal((13, 1 << 13)))
    assert same(found["own"], np.full(1002, 102, np.int32))
    with pytest.raises(CheckpointError, match="there is no rank 3: 000002-step-1 was saved by ranks 0 to 2"):
        to_safetensors(folder / "latest", file, rank=3)


def test_what_the_format_does_not_have(opened: Opener, tmp_path: Path) -> None:
    """Refused by its name; nothing is written then."""
    file = tmp_path / "x.safetensors"
    for state, words in (
        ({"a": np.array(["2026-11-21"], "M8[D]"), "b": np.zeros(2, complex)}, r"a \(<M8\[D\]\), b \(<c16\)"),
        ({"a": np.zeros(2), "text": ["b"], "none": None}, r"text/0 \(str\), none \(None\)"),
        ({"a": np.zeros(2), "scalar": np.float32(1), "inf": float("inf")}, r"scalar \(a NumPy scalar\), inf \(float\)"),
        (np.zeros(3), "no array of the name ''"),
        ({"__metadata__": np.zeros(3)}, "no array of the name '__metadata__'"),
    ):
        saved(opened, state)
        with pytest.raises(Unsupported, match=words):
            to_safetensors(tmp_path / "latest", file)
    saved(opened, {"a": np.zeros(2)})
    with pytest.raises(CheckpointError, match="holds no array that is to be exported"):
        to_safetensors(tmp_path / "latest", file, only=("b",))
    with pytest.raises(CheckpointError, match=r"cannot write .*No such file"):
        to_safetensors(tmp_path / "latest", tmp_path / "nowhere" / "x.safetensors")
    assert not file.exists()


def test_a_damaged_version_is_not_exported(opened: Opener, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(opened, {"a": np.arange(100_000)})
    data = tmp_path / "000001-step-3" / "data-0.bin"
    raw = bytearray(data.read_bytes())
    raw[500_000] ^= 1
    data.write_bytes(raw)
    file = tmp_path / "x.safetensors"
    file.write_text(json.dumps("there before"))
    with pytest.raises(Damaged, match="do not match their digest"):
        to_safetensors(tmp_path / "latest", file)
    assert json.loads(file.read_text()) == "there before" and not list(tmp_path.glob(".*.part"))
    assert main(["ckpt", "export", str(tmp_path), str(file), "--version", "4"]) == 2
    assert "holds no version '4'" in capsys.readouterr().err
