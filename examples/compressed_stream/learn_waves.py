"""Learns how a state changes until the next one; prints the error for test states, as a part of the changes."""

import sys

import h5py
import torch
from torch import nn
from wilkins.transport import steps

courses, tests = [], []
for name in steps.names("waves-*.h5"):
    with h5py.File(name) as file:
        courses.append(torch.from_numpy(file["train/u"][:]))
        tests += [torch.from_numpy(file["test/u"][:])] if "test/u" in file else []


def changes(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """States, and how each changes."""
    return states[:, :-1].reshape(-1, 1, states.shape[2]), states.diff(dim=1).reshape(-1, 1, states.shape[2])


def layer(inputs: int, outputs: int) -> nn.Module:
    """Of what is near on the ring."""
    return nn.Conv1d(inputs, outputs, 5, padding=2, padding_mode="circular")


torch.manual_seed(int(sys.argv[1]))
x, y = changes(torch.cat(courses))
scale, passes = y.std(), 20
model = nn.Sequential(layer(1, 24), nn.GELU(), layer(24, 24), nn.GELU(), layer(24, 1))
optimizer = torch.optim.Adam(model.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=passes * -(-len(x) // 32))
for _ in range(passes):
    for some in torch.randperm(len(x)).split(32):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[some]), y[some] / scale).backward()
        optimizer.step()
        schedule.step()
x, y = changes(torch.cat(tests))
with torch.no_grad():
    print("error", float(((scale * model(x) - y) ** 2).mean().sqrt() / (y**2).mean().sqrt()))
