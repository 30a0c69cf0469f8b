"""The model: a small network that takes places (x, y, time) and gives heights."""

import torch


def network(hidden: int = 48) -> torch.nn.Module:
    """Made by the trainer, and again by the service that predicts."""
    return torch.nn.Sequential(
        torch.nn.Linear(3, hidden),
        torch.nn.Tanh(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.Tanh(),
        torch.nn.Linear(hidden, 1),
    )
