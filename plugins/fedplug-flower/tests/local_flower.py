"""Flower without its network: nodes reply in this process, through Flower's serialization."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from fedplug_flower import CompressMod
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from numpy.typing import NDArray

Model = dict[str, NDArray[Any]]

RUN = 7


def new_model(seed: int = 0) -> Model:
    """Returns two arrays that are large enough to compress, and a small one."""
    rng = np.random.default_rng(seed)
    shapes = {"dense/kernel": (40, 30), "dense/bias": (30,), "out/kernel": (30, 10)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def update_of(node: int, round_num: int) -> Model:
    """Returns a random update that depends on the node and the round."""
    return {name: 0.1 * array for name, array in new_model(1000 * node + round_num).items()}


def record(model: Mapping[str, NDArray[Any]]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in model.items()})


def arrays(found: ArrayRecord) -> Model:
    return {name: array.numpy() for name, array in found.items()}


def assert_same(model: Model, expected: Model, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Compares models by name, exactly unless there is a tolerance."""
    assert model.keys() == expected.keys()
    for name, array in expected.items():
        assert model[name].dtype == array.dtype
        np.testing.assert_allclose(model[name], array, rtol=rtol, atol=atol, err_msg=name)


def app_of(answer: Callable[[Message, int], RecordDict], mods: list[Any] | None = None) -> ClientApp:
    """Returns a ClientApp with the mod that replies to training with ``answer(message, node)``."""
    app = ClientApp(mods=[CompressMod()] if mods is None else mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(answer(message, context.node_id), reply_to=message)

    return app


def client_app(
    update: Callable[[int, int], Model] = update_of,
    mods: list[Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> ClientApp:
    """Returns a ClientApp with the mod, whose training adds ``update(node, round)`` to the model.

    Node n has 10 n examples.
    """

    def answer(message: Message, node: int) -> RecordDict:
        change = update(node, int(message.content["config"]["server-round"]))
        model = {name: array + change[name] for name, array in arrays(message.content["arrays"]).items()}
        measured = {"num-examples": 10 * node, "loss": 1.0 / node, **(metrics or {})}
        return RecordDict({"arrays": record(model), "metrics": MetricRecord(measured)})

    return app_of(answer, mods)


class Nodes(Grid):
    """Clients by node id. All messages are serialized and deserialized."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.apps: dict[int, ClientApp] = {}
        self.node_configs: dict[int, dict[str, Any]] = {}
        self.run_config: dict[str, Any] = {}
        self.states: dict[int, RecordDict] = {}
        self.sent: dict[int, Message] = {}
        self.replies: dict[int, Message] = {}
        self.on_the_way: Callable[[Message], Message | None] = lambda reply: reply
        """Replaces a reply; None drops it."""

    def add(self, *nodes: Any, app: ClientApp | None = None, **node_config: Any) -> None:
        """Adds nodes. The last argument may be their app, too: many programs write ``add(1, app)``."""
        if isinstance(nodes[-1], ClientApp):
            *nodes, app = nodes
        for node in nodes:
            self.apps[node] = client_app() if app is None else app
            self.node_configs[node] = {"fedplug-state-dir": str(self.state_dir), **node_config}

    def remove(self, node: int) -> None:
        del self.apps[node]

    def run_rounds(self, strategy: Strategy, rounds: Iterable[int], model: Model) -> tuple[Model, Any]:
        """Runs rounds like `Strategy.start`. Returns the model and the metrics of the last round."""
        metrics = None
        for round_num in rounds:
            messages = strategy.configure_train(round_num, record(model), ConfigRecord(), self)
            aggregated, metrics = strategy.aggregate_train(round_num, self.send_and_receive(messages))
            model = model if aggregated is None else arrays(aggregated)
        return model, metrics

    def get_node_ids(self) -> Iterable[int]:
        return list(self.apps)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        self.sent = {message.metadata.dst_node_id: _travelled(message) for message in messages}
        answers = {node: _travelled(self._answer(_travelled(sent))) for node, sent in self.sent.items()}
        arrived = {node: self.on_the_way(answer) for node, answer in sorted(answers.items())}
        self.replies = {node: reply for node, reply in arrived.items() if reply is not None}
        return list(self.replies.values())

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        state = self.states.setdefault(node, RecordDict())
        context = Context(RUN, node, self.node_configs[node], state, self.run_config)
        try:
            return self.apps[node](message, context)
        except Exception as error:  # like flwr-clientapp
            reason = f"{type(error)}:<'{error}'>"
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    run = property(set_run)

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError


def _travelled(message: Message) -> Message:
    """Serializes a message to the objects that Flower sends, and deserializes them."""
    objects = {key: found.deflate() for key, found in get_all_nested_objects(message).items()}
    arrived = inflate_object_from_contents(message.object_id, objects)
    assert isinstance(arrived, Message)
    return arrived
