"""The ServerApp: FedAvg with compressed updates."""

from __future__ import annotations

from fedplug_flower import Compressed
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits_app import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains and prints accuracy and bytes."""
    strategy = Compressed(FedAvg(fraction_evaluate=0.0), str(context.run_config["encoder"]))
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in task.new_model().items()}),
        num_rounds=int(context.run_config["num-server-rounds"]),
        evaluate_fn=evaluate,
    )
    rounds = result.train_metrics_clientapp.values()
    sent = sum(int(metrics["fedplug-uplink-bytes"]) for metrics in rounds)
    dense = sum(int(metrics["fedplug-dense-bytes"]) for metrics in rounds)
    accuracy = result.evaluate_metrics_serverapp[len(rounds)]["accuracy"]
    print(
        f"accuracy {accuracy:.3f}, uplink {sent:,} bytes instead of {dense:,}: {dense / sent:.0f} times fewer"
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Evaluates the model on held-out images."""
    model = {name: array.numpy() for name, array in arrays.items()}
    loss, accuracy = task.evaluate(model, task.test_examples())
    return MetricRecord({"loss": loss, "accuracy": accuracy})
