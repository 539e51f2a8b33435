"""The server side: a strategy that wraps another one."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedXgbBagging,
    FedXgbCyclic,
    FedYogi,
    Strategy,
)

import fedplug
from fedplug.errors import NonFiniteError
from fedplug_flower.accepted import Accepted
from fedplug_flower.differences import read
from fedplug_flower.downlink import Downlink
from fedplug_flower.intake import Intake
from fedplug_flower.records import KEY, Delivery, Reply, Request, is_compressed
from fedplug_flower.replies import Terms, the_model
from fedplug_flower.results import require_finite, restore, states_of
from fedplug_flower.round_sum import RoundSum

__all__ = ["Compressed"]

_log = logging.getLogger("flwr.fedplug")

_AVERAGES = {kind.aggregate_train for kind in (FedAvg, FedAvgM, FedAdagrad, FedAdam, FedYogi)}
"""The strategies whose result depends only on the weighted mean of replies, their metrics and errors."""

Aggregated = tuple[ArrayRecord | None, MetricRecord | None]


class Compressed(Strategy):
    """Requests compressed updates from clients, and passes the decoded results to a strategy.

    Use ``Compressed(FedAvg(fraction_train=0.5), "topk(0.01, scope='model') | qsgd(8)")`` on the server, and
    `CompressMod` in the ClientApp. Clients without the mod may take part in the same rounds, uncompressed.

    With ``broadcast_encoder`` the model is compressed, too, for training and for evaluation, and every
    ClientApp needs the mod. A node gets what has changed since the version it holds; the second message with
    one model is only its version. Updates are added to the server's exact model, so that the error of a
    broadcast does not accumulate.

    A strategy that averages (FedAvg, FedAvgM, FedProx, FedAdagrad, FedAdam, FedYogi) gets one reply: the mean
    of the updates, summed in the memory of one model. Other strategies get each client's reply with decoded
    arrays, which takes their usual memory. This wrapper must be the outermost one: wrappers for differential
    privacy need decoded arrays.

    Statistics, integers and booleans are sent exactly; the log names these arrays.

    An update that cannot be read is refused with a warning that names node and array; the others are
    aggregated. A round's metrics also have ``fedplug-uplink-bytes``, the model bytes that the clients sent by
    Flower's count, and ``fedplug-dense-bytes``, those without compression. ``fedplug-compressed``,
    ``fedplug-dense`` and ``fedplug-refused`` count the replies.
    """

    def __init__(
        self,
        strategy: Strategy,
        encoder: Any = None,
        *,
        broadcast_encoder: Any = None,
        min_size: int | None = None,
        decode_each: bool | None = None,
    ) -> None:
        """Starts a new training, in which clients have no residual.

        Args:
            strategy: The strategy that samples clients and computes the next model.
            encoder: Any form of an encoder, see `fedplug.encoder`. It is sent to the clients, so it is
                configured only here; the plugin of an encoder must be installed there, too. None leaves
                updates as they are.
            broadcast_encoder: The encoder of the model: ``"lossless"``, ``"auto"`` or another one that
                `fedplug.Broadcaster` accepts. None sends the model uncompressed.
            min_size: Minimum number of elements; smaller arrays are sent uncompressed. None means the
                default of `fedplug.codec`.
            decode_each: Whether the strategy gets a decoded reply of each client. None means yes unless it is
                known to average. Use False for a FedAvg subclass that overrides ``aggregate_train`` but
                leaves the averaging to ``super()``.

        Raises:
            fedplug.errors.FedplugError: The encoder is unknown or does not support NumPy arrays.
            TypeError: ``strategy`` is not a strategy or aggregates trees, or ``decode_each`` is False and it
                is not a FedAvg.
        """
        if not isinstance(strategy, Strategy):
            raise TypeError(f"strategy is {strategy!r}; it must be a Strategy of flwr.serverapp.strategy")
        if isinstance(strategy, FedXgbBagging | FedXgbCyclic):
            raise TypeError(f"{type(strategy).__name__} collects trees, which are no updates of a model")
        averages = isinstance(strategy, FedAvg) and type(strategy).aggregate_train in _AVERAGES
        if decode_each is False and not isinstance(strategy, FedAvg):
            raise TypeError(f"{type(strategy).__name__} is no FedAvg: it needs the updates of each client")
        chosen = "identity" if encoder is None else encoder
        codec = fedplug.codec(chosen) if min_size is None else fedplug.codec(chosen, min_size=min_size)
        codec.require_updates()
        self.strategy = strategy
        self._decode_each = not averages if decode_each is None else decode_each
        self._codec = codec
        self._compresses = encoder is not None
        self._downlink = None if broadcast_encoder is None else Downlink(broadcast_encoder)
        self._encoder_config = fedplug.to_config(codec.encoder)
        self._training = secrets.token_hex(8)
        self._accepted = Accepted()
        self._terms = Terms(strategy)
        self._model: ArrayRecord | None = None
        self._values: list[str] = []  # arrays whose values are sent instead of differences
        self._whole: set[str] = set()  # arrays that began as integers; Flower's averages are floats
        self._told: dict[str, list[str]] = {}
        self._asked: set[int] = set()  # nodes that received this round's model

    def summary(self) -> None:
        """Logs this configuration and that of the strategy."""
        _log.info("\t├──> fedplug: updates are encoded by %r", self._codec.encoder)
        if self._downlink is not None:
            _log.info("\t│\t└── models are broadcast by %r", self._downlink)
        if self._decode_each:
            name = type(self.strategy).__name__
            _log.info("\t│\t└── decoded for %s: memory grows with the clients of a round", name)
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns the strategy's messages; those with the model request a compressed update."""
        self._model, self._values = arrays, self._values_of(arrays)
        self._asked = set()
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        gone = self._accepted.gone(grid, [message.metadata.dst_node_id for message in messages])
        for message in messages:
            if list(message.content.array_records.values()) == [arrays]:
                self._asked.add(message.metadata.dst_node_id)
                if self._compresses:
                    request = self._request(server_round, message.metadata.dst_node_id, gone)
                    # The strategy may use one content for all messages.
                    message.content = RecordDict({**message.content, KEY: request.write()})
        self._send(arrays, messages, gone)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Returns the strategy's model and its metrics, with the transferred bytes.

        Returns no model if the strategy's is not finite; Flower then keeps the current model.

        Raises:
            RuntimeError: `configure_train` was not called before.
        """
        if self._model is None:
            raise RuntimeError(
                "aggregate_train was called before configure_train, so there is no model to update"
            )
        received = list(replies)
        if self._downlink is not None:
            self._downlink.take(received)
        answers = [message for message in received if message.has_content()]
        each = self._decode_each or not any(is_compressed(message.content) for message in answers)
        sent = None if self._downlink is None else self._downlink.received(self._model)
        total = RoundSum(self._model, self._codec, self._values, sent)
        intake = Intake(server_round, self._model)
        self._terms.begin_round(answers)
        for message in answers:
            intake.take(message, partial(self._decode if each else self._add, total))
        passed = [message for message in received if message.has_error()]
        before = states_of(self.strategy)
        try:
            with np.errstate(all="ignore"):  # the result is checked
                if each:
                    arrays, metrics = self.strategy.aggregate_train(server_round, passed + intake.used)
                else:
                    arrays, metrics = self._aggregate_mean(total, intake, passed)
            require_finite(self.strategy, arrays, self._model)
        except NonFiniteError as error:
            restore(before)
            _log.warning("fedplug: round %d is refused, the model stays as it is: %s", server_round, error)
            arrays, metrics = None, None
        if arrays is not None:
            self._accepted.add(intake.receipts)
        metrics = intake.add_to(metrics)
        return arrays, metrics if self._downlink is None else self._downlink.add_to(metrics)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns the strategy's messages."""
        messages = list(self.strategy.configure_evaluate(server_round, arrays, config, grid))
        if self._downlink is not None:
            gone = self._accepted.gone(grid, [message.metadata.dst_node_id for message in messages])
            self._send(arrays, messages, gone)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Returns the strategy's metrics, with the bytes of the models sent."""
        received = list(replies)
        if self._downlink is not None:
            self._downlink.take(received)
        metrics = self.strategy.aggregate_evaluate(server_round, received)
        return metrics if self._downlink is None else self._downlink.add_to(metrics)

    def _send(self, arrays: ArrayRecord, messages: Sequence[Message], gone: Sequence[int]) -> None:
        """Compresses the model in the messages of a round, if this object has a ``broadcast_encoder``."""
        if self._downlink is None:
            return
        names = [str(node) for node in gone]

        def delivery(node: int) -> Delivery:
            return Delivery(self._training, [] if node in self._accepted else names)

        self._downlink.send(arrays, messages, delivery)

    def _request(self, server_round: int, node: int, gone: Sequence[int]) -> Request:
        accepted, names = self._accepted.told(node, gone)
        places = [place for place, name in enumerate(self._model or {}) if name in self._values]
        return Request(
            self._encoder_config,
            self._codec.min_size,
            self._training,
            server_round,
            accepted,
            names,
            places,
        )

    def _values_of(self, model: ArrayRecord) -> list[str]:
        """Returns the names of arrays that clients send exactly: statistics, integers and booleans.

        Logs which arrays are uncompressed, and why. An array that is not finite cannot be sent as a value;
        its constants have a difference of 0.
        """
        found = {name: read(name, array) for name, array in model.items()}
        whole = {name for name, array in found.items() if array.dtype.kind in "iub"}
        sent = {n: a if n in whole else np.empty(a.shape, np.float32) for n, a in found.items()}
        exactly = self._codec.sent_exactly(sent)
        self._whole |= whole
        if self._compresses and not self._told:
            for reason, names in exactly.items():
                _log.info("fedplug: sent exactly, %s: %s", reason, ", ".join(names))
            self._told = exactly
        chosen = self._whole.union(exactly.get("statistics", ()))
        return [name for name, array in found.items() if name in chosen and np.isfinite(array).all()]

    def _add(self, total: RoundSum, message: Message) -> str | None:
        """Adds a client's update; returns its receipt if it is compressed."""
        content = message.content
        weight = self._terms.weight(content)
        trained = the_model(content)
        if not is_compressed(content):
            total.add_arrays(trained, weight)
            return None
        update = Reply.read(content, total.names)
        total.add_payloads(update.payloads, weight)
        return update.receipt

    def _decode(self, total: RoundSum, message: Message) -> str | None:
        """Decodes a compressed reply in place and returns its receipt; checks an uncompressed reply."""
        content = message.content
        weight = self._terms.weight(content)
        trained = the_model(content)
        (key,) = content.array_records
        if is_compressed(content):
            update = Reply.read(content, total.names)
            content[key] = total.decoded(update.payloads, weight)
            del content[KEY]
            return update.receipt
        if message.metadata.src_node_id in self._asked:
            content[key] = total.checked(trained, weight)
        return None

    def _aggregate_mean(self, total: RoundSum, intake: Intake, passed: list[Message]) -> Aggregated:
        """Passes one reply with the mean, and the error replies, to an averaging strategy."""
        strategy = cast(FedAvg, self.strategy)
        if intake.used:
            passed.append(_mean_reply(total, strategy))
        _log.info("aggregate_train: %d updates are summed, their mean is one result", len(intake.used))
        with _metrics_of(intake.used, strategy):
            return strategy.aggregate_train(intake.server_round, passed)


def _mean_reply(total: RoundSum, strategy: FedAvg) -> Message:
    """Returns a reply with the mean and the sum of all weights, as from a single client."""
    content = RecordDict()
    content[strategy.arrayrecord_key] = total.moved()
    content["metrics"] = MetricRecord({strategy.weighted_by_key: total.weight})
    return Message(content, dst_node_id=0, message_type=MessageType.TRAIN)


@contextmanager
def _metrics_of(used: list[Message], strategy: FedAvg) -> Iterator[None]:
    """Passes all clients' metrics to the strategy's metrics function within the block."""
    contents = [RecordDict(dict(message.content.metric_records)) for message in used]
    function = strategy.train_metrics_aggr_fn
    strategy.train_metrics_aggr_fn = lambda _, weighted_by: function(contents, weighted_by)
    try:
        yield
    finally:
        strategy.train_metrics_aggr_fn = function
