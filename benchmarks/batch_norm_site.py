"""A site of `benchmarks.batch_norm_nvflare`: trains, and tests the model that it received."""

from __future__ import annotations

import sys

import nvflare.client as flare
import torch
from nvflare.apis.fl_constant import FLMetaKey

from benchmarks import batch_norm_task as task


def main(kind: str) -> None:
    """Runs NVFlare's tasks until the job ends."""
    torch.set_num_threads(1)
    flare.init()
    client = int(flare.get_site_name().removeprefix("site-")) - 1
    model = task.Network(kind)
    while flare.is_running():
        received = flare.receive()
        if received is None:
            break
        model.load_state_dict(received.params)
        metrics = {"accuracy": task.evaluate(model), "variance": task.smallest_variance(model)}
        examples = task.train(model, client, received.current_round + 1)
        meta = {FLMetaKey.NUM_STEPS_CURRENT_ROUND: examples}
        flare.send(flare.FLModel(params=model.state_dict(), metrics=metrics, meta=meta))


if __name__ == "__main__":
    main(sys.argv[1])
