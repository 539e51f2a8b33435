"""The network of server and sites."""

from __future__ import annotations

import torch


class Digits(torch.nn.Module):
    """A network of two convolutions and two dense layers for images of 8 x 8 pixels; 75,000 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(16, 32, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(512, 128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, 10),
        )

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns logits, ``[n, 10]``, of images, ``[n, 1, 8, 8]``."""
        logits: torch.Tensor = self.layers(pictures)
        return logits
