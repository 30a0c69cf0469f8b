"""The networks that are searched: a linear guess, and blocks that correct it one after the other; genes say which."""

import random

import torch
from torch import nn

INPUTS, STATE, OUTPUTS = 6, 64, 32
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "silu": nn.SiLU}
WIDTHS = (32, 64, 96)
LEAST, MOST = 2, 12
Genes = list[list]
"""Of each block its width and its activation, such as [[64, "relu"], [32, "tanh"]]."""
FIRST: Genes = [[64, "relu"]] * 4


class Block(nn.Module):
    """Changes a state by a network with one hidden layer, and corrects the guess by what it has now; at first by 0."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.change = nn.Sequential(nn.Linear(STATE, width), ACTIVATIONS[activation](), nn.Linear(width, STATE))
        self.correction = nn.Linear(STATE, OUTPUTS)
        nn.init.zeros_(self.correction.weight)
        nn.init.zeros_(self.correction.bias)

    def forward(self, state: torch.Tensor, guess: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = state + self.change(state)
        return state, guess + self.correction(state)


class Network(nn.Module):
    """From amplitudes (samples, 6) to final states (samples, 32). The first blocks of a network are a network, too."""

    def __init__(self, genes: Genes) -> None:
        super().__init__()
        self.state, self.guess = nn.Linear(INPUTS, STATE), nn.Linear(INPUTS, OUTPUTS)
        self.blocks = nn.ModuleList(Block(*gene) for gene in genes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, guess = self.state(x), self.guess(x)
        for block in self.blocks:
            state, guess = block(state, guess)
        return guess


def mutated(genes: Genes, rng: random.Random) -> Genes:
    """Genes with one change: another width or activation of a block, one block more at the end, or one less."""
    child = [list(gene) for gene in genes]
    what = rng.choice(["width", "activation", "more", "less"])
    place = max(rng.randrange(len(child)), rng.randrange(len(child)))  # later blocks are changed more often
    if what == "more" and len(child) < MOST:
        child.append([rng.choice(WIDTHS), rng.choice(list(ACTIVATIONS))])
    elif what == "less" and len(child) > LEAST:
        child.pop()
    elif what == "activation":
        child[place][1] = rng.choice([one for one in ACTIVATIONS if one != child[place][1]])
    else:
        child[place][0] = rng.choice([one for one in WIDTHS if one != child[place][0]])
    return child
