"""A step's samples as tensors: each rank reads its own rows; errors name the port, the step and the tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray

from wilkins.tasks.analysis.datasets import all_names
from wilkins.tasks.errors import TaskError
from wilkins.tasks.group import Group
from wilkins.tasks.ranks import agree

if TYPE_CHECKING:
    from wilkins.transport.received import Step


@dataclass(frozen=True, slots=True)
class Wanted:
    """A dataset of samples."""

    path: str
    classes: bool = False
    """Whole numbers from 0 on, one per sample."""
    below: int | None = None
    """For classes: all are less than this."""
    like: str = "the number of 'classes'"
    """Where `below` comes from, for messages."""
    may_be_one: bool = False
    """It may be a single value, which is that of every sample."""


class _Layout(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    step: int


class Samples:
    """Reads samples of the steps of a port."""

    def __init__(self, port: str, ranks: Group, *, nan: str = "error", dtype: torch.dtype = torch.float32) -> None:
        self._port = port
        self._ranks = ranks
        self._nan = nan
        self._dtype = dtype
        self._layouts: dict[str, _Layout] = {}

    def who(self, step: Step, path: str = "") -> str:
        """Port, step and tensor, for messages."""
        tensor = f", tensor {path!r}" if path else ""
        return f"port {self._port!r}, step {step.index} ({step.filename}){tensor}"

    def read(self, step: Step, wanted: Mapping[str, Wanted]) -> dict[str, torch.Tensor]:
        """This rank's samples, a contiguous part of every dataset; the parts of all ranks make up the whole.

        Floating-point numbers come in the dtype of the reader, whole numbers as signed ones, classes as int64.

        Raises:
            TaskError: on all ranks, if any rank's part does not fit. The one whose part it is says why.
        """
        tensors: dict[str, torch.Tensor] = {}
        trouble = ""
        try:
            tensors = self._read(step, wanted)
        except TaskError as error:
            trouble = str(error)
        agree(self._ranks, trouble)
        return tensors

    def _read(self, step: Step, wanted: Mapping[str, Wanted]) -> dict[str, torch.Tensor]:
        rows = self._rows(step, wanted)
        rank, size = self._ranks.rank, self._ranks.size
        first, last = rows * rank // size, rows * (rank + 1) // size
        arrays = {name: _native(self._values(step, one, first, last)) for name, one in wanted.items()}
        good = np.ones(last - first, bool)
        for name, one in wanted.items():
            bad = _not_finite(arrays[name])
            if self._nan == "error" and bad.any():
                raise TaskError(
                    f"{self.who(step, one.path)}: sample {first + int(np.argmax(bad))} holds NaN or infinity; mend its "
                    "source, or set 'nan'"
                )
            if self._nan == "skip":
                good &= ~bad
        if not good.all():
            arrays = {name: array[good] for name, array in arrays.items()}
        return {name: self._tensor(step, one, arrays[name]) for name, one in wanted.items()}

    @staticmethod
    def _values(step: Step, one: Wanted, first: int, last: int) -> NDArray[Any]:
        """Some samples of a dataset."""
        if one.may_be_one and not step.file[one.path].shape:
            return np.full(last - first, step.file[one.path][()])
        return step[one.path, slice(first, last)]

    def _rows(self, step: Step, wanted: Mapping[str, Wanted]) -> int:
        """How many samples the step has, when its datasets have been checked."""
        found = {one.path: self._length(step, one) for one in wanted.values()}
        lengths = {path: length for path, length in found.items() if length is not None}
        first = next(iter(lengths))
        for path, length in lengths.items():
            if length != lengths[first]:
                raise TaskError(
                    f"{self.who(step, path)}: it holds {length} samples, and {first!r} {lengths[first]}; each sample "
                    "needs a row in both"
                )
        if lengths[first] == 0:
            raise TaskError(f"{self.who(step, first)}: the step holds no samples; write one or more")
        return lengths[first]

    def _length(self, step: Step, one: Wanted) -> int | None:
        """How many samples a dataset has; None: one value for all."""
        path = one.path
        dset = step.file.get(path)
        who = self.who(step, path)
        if not isinstance(dset, h5py.Dataset):
            names = all_names(step.file)
            listed = ", ".join(names[:20]) + (" and more" if len(names) > 20 else "")
            what = "it is a group" if isinstance(dset, h5py.Group) else "there is no such dataset"
            raise TaskError(f"{who}: {what}; datasets there are: {listed or 'none'}")
        if dset.dtype.kind not in "iufbc":
            raise TaskError(f"{who}: it holds {dset.dtype}, and numbers are needed; name another dataset")
        if not dset.shape and one.may_be_one:
            return None
        if not dset.shape:
            raise TaskError(f"{who}: it is a single value, and samples lie along the first axis; write an array")
        layout = _Layout(dset.shape[1:], dset.dtype.newbyteorder("="), step.index)
        before = self._layouts.setdefault(path, layout)
        for what, now, then in (("shape", layout.shape, before.shape), ("type", layout.dtype, before.dtype)):
            if now != then:
                raise TaskError(
                    f"{who}: its samples have the {what} {now}, in step {before.step} they had {then}; all samples of "
                    "a stream must be alike"
                )
        return int(dset.shape[0])

    def _tensor(self, step: Step, one: Wanted, array: NDArray[Any]) -> torch.Tensor:
        if one.classes:
            return torch.from_numpy(self._classes(step, one, array))
        if array.dtype.kind == "f":
            return torch.tensor(array, dtype=self._dtype)
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            array = array.astype(np.int64)
        return torch.tensor(array)

    def _classes(self, step: Step, one: Wanted, array: NDArray[Any]) -> NDArray[np.int64]:
        who = self.who(step, one.path)
        if array.ndim != 1:
            shape = array.shape[1:]
            raise TaskError(f"{who}: samples have the shape {shape}, and each has one class; write a list of numbers")
        if array.dtype.kind not in "iub":
            raise TaskError(
                f"{who}: it holds {array.dtype}, and classes are whole numbers; for regression use 'targets'"
            )
        wrong = array < 0 if one.below is None else (array < 0) | (array >= one.below)
        if wrong.any():
            value = array[int(np.argmax(wrong))]
            allowed = "from 0 on" if one.below is None else f"from 0 to {one.below - 1} ({one.like})"
            raise TaskError(f"{who}: there is a sample of class {value}, and classes are {allowed}; mend its source")
        return array.astype(np.int64)


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """In this machine's byte order."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _not_finite(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which samples hold NaN or infinity."""
    if array.dtype.kind not in "fc":
        return np.zeros(len(array), bool)
    finite: NDArray[np.bool_] = np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    return ~finite
