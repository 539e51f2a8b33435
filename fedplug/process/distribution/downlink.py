"""How the model gets to clients that keep state: uncompressed, or as encoded differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedplug.encoders.model import ModelEncoder
from fedplug.process.aggregation.encoded_aggregation import model_encoder
from fedplug.process.arguments import AnyEncoder, as_encoder
from fedplug.process.distribution.broadcast import EncodedBroadcast, build_encoded_broadcast
from fedplug.process.distribution.distributors import build_catch_up_distributor, build_distributor

__all__ = ["Downlink", "build_downlink"]


@dataclass(frozen=True)
class Downlink:
    """How clients get the model and, where it is encoded, up to which position each client is current.

    Attributes:
        distributor: See `fedplug.process.distribution.distributors`.
        broadcast: None: the model is sent uncompressed, and clients keep nothing of it.
    """

    distributor: Any
    broadcast: EncodedBroadcast | None = None

    @property
    def encoder(self) -> ModelEncoder | None:
        """The encoder of the model; None: it is sent uncompressed."""
        return self.broadcast.encoder if self.broadcast else None

    def init_client(self) -> dict[str, Any]:
        """The initial fields of a client's state for the downlink: ``broadcast=int64``, or none."""
        return {"broadcast": self.broadcast.init_client()} if self.broadcast else {}

    def send(self, state: Any, client_states: Any) -> Any:
        """Sends the server's model, in the body of a `tff.federated_computation`.

        Args:
            state: ``S@SERVER``, a `tff.learning.templates.LearningAlgorithmState`.
            client_states: ``{C}@CLIENTS``; with an encoder, C has ``broadcast=int64``.

        Returns:
            ``<state=...,result={W}@CLIENTS,measurements=...>``
        """
        positions = (client_states["broadcast"],) if self.broadcast else ()
        return self.distributor.next(state.distributor, state.global_model_weights, *positions)

    def client_state(self, sent: Any) -> dict[str, Any]:
        """The next values of the fields that `init_client` begins with, from what `send` returned."""
        return {"broadcast": sent.positions} if self.broadcast else {}


def build_downlink(
    weights_type: Any, encoder: AnyEncoder | None, names: Any, min_size: int, lowering: str
) -> Downlink:
    """Builds the downlink for an encoder, or for None.

    Args:
        weights_type: A `tff.learning.models.ModelWeights` as TFF's type.
        encoder: See `fedplug.process.build_weighted_fed_avg`.
        names: Of the weights, see `fedplug.process.variable_names`.
        min_size: Tensors with fewer elements are sent uncompressed.
        lowering: ``"fused"`` or ``"reference"``.

    Raises:
        CapabilityError: See `fedplug.process.distribution.broadcast.build_encoded_broadcast`.
        ConfigError: The expression is not valid.
    """
    if encoder is None:
        return Downlink(build_distributor(weights_type))
    all_names = [*names.trainable, *names.non_trainable]
    model = model_encoder(as_encoder(encoder), weights_type, min_size, all_names)
    broadcast = build_encoded_broadcast(weights_type, model, lowering)
    return Downlink(build_catch_up_distributor(broadcast), broadcast)
