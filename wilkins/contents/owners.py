"""Whose the bytes are at places of an HDF5 file: which dataset's."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wilkins.contents.in_memory import Range

_MOST_NAMED = 3
_MOST_LETTERS = 100
_MOST_SECONDS = 3.0


def owners(data: memoryview, here: Sequence[Range], ranges: Sequence[Range]) -> str:
    """Whose these bytes are, in words: those of datasets, or else of the file's metadata. Empty: that cannot be found,
    as if this is no HDF5 file.

    Args:
        here: what there is of the file.
    """
    try:
        return _words(sorted(_found(data, here, ranges)))
    except (OSError, RuntimeError, ValueError, KeyError, TimeoutError):
        return ""


def main() -> None:
    """Print whose bytes those are that the arguments say: a file, the first byte, the one after the last."""
    data = memoryview(Path(sys.argv[1]).read_bytes())
    print(owners(data, [(0, len(data))], [(int(sys.argv[2]), int(sys.argv[3]))]))


def _words(names: Sequence[str]) -> str:
    if not names:
        return "metadata of the file"
    shown = ", ".join(
        repr(name if len(name) <= _MOST_LETTERS else f"...{name[-_MOST_LETTERS:]}") for name in names[:_MOST_NAMED]
    )
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{'datasets' if len(names) > 1 else 'dataset'} {shown}{more}"


def _found(data: memoryview, here: Sequence[Range], ranges: Sequence[Range]) -> set[str]:
    import h5py

    from wilkins.contents.in_memory import opened

    end = time.monotonic() + _MOST_SECONDS
    found: set[str] = set()

    def look(root: h5py.h5g.GroupID, name: bytes) -> None:
        if time.monotonic() > end:
            raise TimeoutError
        item = h5py.h5o.open(root, name)
        if isinstance(item, h5py.h5d.DatasetID) and any(_meet(one, ranges) for one in _places(item)):
            found.add("/" + name.decode("utf-8", "backslashreplace"))

    with h5py.File(opened(data, here)) as file:
        if file.userblock_size:
            raise ValueError("HDF5 counts places from behind the user block, or not, as it happens")
        root = h5py.h5g.open(file.id, b"/")
        h5py.h5o.visit(root, partial(look, root))
    return found


def _meet(one: Range, ranges: Iterable[Range]) -> bool:
    return any(one[0] < last and first < one[1] for first, last in ranges)


def _places(dataset: Any) -> Iterator[Range]:
    """Where its elements are in the file."""
    import h5py

    properties = dataset.get_create_plist()
    if properties.get_layout() == h5py.h5d.CONTIGUOUS:
        offset = dataset.get_offset()
        if offset is not None and not properties.get_external_count():
            yield offset, offset + math.prod(dataset.shape or (0,)) * dataset.get_type().get_size()
    elif properties.get_layout() == h5py.h5d.CHUNKED:
        chunks: list[Any] = []
        if hasattr(dataset, "chunk_iter"):
            dataset.chunk_iter(chunks.append)
        else:
            chunks = [dataset.get_chunk_info(number) for number in range(dataset.get_num_chunks())]
        for one in chunks:
            if one.byte_offset is not None:
                yield one.byte_offset, one.byte_offset + one.size


if __name__ == "__main__":
    main()
