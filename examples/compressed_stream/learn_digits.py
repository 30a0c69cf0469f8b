"""Learns to tell digits from all pictures of the stream; prints the part of the test pictures that it gets wrong."""

import sys

import h5py
import numpy as np
import torch
from torch import nn
from wilkins.transport import steps

found = {name: [] for name in ("train/x", "train/y", "test/x", "test/y")}
for name in steps.names("digits-*.h5"):
    with h5py.File(name) as file:
        for path, parts in found.items():
            parts.append(torch.from_numpy(file[path][:]))
x, y, test_x, test_y = (torch.cat(parts) for parts in found.values())

torch.manual_seed(int(sys.argv[1]))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for _ in range(20):
    for some in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[some]), y[some]).backward()
        optimizer.step()
print("error", np.mean((model(test_x).argmax(1) != test_y).numpy()))
