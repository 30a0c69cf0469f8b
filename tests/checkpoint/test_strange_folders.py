"""Folders that nobody's Checkpointer wrote: whatever stands where files of a version should, each command says so.

The newest of two versions is made strange in one way. Nothing hangs, takes memory for what is not there, leads out of
the folder or ends in a traceback; what is restored is the other version.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.running import must_run
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError
from wilkins.tasks.checkpoint.engine import flush
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage as damage_of

PROGRAM = Path(__file__).parents[1] / "programs" / "looks_at_versions.py"
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""Root, too, may then read only what its permissions say."""
Damage = Callable[[Path], None]


def sealed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a manifest, and give it the digest that it should have."""
    values = json.loads((path / "manifest.json").read_bytes())
    values.pop("sha256")
    change(values)
    (path / "manifest.json").write_text(json.dumps({"sha256": versions.seal_of(values), **values}))


def manifest(**new: Any) -> Damage:
    return lambda path: sealed(path, lambda values: values.update(new))


def stream(**new: Any) -> Damage:
    return lambda path: sealed(path, lambda values: values["streams"][0].update(new))


def without(name: str) -> Damage:
    return lambda path: sealed(path, lambda values: values.pop(name))


def index_text(text: str) -> Damage:
    """Another index, of which the manifest has the digest."""

    def damage(path: Path) -> None:
        raw = text.encode()
        (path / "index-0.json").write_bytes(raw)
        stream(index_bytes=len(raw), index_sha256=hashlib.sha256(raw).hexdigest())(path)

    return damage


def index(change: Callable[[dict[str, Any]], Any]) -> Damage:
    def damage(path: Path) -> None:
        values = json.loads((path / "index-0.json").read_bytes())
        change(values)
        index_text(json.dumps(values))(path)

    return damage


def array(**new: Any) -> Damage:
    return index(lambda values: values["arrays"][0].update(new))


def second(**new: Any) -> Damage:
    """Of two arrays that are alike but for name and place."""
    return index(lambda values: values["arrays"][1].update(new))


def tree(new: Any) -> Damage:
    return index(lambda values: values.update(tree=new))


def instead(name: str, make: Callable[[Path], Any]) -> Damage:
    """Something else where a file was."""

    def damage(path: Path) -> None:
        (path / name).unlink()
        make(path / name)

    return damage


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 20 << 30)


def text(what: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text(what)


def led_out(path: Path) -> None:
    """The bytes are there, in the folder above, under the name that the manifest says."""
    (path / "data-0.bin").rename(path.parent / "data-0.bin")
    sealed(
        path,
        lambda values: (
            values.update(files={"../data-0.bin": values["files"]["data-0.bin"]}),
            values["streams"][0].update(file="../data-0.bin"),
        ),
    )


def boundless(path: Path) -> None:
    """Data of 20 GB in one block, as the manifest says, too."""
    huge(path / "data-0.bin")
    size = 20 << 30
    sealed(
        path,
        lambda values: (
            values.update(block=size, files={"data-0.bin": size}),
            values["streams"][0].update(bytes=size, crc32=[0]),
        ),
    )


CASES: dict[str, tuple[Damage, str]] = {
    "a manifest nested deeply": (instead("manifest.json", text('{"a":' * 200_000)), "nested more deeply"),
    "a manifest of 20 GB": (instead("manifest.json", huge), "manifest.json cannot be read: it is longer than"),
    "a manifest that is a named pipe": (instead("manifest.json", os.mkfifo), "it is a named pipe, not a file"),
    "a manifest that is a device": (instead("manifest.json", lambda at: at.symlink_to("/dev/zero")), "it is a device"),
    "a manifest that is a socket": (instead("manifest.json", a_socket), "manifest.json cannot be read"),
    "a manifest that is a folder": (instead("manifest.json", Path.mkdir), "it is a folder, not a file"),
    "a manifest that is a link to itself": (
        instead("manifest.json", lambda at: at.symlink_to(at.name)),
        "manifest.json cannot be read: Too many levels",
    ),
    "a manifest that may not be read": (lambda path: (path / "manifest.json").chmod(0), "Permission denied"),
    "a folder that may not be read": (lambda path: path.chmod(0), "Permission denied"),
    "a manifest that is a list": (instead("manifest.json", text("[]")), "it is a list, and must be an object"),
    "a manifest with a key twice": (instead("manifest.json", text('{"a": 1, "a": 2}')), "the key 'a' twice"),
    "a manifest with NaN": (manifest(time=float("nan")), "it holds NaN"),
    "a manifest without its streams": (without("streams"), "it has no 'streams'"),
    "streams that are an object": (manifest(streams={}), "streams is an object, and must be a list"),
    "no streams": (manifest(streams=[]), "streams is a list, and must be a list of 1 or more"),
    "a size that is a string": (stream(bytes="12"), "streams[0].bytes is '12', and must be an integer"),
    "a size that is negative": (stream(bytes=-4096), "streams[0].bytes is -4096, and must be"),
    "a size that is true": (stream(bytes=True), "streams[0].bytes is True, and must be"),
    "a size past all files": (stream(offset=2**62), "streams[0] is no part of any of the files"),
    "blocks of no bytes": (manifest(block=0), "block is 0, and must be"),
    "a block of 20 GB": (boundless, "block is 21474836480, and must be"),
    "digests that are numbers past 32 bits": (stream(crc32=[2**40]), "streams[0].crc32[0] is"),
    "fewer digests than blocks": (stream(crc32=[]), "streams[0].crc32 has 0 digests"),
    "a file beside the folder": (led_out, "must be the name of a file in the version's folder"),
    "an index beside the folder": (stream(index="../index-0.json"), "must be the name of an index"),
    "a name with a zero": (stream(file="data\0"), "must be the name of a file"),
    "a name that no file system has": (stream(file="\ud800"), "must be the name of a file"),
    "data that is a named pipe": (instead("data-0.bin", os.mkfifo), "data-0.bin cannot be read: it is a named pipe"),
    "an index that is a named pipe": (instead("index-0.json", os.mkfifo), "index-0.json cannot be read: it is a named"),
    "an index of 20 GB": (instead("index-0.json", huge), "index-0.json cannot be read: it is longer than"),
    "an index nested deeply": (index_text('{"arrays":[],"tree":' + "[" * 200_000), "nested more deeply"),
    "a state nested deeply": (
        index_text('{"arrays":[],"tree":' + '{"list":[' * 250 + "]}" * 250 + "}"),
        "nested more than 200 deep",
    ),
    "a state of another kind": (tree({"pickle": "gASVAAAA"}), "tree.pickle is of an unknown kind"),
    "a state of no pairs": (tree({"dict": [["x", 1], "y"]}), "tree.dict[1] is 'y', and must be a list"),
    "a state with an array that is not there": (tree({"dict": [["x", {"array": 7}]]}), "tree.dict[0][1].array is 7"),
    "an array that is a list": (index(lambda values: values.update(arrays=[[]])), "arrays[0] is a list, and must be"),
    "an array without a shape": (index(lambda values: values["arrays"][0].pop("shape")), "arrays[0] has no 'shape'"),
    "an array of a negative shape": (array(shape=[-1]), "arrays[0].shape[0] is -1"),
    "an array larger than what was written": (
        array(shape=[2**40], whole=[2**40]),
        "arrays[0].shape has 1099511627776 elements",
    ),
    "an array with axes that it has not": (array(order=[0, 1]), "arrays[0].order is (0, 1), and the array has 1 axes"),
    "an array with a type of objects": (array(dtype="|O8"), "a checkpoint holds no objects"),
    "an array with a type that is code": (array(dtype="{'names':['a'],'formats':['O']}"), "NumPy knows no dtype"),
    "an array whose bytes are elsewhere": (
        array(parts=[[0, 2**40, 0, 8000]]),
        "arrays[0].parts lead to bytes that are not there",
    ),
    "an array whose bytes are there twice": (
        array(parts=[[0, 0, 0, 4000], [0, 0, 0, 4000]]),
        "arrays[0].parts do not hold each byte of it once",
    ),
    "another array without a name": (second(key=3), "arrays[1].key is 3, and must be a string"),
    "another array of whole numbers that are not": (second(shape=[1000.0]), "arrays[1].shape[0] is 1000.0"),
    "another array with a gradient of 0": (second(grad=0), "arrays[1].grad is 0, and must be true or false"),
    "another array with what nobody knows": (second(color="red"), "arrays[1] has 'color', which this Wilkins does not"),
    "another array in no stream": (second(parts=[[1, 0, 0, 8000]]), "arrays[1].parts lead to bytes that are not there"),
    "another array behind its stream": (second(parts=[[0, 9000, 0, 8000]]), "arrays[1].parts lead to bytes that"),
    "another array before its stream": (second(parts=[[0, -1, 0, 8000]]), "arrays[1].parts[0][1] is -1"),
    "another array at true": (second(parts=[[0, True, 0, 8000]]), "arrays[1].parts[0][1] is True"),
    "another array in a place of three numbers": (second(parts=[[0, 0, 0]]), "arrays[1].parts lead to bytes that"),
    "another array in no list of places": (
        second(parts=[0, 0, 0, 8000]),
        "arrays[1].parts[0] is 0, and must be",
    ),
    "another array without its first bytes": (second(parts=[[0, 0, 8, 8000]]), "arrays[1].parts do not hold each byte"),
    "another array of fewer bytes": (second(parts=[[0, 0, 0, 7992]]), "arrays[1].shape has 1000 elements of <f8, and"),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command says of each folder, by name."""
    base = tmp_path_factory.mktemp("strange")
    with Checkpointer(base / "whole", keep=2, block=4096) as checkpointer:
        for step in (1, 2):
            checkpointer.save(step, {"x": np.full(1000, float(step)), "y": np.full(1000, float(step))})
    folders = []
    for number, (damage, _) in enumerate(CASES.values()):
        folders.append(base / str(number))
        shutil.copytree(base / "whole", folders[-1], symlinks=True)
        damage(folders[-1] / "000002-step-2")
    out = must_run(base, *WITHOUT_RIGHTS, sys.executable, PROGRAM, *folders, timeout=120)
    answers = [json.loads(line) for line in out.splitlines()]
    return dict(zip(CASES, answers, strict=True))


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize("name", CASES)
def test_a_version_that_is_strange(told: dict[str, Any], name: str) -> None:
    answer, words = told[name], CASES[name][1]
    assert "Traceback" not in json.dumps(answer)
    assert answer["restore"]["step"] == 1 and answer["restore"]["sum"] == 1000.0
    assert words in answer["restore"]["told"] and answer["restore"]["told"].startswith("000002-step-2: ")
    assert answer["list"]["code"] == 0 and "000001-step-1" in answer["list"]["told"]
    assert answer["verify"]["code"] == 1
    first, second, cure = answer["verify"]["told"].splitlines()
    assert first.startswith("000001-step-1: all right") and second.startswith("000002-step-2: damaged: ")
    assert words in second and "bring its files back from a copy, or remove its folder" in cure
    assert answer["prune"]["code"] == 1 and "none of the newest 1 versions" in answer["prune"]["told"]
    for action in ("show", "export"):
        if "data that is" in name and action == "show":
            continue  # it reads no data
        assert answer[action]["code"] == 1 and words in answer[action]["told"], action
        assert "000002-step-2 is damaged" in answer[action]["told"]
        assert "bring its files back from a copy, or name another version" in answer[action]["told"]


def test_a_sheet_that_is_no_file(tmp_path: Path) -> None:
    """What partners wrote beside a version is not waited for either; the version is whole without it."""
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"x": 1})
        checkpointer.wait()
        version = versions.versions(tmp_path)[-1]
        os.mkfifo(version.path / "partners.json")
        assert "partners.json cannot be read: it is a named pipe, not a file" in damage_of(version)
        restored = checkpointer.restore()
        assert restored is not None and restored.step == 1


@pytest.mark.parametrize("kind", [os.mkfifo, lambda path: path.symlink_to("elsewhere")], ids=["pipe", "link"])
def test_a_lock_that_is_no_file(tmp_path: Path, kind: Callable[[Path], None]) -> None:
    """Nobody waits for a named pipe, and what a link leads to is not written over."""
    folder = tmp_path / "versions"
    folder.mkdir()
    (folder / "elsewhere").write_text("mine")
    kind(folder / ".lock")
    with pytest.raises(CheckpointError, match=r"\.lock"):
        Checkpointer(folder)
    assert (folder / "elsewhere").read_text() == "mine"


def test_what_could_not_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest or an index that is longer than readers take is refused when it is saved, with what to do."""
    state = {"x": np.zeros(100_000), "words": ["a" * 3000]}
    for module, name, limit, words in (
        (versions, "SHEETS", 2000, r"give larger ones \(block=\)"),
        (flush, "INDICES", 3000, "give what is large as arrays"),
    ):
        monkeypatch.setattr(module, name, limit)
        with Checkpointer(tmp_path, block=4096) as checkpointer:
            checkpointer.save(1, state)
            with pytest.raises(CheckpointError, match=words):
                checkpointer.wait()
            assert checkpointer.restore() is None
        monkeypatch.undo()
