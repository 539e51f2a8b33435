"""Trains a small transformer in bfloat16 and saves versions of it for `benchmarks.lossless`.

python benchmarks/lossless_train.py FOLDER TEXT... # a minute
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

WIDTH, LAYERS, CONTEXT, BATCH = 256, 4, 64, 16
WARM_UP = 100  # steps of ordinary training
SETTLING = 20  # steps until Adam's moments are those of a long run
RATE = 3e-6
STEPS = (1, 11)  # between the versions


class Model(nn.Module):
    """Predicts the next byte."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Returns the logits of the byte after each one."""
        x = self.embed(text) + self.places.weight
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT, dtype=x.dtype)
        return self.head(self.layers(x, mask=mask, is_causal=True))


def step(model: Model, optimizer: torch.optim.Optimizer, text: torch.Tensor) -> None:
    """Trains on random pieces of the text."""
    begins = torch.randint(len(text) - CONTEXT - 1, (BATCH, 1))
    pieces = text[begins + torch.arange(CONTEXT + 1)]
    logits = model(pieces[:, :-1]).float()
    loss = nn.functional.cross_entropy(logits.reshape(-1, 256), pieces[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def bits_of(model: Model) -> torch.Tensor:
    """Returns the words of all weights, one tensor after the other."""
    return torch.cat([weight.detach().view(torch.int16).reshape(-1) for weight in model.parameters()])


def main() -> None:
    """Saves the first version, ``0.bin``, and others by the number of steps after it."""
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    text = torch.frombuffer(
        bytearray(b"".join(Path(path).read_bytes() for path in sys.argv[2:])), dtype=torch.uint8
    ).long()
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(WARM_UP):
        step(model, optimizer, text)
    model = model.bfloat16()
    sizes = [str(weight.numel()) for weight in model.parameters()]
    (folder / "sizes").write_text(" ".join(sizes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for _ in range(SETTLING):
        step(model, optimizer, text)
    first = bits_of(model)
    (folder / "0.bin").write_bytes(first.numpy().tobytes())
    for steps in range(1, max(STEPS) + 1):
        step(model, optimizer, text)
        if steps in STEPS:
            (folder / f"{steps}.bin").write_bytes(bits_of(model).numpy().tobytes())


if __name__ == "__main__":
    main()
