"""Runs the rounds of `benchmarks.rounds` in pfl-research, on PyTorch: FederatedAveraging, simulated.

``python -m benchmarks.rounds_pfl WIDTH ROUNDS`` prints the same JSON as `benchmarks.rounds_torch`. It needs
``pfl[pytorch]``. There is one process with one thread, because pfl's processes divide clients, not the work
of one client.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel

from benchmarks import rounds_task
from benchmarks.rounds_task import Stopwatch
from benchmarks.rounds_torch import client_batches, layers, report


class _Network(torch.nn.Sequential):
    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {}


class _Watch(TrainingProcessCallback):  # type: ignore[misc]
    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        self._watch.end()
        return False, Metrics()


def main(width: int, rounds: int) -> None:
    torch.set_num_threads(1)
    network = _Network(*layers(width))
    users = {}
    for client in range(rounds_task.CLIENTS):
        x, y = (torch.cat(columns) for columns in zip(*client_batches(client), strict=True))
        users[client] = Dataset(raw_data=[x, y])
    data = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", list(users)))
    model = PyTorchModel(
        network,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    batch_size = len(rounds_task.batches(0)[0][1])
    watch = Stopwatch()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=rounds + 1,  # evaluates only before the first round, which is not measured
            train_cohort_size=rounds_task.CLIENTS,
            val_cohort_size=None,
        ),
        SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()]),
        model,
        NNTrainHyperParams(
            local_num_epochs=1,
            local_learning_rate=rounds_task.LEARNING_RATE,
            local_batch_size=batch_size,
        ),
        callbacks=[_Watch(watch)],
    )
    report(watch, [parameter.detach() for parameter in network.parameters()])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
