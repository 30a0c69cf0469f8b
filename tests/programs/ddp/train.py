#!/usr/bin/env python3
"""A trainer as one writes it for torchrun and files on disk: DDP, DistributedSampler, a Dataset that reads by h5py."""

import argparse
import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import h5py
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Samples(Dataset[Any]):
    """The samples of one file, which every process that reads them opens for itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.file: Any = None
        with h5py.File(name, "r") as file:
            self.length = len(file["x"])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if self.file is None:
            self.file = h5py.File(self.name, "r")
        return torch.from_numpy(self.file["x"][index]), torch.from_numpy(self.file["y"][index])


def steps() -> Iterator[tuple[int, Samples]]:
    """The files, one after the other, until there is none."""
    with contextlib.suppress(FileNotFoundError):
        for number in itertools.count():
            yield number, Samples(f"samples{number:03d}.h5")


def main() -> None:
    """Train on every file once, and write the losses and the weights."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--start", default="fork")
    options = parser.parse_args()

    distributed.init_process_group("gloo", init_method="env://")
    torch.manual_seed(3)
    model: Any = DistributedDataParallel(torch.nn.Linear(6, 2, dtype=torch.float64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for number, samples in steps():
        sampler: Any = DistributedSampler(samples, seed=number)
        start = options.start if options.workers else None
        for x, y in DataLoader(samples, 8, sampler=sampler, num_workers=options.workers, multiprocessing_context=start):
            loss: Any = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total = loss.detach().clone()
        distributed.all_reduce(total)
        losses.append(total.item())
    if distributed.get_rank() == 0:
        with h5py.File("weights.h5", "w") as file:
            file["losses"] = losses
            for name, value in model.module.state_dict().items():
                file[name] = value.numpy()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
