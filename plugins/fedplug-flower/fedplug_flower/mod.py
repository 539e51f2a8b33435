"""The client side: a mod that sends compressed updates."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable

import fedplug
from fedplug_flower import differences
from fedplug_flower.records import KEY, Reply, Request
from fedplug_flower.replies import the_model
from fedplug_flower.states import state_url

__all__ = ["CompressMod"]

_log = logging.getLogger("flwr.fedplug")


class CompressMod:
    """Compresses the updates of a ClientApp if the server's `Compressed` strategy asks for it.

    Use it as ``ClientApp(mods=[CompressMod()])``. It must be the first mod, so that it compresses the results
    of the other mods. Messages of other strategies, and messages that are not for training, pass unchanged.

    The residual stays on the node's disk and is sent later. It changes only when the server's next message
    confirms that the update was accepted. A lost, late or refused update leaves it unchanged.
    """

    def __init__(self, state_dir: str | Path | None = None) -> None:
        """Initializes the mod without opening a store.

        Args:
            state_dir: The folder of clients' states, unless the node's configuration has
                ``fedplug-state-dir``. None means the folder ``fedplug`` in Flower's own.
        """
        self._state_dir = state_dir

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Runs the app and replaces the arrays of its reply by payloads.

        If the arrays do not match the model by name, shape and kind, the reply is sent uncompressed, and the
        log says why.

        Raises:
            ValueError: The server's request cannot be read.
            fedplug.errors.FedplugError: For example, the encoder is not installed here, the update is not
                finite, or the state cannot be stored. Flower sends it to the server as this node's error. The
                residual is unchanged.
        """
        request = Request.read(message.content) if message.has_content() else None
        if request is None:
            return call_next(message, context)
        model = ArrayRecord(dict(the_model(message.content)))  # a copy: the app may empty the record
        values = _names(model, request.values)
        codec = _codec(request, values)  # before training, so that its errors come at once
        del message.content[KEY]  # the app must get the same message as without the mod
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        try:
            update = differences.between(the_model(reply.content), model, values)
        except ValueError as error:
            _log.warning("fedplug: this update is sent uncompressed: %s", error)
            return reply
        url = state_url(context, request, self._state_dir)
        _encoded(update, codec, request, url).write(reply.content)
        return reply


def _names(model: ArrayRecord, places: Sequence[int]) -> list[str]:
    names = list(model)
    if places and max(places) >= len(names):
        raise ValueError(f"the server's request is for array {max(places)} of a model of {len(names)} arrays")
    return [names[place] for place in places]


def _codec(request: Request, values: Sequence[str]) -> fedplug.Codec:
    encoder: Any = fedplug.from_config(request.encoder)
    return fedplug.Codec(encoder, min_size=request.min_size, exactly=values)


def _encoded(update: Mapping[str, Any], codec: fedplug.Codec, request: Request, url: str) -> Reply:
    """Keeps the store open only for this call: processes forked during training would inherit its lock."""
    with fedplug.open_store(url) as store:
        state = fedplug.ClientCodec(codec, store, "client")
        state.settle(state.pending if state.pending in request.accepted else None)
        payloads, receipt = state.encode_model(update, request.round_num)
    return Reply(payloads, receipt)
