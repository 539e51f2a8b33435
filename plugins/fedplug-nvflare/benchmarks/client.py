"""A site of the measured jobs, which adds heavy-tailed noise to the weights in place of training."""

from __future__ import annotations

import numpy as np
import nvflare.client as flare

SCALE = 1e-3


def main() -> None:
    """Runs NVFlare's tasks until the job ends."""
    flare.init()
    rng = np.random.default_rng(int(flare.get_site_name().removeprefix("site-")))
    while flare.is_running():
        received = flare.receive()
        if received is None:
            break
        noise = {
            name: (SCALE * rng.normal(size=array.shape) ** 3).astype(np.float32)
            for name, array in received.params.items()
        }
        flare.send(flare.FLModel(params={name: received.params[name] + noise[name] for name in noise}))


if __name__ == "__main__":
    main()
