"""The server's side: a strategy around another one. Must not know what is in a payload."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from fedplug_flower.differences import read
from fedplug_flower.intake import Intake
from fedplug_flower.records import KEY, Reply, Request, is_compressed
from fedplug_flower.replies import Terms, the_model
from fedplug_flower.results import require_finite, restore, states_of
from fedplug_flower.round_sum import RoundSum

__all__ = ["Compressed"]

_log = logging.getLogger("flwr.fedplug")

_AVERAGES = {kind.aggregate_train for kind in (FedAvg, FedAvgM, FedAdagrad, FedAdam, FedYogi)}
"""What these make of replies depends on their weighted mean, their metrics and the errors alone."""

_GONE_NODES = 1024
"""The most that a new node is told of; each takes some 60 bytes."""

Aggregated = tuple[ArrayRecord | None, MetricRecord | None]


class Compressed(Strategy):
    """Asks the clients of a strategy for compressed updates, and gives it what they stand for.

    ``Compressed(FedAvg(fraction_train=0.5), "topk(0.01, scope='model') | qsgd(8)")``, and `CompressMod` in
    the ClientApp. Clients without the mod answer as ever, in the same rounds.

    A strategy that averages (FedAvg, FedAvgM, FedProx, FedAdagrad, FedAdam, FedYogi) gets one reply: the mean
    of the updates, which are summed as they are, in the memory of one model. Any other gets a reply of each
    client with its arrays decoded, and takes the memory that it always takes. It goes around all other
    wrappers: those of differential privacy see decoded arrays.

    Statistics, whole numbers and booleans are sent exactly; the log says which arrays these are.

    An update that cannot be read is refused, with a warning that names node and array; the others are
    aggregated. A round's metrics also have ``fedplug-uplink-bytes``, what the clients sent of the model by
    Flower's count; ``fedplug-dense-bytes``, what it would have been; and how many replies were
    ``fedplug-compressed``, ``fedplug-dense`` and ``fedplug-refused``.
    """

    def __init__(
        self,
        strategy: Strategy,
        encoder: Any,
        *,
        min_size: int | None = None,
        decode_each: bool | None = None,
    ) -> None:
        """A training of its own: clients begin without a residual.

        Args:
            strategy: Samples clients, and makes the next model of what they send.
            encoder: Anything an encoder may be, see `fedplug.encoder`. It is sent to the clients, so that it
                is configured here alone; an encoder of a plugin must be installed there, too.
            min_size: Arrays of fewer elements are sent uncompressed. None: as `fedplug.codec` does.
            decode_each: Whether the strategy gets a decoded reply of each client. None: unless it is known to
                average. False is for a FedAvg of your own that overrides ``aggregate_train`` and leaves the
                averaging to ``super()``.

        Raises:
            fedplug.errors.FedplugError: There is no such encoder, or not for NumPy arrays.
            TypeError: ``strategy`` is no strategy, or one of trees; or ``decode_each=False`` and it is no
                FedAvg.
        """
        if not isinstance(strategy, Strategy):
            raise TypeError(f"strategy is {strategy!r}; it must be a Strategy of flwr.serverapp.strategy")
        if isinstance(strategy, FedXgbBagging | FedXgbCyclic):
            raise TypeError(f"{type(strategy).__name__} collects trees, which are no updates of a model")
        averages = isinstance(strategy, FedAvg) and type(strategy).aggregate_train in _AVERAGES
        if decode_each is False and not isinstance(strategy, FedAvg):
            raise TypeError(f"{type(strategy).__name__} is no FedAvg: it needs the updates of each client")
        codec = fedplug.codec(encoder) if min_size is None else fedplug.codec(encoder, min_size=min_size)
        codec.require_updates()
        self.strategy = strategy
        self._decode_each = not averages if decode_each is None else decode_each
        self._codec = codec
        self._encoder_config = fedplug.to_config(codec.encoder)
        self._training = secrets.token_hex(8)
        self._accepted: dict[int, str] = {}  # by node: the receipt accepted last; the latest at the end
        self._terms = Terms(strategy)
        self._model: ArrayRecord | None = None
        self._values: list[str] = []  # arrays of the model whose values are sent, no differences
        self._whole: set[str] = set()  # arrays that began as whole numbers; Flower's averages are floats
        self._told: dict[str, list[str]] = {}
        self._asked: set[int] = set()  # nodes that were sent the model of this round

    def summary(self) -> None:
        """Logs the configuration, and that of the strategy."""
        _log.info("\t├──> fedplug: updates are encoded by %r", self._codec.encoder)
        if self._decode_each:
            name = type(self.strategy).__name__
            _log.info("\t│\t└── decoded for %s: memory grows with the clients of a round", name)
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's messages; those with the round's model ask for a compressed update."""
        self._model, self._values = arrays, self._values_of(arrays)
        self._asked = set()
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        gone = self._gone(grid, [message.metadata.dst_node_id for message in messages])
        for message in messages:
            if list(message.content.array_records.values()) == [arrays]:
                self._asked.add(message.metadata.dst_node_id)
                request = self._request(server_round, message.metadata.dst_node_id, gone)
                # The strategy may have given all messages one content.
                message.content = RecordDict({**message.content, KEY: request.write()})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Returns the strategy's model and its metrics, with the bytes that travelled.

        Returns no model if the strategy's would not be finite: Flower goes on with the one that it has.

        Raises:
            RuntimeError: `configure_train` was not called before.
        """
        if self._model is None:
            raise RuntimeError(
                "aggregate_train was called before configure_train, so there is no model to update"
            )
        received = list(replies)
        answers = [message for message in received if message.has_content()]
        each = self._decode_each or not any(is_compressed(message.content) for message in answers)
        total = RoundSum(self._model, self._codec, self._values)
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
            self._accept(intake.receipts)
        return arrays, intake.add_to(metrics)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def _gone(self, grid: Grid, asked: Iterable[int]) -> list[int]:
        """Returns the nodes that are not connected any more, the latest last, if a new node is asked."""
        if all(node in self._accepted for node in asked):
            return []
        connected = set(grid.get_node_ids())
        return [node for node in self._accepted if node not in connected][-_GONE_NODES:]

    def _request(self, server_round: int, node: int, gone: Sequence[int]) -> Request:
        """Flower gives a node that is restarted a new id; it looks for its state under the old one."""
        known = node in self._accepted
        accepted = [self._accepted[one] for one in ([node] if known else gone)]
        names = [] if known else [str(one) for one in gone]
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
        """Names of the arrays that clients send exactly: statistics, whole numbers and booleans.

        Logs which arrays are uncompressed, and why. An array that is not finite is no value that can be sent,
        while a constant in it is no difference.
        """
        found = {name: read(name, array) for name, array in model.items()}
        whole = {name for name, array in found.items() if array.dtype.kind in "iub"}
        sent = {n: a if n in whole else np.empty(a.shape, np.float32) for n, a in found.items()}
        exactly = self._codec.sent_exactly(sent)
        self._whole |= whole
        if not self._told:
            for reason, names in exactly.items():
                _log.info("fedplug: sent exactly, %s: %s", reason, ", ".join(names))
            self._told = exactly
        chosen = self._whole.union(exactly.get("statistics", ()))
        return [name for name, array in found.items() if name in chosen and np.isfinite(array).all()]

    def _accept(self, receipts: Mapping[int, str]) -> None:
        for node, receipt in receipts.items():
            self._accepted.pop(node, None)
            self._accepted[node] = receipt

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
        """Makes a reply what a client without the mod would have sent; returns its receipt if compressed."""
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
        """Gives an averaging strategy one reply, of the mean, and those that are errors."""
        strategy = cast(FedAvg, self.strategy)
        if intake.used:
            passed.append(_mean_reply(total, strategy))
        _log.info("aggregate_train: %d updates are summed, their mean is one result", len(intake.used))
        with _metrics_of(intake.used, strategy):
            return strategy.aggregate_train(intake.server_round, passed)


def _mean_reply(total: RoundSum, strategy: FedAvg) -> Message:
    """As from one client with the examples of all."""
    content = RecordDict()
    content[strategy.arrayrecord_key] = total.moved()
    content["metrics"] = MetricRecord({strategy.weighted_by_key: total.weight})
    return Message(content, dst_node_id=0, message_type=MessageType.TRAIN)


@contextmanager
def _metrics_of(used: list[Message], strategy: FedAvg) -> Iterator[None]:
    """Lets the strategy's function for metrics see all clients', though the strategy gets one reply."""
    contents = [RecordDict(dict(message.content.metric_records)) for message in used]
    function = strategy.train_metrics_aggr_fn
    strategy.train_metrics_aggr_fn = lambda _, weighted_by: function(contents, weighted_by)
    try:
        yield
    finally:
        strategy.train_metrics_aggr_fn = function
