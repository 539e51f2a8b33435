"""Federated averaging of the digits without NVFlare, for the expected results of jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import digits_client
import numpy as np
from numpy.typing import NDArray

import fedplug

NAME = digits_client.NAME


def fed_avg(
    codecs: Sequence[str | None],
    rounds: int,
    refused: Collection[tuple[int, str]] = (),
    lost: Collection[tuple[int, str]] = (),
    forget_at: Collection[int] = (),
) -> NDArray[np.float32]:
    """Returns the weights after the last round.

    Args:
        codecs: Codec of each site. None for uncompressed arrays.
        rounds: Number of rounds.
        refused: Rounds and sites whose update is refused and leaves the residual unchanged.
        lost: Refused updates that change the residual nevertheless, as a defect would.
        forget_at: Rounds before which all residuals are lost, as a defect would.
    """
    sites = [f"site-{i + 1}" for i in range(len(codecs))]
    data = {site: digits_client.examples(site, len(sites)) for site in sites}
    encoders = {site: fedplug.codec(codec or "identity") for site, codec in zip(sites, codecs, strict=True)}
    states: dict[str, dict[str, NDArray[np.float32]]] = {}
    weights = np.zeros(digits_client.SHAPE, np.float32)
    for round_num in range(rounds):
        states = {} if round_num in forget_at else states
        total = fedplug.ModelSum({NAME: weights.shape})
        for site in sites:
            x, y = data[site]
            difference = digits_client.train(weights, x, y)[0] - weights
            payloads, state = encoders[site].encode_model({NAME: difference}, states.get(site), round_num)
            if (round_num, site) not in refused or (round_num, site) in lost:
                states[site] = state
            if (round_num, site) not in refused:
                total.add(payloads, len(y))
        if total.count:
            weights = weights + total.value()[NAME] * np.float32(1 / total.weight)
    return weights


def accuracy(weights: NDArray[np.float32], sites: int) -> float:
    """Returns the accuracy over the examples of all sites."""
    right = [
        (digits_client.train(weights, *examples)[1], len(examples[1]))
        for examples in (digits_client.examples(f"site-{i + 1}", sites) for i in range(sites))
    ]
    return sum(share * count for share, count in right) / sum(count for _, count in right)
