"""Versions for `torch.distributed.checkpoint`: its planner decides what each rank reads, this reader reads it.

    dcp.load(state, storage_reader=VersionReader("checkpoints/latest"))

So what was saved comes back into whatever torch shards next: FSDP, tensor parallelism, other meshes.
"""

from __future__ import annotations

import dataclasses
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from wilkins.tasks.checkpoint.errors import CheckpointError
from wilkins.tasks.checkpoint.state.sources import empty, torch_dtype
from wilkins.tasks.checkpoint.state.tree import decode
from wilkins.tasks.checkpoint.storage.contents import Contents, Entry
from wilkins.tasks.checkpoint.storage.versions import MANIFEST


class VersionReader(StorageReader):
    """Reads a version; every byte that is used is compared with its digest. Nothing of it is unpickled.

    Plain values, and arrays that each rank has of its own, are those of rank 0.

    Args:
        path: a version's folder, such as `checkpoints/latest`. Where a job moves that link while several ranks open
            it, they may find different versions: then nothing is loaded, and torch's error says so.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._contents: Contents | None = None
        self._boxes: dict[MetadataIndex, Entry] = {}
        self._plain: dict[str, Any] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Forget what was read; read another version, if one is given."""
        if checkpoint_id:
            self._path = Path(checkpoint_id)
        self._close()
        self._boxes.clear()
        self._plain.clear()

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """What the version holds, in torch's terms."""
        contents = self._open()
        index = contents.index(0)
        numbers: dict[int, int] = {}
        kept: list[Any] = []

        def leaf(number: int) -> Any:
            spec = index.entries[number].spec
            if spec.library != "torch":
                array, memory = empty(spec, spec.shape)
                contents.read(index.entries[number], memory)
                return array
            kept.append(torch.empty(spec.whole, dtype=torch_dtype(spec.dtype), device="meta"))
            numbers[id(kept[-1])] = number
            return kept[-1]

        tree = decode(index.tree, leaf)
        if not isinstance(tree, dict):
            kind = type(tree).__name__
            raise CheckpointError(f"{self._path} holds a {kind}, and torch loads dicts; use Checkpointer.restore")
        flat, paths = flatten_state_dict(tree)
        found: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        for name, value in flat.items():
            if id(value) not in numbers:
                self._plain[name] = value
                found[name] = BytesStorageMetadata()
            else:
                found[name] = self._tensor(name, "/".join(map(str, paths[name])), index.entries[numbers[id(value)]])
        return Metadata(found, planner_data=paths, storage_data=None, storage_meta=StorageMeta(self._path))

    def _tensor(self, name: str, key: str, first: Entry) -> TensorStorageMetadata:
        contents = self._open()
        entries = [first]
        if first.spec.placement == "shard":
            indices = [contents.index(rank) for rank in range(contents.ranks)]
            entries = [one.entries[one.paths[key]] for one in indices if key in one.paths]
        chunks = {}
        for entry in entries:
            spec = entry.spec
            if spec.nbytes or entry is first:
                chunks[spec.offsets] = ChunkStorageMetadata(torch.Size(spec.offsets), torch.Size(spec.shape))
                self._boxes[MetadataIndex(name, spec.offsets)] = entry
        properties = TensorProperties(dtype=torch_dtype(first.spec.dtype))
        return TensorStorageMetadata(properties, torch.Size(first.spec.whole), list(chunks.values()))

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_: Any, **__: Any) -> None:  # noqa: ARG002
        """Ranks that got the metadata from another one read it themselves."""
        if not self._boxes and not self._plain:
            self.read_metadata()

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """As it is, with the name of the version that it is made for."""
        return dataclasses.replace(plan, storage_data=self._open().path.resolve().name)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """As they are.

        Raises:
            CheckpointError: they are made for different versions.
        """
        names = sorted({str(plan.storage_data) for plan in plans})
        if len(names) > 1:
            raise CheckpointError(
                f"ranks have opened different versions by {self._path}: {', '.join(names)}, as the job that saves went "
                "on meanwhile; let one rank choose the folder of a version, and give that to all"
            )
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what this rank's plan asks for."""
        held: tuple[MetadataIndex, Any] | None = None
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                self._load_plain(item, planner)
                continue
            where = MetadataIndex(item.storage_index.fqn, item.storage_index.offset)
            if held is None or held[0] != where:
                held = where, self._read(self._boxes[where])
            target = planner.resolve_tensor(item).detach()
            target.copy_(narrow_tensor_by_index(held[1], item.storage_offsets, item.lengths))
            planner.commit_tensor(item, target)
        self._close()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _load_plain(self, item: ReadItem, planner: LoadPlanner) -> None:
        """The planner takes values as torch writes them: made here, from what was JSON."""
        stream = io.BytesIO()
        torch.save(self._plain[item.storage_index.fqn], stream)
        stream.seek(0)
        planner.load_bytes(item, stream)

    def _read(self, entry: Entry) -> Any:
        tensor, memory = empty(entry.spec, entry.spec.shape)
        self._open().read(entry, np.asarray(memory))
        return tensor

    def _open(self) -> Contents:
        if self._contents is None:
            self._contents = Contents(self._path)
        return self._contents

    def _close(self) -> None:
        if self._contents is not None:
            self._contents.close()
            self._contents = None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a version's folder."""
        return (Path(checkpoint_id) / MANIFEST).is_file()
