"""The server side of SecAgg+: a workflow whose clients mask short vectors of integers."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import cast

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.common import FitRes, Parameters, Scalar, ndarray_to_bytes, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    Strategy,
)
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
from fedplug_flower.differences import read
from fedplug_flower.receipts import Receipts, log_no_update
from fedplug_flower.records import MASKED_KEY, Request
from fedplug_flower.replies import the_model
from fedplug_flower.secagg.checks import PublicKeys, check_ciphertexts, check_shares, leave_out_wrong_shares
from fedplug_flower.secagg.round_terms import receipt_of, setup_of, zeros_like

__all__ = ["CompressedSecAggWorkflow"]

_log = logging.getLogger("flwr.fedplug")

_PRIVATE = (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)

Results = list[tuple[ClientProxy, FitRes]]
Aggregated = tuple[Parameters | None, dict[str, Scalar]]


class CompressedSecAggWorkflow(SecAggPlusWorkflow):
    """Flower's SecAgg+, in which clients mask a few integers instead of the model.

    Use ``DefaultWorkflow(fit_workflow=CompressedSecAggWorkflow(3, 2, "sharedk(0.01, clients=10)"))`` on the
    server, and `CompressedSecAggMod` in the ClientApp. Clients receive the entries to send and one scale with
    the model. The server learns the exact sum of their integers.

    The strategy gets the same as from Flower's workflow: the mean model as the result of every client. It
    must send the same model to all clients. Every client counts 1 in its metrics functions, because its
    number of examples is masked, too.

    A reply that cannot be read is left out with a warning, as if its client had dropped out. A client that
    drops out of any stage costs its own update only. A sum that is not valid is refused, and the model stays
    as it is. A round without an update logs an error that says why.
    """

    def __init__(
        self,
        num_shares: int | float,
        reconstruction_threshold: int | float,
        encoder: object,
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
        self._uplink_bytes = 0
        self._flowers_round = -1  # Flower's number of the last round
        self._reasons: list[tuple[int, str]] = []  # why clients of the round dropped out
        self._is_decided = True
        self._begin_training()

    def _begin_training(self) -> None:
        """Begins a training, in which clients have no residual."""
        self._training = secrets.token_hex(8)
        self._receipts = Receipts()
        self._masked: MaskedSum | None = None
        self._forms: Mapping[str, str] = {}  # the arrays of the model
        self._state: Mapping[str, NDArray[np.generic]] = {}
        self._model: list[bytes] = []  # the model after the last round
        self._round = 0  # of this training; Flower may begin again at 1

    def __call__(self, grid: Grid, context: Context) -> None:
        """Runs a round, and logs an error if it accepts no update."""
        self._reasons, self._is_decided = [], True
        super().__call__(grid, context)
        if not self._is_decided:
            round_num = context.state.config_records[MAIN_CONFIGS_RECORD][WorkflowKey.CURRENT_ROUND]
            log_no_update(cast(int, round_num), self._reasons, ["too few clients of SecAgg+ remained"])

    def setup_stage(self, grid: Grid, context: LegacyContext, state: WorkflowState) -> bool:
        """Begins a round, and adds the request for integers to the messages with the model.

        Raises:
            ValueError: The strategy sampled more clients than the encoder allows, sends other arrays than the
                model, has changed the form of the model, or adds noise for differential privacy.
        """
        if isinstance(context.strategy, _PRIVATE):
            raise ValueError(
                f"{type(context.strategy).__name__} adds noise for updates of bounded norm, but masked "
                "integers carry a residual too, which no clipping bounds; use flwr's SecAggPlusWorkflow"
            )
        model = context.state.array_records[MAIN_PARAMS_RECORD]
        number = cast(int, context.state.config_records[MAIN_CONFIGS_RECORD][WorkflowKey.CURRENT_ROUND])
        if number <= self._flowers_round and _data(model) != self._model:
            _log.info("fedplug: the rounds begin again with another model: a new training begins")
            self._begin_training()
        masked = self._sum_of(model)
        self._flowers_round, self._model = number, _data(model)
        guarded = self._guarded(grid, "public keys", PublicKeys().check)
        super().setup_stage(guarded, context, state)
        if not state.sampled_node_ids:
            return False
        self._is_decided = False
        self._round += 1
        if len(state.nid_to_fitins) > masked.clients:
            raise ValueError(
                f"the strategy sampled {len(state.nid_to_fitins)} clients, and a sum of more than "
                f"{masked.clients} could wrap in {self._encoder!r}: raise its clients, or sample fewer"
            )
        gone = self._receipts.gone(grid, state.nid_to_fitins)
        config, message = fedplug.to_config(self._encoder), masked.message(self._state)
        for node, content in state.nid_to_fitins.items():
            if _data(the_model(content)) != _data(model):
                raise ValueError(f"the strategy sends node {node} other arrays than the model of the round")
            accepted, names = self._receipts.told(node, gone)
            request = Request(self._training, accepted, names, config, round_num=self._round, message=message)
            content[MASKED_KEY] = request.write()
        return self._go_on(state)

    def share_keys_stage(self, grid: Grid, context: LegacyContext, state: WorkflowState) -> bool:
        """Leaves out ciphertexts that are not one for each neighbour."""
        check = partial(check_ciphertexts, state=state)
        super().share_keys_stage(self._guarded(grid, "encrypted shares", check), context, state)
        return self._go_on(state)

    def collect_masked_vectors_stage(self, grid: Grid, context: LegacyContext, state: WorkflowState) -> bool:
        """Unpacks the masked vectors before Flower adds them."""
        self._uplink_bytes = 0
        unpacking = self._guarded(grid, "masked vector", self._unpack)
        return super().collect_masked_vectors_stage(unpacking, context, state)

    def unmask_stage(self, grid: Grid, context: LegacyContext, state: WorkflowState) -> bool:
        """Leaves out shares that do not fit, and decodes the sum before the strategy gets it."""
        strategy = context.strategy
        model = context.state.array_records[MAIN_PARAMS_RECORD]

        def aggregate_fit(round_num: int, results: Results, failures: list[object]) -> Aggregated:
            return self._aggregate(strategy, model, round_num, results, failures)

        guarded = self._guarded(
            grid, "shares", partial(check_shares, state=state), partial(self._fitting, state)
        )
        context.strategy = cast(Strategy, SimpleNamespace(aggregate_fit=aggregate_fit))
        try:
            return super().unmask_stage(guarded, context, state)
        finally:
            context.strategy = strategy

    def _guarded(
        self,
        grid: Grid,
        what: str,
        check: Callable[[Message], None],
        choose: Callable[[list[Message]], list[Message]] = lambda replies: replies,
    ) -> Grid:
        """Returns a grid that leaves out replies which are refused: no client's message may end the round.

        Args:
            grid: The grid that sends and receives.
            what: The kind of content of the replies, for messages.
            check: Raises an exception if a reply is refused.
            choose: Returns those of the checked replies that fit each other.
        """

        def send_and_receive(messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
            failed, checked = [], []
            for reply in grid.send_and_receive(messages, timeout=timeout):
                if reply.has_error():
                    self._reasons.append((reply.metadata.src_node_id, str(reply.error.reason)))
                    failed.append(reply)
                    continue
                try:
                    check(reply)
                    checked.append(reply)
                except Exception as error:
                    self._refuse(reply, what, repr(error))
            return failed + choose(checked)

        return cast(Grid, SimpleNamespace(send_and_receive=send_and_receive))

    def _refuse(self, reply: Message, what: str, reason: str) -> None:
        node = reply.metadata.src_node_id
        self._reasons.append((node, reason))
        _log.warning("fedplug: the %s of node %d is refused: %s", what, node, reason)

    def _go_on(self, state: WorkflowState) -> bool:
        """Forgets the clients that dropped out before their shares arrived: no other client masks with them.

        flwr would ask the others for shares of theirs that do not exist.
        """
        there = state.active_node_ids
        state.sampled_node_ids = set(there)
        state.nid_to_neighbours = {
            node: neighbours & there for node, neighbours in state.nid_to_neighbours.items() if node in there
        }
        return bool(there) and self._check_threshold(state)

    def _fitting(self, state: WorkflowState, replies: list[Message]) -> list[Message]:
        """Returns the replies to the unmask stage with shares that fit. None if a secret is lost."""
        try:
            liars = leave_out_wrong_shares(replies, state)
        except ValueError as error:
            _log.warning("fedplug: the sum cannot be unmasked: %s", error)
            return []
        for reply in replies:
            if reply.metadata.src_node_id in liars:
                self._refuse(reply, "shares", "they do not fit those of other nodes")
        return replies

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

    def _unpack(self, reply: Message) -> None:
        """Unpacks the masked vector of a reply. Raises an exception if it has none."""
        assert self._masked is not None
        compat.recorddict_to_fitres(reply.content, keep_input=True)  # Flower reads it without a check
        configs = reply.content.config_records[RECORD_KEY_CONFIGS]
        packed = cast(list[bytes], configs[Key.MASKED_PARAMETERS])
        if not isinstance(packed, list) or len(packed) != 1:
            raise ValueError("it is not packed; the node's ClientApp needs CompressedSecAggMod")
        self._uplink_bytes += len(packed[0])
        numbers = unpack(packed[0], 1 + self._masked.length, self._masked.bits)
        configs[Key.MASKED_PARAMETERS] = [ndarray_to_bytes(part) for part in (numbers[:1], numbers[1:])]

    def _aggregate(
        self, strategy: Strategy, model: ArrayRecord, round_num: int, results: Results, failures: list[object]
    ) -> Aggregated:
        """Passes the strategy the mean model, and confirms the clients in the sum if it returns a model."""
        try:
            mean, state = self._mean(results)
        except FedplugError as error:
            _log.error("fedplug: round %d is refused, the model stays as it is: %s", round_num, error)
            self._is_decided = True
            return None, {}
        moved = compat.arrayrecord_to_parameters(differences.moved(model, mean.update), keep_input=True)
        for _, result in results:
            result.parameters = moved
        aggregated, metrics = strategy.aggregate_fit(round_num, results, failures)
        self._is_decided = True
        if aggregated is None:
            log_no_update(round_num, [], [f"{type(strategy).__name__} returned no model"])
        else:
            self._state, self._model = state, aggregated.tensors
            nodes = [proxy.node_id for proxy, _ in results]
            self._receipts.add({node: receipt_of(self._round, node) for node in nodes})
        plain = 8 * len(results) * sum(read(name, array).size for name, array in model.items())
        return aggregated, {
            **metrics,
            "fedplug-uplink-bytes": self._uplink_bytes,
            "fedplug-dense-bytes": plain,
        }

    def _mean(self, results: Results) -> tuple[MaskedMean, dict[str, NDArray[np.generic]]]:
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
