"""A file, a folder or a link is the old one or the new one, whatever ends its writer; what failed leaves nothing."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running import OWN_MOUNTS
from wilkins import atomic

KILLED = """
import os, signal, sys
from pathlib import Path
from wilkins.atomic import replacing
with replacing(Path(sys.argv[1]), durable=True) as file:
    file.write(b"new" * 100_000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
FULL = """
import os, sys
from pathlib import Path
from wilkins import atomic
path = Path(sys.argv[1], "file")
atomic.put(path, "old")
for durable in (False, True):
    try:
        atomic.put(path, bytes(1 << 20), durable=durable)
    except OSError as error:
        print(error.strerror, path.read_text(), *os.listdir(sys.argv[1]))
"""


def test_the_old_file_is_there_until_the_new_one_is(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with atomic.replacing(path, mode=0o600) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o600
    atomic.put(tmp_path / "a.txt", "tüchtig")
    assert (tmp_path / "a.txt").read_bytes() == "tüchtig".encode()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.json", "a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("durable", [False, True])
def test_an_exception_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException], durable: bool
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(error), atomic.replacing(path, durable=durable) as file:
        file.write(b"new")
        raise error
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "old"
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic.put(tmp_path / "folder", "new", durable=durable)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.needs("tmpfs")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    mounted = f'mount -t tmpfs -o size=64k none {tmp_path} && exec "$@"'
    done = subprocess.run(
        [*OWN_MOUNTS, "sh", "-c", mounted, "sh", sys.executable, "-c", FULL, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == 2 * "No space left on device old file\n"


def test_a_kill_leaves_the_old_file_and_what_the_next_write_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert sorted(tmp_path.iterdir()) == [atomic.part_of(path), path] and path.read_text() == "old"
    atomic.put(path, "new")
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "new"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is made to last, and what is renamed, by name and in order."""
    made: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        made.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def renamed(old: Path, new: Path) -> None:
        made.append(f"{Path(old).name} -> {Path(new).name}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, renamed)
    yield made


def test_what_is_durable_is_on_the_disk_before_its_name_and_the_name_before_the_return(
    tmp_path: Path, calls: list[str]
) -> None:
    here = tmp_path.name
    atomic.put(tmp_path / "file", "new")
    atomic.point(tmp_path / "link", "file")
    assert calls == [".file.part -> file", ".link.part -> link"]
    calls.clear()
    atomic.put(tmp_path / "file", "new", durable=True)
    atomic.point(tmp_path / "link", "file", durable=True)
    assert calls == ["sync .file.part", ".file.part -> file", f"sync {here}", ".link.part -> link", f"sync {here}"]
    calls.clear()
    (tmp_path / ".new").mkdir()
    atomic.commit(tmp_path / ".new", tmp_path / "whole")
    assert calls == [".new -> whole", f"sync {here}"]


def test_a_link_leads_somewhere_at_every_moment(tmp_path: Path) -> None:
    link = tmp_path / "latest"
    for target in ("one", "two"):
        atomic.point(link, target)
        assert link.readlink() == Path(target)
    atomic.part_of(link).symlink_to("of a kill")
    atomic.point(link, "three")
    assert link.readlink() == Path("three") and list(tmp_path.iterdir()) == [link]
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic.point(tmp_path / "folder", "three")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["folder", "latest"]


def test_writers_at_once_have_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic.replacing(path, writer="1") as first, atomic.replacing(path, writer="2") as second:
        first.write(b"first")
        second.write(b"the second")
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "first"


def test_a_folder_appears_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "board"
    with atomic.new_folder(path) as new:
        (new / "file").write_text("one")
        assert not path.exists() and stat.S_IMODE(new.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == [path] and (path / "file").read_text() == "one"
    with pytest.raises(ValueError, match="no room"), atomic.new_folder(tmp_path / "other") as new:
        (new / "file").touch()
        raise ValueError("no room")
    with pytest.raises(OSError, match="not empty"), atomic.new_folder(path):
        pass
    assert list(tmp_path.iterdir()) == [path]
