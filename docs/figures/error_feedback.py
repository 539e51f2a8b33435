"""Draws the picture on docs/error-feedback.md: the effect of a residual on one entry, and on a model.

``python docs/figures/error_feedback.py`` takes some seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import fedplug
from fedplug import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE = Path(__file__).parents[1] / "images" / "error_feedback.svg"
CLIENTS, ENTRIES, ROUNDS, STEP = 10, 1000, 1000, 0.01
ENTRY_ROUNDS = 200
ENCODERS = {
    "no compression": "identity",
    "top-k 5 %, error feedback": "topk(0.05)",
    "top-k 5 %, no feedback": "topk(0.05, error_feedback=False)",
}

# Of the runs with and without error feedback in the picture of the digits.
COLORS_OF_DIGITS = pictures.COLORS[1:3]
Floats = NDArray[np.float32]


def targets() -> Floats:
    """Returns the optimum of each client's loss: a common part, and parts that cancel in the mean."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=ENTRIES)
    own = rng.normal(scale=5, size=(CLIENTS, ENTRIES))
    return (common + own - own.mean(axis=0)).astype(np.float32)


def train(encoder: str) -> tuple[Floats, Floats, Floats]:
    """Trains a model with the client losses ||w - target||^2 / 2 by one gradient step per round.

    Returns:
        The distance of the model from the optimum before every round, relative to that of the first model,
        ``[ROUNDS + 1]``. For one entry of the first client, the sums of its updates and of the received
        values, ``[ROUNDS + 1]`` each.
    """
    codec, wanted = fedplug.codec(encoder), targets()
    best = wanted.mean(axis=0)
    entry = int(np.argsort(abs(wanted[0]))[ENTRIES // 2])  # of medium size: never among the largest
    w = np.zeros(ENTRIES, np.float32)
    states: list[dict[str, NDArray[np.generic]] | None] = [None] * CLIENTS
    distances, updates, received = [1.0], [0.0], [0.0]
    for round_num in range(ROUNDS):
        total = fedplug.Sum(w.shape)
        for client in range(CLIENTS):
            update = STEP * (wanted[client] - w)
            payload, states[client] = codec.encode(update, states[client], round_num)
            total.add(payload)
            if client == 0:
                updates.append(updates[-1] + float(update[entry]))
                received.append(received[-1] + float(fedplug.decode(payload)[entry]))
        w = w + total.value() / np.float32(CLIENTS)
        distances.append(float(np.linalg.norm(w - best) / np.linalg.norm(best)))
    return np.array(distances, "f4"), np.array(updates, "f4"), np.array(received, "f4")


def draw(runs: dict[str, tuple[Floats, Floats, Floats]], path: Path) -> None:
    """Draws both halves; equal runs give equal files."""
    colors = dict(zip(runs, (pictures.DENSE, *COLORS_OF_DIGITS), strict=True))

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        left.set(title="one entry of one client, summed up", xlabel="round")
        right.set(title="distance from the best model", xlabel="round", yscale="log")
        right.yaxis.set_major_formatter("{x:g}")
        shown = slice(ENTRY_ROUNDS + 1)
        ends = []
        for name, (distances, updates, received) in runs.items():
            right.plot(distances, color=colors[name])
            ends.append((name, ROUNDS, distances[-1], colors[name]))
            if name != "no compression":
                left.plot(received[shown], color=colors[name], drawstyle="steps-post")
                left.plot(updates[shown], color=colors[name], linestyle="--", linewidth=1)
        left.text(0.03, 0.04, "dashed: updates\nsolid: received", transform=left.transAxes)
        pictures.label_lines(right, ends)

    pictures.save(path, 8, 3.2, paint)


if __name__ == "__main__":
    results = {name: train(encoder) for name, encoder in ENCODERS.items()}
    draw(results, PICTURE)
    for name, (distances, *_) in results.items():
        print(f"{name:28} {distances[-1]:.4f} of the first distance after {ROUNDS} rounds")
