"""The model: a small network that foresees how the front changes at a point, from the points around it."""

import torch


def network(points: int = 17, hidden: int = 32) -> torch.nn.Module:
    """Made by the trainer; `network.h5` holds what it has learned."""
    return torch.nn.Sequential(
        torch.nn.Linear(points, hidden),
        torch.nn.Tanh(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.Tanh(),
        torch.nn.Linear(hidden, 1),
    )
