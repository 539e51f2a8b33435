"""Draws the picture on docs/error-feedback.md: the effect of a residual on one entry, and on a model.

``python docs/figures/error_feedback.py`` takes some seconds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from style import COLORS, for_pages

import fedplug

PICTURE = Path(__file__).parents[1] / "images" / "error_feedback.svg"
CLIENTS, ENTRIES, ROUNDS, STEP = 10, 1000, 1000, 0.01
ENTRY_ROUNDS = 200
ENCODERS = {
    "no compression": "identity",
    "top-k 5 %, error feedback": "topk(0.05)",
    "top-k 5 %, no feedback": "topk(0.05, error_feedback=False)",
}

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
    """Draws both halves with a transparent background; equal runs give equal files."""
    from matplotlib import pyplot

    with for_pages():
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
        left.set(title="one entry of one client, summed up", xlabel="round")
        right.set(title="distance from the best model", xlabel="round", yscale="log")
        shown = slice(ENTRY_ROUNDS + 1)
        for (name, (distances, updates, received)), color in zip(
            runs.items(), COLORS[: len(runs)], strict=True
        ):
            right.plot(distances, color=color, label=name)
            if name != "no compression":
                left.plot(received[shown], color=color, drawstyle="steps-post", label=f"received: {name}")
                dashes = {"linestyle": "--", "linewidth": 1, "color": color}
                left.plot(updates[shown], label=f"update: {name}", **dashes)
        for axes in (left, right):
            axes.legend(frameon=False, fontsize=8)
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    results = {name: train(encoder) for name, encoder in ENCODERS.items()}
    draw(results, PICTURE)
    for name, (distances, *_) in results.items():
        print(f"{name:28} {distances[-1]:.4f} of the first distance after {ROUNDS} rounds")
