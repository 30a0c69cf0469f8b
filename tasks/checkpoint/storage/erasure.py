"""Which fragments make a lost node's data again, and where they are kept; the code itself is pyeclib's. Pure.

Reed-Solomon codes over the memories of a group of nodes, as in FTI (Bautista-Gomez et al., SC 2011) and SCR (Moody et
al., SC 2010), with parity that rotates over the group as in RAID-6: no node holds parity alone, and all work alike.

A group has n = k + m nodes. Each cuts its data into k chunks. There are n stripes of k chunks of different nodes and m
parity chunks on the m other nodes: parity p of stripe s is on member (s + p) mod n, its data chunk c is chunk c of
member (s + m + c) mod n. So a lost member costs each stripe one fragment, and any m members may be lost. Member s makes
the parity of stripe s.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wilkins.tasks.checkpoint.errors import CheckpointError

MOST = 32
"""Nodes of a group with a code, at most: pyeclib's."""
KIND = "isa_l_rs_cauchy"
"""Every square part of a Cauchy matrix can be inverted, so any k fragments do; Intel's ISA-L comes with pyeclib."""
AT_ONCE = 256 << 10
"""Bytes that are coded in one call, in which pyeclib holds the interpreter's lock: less than 0.1 ms."""
ALIGN = 64
_HEADER = 80


@dataclass(frozen=True, slots=True)
class Partners:
    """How versions in memory survive the loss of nodes: any `parity` of a group of `data` + `parity` nodes.

    A node's memory takes `parity` / `data` of its versions' bytes more. With more nodes than a group has, they are
    split into groups of at least that many; a larger group has more data nodes.
    """

    data: int
    parity: int = 1
    every: int = 1
    """Which versions in memory: every n-th."""

    def __post_init__(self) -> None:
        if self.data < 1 or self.parity < 1 or self.every < 1:
            raise CheckpointError(f"{self}: each must be positive")
        if 2 * (self.data + self.parity) - 1 > MOST:
            raise CheckpointError(f"{self}: groups may have up to {MOST // 2} nodes; give less data or parity")


def groups(nodes: int, partners: Partners) -> list[list[int]]:
    """The nodes' numbers by group. Neighbours, which tend to fail together, go to different groups.

    Raises:
        CheckpointError: there are too few nodes.
    """
    least = partners.data + partners.parity
    if nodes < least:
        raise CheckpointError(
            f"partners: {partners.data} data and {partners.parity} parity need {least} nodes, and the job has {nodes}; "
            "give less data or parity, or run on more nodes"
        )
    count = nodes // least
    return [list(range(first, nodes, count)) for first in range(count)]


@dataclass(frozen=True, slots=True)
class Stripes:
    """Where fragments are in a group of `size` members with `parity` parity fragments per stripe."""

    size: int
    parity: int

    @property
    def data(self) -> int:
        """Data fragments of a stripe, and chunks of a member."""
        return self.size - self.parity

    def stripe_of(self, member: int, chunk: int) -> int:
        """The stripe that a chunk is in; it is the data fragment of that number there."""
        return (member - self.parity - chunk) % self.size

    def member_with(self, stripe: int, fragment: int) -> int:
        """The holder of a fragment: 0 to k - 1 are data, the others parity."""
        shift = self.parity + fragment if fragment < self.data else fragment - self.data
        return (stripe + shift) % self.size

    def part_of(self, fragment: int) -> int:
        """Which chunk, or which of its parity parts, a fragment is to its holder."""
        return fragment if fragment < self.data else fragment - self.data


def chunk_bytes(lengths: Sequence[int], data: int) -> int:
    """Bytes of a chunk, from those of the group's members; shorter members are padded with zeros."""
    return -(-max(lengths, default=0) // (data * ALIGN)) * ALIGN


def spans(length: int, piece: int) -> list[tuple[int, int]]:
    """A chunk cut into pieces: begin and end of each."""
    return [(begin, min(begin + piece, length)) for begin in range(0, length, piece)]


class Coder:
    """Makes parity of k equal pieces, and pieces of any k fragments.

    Raises:
        CheckpointError: there is no pyeclib.
    """

    def __init__(self, data: int, parity: int) -> None:
        self._data, self._parity = data, parity
        self._driver: Any = driver(data, parity)
        self._unit = max(ALIGN, AT_ONCE // data // ALIGN * ALIGN)
        self._headers: dict[int, list[bytes]] = {}

    def parity(self, pieces: Sequence[memoryview], made: Sequence[memoryview]) -> None:
        """Write the m parity pieces of k data pieces, all of as many bytes, a multiple of 64."""
        for begin, end in spans(len(pieces[0]), self._unit):
            coded = self._driver.encode(b"".join(piece[begin:end] for piece in pieces))
            for into, fragment in zip(made, coded[self._data :], strict=True):
                into[begin:end] = memoryview(fragment)[_HEADER:]

    def data(self, fragments: Mapping[int, memoryview]) -> list[bytes]:
        """All k data pieces, of any k fragments by their numbers."""
        made: list[list[bytes]] = [[] for _ in range(self._data)]
        length = len(next(iter(fragments.values())))
        for begin, end in spans(length, self._unit):
            size = end - begin
            headers = self._headers_of(size)
            decoded = self._driver.decode([headers[number] + one[begin:end] for number, one in fragments.items()])
            for chunk, parts in enumerate(made):
                parts.append(decoded[chunk * size : (chunk + 1) * size])
        return [b"".join(parts) for parts in made]

    def _headers_of(self, size: int) -> list[bytes]:
        """What pyeclib puts before fragments of this size, whatever they hold: kept pieces go without it."""
        if size not in self._headers:
            self._headers[size] = [one[:_HEADER] for one in self._driver.encode(bytes(self._data * size))]
        return self._headers[size]


_LOCK = threading.Lock()


def driver(data: int, parity: int) -> Any:
    """pyeclib's.

    Raises:
        CheckpointError: it is not installed, or cannot be used here.
    """
    try:
        from pyeclib.ec_iface import ECDriver
    except ImportError as error:
        raise CheckpointError(
            f"parity of checkpoints needs pyeclib, which cannot be imported ({error}); pip install 'wilkins[partners]'"
        ) from error
    try:
        with _LOCK:
            return ECDriver(k=data, m=parity, ec_type=KIND)
    except Exception as error:  # its own exceptions have no common class but this one
        raise CheckpointError(f"pyeclib cannot make the code {KIND} of {data} and {parity}: {error}") from error
