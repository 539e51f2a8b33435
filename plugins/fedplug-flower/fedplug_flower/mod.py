"""The client side: a mod that reads compressed models and sends compressed updates."""

from __future__ import annotations

import functools
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

import fedplug
from fedplug_flower import differences
from fedplug_flower.records import KEY, MODEL_STYPE, VERSION_KEY, Reply, Request
from fedplug_flower.replies import the_model
from fedplug_flower.states import state_url

__all__ = ["CompressMod"]

_log = logging.getLogger("flwr.fedplug")


class CompressMod:
    """Reads compressed models, and compresses updates, if the server's `Compressed` strategy asks for it.

    Use it as ``ClientApp(mods=[CompressMod()])``. It must be the first mod, so that it compresses the results
    of the other mods. Messages of other strategies pass unchanged.

    The residual stays on the node's disk and is sent later. It changes only when the server's next message
    confirms that the update was accepted. A lost, late or refused update leaves it unchanged. A received
    model is kept there, too, so that the server can send changes.
    """

    def __init__(self, state_dir: str | Path | None = None) -> None:
        """Initializes the mod without opening a store.

        Args:
            state_dir: The folder of clients' states, unless the node's configuration has
                ``fedplug-state-dir``. None means the folder ``fedplug`` in Flower's own.
        """
        self._state_dir = None if state_dir is None else Path(state_dir).expanduser().absolute()

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Runs the app on the model, and replaces the arrays of its reply by payloads.

        If the arrays do not match the model by name, shape and kind, the reply is sent uncompressed, and the
        log says why.

        Raises:
            ValueError: The server's message cannot be read.
            fedplug.errors.BaseVersionError: The server sent changes to a model that is not stored here, for
                instance because the store is lost. Its next message is a snapshot.
            fedplug.errors.FedplugError: For example, the encoder is not installed here, the update is not
                finite, or the state cannot be stored. Flower sends it to the server as this node's error. The
                residual is unchanged.
        """
        request = Request.read(message.content) if message.has_content() else None
        if request is None:
            return call_next(message, context)
        del message.content[KEY]  # the app must get the same message as without the mod
        url = state_url(context, request.training, request.gone, self._state_dir)
        version = _unpack(message.content, url)
        if request.encoder is None:
            reply = call_next(message, context)
        else:
            reply = _train(message, context, call_next, request, url)
        if version is not None and not reply.has_error():
            reply.content[VERSION_KEY] = ConfigRecord({"version": version})
        return reply


def _train(
    message: Message, context: Context, call_next: ClientAppCallable, request: Request, url: str
) -> Message:
    """Runs the app on an uncompressed model, and compresses the update."""
    model = ArrayRecord(dict(the_model(message.content)))  # a copy: the app may empty the record
    values, narrow = _names(model, request.values), _names(model, request.narrow)
    # Before training, so that its errors come at once.
    codec = _codec(json.dumps(request.encoder), request.min_size, tuple(values))
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    try:
        trained = the_model(reply.content)
        update = differences.between(trained, model, values, narrow)
    except ValueError as error:
        _log.warning("fedplug: this update is sent uncompressed: %s", error)
        return reply
    base = {name: differences.read(name, model[name]) for name in update}
    payloads, receipt = _encoded(update, base, codec, request, url)
    Reply(payloads, receipt, trained.count_bytes()).write(reply.content)
    return reply


def _unpack(content: RecordDict, url: str) -> str | None:
    """Replaces the message of a `fedplug.Broadcaster` by the model, and returns the model's version.

    Returns None for an uncompressed model.
    """
    arrays = list(the_model(content).values())
    if len(arrays) != 1 or arrays[0].stype != MODEL_STYPE:
        return None
    (key,) = content.array_records
    with fedplug.open_store(url) as store:
        receiver = fedplug.Receiver(store, "client", max_bytes=sys.maxsize)
        model = receiver.apply(arrays[0].data)
    content[key] = ArrayRecord({name: Array(array) for name, array in model.items()})
    assert receiver.version is not None
    return receiver.version


def _names(model: ArrayRecord, places: Sequence[int]) -> list[str]:
    names = list(model)
    if places and max(places) >= len(names):
        raise ValueError(f"the server's request is for array {max(places)} of a model of {len(names)} arrays")
    return [names[place] for place in places]


@functools.lru_cache(maxsize=16)
def _codec(encoder: str, min_size: int, values: tuple[str, ...]) -> fedplug.Codec:
    """Returns the codec of a training, which is made once in a process."""
    return fedplug.Codec(fedplug.from_config(json.loads(encoder)), min_size=min_size, exactly=values)


def _encoded(
    update: Mapping[str, object], base: Mapping[str, object], codec: fedplug.Codec, request: Request, url: str
) -> tuple[dict[str, bytes], str]:
    """Keeps the store open only for this call: processes forked during training would inherit its lock."""
    with fedplug.open_store(url) as store:
        state = fedplug.ClientCodec(codec, store, "client")
        pending = state.pending
        state.settle(pending if pending in request.accepted else None)
        return state.encode_model(update, request.round_num, base=base)
