"""The client side of SecAgg+: a mod that masks a short vector of integers instead of the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MessageType
from flwr.client.mod import secaggplus_mod
from flwr.clientapp.typing import ClientAppCallable
from flwr.common import FitRes, bytes_to_ndarray, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, RECORD_KEY_STATE, Key
from flwr.compat.common import recorddict_compat as compat
from numpy.typing import NDArray

import fedplug
from fedplug.codecs.pending import StoredPending
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.secure import MaskedSum, pack
from fedplug_flower import differences
from fedplug_flower.records import MASKED_KEY, Request
from fedplug_flower.replies import the_model
from fedplug_flower.secagg.round_terms import receipt_of, setup_of, zeros_like
from fedplug_flower.states import state_url

__all__ = ["CompressedSecAggMod"]


class CompressedSecAggMod:
    """Runs flwr's `secaggplus_mod` on a compressed update, for a `CompressedSecAggWorkflow` on the server.

    Use it as ``ClientApp(client_fn, mods=[CompressedSecAggMod()])`` instead of `secaggplus_mod`. The protocol
    is Flower's. This mod passes it a short vector of integers, and packs the masked vector.

    The residual stays on the node's disk. It changes when the server's next message confirms that the update
    is in a sum. A client that drops out keeps the residual from before.
    """

    def __init__(self, state_dir: str | Path | None = None) -> None:
        """Initializes the mod without opening a store.

        Args:
            state_dir: See `CompressMod`.
        """
        self._state_dir = None if state_dir is None else Path(state_dir).expanduser().absolute()

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Takes part in a stage of SecAgg+.

        Raises:
            ValueError: The server's workflow is another one, its set-up could not sum exactly, or training
                changed the names, shapes or kinds of arrays.
            fedplug.errors.FedplugError: For example, the update is not finite, or the state cannot be stored.
                Flower counts this client as one that dropped out. The residual is unchanged.
        """
        if message.metadata.message_type != MessageType.TRAIN:
            return call_next(message, context)
        reply = secaggplus_mod(message, context, partial(self._train, call_next))
        configs: Any = reply.content.config_records[RECORD_KEY_CONFIGS]
        if Key.MASKED_PARAMETERS in configs:
            ring: Any = context.state.config_records[RECORD_KEY_STATE][Key.MOD_RANGE]
            masked = [bytes_to_ndarray(part) for part in configs[Key.MASKED_PARAMETERS]]
            configs[Key.MASKED_PARAMETERS] = [pack(np.concatenate(masked), ring.bit_length() - 1)]
        return reply

    def _train(self, call_next: ClientAppCallable, message: Message, context: Context) -> Message:
        """Trains, and replaces the arrays of the reply by the integers that SecAgg+ masks."""
        request = Request.read(message.content, MASKED_KEY)
        if request is None or request.encoder is None:
            raise ValueError(
                "the server's fit_workflow is not a CompressedSecAggWorkflow: use one there, or flwr's "
                "secaggplus_mod in this app"
            )
        model = ArrayRecord(dict(the_model(message.content)))  # a copy: the app may empty the record
        encoder: Any = fedplug.from_config(request.encoder)
        masked = MaskedSum(encoder, zeros_like(model))  # before training, so that its errors come at once
        _require_exact_sums(encoder, context.state.config_records[RECORD_KEY_STATE])
        del message.content[MASKED_KEY]
        reply = call_next(message, context)
        update = differences.between(the_model(reply.content), model, narrow=model)
        result = compat.recorddict_to_fitres(reply.content, keep_input=True)
        vector = self._encoded(masked, update, result.num_examples, request, context)
        # The weight is in the vector: with equal numbers of examples, SecAgg+ multiplies by 1.
        sent = FitRes(result.status, ndarrays_to_parameters([vector]), 1, result.metrics)
        reply.content.update(compat.fitres_to_recorddict(sent, keep_input=False))
        return reply

    def _encoded(
        self,
        masked: MaskedSum,
        update: Mapping[str, NDArray[np.generic]],
        weight: float,
        request: Request,
        context: Context,
    ) -> NDArray[np.float64]:
        """Keeps the store open only for this call, like `CompressMod`.

        `fedplug.ClientCodec` is not for masked updates: its receipt is a digest of the payload, with which
        the server could test guesses.
        """
        url = state_url(context, request.training, request.gone, self._state_dir)
        with fedplug.open_store(url) as store:
            kept = StoredPending(store.open_process("masked", request.encoder))
            kept.settle(request.accepted)
            state = kept.read("state") or masked.init_client()
            vector, after = masked.encode(update, state, request.message, weight=weight)
            kept.commit({"state": after}, receipt_of(request.round_num, context.node_id))
        return masked.signed(vector).astype(np.float64)


def _require_exact_sums(encoder: SharedK, state: Mapping[str, object]) -> None:
    """Raises ValueError unless SecAgg+ adds the encoder's integers as they are."""
    expected = setup_of(encoder)
    if wrong := {key: state[key] for key in expected if state[key] != expected[key]}:
        raise ValueError(f"the server's set-up of SecAgg+ would change the integers of {encoder!r}: {wrong}")
    if state[Key.SAMPLE_NUMBER] > encoder.clients:
        raise ValueError(
            f"the server adds {state[Key.SAMPLE_NUMBER]} clients, and a sum of more than {encoder.clients} "
            f"could wrap in {encoder!r}"
        )
