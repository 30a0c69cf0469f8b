"""An index in SQLite: which models have a layer, best score first. It can be made of the models' files at any time.

Each host has an index of its own, since SQLite's locks are not to be trusted between hosts. A query brings it up to
date: a folder of models' files that has another time than when it was listed is listed again, since a file has come or
gone. After a removal the files of all models are looked at, since another model may have the name of a removed one.
What a query finds is looked at again for the same reason.

A layer's hash stands for all layers before it. So the models with the longest common prefix are those that have the
last layer, else those that have the last but one, and so on. Which layers of an architecture any model has is found by
halves, since whoever has one has all before it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from wilkins.tasks.models.errors import DamagedModel
from wilkins.tasks.models.graph import Graph
from wilkins.tasks.models.records import REMOVED, SHELVES, SUFFIX, Record, file_of, read_record

T = TypeVar("T")
_LOG = logging.getLogger("wilkins.models")
_FORMAT = 2
_SHORT = 16
"""Bytes of a layer's hash that are kept."""
_UNSCORED = -math.inf
_SETTLED = 100_000_000
"""Nanoseconds after which the time of a folder tells whether it has changed: file systems count it in steps."""
_WAIT = 60.0
"""Seconds that one process waits for another one of its host that brings the index up to date."""
_TABLES = """
CREATE TABLE models(
    id INTEGER PRIMARY KEY, name TEXT UNIQUE, stamp TEXT NOT NULL, score REAL NOT NULL, hashes BLOB NOT NULL);
CREATE TABLE layers(hash BLOB, score REAL, model INTEGER, PRIMARY KEY(hash, score DESC, model)) WITHOUT ROWID;
CREATE TABLE listed(shelf TEXT PRIMARY KEY, time INTEGER NOT NULL, files TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A model that has layers in common with an architecture."""

    name: str
    score: float | None
    length: int
    """Layers of the common prefix."""


def file_in(folder: Path) -> Path:
    """The index of this host in a store."""
    return folder / f".index-{os.uname().nodename}.sqlite"


class Index:
    """The index of a store, open. Where it cannot be written it is made in memory, for this once."""

    def __init__(self, folder: Path, models: Path) -> None:
        self._path = file_in(folder)
        self._models = models
        self._base: sqlite3.Connection | None = None

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its file."""
        if self._base is not None:
            self._base.close()
            self._base = None

    def query(self, graph: Graph, limit: int) -> list[Found]:
        """See `ModelStore.query`."""
        return self._made_anew_if_broken(lambda: self._checked_query(graph, limit))

    def _made_anew_if_broken(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except sqlite3.DatabaseError as error:
            _LOG.warning("the index %s cannot be used (%s), and is made anew", self._path, error)
            self.rebuild()
            return ask()

    def rebuild(self) -> None:
        """Make it anew, of the models' files."""
        self.close()
        for path in (self._path, self._path.with_name(f"{self._path.name}-journal")):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        self._fresh()

    def content(self) -> dict[str, tuple[float, bytes]]:
        """Score and hashes of each model, as the index has them, after it was brought up to date."""

        def rows() -> dict[str, tuple[float, bytes]]:
            found = self._fresh().execute("SELECT name, score, hashes FROM models")
            return {name: (score, hashes) for name, score, hashes in found}

        return self._made_anew_if_broken(rows)

    def _checked_query(self, graph: Graph, limit: int) -> list[Found]:
        while True:
            base = self._fresh()
            found = self._query(base, graph, limit)
            stale = [one.name for stamp, one in found if stamp != _stamp(file_of(self._models, one.name))]
            if not stale:
                return [one for _, one in found]
            self._read_anew(base, stale)

    def _query(self, base: sqlite3.Connection, graph: Graph, limit: int) -> list[tuple[str, Found]]:
        """What the index has, with the stamps of the files that it was made of."""
        hashes = {name: bytes.fromhex(one)[:_SHORT] for name, one in graph.hashes().items()}
        lengths = graph.upstream()

        def is_there(layer: str) -> bool:
            return bool(base.execute("SELECT 1 FROM layers WHERE hash = ? LIMIT 1", (hashes[layer],)).fetchone())

        found: dict[int, tuple[str, Found]] = {}
        for name in sorted(graph.layers_that(is_there), key=lambda one: -lengths[one]):
            rows = base.execute(
                "SELECT id, stamp, name, models.score FROM layers JOIN models ON id = model WHERE hash = ? "
                "ORDER BY layers.score DESC, model LIMIT ?",
                (hashes[name], limit),
            )
            for number, stamp, model, score in rows:
                if number not in found:
                    found[number] = stamp, Found(model, None if score == _UNSCORED else score, lengths[name])
            if len(found) >= limit:
                break
        return list(found.values())[:limit]

    def _fresh(self) -> sqlite3.Connection:
        """The index, which knows all models that were there when this was called."""
        base = self._opened()
        listed = dict(base.execute("SELECT shelf, time FROM listed"))
        changed = [shelf for shelf in SHELVES if listed.get(shelf, 0) != self._time(shelf)]
        row = base.execute("SELECT files FROM listed WHERE shelf = ?", (REMOVED,)).fetchone()
        if changed or (row[0] if row else "") != self._removal():
            try:
                self._update(base, changed)
            except sqlite3.OperationalError:  # a file that may only be read
                base = self._in_memory()
                self._update(base, SHELVES)
        return base

    def _time(self, shelf: str) -> int:
        """When a file has come or gone there for the last time; 0: there is no such folder."""
        try:
            return (self._models / shelf).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _removal(self) -> str:
        """What tells the last removal of models from others; empty: there was none."""
        return _stamp(self._models.with_name(REMOVED))

    def _opened(self) -> sqlite3.Connection:
        if self._base is None:
            try:
                self._base = _connected(str(self._path))
                _prepare(self._base)
            except sqlite3.OperationalError:  # a folder that may only be read
                return self._in_memory()
        return self._base

    def _in_memory(self) -> sqlite3.Connection:
        self.close()
        self._base = _connected(":memory:")
        _prepare(self._base)
        return self._base

    def _update(self, base: sqlite3.Connection, shelves: Sequence[str]) -> None:
        """Bring it up to date, while other processes of this host wait."""
        with _transaction(base):
            for shelf in shelves:
                time_ = self._time(shelf)
                there = set(os.listdir(self._models / shelf)) if time_ else set()  # noqa: PTH208 - `iterdir` is slower
                row = base.execute("SELECT files FROM listed WHERE shelf = ?", (shelf,)).fetchone()
                known = set(row[0].split("/")) if row else set()
                for file in known - there:
                    _forget(base, file.removesuffix(SUFFIX))
                for file in sorted(there - known):
                    if file.startswith(".") or not self._added(base, file.removesuffix(SUFFIX)):
                        there.remove(file)  # is looked at again the next time
                settled = time.time_ns() - time_ > _SETTLED
                row = (shelf, time_ if settled else -1, "/".join(there))
                base.execute("INSERT OR REPLACE INTO listed VALUES(?, ?, ?)", row)
            self._replace(base)

    def _replace(self, base: sqlite3.Connection) -> None:
        """Read models anew that have the names of removed ones, if some were removed since this was done last."""
        removal = self._removal()
        row = base.execute("SELECT files FROM listed WHERE shelf = ?", (REMOVED,)).fetchone()
        if removal == (row[0] if row else ""):
            return
        for name, stamp in base.execute("SELECT name, stamp FROM models").fetchall():
            if stamp != _stamp(file_of(self._models, name)):
                self._added(base, name)
        base.execute("INSERT OR REPLACE INTO listed VALUES(?, 0, ?)", (REMOVED, removal))

    def _read_anew(self, base: sqlite3.Connection, names: Sequence[str]) -> None:
        with _transaction(base):
            for name in names:
                if not self._added(base, name):  # then its folder is listed again, where it may be by then
                    base.execute("DELETE FROM listed WHERE shelf = ?", (file_of(self._models, name).parent.name,))

    def _added(self, base: sqlite3.Connection, name: str) -> bool:
        file = file_of(self._models, name)
        _forget(base, name)
        try:
            _add(base, _stamp(file), read_record(file))
        except FileNotFoundError:  # removed meanwhile
            return False
        except DamagedModel as error:
            _LOG.warning("left out of the index: %s", error)
            return False
        return True


def _connected(file: str) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=_WAIT, isolation_level=None)


def _prepare(base: sqlite3.Connection) -> None:
    """Make the tables of a new index, or of one of another format; a failure of the machine may cost the index."""
    base.execute("PRAGMA synchronous = OFF")
    if base.execute("PRAGMA user_version").fetchone()[0] == _FORMAT:
        return
    with _transaction(base):
        if base.execute("PRAGMA user_version").fetchone()[0] == _FORMAT:
            return
        for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            base.execute(f"DROP TABLE {name}")
        for statement in filter(None, map(str.strip, _TABLES.split(";"))):
            base.execute(statement)
        base.execute(f"PRAGMA user_version = {_FORMAT}")


@contextlib.contextmanager
def _transaction(base: sqlite3.Connection) -> Iterator[None]:
    """All of a block or, if it is killed, nothing of it."""
    base.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        base.execute("ROLLBACK")
        raise
    base.execute("COMMIT")


def hashes_of(record: Record) -> bytes:
    """The hashes of a model's layers, as the index keeps them."""
    return b"".join(bytes.fromhex(one)[:_SHORT] for one in record.graph.hashes().values())


def _stamp(file: Path) -> str:
    """What tells a file from another one that gets its name; empty: there is none."""
    try:
        found = file.stat()
    except OSError:
        return ""
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _add(base: sqlite3.Connection, stamp: str, record: Record) -> None:
    score, hashes = _UNSCORED if record.score is None else float(record.score), hashes_of(record)
    number = base.execute(
        "INSERT INTO models(name, stamp, score, hashes) VALUES(?, ?, ?, ?)", (record.name, stamp, score, hashes)
    ).lastrowid
    base.executemany("INSERT INTO layers VALUES(?, ?, ?)", [(one, score, number) for one in _each(hashes)])


def _forget(base: sqlite3.Connection, name: str) -> None:
    row = base.execute("SELECT id, score, hashes FROM models WHERE name = ?", (name,)).fetchone()
    if row is None:
        return
    number, score, hashes = row
    base.executemany(
        "DELETE FROM layers WHERE hash = ? AND score = ? AND model = ?",
        [(one, score, number) for one in _each(hashes)],
    )
    base.execute("DELETE FROM models WHERE id = ?", (number,))


def _each(hashes: bytes) -> list[bytes]:
    return [hashes[at : at + _SHORT] for at in range(0, len(hashes), _SHORT)]
