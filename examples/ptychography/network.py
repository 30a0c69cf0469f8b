"""The network that learns what a diffraction pattern shows: pattern -> view (see joining.py).

That a network can stand in for the solver is the idea of PtychoNN: M. J. Cherukara et al., AI-enabled high-resolution
scanning coherent diffraction imaging, Applied Physics Letters 117 (2020) 044103. Here layers are dense, not
convolutional, as every pixel of a far-field pattern has light of every pixel of the object; and gated: a small network
looks at a pattern and weights several output layers, so that different materials need not share one.
"""

import torch
from torch import nn


class Network(nn.Module):
    """Takes float patterns (k, n, n) in photons, gives views (k, 2, n, n)."""

    def __init__(self, size: int = 32, photons: float = 1e6, width: int = 384, experts: int = 3) -> None:
        """For patterns of size x size pixels, of an object that is lit by `photons` photons."""
        super().__init__()
        self.size, self.photons = size, photons
        self.features = nn.Sequential(nn.Linear(size**2, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.gate = nn.Sequential(nn.Linear(size**2 + 1, 64), nn.GELU(), nn.Linear(64, experts), nn.Softmax(1))
        self.experts = nn.Linear(experts * width, 2 * size**2)

    def forward(self, patterns: torch.Tensor) -> torch.Tensor:
        """Splits a pattern into brightness and shape; a view's scale does not depend on the brightness."""
        photons = patterns.sum((1, 2)).clamp(min=1.0)
        moduli = torch.sqrt(patterns / photons[:, None, None]).flatten(1) * self.size
        brightness = 4 * torch.log(photons / self.photons)[:, None]
        weights = self.gate(torch.cat([moduli, brightness], 1))
        weighted = weights[:, :, None] * self.features(moduli)[:, None]
        return self.experts(weighted.flatten(1)).view(-1, 2, self.size, self.size)
