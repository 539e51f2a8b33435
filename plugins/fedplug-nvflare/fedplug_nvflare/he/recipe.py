"""A job of NVFlare's components for homomorphic encryption, with fedplug's filters at the sites."""

from __future__ import annotations

from nvflare.apis.dxo import DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.learnable_persistor import LearnablePersistor
from nvflare.app_common.abstract.model import ModelLearnable
from nvflare.app_common.abstract.model_persistor import ModelPersistor
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather
from nvflare.app_opt.he.intime_accumulate_model_aggregator import HEInTimeAccumulateWeightedAggregator
from nvflare.app_opt.he.model_decryptor import HEModelDecryptor
from nvflare.app_opt.he.model_encryptor import HEModelEncryptor
from nvflare.app_opt.he.model_shareable_generator import HEModelShareableGenerator
from nvflare.client.config import TransferType
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import FedJob
from nvflare.job_config.defs import FilterType
from nvflare.job_config.script_runner import ScriptRunner
from nvflare.recipe.spec import Recipe

from fedplug_nvflare.he.filters import HEReceiver, HESender

__all__ = ["InitialModel", "he_recipe"]


def he_recipe(
    encoder: str | dict[str, object],
    *,
    sites: list[str],
    persistor: ModelPersistor,
    train_script: str,
    train_args: str = "",
    num_rounds: int,
    min_sites: int | None = None,
    wait_seconds: int = 600,
    framework: FrameworkType = FrameworkType.PYTORCH,
    name: str = "fedplug_he",
) -> Recipe:
    """Returns federated averaging in which the server adds ciphertexts of a few integers.

    It needs TenSEAL, and the contexts that `nvflare.lighter.impl.he.HEBuilder` writes into the startup kits,
    like NVFlare's own `FedAvgRecipeWithHE`. The sum of a round reaches the sites with the task of the next
    one. The task of the last round has the final model, and its updates are not used.

    Args:
        encoder: A shared-k encoder, such as ``"sharedk(0.01, clients=2)"``.
        sites: The names of all sites, at most the ``clients`` of the encoder.
        persistor: The component that loads the initial model, such as ``PTFileModelPersistor(model=Net())``.
        train_script: The training script of the sites, which sends weights.
        train_args: The arguments of the script.
        num_rounds: Number of rounds, one more than there are sums in the final model.
        min_sites: Number of sites that must send an update in every round. None: all of them. An update that
            is missing in a sum is lost, and its site goes on.
        wait_seconds: Seconds to wait for the others after ``min_sites`` updates. A site that has not asked
            for the task of a round by then has missed a sum, and cannot take part any more.
        framework: The kind of arrays in the script.
        name: The name of the job.
    """
    job = FedJob(name=name, min_clients=len(sites))
    initial = InitialModel(job.to_server(persistor, id="initial"))
    controller = ScatterAndGather(
        min_clients=len(sites) if min_sites is None else min_sites,
        num_rounds=num_rounds,
        wait_time_after_min_received=wait_seconds,
        persistor_id=job.to_server(initial, id="persistor"),
        shareable_generator_id=job.to_server(HEModelShareableGenerator(), id="shareable_generator"),
        aggregator_id=job.to_server(
            HEInTimeAccumulateWeightedAggregator(expected_data_kind=DataKind.WEIGHTS), id="aggregator"
        ),
    )
    job.to_server(controller)
    runner = ScriptRunner(
        script=train_script,
        script_args=train_args,
        framework=framework,
        params_transfer_type=TransferType.DIFF,
    )
    job.to_clients(runner)
    for kind, filters in (
        (FilterType.TASK_DATA, (HEModelDecryptor(), HEReceiver(encoder, sites))),
        (FilterType.TASK_RESULT, (HESender(encoder, sites), HEModelEncryptor())),
    ):
        for one in filters:
            job.to_clients(one, tasks=["train"], filter_type=kind)
    return Recipe(job)


class InitialModel(LearnablePersistor):
    """Loads the model of another persistor. The encrypted sums of later rounds are not saved."""

    def __init__(self, persistor_id: str) -> None:
        """Takes the id of the persistor that loads the model."""
        super().__init__()
        self.persistor_id = persistor_id

    def load(self, fl_ctx: FLContext) -> ModelLearnable:
        """Returns the initial model."""
        model: ModelLearnable = fl_ctx.get_engine().get_component(self.persistor_id).load(fl_ctx)
        return model

    def save(self, learnable: ModelLearnable, fl_ctx: FLContext) -> None:
        """Saves nothing: only the sites can read the sum, and each keeps its model."""
