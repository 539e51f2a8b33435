"""FedAvg of two clients. After one round it creates the file ``paused`` and waits for the file ``go``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from fedplug_flower import Compressed
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

app = ServerApp()


def make_strategy() -> Strategy:
    return Compressed(FedAvg(fraction_evaluate=0.0), "topk(0.05) | qsgd(8)")


def initial_arrays() -> ArrayRecord:
    return ArrayRecord(
        {"kernel": Array(np.zeros((50, 40), np.float32)), "bias": Array(np.zeros(40, np.float32))}
    )


@app.main()
def main(grid: Grid, context: Context) -> None:
    folder = Path(str(context.run_config["folder"]))
    pause_after = int(context.run_config["pause-after"])

    def pause(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        if server_round == pause_after:
            (folder / "paused").touch()
            while not (folder / "go").exists():
                time.sleep(0.1)
        return None

    result = make_strategy().start(
        grid, initial_arrays(), num_rounds=int(context.run_config["rounds"]), evaluate_fn=pause
    )
    np.savez(folder / "arrays.npz", **{name: array.numpy() for name, array in result.arrays.items()})
    metrics = {number: dict(found) for number, found in result.train_metrics_clientapp.items()}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "done").touch()
