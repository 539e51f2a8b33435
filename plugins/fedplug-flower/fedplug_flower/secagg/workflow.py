"""The server side of SecAgg+: a workflow whose clients mask short vectors of integers."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, Message
from flwr.common import FitRes, Parameters, Scalar, ndarray_to_bytes, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import WorkflowState
from flwr.serverapp import Grid
from numpy.typing import NDArray

import fedplug
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.errors import FedplugError, PayloadError
from fedplug.secure import MaskedMean, MaskedSum, unpack
from fedplug_flower import differences
from fedplug_flower.accepted import Accepted
from fedplug_flower.differences import read
from fedplug_flower.records import MASKED_KEY, Request
from fedplug_flower.replies import the_model
from fedplug_flower.secagg.round_terms import receipt_of, setup_of, zeros_like

__all__ = ["CompressedSecAggWorkflow"]

_log = logging.getLogger("flwr.fedplug")

Results = list[tuple[ClientProxy, FitRes]]
Aggregated = tuple[Parameters | None, dict[str, Scalar]]


class CompressedSecAggWorkflow(SecAggPlusWorkflow):
    """Flower's SecAgg+, in which clients mask a few integers instead of the model.

    Use ``DefaultWorkflow(fit_workflow=CompressedSecAggWorkflow(3, 2, "sharedk(0.01, clients=10)"))`` on the
    server, and `CompressedSecAggMod` in the ClientApp. Clients receive the entries to send and one scale with
    the model. The server learns the exact sum of their integers.

    The strategy gets what it gets from Flower's workflow: the mean model as the result of every client. It
    must send the same model to all clients. Every client counts 1 in its metrics functions, because its
    number of examples is masked, too.

    A masked vector that cannot be read is left out with a warning, as if its client had dropped out. A sum
    that is not valid is refused with a warning, and the model stays as it is.
    """

    def __init__(
        self,
        num_shares: int | float,
        reconstruction_threshold: int | float,
        encoder: Any,
        *,
        timeout: float | None = None,
    ) -> None:
        """Starts a new training, in which clients have no residual.

        Args:
            num_shares: See `SecAggPlusWorkflow`.
            reconstruction_threshold: See `SecAggPlusWorkflow`.
            encoder: A shared-k encoder, such as ``"sharedk(0.01, clients=10)"``, which is sent to
                the clients. No round may have more than its ``clients``.
            timeout: See `SecAggPlusWorkflow`.

        Raises:
            fedplug.errors.FedplugError: The encoder is unknown, or sends no integers of a ring.
        """
        super().__init__(num_shares, reconstruction_threshold, timeout=timeout)
        self._encoder = cast(SharedK, fedplug.encoder(encoder))
        MaskedSum(self._encoder, {"": np.zeros(1, np.float32)})  # refuses other encoders
        setup = setup_of(self._encoder)
        self.clipping_range, self.quantization_range = setup[Key.CLIPPING_RANGE], setup[Key.TARGET_RANGE]
        self.modulus_range, self.max_weight = setup[Key.MOD_RANGE], setup[Key.MAX_WEIGHT]
        self._training = secrets.token_hex(8)
        self._accepted = Accepted()
        self._masked: MaskedSum | None = None
        self._forms: Mapping[str, str] = {}  # the arrays of the model
        self._state: Mapping[str, NDArray[Any]] = {}
        self._uplink_bytes = 0

    def setup_stage(self, grid: Grid, context: LegacyContext, state: WorkflowState) -> bool:
        """Begins a round, and adds the request for integers to the messages with the model.

        Raises:
            ValueError: The strategy sampled more clients than the encoder allows, sends other arrays than the
                model, or has changed the form of the model.
        """
        model = context.state.array_records[MAIN_PARAMS_RECORD]
        masked = self._sum_of(model)
        is_ready = super().setup_stage(grid, context, state)
        if len(state.nid_to_fitins) > masked.clients:
            raise ValueError(
                f"the strategy sampled {len(state.nid_to_fitins)} clients, and a sum of more than "
                f"{masked.clients} could wrap in {self._encoder!r}: raise its clients, or sample fewer"
            )
        round_num = cast(int, context.state.config_records[MAIN_CONFIGS_RECORD][WorkflowKey.CURRENT_ROUND])
        gone = self._accepted.gone(grid, state.nid_to_fitins)
        config, message = fedplug.to_config(self._encoder), masked.message(self._state)
        for node, content in state.nid_to_fitins.items():
            if _data(the_model(content)) != _data(model):
                raise ValueError(f"the strategy sends node {node} other arrays than the model of the round")
            accepted, names = self._accepted.told(node, gone)
            request = Request(config, 0, self._training, round_num, accepted, names, message=message)
            content[MASKED_KEY] = request.write()
        return is_ready

    def collect_masked_vectors_stage(self, grid: Grid, context: LegacyContext, state: WorkflowState) -> bool:
        """Unpacks the masked vectors before Flower adds them."""

        def send_and_receive(messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
            replies = grid.send_and_receive(messages, timeout=timeout)
            return [reply for reply in replies if reply.has_error() or self._unpack(reply)]

        self._uplink_bytes = 0
        unpacking = cast(Grid, SimpleNamespace(send_and_receive=send_and_receive))
        return super().collect_masked_vectors_stage(unpacking, context, state)

    def unmask_stage(self, grid: Grid, context: LegacyContext, state: WorkflowState) -> bool:
        """Decodes the sum before the strategy gets it."""
        strategy = context.strategy
        model = context.state.array_records[MAIN_PARAMS_RECORD]

        def aggregate_fit(round_num: int, results: Results, failures: list[Any]) -> Aggregated:
            return self._aggregate(strategy, model, round_num, results, failures)

        context.strategy = cast(Strategy, SimpleNamespace(aggregate_fit=aggregate_fit))
        try:
            return super().unmask_stage(grid, context, state)
        finally:
            context.strategy = strategy

    def _sum_of(self, model: ArrayRecord) -> MaskedSum:
        like = zeros_like(model)
        forms = {name: f"{array.dtype}{list(array.shape)}" for name, array in like.items()}
        if self._masked is None:
            self._masked, self._forms = MaskedSum(self._encoder, like), forms
            self._state = self._masked.init_server()
        for name in {**self._forms, **forms}:
            if (was := self._forms.get(name)) != (now := forms.get(name)):
                raise ValueError(
                    f"array {name!r} of the model was {was} and is {now}; start a new training, with another "
                    "workflow, for a model of another form"
                )
        return self._masked

    def _unpack(self, reply: Message) -> bool:
        """Unpacks the masked vector of a reply; returns False if it has none.

        Flower then goes on without this client, because no client's message may end the round.
        """
        assert self._masked is not None
        try:
            compat.recorddict_to_fitres(reply.content, keep_input=True)  # Flower reads it without a check
            configs = reply.content.config_records[RECORD_KEY_CONFIGS]
            packed = cast(list[bytes], configs[Key.MASKED_PARAMETERS])
            if not isinstance(packed, list) or len(packed) != 1:
                raise ValueError("it is not packed; the node's ClientApp needs CompressedSecAggMod")
            self._uplink_bytes += len(packed[0])
            numbers = unpack(packed[0], 1 + self._masked.length, self._masked.bits)
        except Exception as error:
            node = reply.metadata.src_node_id
            _log.warning("fedplug: the masked vector of node %d is refused: %r", node, error)
            return False
        configs[Key.MASKED_PARAMETERS] = [ndarray_to_bytes(part) for part in (numbers[:1], numbers[1:])]
        return True

    def _aggregate(
        self, strategy: Strategy, model: ArrayRecord, round_num: int, results: Results, failures: list[Any]
    ) -> Aggregated:
        """Passes the strategy the mean model, and confirms the clients in the sum if it returns a model."""
        try:
            mean, state = self._mean(results)
        except FedplugError as error:
            _log.warning("fedplug: round %d is refused, the model stays as it is: %s", round_num, error)
            return None, {}
        moved = compat.arrayrecord_to_parameters(differences.moved(model, mean.update), keep_input=True)
        for _, result in results:
            result.parameters = moved
        aggregated, metrics = strategy.aggregate_fit(round_num, results, failures)
        if aggregated is not None:
            self._state = state
            nodes = [proxy.node_id for proxy, _ in results]
            self._accepted.add({node: receipt_of(round_num, node) for node in nodes})
        plain = 8 * len(results) * sum(read(name, array).size for name, array in model.items())
        return aggregated, {
            **metrics,
            "fedplug-uplink-bytes": self._uplink_bytes,
            "fedplug-dense-bytes": plain,
        }

    def _mean(self, results: Results) -> tuple[MaskedMean, dict[str, NDArray[Any]]]:
        """Returns the mean update, and the next state, from the mean of integers that Flower computed."""
        assert self._masked is not None
        (mean,) = parameters_to_ndarrays(results[0][1].parameters)
        total = np.rint(np.nan_to_num(mean) * len(results)).astype(np.int64)
        found, state = self._masked.decode(total, self._state)
        if found.clients != len(results):
            raise PayloadError(f"it is a sum of {found.clients} updates, from {len(results)} clients")
        return found, state


def _data(model: ArrayRecord) -> list[bytes]:
    return [array.data for array in model.values()]
