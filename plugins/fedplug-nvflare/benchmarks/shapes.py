"""Shapes of the measured models."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["MODELS"]

Shapes = dict[str, tuple[int, ...]]


def _resnet18() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields the shapes of ResNet-18.

    Source: He et al., "Deep Residual Learning for Image Recognition" (arXiv 1512.03385), table 1.
    """
    yield "conv1.weight", (64, 3, 7, 7)
    yield from _norm("bn1", 64)
    before = 64
    for stage, width in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            name = f"layer{stage}.{block}"
            yield f"{name}.conv1.weight", (width, before, 3, 3)
            yield from _norm(f"{name}.bn1", width)
            yield f"{name}.conv2.weight", (width, width, 3, 3)
            yield from _norm(f"{name}.bn2", width)
            if before != width:
                yield f"{name}.downsample.0.weight", (width, before, 1, 1)
                yield from _norm(f"{name}.downsample.1", width)
            before = width
    yield "fc.weight", (1000, 512)
    yield "fc.bias", (1000,)


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for part in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{part}", (width,)


MODELS: dict[str, Shapes] = {
    # The network of NVFlare's example hello-pt, for CIFAR-10.
    "hello-pt": {
        "conv1.weight": (6, 3, 5, 5),
        "conv1.bias": (6,),
        "conv2.weight": (16, 6, 5, 5),
        "conv2.bias": (16,),
        "fc1.weight": (120, 400),
        "fc1.bias": (120,),
        "fc2.weight": (84, 120),
        "fc2.bias": (84,),
        "fc3.weight": (10, 84),
        "fc3.bias": (10,),
    },
    "ResNet-18": dict(_resnet18()),
}
