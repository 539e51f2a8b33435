"""A small character-level language model, and its data: the source of Python's standard library.

Every machine has this text. Its modules are divided into the shards of the workers.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from fedplug import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
"""The characters that the model reads and writes. All others are number 0."""

LENGTH, BATCH = 64, 8
WIDTH, LAYERS, HEADS = 64, 2, 4

_NUMBERS = {character: number for number, character in enumerate(CHARACTERS, start=1)}


class Text(NamedTuple):
    """The text of each worker and the held-out text, as uint8 tensors of character numbers."""

    shards: list[torch.Tensor]
    held_out: torch.Tensor


def read_text(workers: int) -> Text:
    """Distributes the modules, sorted by name, to the workers in turn. Holds out every tenth."""
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    held_out, trained = modules[::10], [module for place, module in enumerate(modules) if place % 10]
    return Text([read(trained[worker::workers]) for worker in range(workers)], read(held_out))


def read(files: list[Path]) -> torch.Tensor:
    """Returns the characters of files as numbers."""
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    return torch.tensor([_NUMBERS.get(character, 0) for character in text], dtype=torch.uint8)


def batch(text: torch.Tensor, seed: tuple[int, ...], size: int = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns random windows of characters and of the next characters, ``[size, LENGTH]`` each."""
    mixed = sum(number * 1_000_003**place for place, number in enumerate(seed)) % 2**63
    generator = torch.Generator().manual_seed(mixed)
    begins = torch.randint(len(text) - LENGTH - 1, (size,), generator=generator)
    windows = torch.stack([text[begin : begin + LENGTH + 1] for begin in begins.tolist()]).long()
    return windows[:, :-1], windows[:, 1:]


class CharacterModel(nn.Module):
    """A decoder-only transformer, by default of 0.1 million parameters."""

    def __init__(self, width: int = WIDTH, layers: int = LAYERS, heads: int = HEADS) -> None:
        super().__init__()
        count = len(CHARACTERS) + 1
        self.characters = nn.Embedding(count, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, count)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Returns logits of the next character, ``[batch, length, characters]``."""
        x = self.characters(characters) + self.places.weight[: characters.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        split = self.query_key_value(self.norm_1(x)).view(rows, length, 3, self.heads, -1)
        seen = nn.functional.scaled_dot_product_attention(*split.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        widened: torch.Tensor = self.narrow(nn.functional.gelu(self.widen(self.norm_2(x))))
        return x + widened


def new_model(seed: int = 0) -> CharacterModel:
    """Returns a model with the same initial parameters in every call with a seed."""
    torch.manual_seed(seed)
    return CharacterModel()


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Returns the cross entropy of the next character, in nats."""
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def held_out_loss(model: nn.Module, text: Text, windows: int = 128) -> float:
    """The mean loss on the held-out text, always on the same windows."""
    with torch.no_grad():
        return float(loss_of(model, *batch(text.held_out, (0,), windows)))


def plot(
    curves: Mapping[str, Sequence[tuple[float, float]]], dense: Collection[str], sent: str, path: Path
) -> None:
    """Plots loss against bytes.

    Args:
        curves: Bytes and loss of the points of each run, by name.
        dense: The names of runs without compression.
        sent: The label of the bytes.
        path: The SVG file to write.
    """
    look = pictures.looks({name: name in dense for name in curves})

    def paint(figure: Figure) -> None:
        axes, ends = figure.subplots(), []
        for name, points in curves.items():
            color, style = look[name]
            axes.plot(*zip(*points, strict=True), marker=".", color=color, linestyle=style)
            ends.append((name, *points[-1], color))
        axes.set(xscale="log", xlabel=sent, ylabel="loss on held-out modules, nats")
        pictures.label_lines(axes, ends)

    pictures.save(path, 9, 5, paint)
