"""The server's side of compressed models: a message for each node, by the version that it holds."""

from __future__ import annotations

from collections.abc import Iterable

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

import fedplug
from fedplug.wire.message import version_of
from fedplug_flower.differences import read
from fedplug_flower.records import KEY, MODEL_STYPE, VERSION_KEY

__all__ = ["NodeBroadcaster"]


class NodeBroadcaster:
    """Sends the model as versions, and keeps the version of each node that answered its last message.

    The version of any other node is unknown, because a message or a reply may be lost. Such a node gets a
    snapshot.
    """

    def __init__(self, encoder: object) -> None:
        """Begins without a model.

        Args:
            encoder: See `fedplug.Broadcaster`.

        Raises:
            fedplug.errors.FedplugError: The encoder is unknown or does not support NumPy arrays.
        """
        self._encoder = encoder
        self._broadcaster = fedplug.Broadcaster(encoder)
        self._versions: dict[int, str] = {}
        self._sent = self._dense = 0

    def received(self, model: ArrayRecord) -> ArrayRecord:
        """Returns the model that the nodes of the round have. ``model`` itself if it has the same bits."""
        sent = version_of({name: read(name, array) for name, array in model.items()})
        if sent == self._broadcaster.version:
            return model
        return ArrayRecord({name: Array(array) for name, array in self._broadcaster.model.items()})

    def send(self, model: ArrayRecord, messages: Iterable[Message]) -> None:
        """Replaces the model in the messages of a round by the parts that their nodes need.

        Args:
            model: The strategy's model. Other arrays in messages are left alone.
            messages: The strategy's messages, each with a `Request`.
        """
        self._broadcaster.publish({name: read(name, array) for name, array in model.items()})
        self._sent = self._dense = 0
        held = dict(self._versions)  # a node may get several messages in a round
        for message in messages:
            if list(message.content.array_records.values()) != [model]:
                continue
            node = message.metadata.dst_node_id
            self._versions.pop(node, None)
            record = _record(self._broadcaster.message(held.get(node)))
            (key,) = message.content.array_records
            message.content = RecordDict({**message.content, key: record})
            self._sent += record.count_bytes()
            self._dense += model.count_bytes()

    def take(self, replies: Iterable[Message]) -> None:
        """Reads the versions that nodes report, and removes these records from the replies."""
        for message in replies:
            if message.has_content() and (told := message.content.config_records.pop(VERSION_KEY, None)):
                version = told.get("version")
                if isinstance(version, str):
                    self._versions[message.metadata.src_node_id] = version

    def add_to(self, metrics: MetricRecord | None) -> MetricRecord:
        """Adds the bytes of the last models sent to the metrics of a strategy."""
        result = MetricRecord() if metrics is None else metrics
        result["fedplug-downlink-bytes"] = self._sent
        result["fedplug-downlink-dense-bytes"] = self._dense
        return result

    def __repr__(self) -> str:
        return repr(self._encoder)


def _record(message: bytes) -> ArrayRecord:
    return ArrayRecord({KEY: Array(dtype="uint8", shape=(len(message),), stype=MODEL_STYPE, data=message)})
