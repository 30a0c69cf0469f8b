"""Trains a network on each step of the stream, and puts it into the store that all workers of the search share.

Regularised evolution (E. Real, A. Aggarwal, Y. Huang, Q. V. Le: Regularized Evolution for Image Classifier Architecture
Search, AAAI 2019): of some networks, drawn from the youngest ones, the best is the parent. Its genes are changed, and
the child is trained. Old networks have no children, however good they are. A child takes over the layers that it has in
common with its best relative, from the first one on (EvoStore, Underwood et al., HPDC 2024), and trains the others.

What is known of all networks is in the store alone. A worker keeps nothing, so it may be killed at any time.
"""

import argparse
import random
import re

import h5py
import torch
from torch import nn

from networks import FIRST, Genes, Network, mutated
from wilkins.tasks.models import ModelStore, NoSuchModel, graph_of
from wilkins.transport import steps

POPULATION, DRAWN = 12, 4
TRAIN_ON = 0.35
"""How often a child has its parent's genes, and is that network, trained further; with transfer only."""
BATCH, RATE = 32, 0.003


def names_in(store: ModelStore) -> list[str]:
    """The names of all networks, in their order; none, if no worker has put one."""
    try:
        return store.names()
    except NoSuchModel:
        return []


def genes_of_child(store: ModelStore, rng: random.Random, transfer: bool) -> Genes:
    """The genes of the next network: those of the best of some young ones, changed."""
    young = names_in(store)[-POPULATION:]  # names begin with the number of the step
    if not young:
        return FIRST
    drawn = [store.record(name) for name in rng.sample(young, min(DRAWN, len(young)))]
    parent = max(drawn, key=lambda one: one.score).about["genes"]
    return parent if transfer and rng.random() < TRAIN_ON else mutated(parent, rng)


def freeze(model: Network, taken: set[str], rng: random.Random) -> None:
    """Train no parameters that were taken over; if that are all, train the network on from some block on."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in taken)
    if not any(one.requires_grad for one in model.parameters()):
        model.blocks[rng.randrange(len(model.blocks)) :].requires_grad_(True)


def train(model: Network, x: torch.Tensor, y: torch.Tensor, passes: int) -> None:
    """Go through samples several times, in batches, with a learning rate that falls to zero (Adam, mean squares)."""
    updates = passes * -(-len(x) // BATCH)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], RATE, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    for _ in range(passes):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x[batch]), y[batch]).backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def error(model: Network, x: torch.Tensor, y: torch.Tensor) -> float:
    """The mean over samples of the error's norm, by the norm of what is right."""
    return float(((model(x) - y).norm(dim=1) / y.norm(dim=1)).mean())


def step_of_search(store: ModelStore, name: str, data: dict, options: argparse.Namespace) -> str:
    """Train the network `name` on a step's samples, and put it into the store; returns what to say of it."""
    rng = random.Random(f"{options.seed} {name}")
    torch.manual_seed(rng.getrandbits(60))
    genes = genes_of_child(store, rng, options.transfer == "prefix")
    model = Network(genes)
    graph = graph_of(model)
    relative = store.inherit(graph) if options.transfer == "prefix" else None
    if relative:
        model.load_state_dict(relative.tensors, strict=False)
        freeze(model, set(relative.tensors), rng)
    train(model, *data["train"], options.passes)
    score = -error(model, *data["held_out"])
    about = {
        "genes": genes,
        "samples": options.passes * len(data["train"][0]),
        "test_error": error(model, *data["test"]),  # for people: the search does not look at it
    }
    parent = relative.parent if relative else ""
    store.put(graph, model.state_dict(), name=name, parent=parent, score=score, about=about)
    taken = f", {relative.layers} of {len(graph.layers)} layers from {relative.parent.name}" if relative else ""
    return f"{name}: error {-score:.3f}{taken}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", type=int, default=0)
    parser.add_argument("--store", default="models")
    parser.add_argument("--transfer", choices=["prefix", "none"], default="prefix")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    store = ModelStore(options.store)
    for file_name in steps.names("burgers-*.h5"):
        name = f"{re.search('[0-9]+', file_name)[0]}-{options.worker}"
        if name in names_in(store):
            print(f"{name} is in the store already", flush=True)  # put before the worker was killed
            continue
        with h5py.File(file_name) as file:
            data = {key: tuple(torch.from_numpy(part[axis][:]) for axis in "xy") for key, part in file.items()}
        print(step_of_search(store, name, data, options), flush=True)
