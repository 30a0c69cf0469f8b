"""Looks at netCDF files of the classic formats (CDF-1, CDF-2, CDF-5; NetCDF User's Guide, file format
specifications). Only the header is read, and values for the preview."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wilkins.contents.preview import Field, Selection, as_index, first_preview
from wilkins.contents.summary import MOST_DATASETS, Contents, Dataset
from wilkins.contents.words import dtype_words, text

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_HEADER = 4 << 20
"""Bytes."""
_MOST_ITEMS = 100_000
"""Dimensions, attributes and variables."""
_MOST_FIELDS = 50
_VARIANTS = {1: "netCDF classic", 2: "netCDF 64-bit offset", 5: "netCDF 64-bit data"}
_TYPES = {1: "i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8", 7: "u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8"}
_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
"""Types of values by their numbers in the file, and the bytes of each."""
_CHAR = 2
_STREAMING = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
"""Numbers of records that say nothing: the file's size tells."""


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    shape: tuple[int, ...]
    """Records first, where it has any."""
    code: int
    begin: int
    is_record: bool
    attributes: Mapping[str, str | float | None]
    """Texts, and single numbers; None: neither."""

    @property
    def record_bytes(self) -> int:
        """Of one record, or of the whole, without the padding."""
        return math.prod(self.shape[1:] if self.is_record else self.shape) * _WIDTHS[self.code]


class _Reader:
    """Reads a header from its begin on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 4
        self._items = 0
        self.version = data[3]

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise ValueError("its header is damaged, or longer than the file")
        self._at += count
        return self._data[self._at - count : self._at]

    def integer(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def count(self) -> int:
        """A number of things: 8 bytes in CDF-5."""
        return int.from_bytes(self.take(8 if self.version == 5 else 4), "big")

    def offset(self) -> int:
        return int.from_bytes(self.take(4 if self.version == 1 else 8), "big")

    def padded(self, count: int) -> bytes:
        found = self.take(count)
        self.take(-count % 4)
        return found

    def name(self) -> str:
        return text(self.padded(self.count()))

    def items(self) -> range:
        """As many times as a list has items."""
        self.integer()
        count = self.count()
        self._items += count
        if self._items > _MOST_ITEMS:
            raise ValueError("its header is damaged, or names more things than are read")
        return range(count)

    def kind(self) -> int:
        code = self.integer()
        if code not in _WIDTHS:
            raise ValueError(f"its header is damaged: there is no type {code}")
        return code

    def attributes(self) -> dict[str, str | float | None]:
        found: dict[str, str | float | None] = {}
        for _ in self.items():
            name, code, count = self.name(), self.kind(), self.count()
            data = self.padded(count * _WIDTHS[code])
            found[name] = text(data) if code == _CHAR else _single(data, code) if count == 1 else None
        return found


def _single(data: bytes, code: int) -> float:
    import numpy as np

    return float(np.frombuffer(data, _TYPES[code])[0])


def look_netcdf3(path: Path, size: int) -> Contents:
    """What a netCDF file of a classic format holds.

    Raises:
        OSError: it cannot be read.
        ValueError: its header is damaged, or too long.
    """
    import numpy as np

    with path.open("rb") as file:
        reader = _Reader(file.read(_MOST_HEADER))
    records = reader.count()
    lengths = [(reader.name(), reader.count())[1] for _ in reader.items()]
    attributes = len(reader.attributes())
    variables = [_variable(reader, lengths) for _ in reader.items()]
    step = _bytes_of_records(variables)
    if records in _STREAMING:
        begin = min((one.begin for one in variables if one.is_record), default=size)
        records = max(0, size - begin) // step if step else 0
    datasets: list[Dataset] = []
    fields: list[Field] = []
    problem = ""
    for one in variables:
        shape = (records, *one.shape[1:]) if one.is_record else one.shape
        dtype = np.dtype(_TYPES[one.code])
        units = one.attributes.get("units")
        units = units if isinstance(units, str) else ""
        if len(datasets) < MOST_DATASETS:
            words = dtype_words(dtype.newbyteorder("="))  # big-endian is the format's order, and says nothing
            count = math.prod(shape) * dtype.itemsize
            stored = "by records" if one.is_record else ""
            datasets.append(Dataset(one.name, shape, words, count, units, stored, len(one.attributes)))
        last = one.begin + (max(0, records - 1) * step if one.is_record else 0) + one.record_bytes
        if math.prod(shape) and last > size:
            problem = f"the values of {one.name!r} and of others may lack: the file ends at byte {size}, before they do"
        elif len(fields) < _MOST_FIELDS:
            fields.append(_field(path, one, shape, step, units))
    return Contents(
        str(path),
        _VARIANTS[reader.version],
        size,
        tuple(datasets),
        len(variables) - len(datasets),
        attributes=attributes,
        preview=first_preview(fields),
        problem=problem,
        is_read=True,
    )


def _variable(reader: _Reader, lengths: list[int]) -> _Variable:
    name = reader.name()
    axes = [reader.count() for _ in range(min(reader.count(), 1025))]
    if len(axes) > 1024 or any(axis >= len(lengths) for axis in axes):
        raise ValueError("its header is damaged: a variable has a dimension that is not there")
    attributes, code = reader.attributes(), reader.kind()
    reader.count()  # its bytes, which follow from the shape, and may be too many for this field
    shape = tuple(lengths[axis] for axis in axes)
    return _Variable(name, shape, code, reader.offset(), bool(shape) and shape[0] == 0, attributes)


def _bytes_of_records(variables: list[_Variable]) -> int:
    """Bytes from one record to the next: all variables' together, each padded, but for one alone."""
    sizes = [one.record_bytes for one in variables if one.is_record]
    return sizes[0] if len(sizes) == 1 else sum(size + -size % 4 for size in sizes)


def _field(path: Path, one: _Variable, shape: tuple[int, ...], step: int, units: str) -> Field:
    import numpy as np

    dtype = np.dtype(_TYPES[one.code])

    def read(chosen: Selection) -> NDArray[Any]:
        strides = [dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        if one.is_record:
            strides[0] = step
        data = np.memmap(path, np.uint8, "r")
        whole: NDArray[Any] = np.ndarray(shape, dtype, data, one.begin, strides)  # raises beyond the file's end
        return np.array(whole[as_index(chosen)])

    def number(name: str) -> float | None:
        found = one.attributes.get(name)
        return found if isinstance(found, float) else None

    scale, offset = number("scale_factor"), number("add_offset")
    return Field(
        one.name,
        shape,
        dtype,
        read,
        units=units,
        missing=number("_FillValue"),
        scale=1.0 if scale is None else scale,
        offset=0.0 if offset is None else offset,
    )
