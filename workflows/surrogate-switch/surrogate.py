"""The network that learns what the expensive function answers: a few numbers in, an array out."""

import torch
from torch import nn


class Network(nn.Module):
    """Takes questions (k, inputs) of numbers from 0 to 1, gives answers (k, outputs)."""

    def __init__(self, inputs: int, outputs: int, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)
        )

    def forward(self, questions: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.layers(4 * questions - 2)
        return answers
