"""Networks with batch normalization and their training, for the two frameworks in `benchmarks.batch_norm`."""

from __future__ import annotations

from functools import partial

import torch
from sklearn.datasets import load_digits
from torch import nn

__all__ = ["CLIENTS", "MODELS", "Network", "evaluate", "smallest_variance", "train"]

CLIENTS, TEST_IMAGES, BATCH, RATE, MOMENTUM = 4, 397, 32, 0.03, 0.9

Images = tuple[torch.Tensor, torch.Tensor]


def _cnn(width: int = 96) -> nn.Module:
    """Two convolutions and a hidden layer, each with batch normalization."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, 10),
    )


def _resnet10() -> nn.Module:
    """Torchvision's ResNet with one block per stage, for one channel and ten classes."""
    from torchvision.models import resnet  # the other models need no torchvision

    model = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=10)
    model.conv1 = nn.Conv2d(1, 64, 7, stride=2, padding=3, bias=False)
    return model


MODELS = {"CNN": _cnn, "wide CNN": partial(_cnn, 2048), "ResNet-10": _resnet10}


class Network(nn.Module):
    """One of `MODELS`, always with the same random weights."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = MODELS[kind]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the scores of ten digits; enlarges images for a ResNet, which downsamples 32 times."""
        return self.layers(nn.functional.interpolate(x, scale_factor=2.0) if self.kind == "ResNet-10" else x)


def _images() -> Images:
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
    return images, torch.tensor(digits.target)


DATA = _images()


def train(model: Network, client: int, round_num: int, clients: int = CLIENTS) -> int:
    """Trains for one epoch on a client's images and returns their number."""
    x, y = (part[TEST_IMAGES + client :: clients] for part in DATA)
    torch.manual_seed(1000 * client + round_num)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    for batch in torch.randperm(len(y)).split(BATCH):
        if len(batch) < BATCH:  # batch statistics of few images are noise
            continue
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    return len(y)


def evaluate(model: Network) -> float:
    """The accuracy on images that no client has; chance is 0.1."""
    x, y = (part[:TEST_IMAGES] for part in DATA)
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def smallest_variance(model: Network) -> float:
    return min(array.min().item() for name, array in model.state_dict().items() if "running_var" in name)
