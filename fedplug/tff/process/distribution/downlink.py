"""Sends the model to clients that keep state: uncompressed or encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import ConfigError
from fedplug.tff.process.aggregation.encoded_aggregation import model_encoder
from fedplug.tff.process.arguments import AnyEncoder, as_broadcast_encoder
from fedplug.tff.process.distribution.broadcast import EncodedBroadcast
from fedplug.tff.process.distribution.distributors import build_catch_up_distributor, build_distributor

__all__ = ["Downlink", "build_downlink"]


@dataclass(frozen=True)
class Downlink:
    """The distributor of a process and, for an encoded model, the broadcast that each client received last.

    Attributes:
        distributor: A process of `fedplug.tff.process.distribution.distributors`.
        broadcast: The encoded broadcast. None if the model is sent uncompressed and clients keep no state.
    """

    distributor: Any
    broadcast: EncodedBroadcast | None = None

    @property
    def encoder(self) -> ModelEncoder | None:
        """The encoder of the model. None if the model is sent uncompressed."""
        return self.broadcast.encoder if self.broadcast else None

    def init_client(self) -> dict[str, Any]:
        """The initial fields of a client's state for the downlink: ``broadcast=C``, or none."""
        return {"broadcast": self.broadcast.init_client()} if self.broadcast else {}

    def send(self, state: Any, client_states: Any) -> Any:
        """Sends the server's model, in the body of a `tff.federated_computation`.

        Args:
            state: ``S@SERVER``, a `tff.learning.templates.LearningAlgorithmState`.
            client_states: ``{...}@CLIENTS``; with an encoder, they have ``broadcast``, see `init_client`.

        Returns:
            ``<state=...,result={W}@CLIENTS,measurements=...>``
        """
        heard = (client_states["broadcast"],) if self.broadcast else ()
        return self.distributor.next(state.distributor, state.global_model_weights, *heard)

    def client_state(self, sent: Any) -> dict[str, Any]:
        """The next values of the fields that `init_client` begins with, from the result of `send`."""
        return {"broadcast": sent.clients} if self.broadcast else {}


def build_downlink(
    weights_type: Any,
    encoder: AnyEncoder | None,
    names: Any,
    min_size: int,
    lowering: str,
    *,
    secure_sum: bool = False,
) -> Downlink:
    """Builds the downlink for an encoder, or for None.

    Args:
        weights_type: A `tff.learning.models.ModelWeights` as TFF's type.
        encoder: See ``broadcast_encoder`` of `fedplug.tff.process.build_weighted_fed_avg`.
        names: The names of the weights, see `fedplug.tff.process.variable_names`.
        min_size: Tensors with fewer elements are sent uncompressed.
        lowering: ``"fused"`` or ``"reference"``.
        secure_sum: Whether only secure sums may leave the clients, which needs an uncompressed model.

    Raises:
        CapabilityError: See `fedplug.tff.process.distribution.broadcast.EncodedBroadcast`.
        ConfigError: The expression is not valid, has rate control, or is given with ``secure_sum``.
    """
    if encoder is None:
        return Downlink(build_distributor(weights_type, secure_sum=secure_sum))
    if secure_sum:
        raise ConfigError(
            "broadcast_encoder does not go with secure_sum: the bytes that a client gets tell when it took "
            "part last; leave broadcast_encoder out"
        )
    all_names = [*names.trainable, *names.non_trainable]
    model = model_encoder(as_broadcast_encoder(encoder), weights_type, min_size, all_names)
    broadcast = EncodedBroadcast(weights_type, model, lowering)
    return Downlink(build_catch_up_distributor(broadcast), broadcast)
