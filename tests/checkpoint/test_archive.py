"""Versions spread over places: read while enough pieces are there, whole or not there, whoever is lost or killed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.running import MPIEXEC, mounted, must_run
from wilkins.cli import main
from wilkins.tasks.checkpoint import Checkpointer, CheckpointError, Storage
from wilkins.tasks.checkpoint.archive.archive import Archive, opened
from wilkins.tasks.checkpoint.archive.repairing import repair
from wilkins.tasks.checkpoint.archive.sheets import MARK
from wilkins.tasks.checkpoint.storage import versions
from wilkins.tasks.checkpoint.storage.clearing import damage

pytestmark = pytest.mark.needs("python:pyeclib")
SIZE = 200_000
"""Elements of a state: 1.6 MB."""


def places(folder: Path, count: int = 6, **more: Any) -> list[dict[str, Any]]:
    return [
        {"path": str(folder / f"p{one}"), "annual_failure": 0.01, "domain": f"host{one}", **more}
        for one in range(count)
    ]


def state(step: int, size: int = SIZE) -> dict[str, Any]:
    return {"x": np.random.default_rng(step).standard_normal(size), "step": step}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three versions."""
    folder = tmp_path_factory.mktemp("home") / "versions"
    with Checkpointer(folder, keep=3, block=65536) as checkpointer:
        for step in range(3):
            checkpointer.save(step, state(step))
    return folder


def archive(folder: Path, keep: int = 3, **more: Any) -> Archive:
    return Archive(Storage(places(folder, **more), reliability=0.999), None, keep)


def filled(folder: Path, home: Path, count: int = 3, **more: Any) -> None:
    with archive(folder, **more) as one:
        for version in versions.versions(home)[:count]:
            one.add(version)


def same(folder: Path, name: str, home: Path) -> bool:
    """Whether a version is byte by byte what it was."""
    files = sorted(file.name for file in (home / name).iterdir())
    return files == sorted(file.name for file in (folder / name).iterdir()) and all(
        (folder / name / file).read_bytes() == (home / name / file).read_bytes() for file in files
    )


def pieces(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"p*/{name}/piece-*.bin"))


def flip(file: Path, at: int) -> None:
    raw = bytearray(file.read_bytes())
    raw[at] ^= 1
    file.write_bytes(raw)


def test_any_places_may_be_lost_as_long_as_enough_are_left(tmp_path: Path, home: Path) -> None:
    """Every set of lost places, for the newest version: it is read if `data` pieces are left, and else not."""
    filled(tmp_path, home)
    with archive(tmp_path) as one:
        newest = one.held()[-1]
        assert newest.sheet.parity >= 1 and len(newest.where) == newest.sheet.pieces
        for number, gone in enumerate(itertools.product((False, True), repeat=newest.sheet.pieces)):
            left = {piece: place for piece, place in newest.where.items() if not gone[piece]}
            there = type(newest)(newest.sheet, left)
            target = tmp_path / f"brought{number}"
            target.mkdir()
            if len(left) >= newest.sheet.data:
                assert damage(one.fetch(there, target)) == "" and same(target, newest.name, home)
                assert (target / "latest").resolve() == target / newest.name
            else:
                with pytest.raises(CheckpointError, match=f"{len(left)} of its {newest.sheet.pieces} pieces"):
                    one.fetch(there, target)
                assert list(target.iterdir()) == []
            shutil.rmtree(target)


def test_damaged_pieces_count_as_lost(tmp_path: Path, home: Path) -> None:
    """Bits flipped in different spans of all pieces but one: each span is still made of those that are good there."""
    filled(tmp_path, home, 1)
    files = pieces(tmp_path, "000001-step-0")
    with archive(tmp_path) as one:
        held = one.held()[0]
        for file in files[: held.sheet.parity]:
            flip(file, 100)
        bad, owners = one.examined(held)
        assert len(bad) == held.sheet.parity and owners == "x"
        (tmp_path / "brought").mkdir()
        one.fetch(held, tmp_path / "brought")
        assert same(tmp_path / "brought", held.name, home)
        done = repair(one)[0]
        assert (
            sorted(done.damaged) == sorted(done.made) == [str(file.parents[1]) for file in files[: held.sheet.parity]]
        )
        assert one.damaged(held) == set() and not done.trouble and done.owners == "x"
        for file in pieces(tmp_path, held.name)[: held.sheet.parity + 1]:
            file.write_bytes(b"short")
        with pytest.raises(CheckpointError, match="are gone or damaged"):
            one.fetch(held, tmp_path / "brought")
        assert "are gone or damaged" in repair(one)[0].trouble


def test_damaged_pieces_say_whose_bytes_they_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The arrays, by the index, which is in the pieces itself; the index; and parity, which is nobody's."""
    names = [f"w{number}" for number in range(8)]
    with Checkpointer(tmp_path / "home", storage=Storage(places(tmp_path), reliability=0.999)) as checkpointer:
        checkpointer.save(0, {name: np.random.default_rng(1).standard_normal(50_000) for name in names})
    name = versions.versions(tmp_path / "home")[0].name
    files = pieces(tmp_path, name)
    numbers = {int(file.stem.partition("-")[2]): file for file in files}
    with opened(tmp_path / "home") as one:
        sheet = one.held()[0].sheet
        flip(numbers[0], 10)
        owners = one.examined(one.held()[0])[1]
        assert owners.startswith("w0, w1") and "w7" not in owners, "what one digest is of"
    assert main(["ckpt", "verify", str(tmp_path / "home")]) == 1
    assert f"1 damaged, in bytes of {owners}; `wilkins ckpt repair` makes" in capsys.readouterr().out
    assert main(["ckpt", "repair", str(tmp_path / "home")]) == 0
    assert f"{name}: damaged in bytes of {owners}; made again on " in capsys.readouterr().out
    flip(numbers[sheet.data - 1], sheet.manifest.streams[0].bytes + 5 - (sheet.data - 1) * sheet.chunk)
    with opened(tmp_path / "home") as one:
        assert one.examined(one.held()[0])[1].endswith("an index")
    main(["ckpt", "repair", str(tmp_path / "home")])
    flip(numbers[sheet.data], 10)
    with opened(tmp_path / "home") as one:
        assert one.examined(one.held()[0])[1] == "parity"


def test_lost_places_are_replaced_by_others(tmp_path: Path, home: Path) -> None:
    filled(tmp_path, home)
    with archive(tmp_path) as one:
        used = {place for held in one.held() for place in held.where.values()}
        before = {held.name: dict(held.where) for held in one.held()}
    gone = min(used)
    shutil.rmtree(tmp_path / f"p{gone}")
    (tmp_path / f"p{gone}").symlink_to(tmp_path / "nowhere")  # as a disk that is not there any more
    with archive(tmp_path) as one:
        assert str(tmp_path / f"p{gone}") in one.absent
        lacking = {held.name for held in one.lacking()}
        assert lacking == {name for name, where in before.items() if gone in where.values()}
        for done in repair(one):
            assert len(done.made) == (done.name in lacking)
            assert not done.trouble and (done.read, done.written) >= (0, 0)
        assert not one.lacking()
        for held in one.held():
            assert one.damaged(held) == set() and one.risk(held) < 1e-3
            assert held.sheet.places == tuple(str(tmp_path / f"p{place}") for _, place in sorted(held.where.items())), (
                "the sheets say where pieces are now"
            )


def test_an_unmounted_place_is_not_written_to(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its empty mount point has no mark. It is taken as a new place only if a user says that it is."""
    storage = Storage(places(tmp_path), reliability=0.999)
    folder = tmp_path / "versions"
    shutil.copytree(home, folder, symlinks=True)
    with Archive(storage, folder, 3) as one:
        one.add(versions.versions(folder)[0])
        used = next(iter(one.held()[0].where.values()))
    lost = tmp_path / f"p{used}"
    shutil.rmtree(lost)
    lost.mkdir()
    with Archive(storage, folder, 3) as one:
        assert "not mounted, or it is another disk" in one.absent[str(lost)]
        one.add(versions.versions(folder)[1])
        assert list(lost.iterdir()) == []
    assert main(["ckpt", "list", str(folder)]) == 0
    assert "pieces" in capsys.readouterr().out
    assert main(["ckpt", "repair", str(folder), "--new", str(lost)]) == 0
    assert f"made again on {lost}" in capsys.readouterr().out
    with Archive(storage, folder, 3) as one:
        assert not one.absent and not one.lacking()
    assert main(["ckpt", "repair", str(folder), "--new", str(tmp_path / "other")]) == 2
    assert main(["ckpt", "repair", str(home)]) == 2


def test_a_repair_takes_another_code_if_it_must(tmp_path: Path, home: Path) -> None:
    """Where places that fail seldom are lost, and the folder has the version; one that was on no place is spread."""
    folder = tmp_path / "versions"
    shutil.copytree(home, folder, symlinks=True)
    some = places(tmp_path, 6)
    for one in some[:3]:
        one["annual_failure"] = 0.0001
    for one in some[3:]:
        one["annual_failure"] = 0.1
    with Archive(Storage(some, reliability=0.9995), folder, 3) as archived:
        archived.add(versions.versions(folder)[1])
        before = archived.held()[0]
        assert set(before.where.values()) >= {0, 1, 2}
    shutil.rmtree(tmp_path / "p0")
    shutil.rmtree(tmp_path / "p1")
    with opened(folder) as archived:
        done = repair(archived)
        assert [one.name for one in done] == ["000002-step-1", "000001-step-0", "000003-step-2"]
        assert all(not one.trouble and one.risk < 5e-4 for one in done)
        held = archived.held()
        assert len(held) == 3 and all(archived.damaged(one) == set() for one in held)
        assert all(one.sheet.data < before.sheet.data for one in held)
        (tmp_path / "brought").mkdir()
        archived.fetch(held[1], tmp_path / "brought")
    assert same(tmp_path / "brought", "000002-step-1", home)
    shutil.rmtree(tmp_path / "p2")
    shutil.rmtree(tmp_path / "p3")
    with opened(folder) as archived:
        assert all(one.trouble for one in repair(archived))


def test_the_program_goes_on_from_its_places(tmp_path: Path) -> None:
    """Its folder is lost, and as many places as there is parity; numbers go on behind those of the archive."""
    spread = Storage(places(tmp_path), reliability=0.999, keep=2)
    with Checkpointer(tmp_path / "versions", storage=spread, block=65536) as checkpointer:
        for step in range(4):
            checkpointer.save(step, state(step))
    names = {path.parent.name for path in tmp_path.glob("p*/*/piece-*.bin")}
    assert names == {"000003-step-2", "000004-step-3"}, "older ones were pruned"
    shutil.rmtree(tmp_path / "versions")
    shutil.rmtree(pieces(tmp_path, "000004-step-3")[0].parents[1])
    with Checkpointer(tmp_path / "versions", storage=spread, block=65536) as checkpointer:
        mine = {"x": np.zeros(SIZE), "step": -1}
        restored = checkpointer.restore(mine)
        assert restored is not None and restored.step == 3
        np.testing.assert_array_equal(mine["x"], state(3)["x"])
        older = checkpointer.restore(step=2)
        assert older is not None and older.state["step"] == 2
        assert (tmp_path / "versions" / "latest").readlink().name == "000004-step-3"
        checkpointer.save(9, state(9))
    assert [one.name for one in versions.versions(tmp_path / "versions")][-1] == "000005-step-9"


def test_a_damaged_version_is_replaced_by_its_pieces(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "versions", storage=places(tmp_path), block=65536) as checkpointer:
        checkpointer.save(1, state(1))
        checkpointer.wait()
        flip(tmp_path / "versions" / "latest" / "data-0.bin", 5000)
        restored = checkpointer.restore()
        assert restored is not None and restored.step == 1 and len(restored.skipped) == 1
        np.testing.assert_array_equal(restored.state["x"], state(1)["x"])
    assert damage(versions.versions(tmp_path / "versions")[0]) == ""


def test_no_room_and_no_reliability_are_told(tmp_path: Path) -> None:
    with Checkpointer(tmp_path / "versions", storage=places(tmp_path, space=1000), block=65536) as checkpointer:
        checkpointer.save(1, state(1))
        with pytest.raises(
            CheckpointError, match=r"it is in .*versions only: no places for .*1,000 bytes free|0 bytes"
        ):
            checkpointer.wait()
        restored = checkpointer.restore()
        assert restored is not None and restored.step == 1
    one_disk = [{"path": str(tmp_path / f"q{one}")} for one in range(3)]
    with Checkpointer(tmp_path / "others", storage=one_disk, block=65536) as checkpointer:
        checkpointer.save(1, state(1))
        with pytest.raises(CheckpointError, match="all of them are on one file system"):
            checkpointer.wait()


def test_two_programs_do_not_share_places(tmp_path: Path) -> None:
    with (
        Checkpointer(tmp_path / "a", storage=places(tmp_path)),
        pytest.raises(CheckpointError, match="written by"),
    ):
        Checkpointer(tmp_path / "b", storage=places(tmp_path))
    Checkpointer(tmp_path / "b").close()


def test_small_and_empty_states(tmp_path: Path) -> None:
    for folder, kept in (("a", {}), ("b", {"x": np.zeros(0)}), ("c", {"x": np.ones(3), "y": "plain"})):
        spread = places(tmp_path / folder)
        with Checkpointer(tmp_path / folder / "versions", storage=spread) as checkpointer:
            checkpointer.save(1, kept)
        shutil.rmtree(tmp_path / folder / "versions")
        with Checkpointer(tmp_path / folder / "versions", storage=spread) as checkpointer:
            restored = checkpointer.restore()
            assert restored is not None and restored.state.keys() == kept.keys()


@pytest.mark.needs(MPIEXEC)
@pytest.mark.parametrize("behind", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_ranks(tmp_path: Path, behind: bool) -> None:
    """Rank 0 spreads what all have written, behind memory, too, and brings it back for all."""
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys\nimport numpy as np\nfrom mpi4py import MPI\n"
        "from wilkins.tasks.checkpoint import Checkpointer\n"
        "folder, storage, memory, save = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4] == 'save'\n"
        "rank = MPI.COMM_WORLD.rank\n"
        "with Checkpointer(folder, ranks=MPI.COMM_WORLD, storage=storage, memory=memory or False) as ckpt:\n"
        "    restored = ckpt.restore()\n"
        "    if save:\n"
        "        ckpt.save(7, {'x': np.full(100_000, float(rank))})\n"
        "    else:\n"
        "        assert restored.step == 7 and (restored.state['x'] == rank).all()\n"
    )
    memory = str(tmp_path / "memory") if behind else ""
    folder, spread = tmp_path / "versions", json.dumps(places(tmp_path))
    for what in ("save", "restore"):
        must_run(tmp_path, MPIEXEC, "-n", "2", sys.executable, program, folder, spread, memory, what, timeout=60)
        shutil.rmtree(folder)


@pytest.mark.needs("root")
def test_full_places_are_passed_over(tmp_path: Path, home: Path) -> None:
    """Small disks of different size: each takes pieces until it is full, and is then left out; nothing else is lost."""
    sizes = ("1m", "2m", "4m", "4m", "4m")
    with contextlib.ExitStack() as stack:
        for number, size in enumerate(sizes):
            stack.enter_context(mounted(tmp_path / f"p{number}", size))
        spread = Storage(places(tmp_path, len(sizes)), reliability=0.99)
        version = versions.versions(home)[0]
        manifest = versions.read_manifest(version.path)
        with Archive(spread, None, 100) as one:
            stored = 0
            with pytest.raises(CheckpointError, match="no places for"):
                for serial in range(1, 30):
                    one.add(renumbered(tmp_path / "versions", version, manifest, serial))
                    stored += 1
            assert stored >= 4
            assert [held.serial for held in one.held()] == list(range(1, stored + 1))
            assert all(one.damaged(held) == set() and not len(held.where) < held.sheet.pieces for held in one.held())
            assert not list(tmp_path.glob("p*/.0*"))
            used = {place for held in one.held() for place in held.where.values()}
        assert used == set(range(len(sizes)))
        (tmp_path / "p4" / "ballast").write_bytes(bytes(os.statvfs(tmp_path / "p4").f_bavail * 4096))
        with Archive(spread, None, 2) as one:  # who keeps fewer gets room by what goes anyway
            one.add(renumbered(tmp_path / "versions", version, manifest, 30))
            assert [held.serial for held in one.held()][-1] == 30 and len(one.held()) == 2


@pytest.mark.needs("root")
def test_a_place_that_does_not_say_that_it_is_full(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a quota: the write fails, and the version goes elsewhere."""
    with mounted(tmp_path / "p0", "200k"):
        real = os.statvfs

        def generous(path: Any) -> Any:
            told = real(path)
            return os.statvfs_result((*told[:2], 2**30, 2**30, 2**30, *told[5:]))

        monkeypatch.setattr(os, "statvfs", generous)
        filled(tmp_path, home)
        with archive(tmp_path) as one:
            assert len(one.held()) == 3 and all(0 not in held.where.values() for held in one.held())
        assert not list((tmp_path / "p0").glob(".0*"))


@pytest.mark.parametrize("fails", [False, True], ids=["its-own-place", "another-place"])
def test_a_damaged_piece_that_was_made_again_is_there_once(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Also if other places would be as good, or its own takes nothing any more: nothing is left to be repaired."""
    filled(tmp_path, home, 1)
    (name,) = {file.parent.name for file in tmp_path.glob("p*/*/piece-*.bin")}
    damaged = pieces(tmp_path, name)[0]
    flip(damaged, 10)
    with archive(tmp_path) as one:
        own = one.held()[0].where[0]
        monkeypatch.setattr(one.places, "room", lambda _: [1e9 - (one == own) * fails * 1e9 for one in range(8)])
        (first,), (second,) = repair(one), repair(one)
        (held,) = one.held()
        assert first.damaged == [str(one.places.paths[own])] and (held.where[0] == own) == (not fails)
        assert not first.trouble and not second.damaged and not second.made
    assert len(pieces(tmp_path, name)) == held.sheet.pieces


def renumbered(folder: Path, version: versions.Version, manifest: versions.Manifest, serial: int) -> versions.Version:
    """The same version under another number."""
    target = folder / versions.name_of(serial, version.step)
    shutil.copytree(version.path, target)
    versions.write_manifest(target, replace(manifest, serial=serial))
    return versions.Version(target, serial, version.step)


EVENTS = ("rename", "replace", "mkdir", "fsync", "pwrite", "unlink", "rmdir", "posix_fallocate")


def dies(act: Callable[[], None], count: int) -> bool:
    """Run something in a process that is killed at the `count`-th change of the file system; whether it was."""
    pid = os.fork()
    if pid == 0:
        left, lock = [count], threading.Lock()

        def counting(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                with lock:
                    left[0] -= 1
                    if not left[0]:
                        os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **kwargs)

            return call

        try:
            for name in EVENTS:
                setattr(os, name, counting(getattr(os, name)))
            act()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL), status
    return status != 0


def whole_or_none(folder: Path, home: Path, names: set[str]) -> set[str]:
    """All versions there have all their pieces, undamaged, and nothing else lies about; returns their names."""
    with archive(folder) as one:
        found = one.held()
        assert {held.name for held in found} <= names
        for held in found:
            assert len(held.where) == held.sheet.pieces and one.damaged(held) == set(), held
        if found:
            target = folder / "brought"
            target.mkdir()
            one.fetch(found[-1], target)
            assert same(target, found[-1].name, home)
            shutil.rmtree(target)
    assert not [entry for entry in folder.glob("p*/.*") if entry.name not in (MARK, ".lock")]
    return {held.name for held in found}


def every_kill(folder: Path, begun: Path, act: Callable[[Path], None], check: Callable[[Path], None], step: int) -> int:
    """Kill `act` at every `step`-th change of the file system, and check what is left."""
    count = 1
    while True:
        there = folder / f"kill{count}"
        shutil.copytree(begun, there)
        for mark in there.glob(f"p*/{MARK}"):  # marks name paths
            mark.unlink()
        killed = dies(lambda there=there: act(there), count)  # type: ignore[misc]
        check(there)
        shutil.rmtree(there)
        if not killed:
            return count
        count += step


@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.nightly)])
def test_killed_while_a_version_is_spread(tmp_path: Path, home: Path, step: int) -> None:
    """At whatever moment: the version is whole afterwards, or not there; those before it stay, or were pruned whole."""
    begun = tmp_path / "begun"
    filled(begun, home, 2, keep=2)
    before = {"000001-step-0", "000002-step-1"}
    outcomes = set()

    def check(there: Path) -> None:
        found = whole_or_none(there, home, {*before, "000003-step-2"})
        assert found == before or found >= {"000002-step-1", "000003-step-2"}, found
        outcomes.add("000003-step-2" in found)

    def act(there: Path) -> None:
        with archive(there, keep=2) as one:
            one.add(versions.versions(home)[2])

    count = every_kill(tmp_path, begun, act, check, step)
    assert outcomes == {False, True} and count > 30


@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.nightly)])
def test_killed_while_a_version_is_repaired(tmp_path: Path, home: Path, step: int) -> None:
    """Nothing is lost; the next repair ends it."""
    begun = tmp_path / "begun"
    filled(begun, home, 2)
    shutil.rmtree(pieces(begun, "000001-step-0")[0].parent)
    flip(pieces(begun, "000002-step-1")[0], 10)

    def act(there: Path) -> None:
        with archive(there) as one:
            repair(one)

    def check(there: Path) -> None:
        act(there)
        assert whole_or_none(there, home, {"000001-step-0", "000002-step-1"}) == {"000001-step-0", "000002-step-1"}

    assert every_kill(tmp_path, begun, act, check, step) > 10


def test_sheets_and_marks_that_are_not_what_was_written(tmp_path: Path, home: Path) -> None:
    """A sheet that is damaged costs its piece; a mark that is damaged its place."""
    filled(tmp_path, home, 1)
    first, second = pieces(tmp_path, "000001-step-0")[:2]
    (first.parent / "sheet.json").write_text("{}")
    with archive(tmp_path) as one:
        assert len(one.lacking()) == 1
        assert not repair(one)[0].trouble and not one.lacking()
    (second.parents[1] / MARK).write_text("{}")
    with archive(tmp_path) as one:
        assert "is not what was written" in one.absent[str(second.parents[1])]
        assert len(one.lacking()) == 1
    for place in tmp_path.glob("p*"):
        (place / MARK).write_text("{}")
    with pytest.raises(CheckpointError, match="none of the places is there"):
        archive(tmp_path)


def test_any_place_leads_to_all(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of the versions is gone: each place knows the others, and a version is brought from there."""
    filled(tmp_path, home)
    place = pieces(tmp_path, "000003-step-2")[-1].parents[1]
    with opened(place) as one:
        assert len(one.held()) == 3 and not one.absent
    assert main(["ckpt", "list", str(place)]) == 0
    assert "000003-step-2" in capsys.readouterr().out
    assert main(["ckpt", "verify", str(place)]) == 0
    assert main(["ckpt", "fetch", str(place), str(tmp_path / "brought")]) == 0
    assert "brought 000003-step-2" in capsys.readouterr().out
    assert same(tmp_path / "brought", "000003-step-2", home)
    assert main(["ckpt", "fetch", str(place), str(tmp_path / "brought"), "0"]) == 0
    assert main(["ckpt", "fetch", str(place), str(tmp_path / "brought"), "77"]) == 2
    flip(pieces(tmp_path, "000001-step-0")[0], 0)
    assert main(["ckpt", "verify", str(place)]) == 1
