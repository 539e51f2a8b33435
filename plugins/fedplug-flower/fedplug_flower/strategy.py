"""The server side: a strategy that wraps another one."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
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
from fedplug_flower.broadcaster import NodeBroadcaster
from fedplug_flower.differences import read
from fedplug_flower.receipts import Intake, Receipts, log_no_update
from fedplug_flower.records import KEY, STYPE, Reply, Request, is_compressed
from fedplug_flower.replies import Terms, the_model
from fedplug_flower.results import require_finite, restore, states_of
from fedplug_flower.round_sum import RoundSum

__all__ = ["Compressed"]

_log = logging.getLogger("flwr.fedplug")

_AVERAGES = {kind.aggregate_train for kind in (FedAvg, FedAvgM, FedAdagrad, FedAdam, FedYogi)}
"""The strategies whose result depends only on the weighted mean of replies, their metrics and errors."""

_CLIPPED_BY_CLIENTS = (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
)

_NARROW = (np.float16, np.float32)

Aggregated = tuple[ArrayRecord | None, MetricRecord | None]


class Compressed(Strategy):
    """Requests compressed updates from clients, and passes the decoded results to a strategy.

    Use ``Compressed(FedAvg(fraction_train=0.5), "topk(0.01, scope='model') | qsgd(8)")`` on the server, and
    `CompressMod` in the ClientApp. Clients without the mod may take part in the same rounds, uncompressed.

    With ``broadcast_encoder`` the model is compressed, too, for training and for evaluation, and every
    ClientApp needs the mod. A node gets the changes since the version it holds. The second message with
    one model is only its version. Updates are added to the server's exact model, so that the error of a
    broadcast does not accumulate.

    A strategy that averages (FedAvg, FedAvgM, FedProx, FedAdagrad, FedAdam, FedYogi) gets one reply: the mean
    of the updates, summed in the memory of one model. Other strategies get each client's reply with decoded
    arrays, which takes their usual memory. This wrapper must be the outermost one: wrappers for differential
    privacy need decoded arrays.

    Statistics, integers and booleans are sent exactly. The log names these arrays.

    An update that cannot be read is refused with a warning that names node and array. The others are
    aggregated. A round's metrics also have ``fedplug-uplink-bytes``, the model bytes that the clients sent by
    Flower's count, and ``fedplug-dense-bytes``, those without compression. ``fedplug-compressed``,
    ``fedplug-dense`` and ``fedplug-refused`` count the replies.
    """

    def __init__(
        self,
        strategy: Strategy,
        encoder: object = None,
        *,
        broadcast_encoder: object = None,
        min_size: int | None = None,
        decode_each: bool | None = None,
    ) -> None:
        """Starts a new training, in which clients have no residual.

        Args:
            strategy: The strategy that samples clients and computes the next model.
            encoder: Any form of an encoder, see `fedplug.encoder`. It is sent to the clients, so it is
                configured only here. The plugin of an encoder must be installed there, too. None leaves
                updates as they are.
            broadcast_encoder: The encoder of the model: ``"lossless"``, ``"auto"`` or another one that
                `fedplug.Broadcaster` accepts. None sends the model uncompressed.
            min_size: Minimum number of elements. Smaller arrays are sent uncompressed. None means the
                default of `fedplug.codec`.
            decode_each: Whether the strategy gets a decoded reply of each client. None means yes unless it is
                known to average. Use False for a FedAvg subclass that overrides ``aggregate_train`` but
                leaves the averaging to ``super()``.

        Raises:
            fedplug.errors.FedplugError: The encoder is unknown or does not support NumPy arrays.
            TypeError: ``strategy`` is not a strategy or aggregates trees, or ``decode_each`` is False and it
                is not a FedAvg, or the encoder adds a residual to updates that clients clip for privacy.
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
        if isinstance(strategy, _CLIPPED_BY_CLIENTS) and codec.encoder.capabilities.needs_client_state:
            raise TypeError(
                f"{type(strategy).__name__} adds noise for updates that clients clip, but {codec.encoder!r} "
                "adds a residual to the clipped update; use topk(0.01, error_feedback=False), or clipping on "
                "the server, which clips the decoded sum of both"
            )
        self.strategy = strategy
        self._decode_each = not averages if decode_each is None else decode_each
        self._codec = codec
        self._compresses = encoder is not None
        self._broadcast_encoder = broadcast_encoder
        self._encoder_config = fedplug.to_config(codec.encoder)
        self._terms = Terms(strategy, averages=decode_each is False)
        self._model: ArrayRecord | None = None
        self._round = -1  # Flower's number of the last round
        self._asked: set[int] = set()  # nodes that received this round's model
        self._values: list[str] = []  # arrays whose values are sent instead of differences
        self._begin_training()

    def _begin_training(self) -> None:
        """Begins a training, in which clients have no residual and no model."""
        self._training = secrets.token_hex(8)
        self._receipts = Receipts()
        encoder = self._broadcast_encoder
        self._broadcaster = None if encoder is None else NodeBroadcaster(encoder)
        self._rounds_before = 0  # rounds of this training before Flower's round 1
        # The dtypes with which arrays began: Flower's averages are floats.
        self._dtypes: dict[str, np.dtype[np.generic]] = {}
        self._told: dict[str, list[str]] = {}

    def summary(self) -> None:
        """Logs this configuration and that of the strategy."""
        _log.info("\t├──> fedplug: updates are encoded by %r", self._codec.encoder)
        if self._broadcaster is not None:
            _log.info("\t│\t└── models are broadcast by %r", self._broadcaster)
        if self._decode_each:
            name = type(self.strategy).__name__
            _log.info("\t│\t└── decoded for %s: memory grows with the clients of a round", name)
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns the strategy's messages. Those with the model request a compressed update."""
        self._begin_round(server_round, arrays)
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self._ask(arrays, messages, grid, server_round)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Returns the strategy's model and its metrics, with the transferred bytes.

        Returns no model if the strategy's is not finite. Flower then keeps the current model.

        Raises:
            RuntimeError: `configure_train` was not called before.
        """
        if self._model is None:
            raise RuntimeError(
                "aggregate_train was called before configure_train, so there is no model to update"
            )
        received = list(replies)
        if self._broadcaster is not None:
            self._broadcaster.take(received)
        answers = [message for message in received if message.has_content()]
        expected = self._terms.begin_round([message.content for message in answers], self._model)
        is_any = any(is_compressed(message.content) for message in answers)
        each = self._decode_each or expected is None or not is_any
        total = self._round_sum(self._model if expected is None else expected)
        intake = Intake(server_round)
        use = partial(self._decode, total, expected is not None) if each else partial(self._add, total)
        for message in answers:
            intake.take(message, use)
        passed = [message for message in received if message.has_error()]
        failed = [(message.metadata.src_node_id, _reason(message)) for message in passed]
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
            _log.error("fedplug: round %d is refused, the model stays as it is: %s", server_round, error)
            arrays, metrics = None, None
        else:
            reasons = [*intake.refused, *failed]
            if arrays is None and (reasons or intake.receipts or (self._asked and not received)):
                name, used = type(self.strategy).__name__, len(intake.used)
                others = [f"{name} returned no model from {used} updates"] if used else []
                log_no_update(server_round, reasons, others)
        if arrays is not None:
            self._model = arrays
            self._receipts.add(intake.receipts)
        metrics = intake.add_to(metrics)
        return arrays, metrics if self._broadcaster is None else self._broadcaster.add_to(metrics)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns the strategy's messages."""
        messages = list(self.strategy.configure_evaluate(server_round, arrays, config, grid))
        if self._broadcaster is not None:
            self._ask(arrays, messages, grid)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Returns the strategy's metrics, with the bytes of the models sent."""
        received = list(replies)
        if self._broadcaster is not None:
            self._broadcaster.take(received)
        metrics = self.strategy.aggregate_evaluate(server_round, received)
        return metrics if self._broadcaster is None else self._broadcaster.add_to(metrics)

    def _ask(
        self, arrays: ArrayRecord, messages: Sequence[Message], grid: Grid, round_num: int | None = None
    ) -> None:
        """Adds a request to the messages with the model, and compresses the model.

        Args:
            arrays: The model.
            messages: The strategy's messages.
            grid: Knows which nodes are connected.
            round_num: Flower's number of the round of training. None for evaluation.
        """
        gone = self._receipts.gone(grid, [message.metadata.dst_node_id for message in messages])
        for message in messages:
            node = message.metadata.dst_node_id
            if list(message.content.array_records.values()) != [arrays]:
                continue
            # A second reply of a node would begin with the same residual as its first, so it is uncompressed.
            is_update = round_num is not None and self._compresses and node not in self._asked
            if is_update or self._broadcaster is not None:
                request = self._request(node, gone, round_num if is_update else None)
                # The strategy may use one content for all messages.
                message.content = RecordDict({**message.content, KEY: request.write()})
            if round_num is not None:
                self._asked.add(node)
        if self._broadcaster is not None:
            self._broadcaster.send(arrays, messages)

    def _request(self, node: int, gone: Sequence[int], round_num: int | None) -> Request:
        """Returns the request for an update. Without a round, only the information to read a model."""
        accepted, names = self._receipts.told(node, gone)
        if round_num is None:
            return Request(self._training, gone=names)
        assert self._model is not None
        model = self._model.items()
        widened = [array.dtype == "float64" and self._dtypes[name] in _NARROW for name, array in model]
        return Request(
            self._training,
            accepted,
            names,
            self._encoder_config,
            self._codec.min_size,
            self._rounds_before + round_num,
            values=[place for place, (name, _) in enumerate(model) if name in self._values],
            narrow=[place for place, is_wide in enumerate(widened) if is_wide],
        )

    def _begin_round(self, server_round: int, arrays: ArrayRecord) -> None:
        """Takes the model of a round, and counts on if Flower's rounds begin again with the same model."""
        if server_round <= self._round:
            if arrays == self._model:
                self._rounds_before += self._round
            else:
                _log.info("fedplug: the rounds begin again with another model: a new training begins")
                self._begin_training()
        self._round, self._asked = server_round, set()
        self._model, self._values = arrays, self._values_of(arrays)

    def _round_sum(self, model: ArrayRecord) -> RoundSum:
        """Returns the sum for replies with these arrays, which are the model or a part of it."""
        assert self._model is not None
        values = [name for name in self._values if name in model]
        received = None if self._broadcaster is None else self._broadcaster.received(self._model)
        if model is self._model:
            return RoundSum(model, self._codec, values, received)
        part = None if received is None else ArrayRecord({name: received[name] for name in model})
        return RoundSum(model, fedplug.codec("identity"), values, part)  # such replies are not compressed

    def _values_of(self, model: ArrayRecord) -> list[str]:
        """Returns the names of arrays that clients send exactly: statistics, integers and booleans.

        Logs which arrays are uncompressed, and why. An array that is not finite cannot be sent as a value.
        Its constants have a difference of 0.
        """
        found = {name: read(name, array) for name, array in model.items()}
        for name, array in found.items():
            self._dtypes.setdefault(name, array.dtype)
        whole = {name for name in found if self._dtypes[name].kind in "iub"}
        sent = {n: a if n in whole else np.empty(a.shape, np.float32) for n, a in found.items()}
        exactly = self._codec.sent_exactly(sent)
        if self._compresses and not self._told:
            for reason, names in exactly.items():
                _log.info("fedplug: sent exactly, %s: %s", reason, ", ".join(names))
            self._told = exactly
        chosen = whole.union(exactly.get("statistics", ()))
        return [name for name, array in found.items() if name in chosen and np.isfinite(array).all()]

    def _add(self, total: RoundSum, message: Message) -> Reply | None:
        """Adds a client's update. Returns it if it is compressed."""
        weight = self._terms.weight(message.content)
        trained = the_model(message.content)
        if not is_compressed(message.content):
            total.add_arrays(trained, weight)
            return None
        update = total.read(message.content)
        total.add_payloads(update.payloads, weight)
        return update

    def _decode(self, total: RoundSum, is_known: bool, message: Message) -> Reply | None:
        """Decodes a compressed reply in place and returns it. Checks another one if its form is known."""
        content = message.content
        weight = self._terms.weight(content)
        if not is_known and not is_compressed(content):
            return None
        trained = the_model(content)
        (key,) = content.array_records
        if is_compressed(content):
            update = total.read(content)
            content[key] = total.decoded(update.payloads, weight)
            del content[KEY]
            return update
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


def _reason(failed: Message) -> str:
    """Returns why a node failed. Mods of Flower that come too early refuse a further record by its kind."""
    reason = str(failed.error.reason)
    return f"{reason} ({STYPE})" if "ConfigRecord" in reason else reason


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
