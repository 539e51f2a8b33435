"""The network and the training of Flower's PyTorch quickstart, on synthetic images of CIFAR-10's shape."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import nn

__all__ = ["IMAGES", "Net", "evaluate", "train"]

IMAGES, TEST_IMAGES, BATCH, RATE = 100, 1000, 32, 0.05

Images = tuple[torch.Tensor, torch.Tensor]


class Net(nn.Module):
    """The network of flwr's quickstart-pytorch, from 'PyTorch: A 60 Minute Blitz'."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the scores of ten classes for images."""
        x = self.pool(torch.relu(self.conv1(x)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = x.view(-1, 16 * 5 * 5)
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)


def train(net: nn.Module, client: int, round_num: int) -> None:
    """Trains for one epoch on a client's images with SGD and momentum."""
    x, y = _client_images(client)
    torch.manual_seed(1000 * client + round_num)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    for batch in torch.randperm(IMAGES).split(BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()


def evaluate(net: nn.Module) -> float:
    """Returns the accuracy on held-out images."""
    labels = torch.arange(TEST_IMAGES) % 10
    with torch.no_grad():
        scores = net(_images(labels, 0))
    return (scores.argmax(1) == labels).float().mean().item()


def _images(labels: torch.Tensor, seed: int) -> torch.Tensor:
    """Returns a smooth pattern for each label, with noise twice as strong."""
    patterns = torch.randn(10, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    smooth = nn.functional.interpolate(patterns, size=32, mode="bilinear")
    noise = torch.randn(len(labels), 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    return smooth[labels] + 2 * noise


@functools.cache
def _client_images(client: int) -> Images:
    """Returns images and labels of a client."""
    rng = np.random.default_rng(client)
    rng.choice(10, 2, replace=False), rng.random(IMAGES), rng.choice(2, IMAGES)  # the results were made so
    labels = torch.from_numpy(rng.integers(0, 10, IMAGES))
    return _images(labels, 1 + client), labels
