"""What is asked of each array while the program waits: of tens of thousands in some milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np

from wilkins.tasks.checkpoint.state.sources import address_of, in_one_piece

_PIECE = 500
"""So many arrays are asked everything before the next ones: their objects stay in the processor's caches meanwhile."""

_KIND: Callable[[Any], tuple[Any, ...]] = attrgetter("dtype", "shape", "layout", "is_cpu", "requires_grad")
_STRIDE: Callable[[Any], tuple[int, ...]] = methodcaller("stride")
_IS_CONJ: Callable[[Any], bool] = methodcaller("is_conj")
_IS_NEG: Callable[[Any], bool] = methodcaller("is_neg")
_ADDRESS: Callable[[Any], int] = methodcaller("data_ptr")


class _Piece(NamedTuple):
    """What some arrays are besides their values and where they are, as they are met."""

    kinds: list[tuple[Any, ...]]
    """dtype, shape, layout, whether it is in main memory, `requires_grad`. NumPy's have no layout."""
    strides: list[tuple[int, ...]]
    conjugated: list[bool]
    """Whether a tensor is to be conjugated when it is read."""
    negated: list[bool]
    more: list[tuple[Any, bool]]
    """Of those on a GPU or with `requires_grad`: the device, and whether it is a leaf."""


Form = list[_Piece]
"""The same of all arrays of a state."""


class Survey(NamedTuple):
    """Of each array, as they are met."""

    addresses: list[int]
    nbytes: list[int]
    in_main_memory: list[bool]
    in_one_piece: list[bool]
    """Its memory holds its values one after the other, and nothing else."""


def look(arrays: list[Any]) -> tuple[Form, list[int]] | None:
    """The form of arrays, and where their first elements are; None if one is not in plain (strided) memory."""
    form: Form = []
    addresses: list[int] = []
    try:
        for piece, some in _pieces(arrays):
            form.append(piece)
            addresses += some
    except (RuntimeError, NotImplementedError):  # torch's, of sparse tensors, and of those without memory
        return None
    return form, addresses


def is_lazy(form: Form) -> bool:
    """Whether the values of some array are others than its memory holds."""
    return any(any(piece.conjugated) or any(piece.negated) for piece in form)


def addresses_if(form: Form, arrays: list[Any]) -> list[int] | None:
    """Where the first elements of arrays are; None if they are of another form, or not in plain memory.

    Nothing else is kept of what they are asked: new objects are made where the last ones were, in the caches.
    """
    addresses: list[int] = []
    try:
        for (piece, some), known in zip(_pieces(arrays), form, strict=True):
            if piece != known:
                return None
            addresses += some
    except (RuntimeError, NotImplementedError):
        return None
    return addresses


def _pieces(arrays: list[Any]) -> Iterator[tuple[_Piece, list[int]]]:
    """Tensors alone are asked without a turn of Python for each."""
    for begin in range(0, len(arrays), _PIECE):
        piece = arrays[begin : begin + _PIECE]
        yield _of_any(piece) if np.ndarray in set(map(type, piece)) else _of_tensors(piece)


def _of_tensors(arrays: list[Any]) -> tuple[_Piece, list[int]]:
    kinds = list(map(_KIND, arrays))
    piece = _Piece(
        kinds,
        list(map(_STRIDE, arrays)),
        list(map(_IS_CONJ, arrays)),
        list(map(_IS_NEG, arrays)),
        [(one.device, one.is_leaf) for one, kind in zip(arrays, kinds, strict=True) if kind[-1] or not kind[-2]],
    )
    return piece, list(map(_ADDRESS, arrays))


def _of_any(arrays: list[Any]) -> tuple[_Piece, list[int]]:
    """The same of tensors and NumPy's arrays."""
    plain = [type(one) is np.ndarray for one in arrays]
    both = list(zip(arrays, plain, strict=True))
    piece = _Piece(
        [(one.dtype, one.shape, None, True, False) if numpy else _KIND(one) for one, numpy in both],
        [one.strides if numpy else one.stride() for one, numpy in both],
        [not numpy and one.is_conj() for one, numpy in both],
        [not numpy and one.is_neg() for one, numpy in both],
        [(one.device, one.is_leaf) for one, numpy in both if not numpy and (one.requires_grad or not one.is_cpu)],
    )
    return piece, list(map(address_of, arrays))


def survey(arrays: list[Any]) -> Survey:
    """Ask each array.

    Raises:
        RuntimeError: torch's, of sparse tensors; so is NotImplementedError.
    """
    return Survey(
        list(map(address_of, arrays)),
        [one.nbytes for one in arrays],
        [type(one) is np.ndarray or one.is_cpu for one in arrays],
        list(map(in_one_piece, arrays)),
    )


def aliases(addresses: list[int]) -> list[int]:
    """For each array the first one at the same address."""
    first: dict[int, int] = {}
    return [first.setdefault(one, number) for number, one in enumerate(addresses)]
