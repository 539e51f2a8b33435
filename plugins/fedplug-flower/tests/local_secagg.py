"""SecAgg+ without Flower's network: its own workflow and mod, and clients that drop out at any stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fedplug_flower.secagg import CompressedSecAggMod
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext
from flwr.server.client_manager import SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg, Strategy
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from local_flower import RUN, Model, Nodes, arrays, new_model, update_of
from numpy.typing import NDArray

ENCODER = "sharedk(0.05, clients=8)"

SETUP, SHARE = Key.PUBLIC_KEY_1, Key.CIPHERTEXT_LIST
MASKED, UNMASK = Key.MASKED_PARAMETERS, Key.SHARE_LIST
"""Keys in the replies of the four stages."""


def client_app(update: Callable[[int, int], Model] = update_of, mods: list[Any] | None = None) -> ClientApp:
    """Returns a ClientApp whose training adds ``update(node, round)``. Node n has 10 n examples."""
    app = ClientApp(mods=[CompressedSecAggMod()] if mods is None else mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        received = compat.recorddict_to_fitins(message.content, keep_input=True)
        change = update(context.node_id, int(received.config["round"])).values()
        model = [a + b for a, b in zip(parameters_to_ndarrays(received.parameters), change, strict=True)]
        parameters = ndarrays_to_parameters(model)
        result = FitRes(Status(Code.OK, ""), parameters, 10 * context.node_id, {"loss": 0.5})
        return Message(compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)

    return app


def fed_avg(**options: Any) -> FedAvg:
    """Returns a FedAvg that samples all nodes and tells them the round."""
    options = {"on_fit_config_fn": lambda number: {"round": number}, **options}
    return FedAvg(fraction_evaluate=0.0, fit_metrics_aggregation_fn=lambda _: {}, **options)


class Training:
    """A workflow's rounds on all nodes, one call for each, as `DefaultWorkflow` makes them."""

    def __init__(
        self, nodes: Nodes, workflow: Any, model: Model | None = None, strategy: Strategy | None = None
    ) -> None:
        self.nodes, self.workflow = nodes, workflow
        self.manager = SimpleClientManager()
        context = Context(RUN, 1, {}, RecordDict(), {})
        self.context = LegacyContext(context, None, strategy or fed_avg(), self.manager)
        self.model = new_model() if model is None else model
        self.context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord()

    @property
    def model(self) -> Model:
        """The model by position, because Flower's legacy API has no names."""
        return arrays(self.context.state.array_records[MAIN_PARAMS_RECORD])

    @model.setter
    def model(self, model: Mapping[str, NDArray[Any]]) -> None:
        tensors = ndarrays_to_parameters(list(model.values()))
        found = compat.parameters_to_arrayrecord(tensors, keep_input=True)
        self.context.state.array_records[MAIN_PARAMS_RECORD] = found

    def round(self, number: int) -> Model:
        """Runs one round. Returns the model."""
        for proxy in list(self.manager.all().values()):
            self.manager.unregister(proxy)
        for node in self.nodes.get_node_ids():
            self.manager.register(GridClientProxy(node, self.nodes, RUN))
        self.context.state.config_records[MAIN_CONFIGS_RECORD][WorkflowKey.CURRENT_ROUND] = number
        self.workflow(self.nodes, self.context)
        return self.model


def configs(reply: Message) -> dict[str, Any]:
    """Returns the record of SecAgg+ in a reply. Empty for an error."""
    return {} if reply.has_error() else dict(reply.content.config_records[RECORD_KEY_CONFIGS])


def losing(*places: tuple[int, str]) -> Callable[[Message], Message | None]:
    """Returns a network that loses the reply of a node at a stage, given by a key in the reply."""

    def deliver(reply: Message) -> Message | None:
        node = reply.metadata.src_node_id
        return None if any(node == one and key in configs(reply) for one, key in places) else reply

    return deliver
