"""The client's side: a mod that sends what training changed, compressed. Must not know any strategy."""

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
    """Compresses the updates of a ClientApp, as the server's `Compressed` strategy asks for.

    ``ClientApp(mods=[CompressMod()])``. It goes first, so that it sees what other mods made of the update.
    Messages of any other strategy, and messages that are not for training, pass unchanged.

    What was not sent is kept on the node, on its disk, and sent later. An update moves that residual on only
    when the server says in its next message that it was accepted; one that was lost, late or refused leaves
    it as it was.
    """

    def __init__(self, state_dir: str | Path | None = None) -> None:
        """Nothing is opened yet.

        Args:
            state_dir: Where nodes keep the states of clients, unless ``fedplug-state-dir`` in the node's
                configuration says otherwise. None: the folder ``fedplug`` in Flower's own.
        """
        self._state_dir = state_dir

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Runs the app; replaces the arrays of its reply by payloads.

        A reply whose arrays are not those of the model, by name, shape and kind, is sent as it is, and the
        log says why.

        Raises:
            ValueError: The server's request cannot be read.
            fedplug.errors.FedplugError: The encoder is not installed here, the update is not finite, the
                state cannot be stored ... Flower sends it to the server as the error of this node. The
                residual is as it was.
        """
        request = Request.read(message.content) if message.has_content() else None
        if request is None:
            return call_next(message, context)
        model = ArrayRecord(dict(the_model(message.content)))  # the app may empty the record, to save memory
        values = _names(model, request.values)
        codec = _codec(request, values)  # before training, which takes long, so that its errors come at once
        del message.content[KEY]  # the app gets the message that it would get without the mod
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
