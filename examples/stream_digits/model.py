"""The model: a perceptron with one hidden layer, for pictures of 8 x 8 pixels and ten classes."""

from torch import nn


def perceptron(hidden: int = 128) -> nn.Module:
    """A fresh one."""
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
