"""Looks at files of NumPy: arrays (npy) and archives of them (npz). What is pickled is never read."""

from __future__ import annotations

import ast
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from wilkins.contents.preview import Field, Selection, as_index, first_preview
from wilkins.contents.summary import MOST_DATASETS, Contents, Dataset
from wilkins.contents.words import dtype_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 10_000
"""Bytes: NumPy itself reads no longer one without being told to."""
_MOST_UNPACKED = 16 << 20
"""Bytes of a compressed array that is unpacked for a preview."""
_MOST_DIRECTORY = 4 << 20
"""Bytes of an archive's list of members."""
_END = b"PK\x05\x06"
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compressions of ZIP that unpack no more than is asked for."""

_Header = tuple[tuple[int, ...], bool, "np.dtype[Any]"]
"""Shape, whether the first index varies fastest, dtype."""


def look_npy(path: Path, size: int) -> Contents:
    """What an array of NumPy is.

    Raises:
        OSError: it cannot be read.
        ValueError: its header is damaged.
    """
    with path.open("rb") as file:
        header = _header(file)
        start = file.tell()
    shape, _, dtype = header
    nbytes = math.prod(shape) * dtype.itemsize
    found = Dataset("array", shape, _words(dtype), nbytes)
    lacks = not dtype.hasobject and start + nbytes > size
    fields = [] if dtype.hasobject or lacks else [Field("array", shape, dtype, _mapped(path, start, header))]
    problem = f"it has {size - start} of the {nbytes} bytes of its values" if lacks else ""
    return Contents(str(path), "NumPy", size, (found,), preview=first_preview(fields), problem=problem, is_read=True)


def look_npz(path: Path, size: int) -> Contents:
    """What the arrays of an archive are.

    Raises:
        OSError: it cannot be read.
        ValueError: its list of members is too long.
        zipfile.BadZipFile: it is damaged.
    """
    datasets: list[Dataset] = []
    fields: list[Field] = []
    with path.open("rb") as raw:
        _check_directory(raw, size)
        with zipfile.ZipFile(raw) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            for member in members[:MOST_DATASETS]:
                dataset, field = _member(path, archive, member)
                datasets.append(dataset)
                fields += [field] if field else []
            more = max(0, len(members) - MOST_DATASETS)
            preview = first_preview(fields)
    return Contents(str(path), "npz", size, tuple(datasets), more, preview=preview, is_read=True)


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[Dataset, Field | None]:
    name = member.filename.removesuffix(".npy")
    if member.compress_type not in _PLAIN:
        return Dataset(name, None, "compressed in a way that is not read", member.file_size), None
    try:
        with archive.open(member) as file:
            header = _header(file)
            start = file.tell()
    except Exception as error:  # damaged, encrypted, or no array; zipfile raises errors of many kinds
        said = "not an array" if isinstance(error, ValueError) else "cannot be read"
        return Dataset(name, None, said, member.file_size), None
    shape, _, dtype = header
    nbytes = math.prod(shape) * dtype.itemsize
    is_stored = member.compress_type == zipfile.ZIP_STORED
    dataset = Dataset(name, shape, _words(dtype), nbytes, stored="" if is_stored else "deflate")
    if dtype.hasobject or start + nbytes > member.file_size:
        return dataset, None
    if is_stored:
        return dataset, Field(name, shape, dtype, _mapped(path, _begin_of(path, member) + start, header))
    if nbytes > _MOST_UNPACKED:
        return dataset, None
    return dataset, Field(name, shape, dtype, _unpacked(archive, member, start, header))


def _words(dtype: np.dtype[Any]) -> str:
    return "Python objects (pickled, not read)" if dtype.hasobject else dtype_words(dtype)


def _header(file: IO[bytes]) -> _Header:
    """The header of an array (NumPy's format, versions 1 to 3); afterwards the file stands where its values begin.

    Raises:
        ValueError: it is damaged, or too long.
    """
    import numpy as np

    begin = file.read(8)
    if not begin.startswith(_MAGIC) or len(begin) < 8 or begin[6] not in (1, 2, 3):
        raise ValueError("it does not begin as an array of NumPy does")
    length = int.from_bytes(file.read(2 if begin[6] == 1 else 4), "little")
    if length > _MOST_HEADER:
        raise ValueError(f"its header has {length} bytes, and at most {_MOST_HEADER} are read")
    words = file.read(length)
    try:
        header = ast.literal_eval(words.decode("utf-8" if begin[6] == 3 else "latin-1").strip())
        shape, is_fortran = tuple(header["shape"]), bool(header["fortran_order"])
        dtype = np.lib.format.descr_to_dtype(header["descr"])
    except Exception as error:  # ast and NumPy raise errors of many kinds for texts that are no header
        raise ValueError("its header is damaged") from error
    if not all(type(one) is int and one >= 0 for one in shape):
        raise ValueError("its header is damaged: its shape is none")
    return shape, is_fortran, dtype


def _mapped(path: Path, start: int, header: _Header) -> Callable[[Selection], NDArray[Any]]:
    """Reads an array that lies in a file as it is."""

    def read(chosen: Selection) -> NDArray[Any]:
        import numpy as np

        shape, is_fortran, dtype = header
        order: Any = "F" if is_fortran else "C"
        whole = np.memmap(path, dtype, "r", start, shape, order)
        return np.array(whole[as_index(chosen)])

    return read


def _unpacked(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, start: int, header: _Header
) -> Callable[[Selection], NDArray[Any]]:
    """Reads a compressed array, and no byte beyond its end."""

    def read(chosen: Selection) -> NDArray[Any]:
        import numpy as np

        shape, is_fortran, dtype = header
        with archive.open(member) as file:
            file.read(start)
            data = file.read(math.prod(shape) * dtype.itemsize)
        values = np.frombuffer(data, dtype)
        whole = values.reshape(shape, order="F" if is_fortran else "C")
        return np.array(whole[as_index(chosen)])

    return read


def _begin_of(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the data of a member begin: behind its own header, whose name and extra field have their lengths in it."""
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)
        lengths = file.read(4)
    return member.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")


def _check_directory(file: IO[bytes], size: int) -> None:
    """Refuse an archive of very many members: its whole list would be read.

    Raises:
        ValueError: it is one.
    """
    file.seek(max(0, size - (1 << 16) - 22))
    end = file.read()
    at = end.rfind(_END)
    length = int.from_bytes(end[at + 12 : at + 16], "little") if at >= 0 else 0
    file.seek(0)
    if length > _MOST_DIRECTORY:
        raise ValueError(f"the list of its members has {length} bytes, and at most {_MOST_DIRECTORY} are read")
