"""What is asked of each array while the program waits: of tens of thousands in some milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np

from wilkins.tasks.checkpoint.state.outline import grads
from wilkins.tasks.checkpoint.state.sources import address_of, in_one_piece

_PIECE = 500
"""So many arrays are asked everything before the next ones: their objects stay in the processor's caches meanwhile."""

_NBYTES: Callable[[Any], int] = attrgetter("nbytes")
_IS_CPU: Callable[[Any], bool] = attrgetter("is_cpu")
_VERSION: Callable[[Any], int] = attrgetter("_version")
_DEVICE: Callable[[Any], Any] = attrgetter("device")
_ADDRESS: Callable[[Any], int] = methodcaller("data_ptr")
_IS_CONTIGUOUS: Callable[[Any], bool] = methodcaller("is_contiguous")
_IS_CONJ: Callable[[Any], bool] = methodcaller("is_conj")
_IS_NEG: Callable[[Any], bool] = methodcaller("is_neg")
_DETACHED: Callable[[Any], Any] = methodcaller("detach")


class Survey(NamedTuple):
    """Of each array, as they are met."""

    addresses: list[int]
    nbytes: list[int]
    in_main_memory: list[bool]
    in_one_piece: list[bool]
    """Its memory holds its values one after the other, and nothing else."""
    versions: list[int | None]
    """torch's counts of changes in place."""
    grads: list[bool]
    views: list[Any]
    """Of the same memory: what the program makes of its own array, another shape or type, is not seen there."""
    devices: set[Any]
    """Of all tensors."""


def survey(arrays: list[Any]) -> Survey:
    """Ask each array; tensors alone are asked without a turn of Python for each.

    Raises:
        RuntimeError: torch's, of sparse tensors; so is NotImplementedError.
    """
    lists: Any = [[], [], [], [], [], [], []]
    devices: set[Any] = set()
    for begin in range(0, len(arrays), _PIECE):
        piece = arrays[begin : begin + _PIECE]
        found = _of_any(piece) if np.ndarray in set(map(type, piece)) else _of_tensors(piece)
        for whole, some in zip(lists, found[:-1], strict=True):
            whole.extend(some)
        devices |= found.devices
    return Survey._make([*lists, devices])


def _of_tensors(arrays: list[Any]) -> Survey:
    lazy = any(map(_IS_CONJ, arrays)) or any(map(_IS_NEG, arrays))
    return Survey(
        list(map(_ADDRESS, arrays)),
        list(map(_NBYTES, arrays)),
        list(map(_IS_CPU, arrays)),
        list(map(in_one_piece if lazy else _IS_CONTIGUOUS, arrays)),
        list(map(_VERSION, arrays)),
        grads(arrays),
        list(map(_DETACHED, arrays)),
        set(map(_DEVICE, arrays)),
    )


def _of_any(arrays: list[Any]) -> Survey:
    plain = [type(one) is np.ndarray for one in arrays]
    both = list(zip(arrays, plain, strict=True))
    return Survey(
        list(map(address_of, arrays)),
        list(map(_NBYTES, arrays)),
        [numpy or one.is_cpu for one, numpy in both],
        list(map(in_one_piece, arrays)),
        [None if numpy else one._version for one, numpy in both],
        grads(arrays),
        [one.view() if numpy else one.detach() for one, numpy in both],
        {one.device for one, numpy in both if not numpy},
    )
