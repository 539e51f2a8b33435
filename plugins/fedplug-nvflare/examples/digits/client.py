"""A site that trains on its part of scikit-learn's handwritten digits, without any code for fedplug."""

from __future__ import annotations

import argparse

import nvflare.client as flare
import torch
from model import Digits
from nvflare.apis.fl_constant import FLMetaKey
from sklearn.datasets import load_digits

EPOCHS, BATCH, RATE, MOMENTUM = 2, 32, 0.05, 0.9


def main(sites: int) -> None:
    """Runs NVFlare's tasks until the job ends."""
    flare.init()
    torch.manual_seed(0)
    mine = slice(int(flare.get_site_name().removeprefix("site-")) - 1, None, sites)
    digits = load_digits()
    x = torch.tensor(digits.images[mine] / 16, dtype=torch.float32).unsqueeze(1)
    y = torch.tensor(digits.target[mine])
    model = Digits()
    while flare.is_running():
        received = flare.receive()
        if received is None:
            break
        model.load_state_dict(received.params)
        with torch.no_grad():
            accuracy = (model(x).argmax(dim=1) == y).float().mean().item()
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(y)).split(BATCH):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
        flare.send(
            flare.FLModel(
                params=model.state_dict(),
                metrics={"accuracy": accuracy},  # of the global model, before training
                meta={FLMetaKey.NUM_STEPS_CURRENT_ROUND: len(y)},
            )
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int, required=True)
    main(parser.parse_args().sites)
