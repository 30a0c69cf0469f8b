"""The process group of one generation, by gloo.

Found by trying, with torch 2.13:

- A pending operation fails when the peer that it waits for closes its connection: nearly always at once, but in one of
  some twenty runs with two deaths not before its timeout. So waits look now and then whether the group is lost.
- While a group connects this is not so: who waits for the connection of a rank that has died waits for 30 s, whatever
  the timeout. So another thread connects, and is given up as soon as the parent says that the group is lost.
- What such a thread has opened stays open until it ends. So no operation begins before all members are connected.
- `abort` does not end a pending operation, and destroying its group waits for it. So such a group is kept for good.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from wilkins.tasks.elastic.errors import ElasticError, GroupLost
from wilkins.tasks.elastic.link import Link
from wilkins.tasks.elastic.membership import Formed
from wilkins.tasks.elastic.parent import PATIENCE
from wilkins.tasks.started_by import INTERFACE

_CHUNK = 1 << 28
"""Bytes of a state that go in one message."""
_CONNECT = timedelta(seconds=10)
_LOOK = timedelta(milliseconds=250)
"""Between two looks of a wait whether the group is lost."""
_STATE = 1
"""The tag of messages with a state."""


def interface() -> str:
    """The address at which this rank's connections are made."""
    return os.environ.get(INTERFACE, "127.0.0.1")


class _Store(dist.Store):  # type: ignore[name-defined,misc]
    """The parent's store, as torch wants one: of it, gloo sets keys and waits for those of others."""

    def __init__(self, link: Link, generation: int) -> None:
        super().__init__()
        self._link = link
        self._generation = generation

    def set(self, key: str, value: bytes | str) -> None:
        self._link.set(self._generation, key, value if isinstance(value, bytes) else value.encode())

    def get(self, key: str) -> bytes:
        try:
            return self._link.get(self._generation, key)
        except GroupLost:
            raise RuntimeError("the group is lost") from None

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:  # noqa: ARG002 - the parent ends it
        for key in keys:
            self.get(key)


class GlooGroup:
    """The members of a generation, connected."""

    def __init__(self, link: Link | None, formed: Formed, rank: int = 0, patience: float = PATIENCE) -> None:
        """Connects; a collective call. `link`: None for a rank without a parent, which is alone.

        Raises:
            GroupLost: a member has died meanwhile.
        """
        self.formed = formed
        self._link = link
        self._patience = patience
        self._place = formed.members.index(rank)
        self._group: Any = None
        if link is not None and len(formed.members) > 1:
            self._group = self._connected(link)

    def _connected(self, link: Link) -> Any:
        made: list[Any] = []
        wrong: list[str] = []
        done = threading.Event()

        def connect() -> None:
            try:
                gloo: Any = dist.ProcessGroupGloo
                options = gloo._Options()
                options._devices = [gloo.create_device(hostname=interface())]
                options._timeout, options._threads = _CONNECT, 2
                store = _Store(link, self.formed.generation)
                made.append(gloo(store, self._place, len(self.formed.members), options))
                made[0]._set_default_timeout(timedelta(seconds=self._patience))
                store.set(f"connected/{self._place}", b"1")
                store.wait([f"connected/{place}" for place in range(len(self.formed.members))])
            except (RuntimeError, ElasticError) as error:
                made.clear()
                wrong.append(str(error).partition("\n")[0])
            done.set()
            link.wake()

        threading.Thread(target=connect, daemon=True, name="elastic-connect").start()
        link.wait_until(done, self.formed.generation, self._patience)
        if not made:
            raise GroupLost(wrong[0])
        return made.pop()

    def add_up(self, tensor: Tensor, step: int) -> None:
        """Make a tensor the sum of all members' tensors.

        Args:
            tensor: this rank's.
            step: steps that this rank has finished.

        Raises:
            GroupLost: a member has died or left.
            ElasticError: a member makes no more steps.
        """
        if self._link is not None and self._link.is_broken(self.formed.generation, step):
            raise GroupLost
        if self._group is not None:
            self._finish(self._group.allreduce([tensor]), step)

    def _finish(self, work: Any, step: int) -> None:
        """Wait for an operation, at most until the group is lost."""
        while True:
            try:
                work.wait(_LOOK)
                return
            except RuntimeError:
                if work.is_completed():
                    raise GroupLost from None
            try:
                lost = self._link is not None and self._link.is_broken(self.formed.generation, step)
            except ElasticError:
                self._keep(work)
                raise
            if lost:
                self._keep(work)
                raise GroupLost

    def _keep(self, work: Any) -> None:
        """Keep a group with a pending operation for good."""
        for one in (self._group, work):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))

    def any_of(self, mine: Sequence[bool], step: int) -> list[bool]:
        """Of each of some questions, whether any member says so."""
        votes = torch.tensor([float(one) for one in mine])
        self.add_up(votes, step)
        return [bool(one) for one in votes]

    def send_state(self, state: Tensor, ranks: tuple[int, ...]) -> None:
        """Send bytes to some members, behind the program; whoever dies meanwhile is not waited for."""
        group = self._group
        places = [self.formed.members.index(rank) for rank in ranks]

        def send() -> None:
            try:
                for place in places:
                    group.send([torch.tensor([len(state)])], place, _STATE).wait()
                    for part in torch.split(state, _CHUNK):
                        group.send([part], place, _STATE).wait()
            except RuntimeError:
                return  # the group is lost, as all will see

        if group is not None and ranks:
            threading.Thread(target=send, daemon=True, name="elastic-state").start()

    def receive_state(self) -> Tensor:
        """The bytes that the source sends to this member.

        Raises:
            GroupLost: a member has died or left.
        """
        group, source = self._group, self.formed.members.index(self.formed.source)
        link = self._link
        assert link is not None
        got: list[Tensor] = []
        done = threading.Event()

        def receive() -> None:
            size = torch.zeros(1, dtype=torch.int64)
            try:
                group.recv([size], source, _STATE).wait()
                state = torch.empty(int(size), dtype=torch.uint8)
                for part in torch.split(state, _CHUNK):
                    group.recv([part], source, _STATE).wait()
                got.append(state)
            except RuntimeError:
                pass
            done.set()
            link.wake()

        threading.Thread(target=receive, daemon=True, name="elastic-state").start()
        link.wait_until(done, self.formed.generation)
        if not got:
            raise GroupLost
        return got[0]

    def close(self) -> None:
        """Close this rank's connections, so that members that wait for it see that it has left."""
        self._group = None
