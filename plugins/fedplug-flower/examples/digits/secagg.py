"""Trains the app's network under SecAgg+ with compressed updates, in Flower's simulation.

    python secagg.py        # or with another number of rounds: python secagg.py 5

In every round, one of the eight clients drops out after it has shared its keys.
"""

from __future__ import annotations

import sys

from digits_app import task
from fedplug_flower.secagg import CompressedSecAggMod, CompressedSecAggWorkflow
from flwr.app import Context
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import NDArrays, Scalar, ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

CLIENTS = 8
# Two directions of the first matrix, and a tenth of the other entries.
ENCODER = f"sharedk(0.1, clients={CLIENTS}, rank=2, max_weight=200)"


class Digits(NumPyClient):
    """Trains on one client's images."""

    def __init__(self, client: int) -> None:
        self.client = client
        self.examples = task.train_examples(client, CLIENTS)

    def fit(self, parameters: NDArrays, config: dict[str, Scalar]) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Returns the trained model, which the mod replaces by masked integers."""
        round_num = int(config["round"])
        if round_num % CLIENTS == self.client:
            raise RuntimeError(f"client {self.client} drops out of round {round_num}")
        model = dict(zip(task.new_model(), parameters, strict=True))
        loss = task.train(model, self.examples, epochs=2, rate=0.3, seed=1000 * self.client + round_num)
        return list(model.values()), len(self.examples[1]), {"loss": loss}


def client_fn(context: Context) -> Client:
    """Returns the client of a node."""
    return Digits(int(context.node_config["partition-id"])).to_client()


def evaluate(_: int, parameters: NDArrays, __: dict[str, Scalar]) -> tuple[float, dict[str, Scalar]]:
    """Evaluates the model on held-out images."""
    model = dict(zip(task.new_model(), parameters, strict=True))
    loss, accuracy = task.evaluate(model, task.test_examples())
    return loss, {"accuracy": accuracy}


client_app = ClientApp(client_fn=client_fn, mods=[CompressedSecAggMod()])
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains and prints accuracy and bytes."""
    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_available_clients=CLIENTS,
        on_fit_config_fn=lambda round_num: {"round": round_num},
        evaluate_fn=evaluate,
        initial_parameters=ndarrays_to_parameters(list(task.new_model().values())),
    )
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    legacy = LegacyContext(context, ServerConfig(num_rounds=rounds), strategy)
    secagg = CompressedSecAggWorkflow(num_shares=1.0, reconstruction_threshold=0.5, encoder=ENCODER)
    DefaultWorkflow(fit_workflow=secagg)(grid, legacy)
    metrics = legacy.history.metrics_distributed_fit
    sent, plain = (sum(found for _, found in metrics[f"fedplug-{key}-bytes"]) for key in ("uplink", "dense"))
    accuracy = legacy.history.metrics_centralized["accuracy"][-1][1]
    print(
        f"accuracy {accuracy:.3f}, masked {sent:,} bytes instead of {plain:,}: {plain / sent:.0f} times fewer"
    )


if __name__ == "__main__":
    run_simulation(server_app, client_app, CLIENTS, backend_config={"client_resources": {"num_cpus": 1}})
