"""The records that strategy and mod exchange in Flower's messages.

The server's message has a `Request` beside the model, under `KEY`. The reply of a client that was asked for
an update has a `Reply` under the same key. Its trained arrays are replaced by one `Array` with the payloads
of all of them as one message (`fedplug.wire.message`), without the list of names, which the server knows:
Flower sends every array as two objects with a request each, which would cost more than most payloads.

Under SecAgg+, the `Request` is under `MASKED_KEY`, with a message for all clients.

With a compressed model, the server's message has instead of the model one `Array` with the message of a
`fedplug.Broadcaster`. The reply has the client's version under `VERSION_KEY`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedplug.wire.message import MessageReader, write_payloads

__all__ = ["KEY", "MASKED_KEY", "MODEL_STYPE", "VERSION_KEY", "Reply", "Request", "is_compressed"]

T = TypeVar("T")

KEY = "fedplug"
"""The key of the records in a message, and of the array of payloads."""

FORMAT = 1
"""The format version. It increases when an older package would misread a record."""

STYPE = "fedplug: CompressMod() first, Compressed() outermost"
"""The serialization of the array of payloads, in the order of the model.

Flower's error for code that cannot read an array consists of this name, so the name says what to change.
"""

MASKED_KEY = "fedplug-masked"
"""The key of the request for an update under secure aggregation."""

VERSION_KEY = "fedplug-model"
"""The key of the record in a reply with the version of the model that the client holds."""

MODEL_STYPE = "fedplug: CompressMod() goes first in ClientApp(mods=[...])"
"""The serialization of a compressed model: the message of a `fedplug.Broadcaster`."""

_TRAINING = re.compile(r"[0-9a-f]{16}")
_LONGEST_RECEIPT = 128


@dataclass(frozen=True)
class Request:
    """A request to a client with the mod: for a compressed update, or only to read a compressed model.

    Attributes:
        training: The unique id of the training, 16 hexadecimal digits. Clients start with a new residual.
        accepted: The last accepted receipt of this node. For a node that is new to the server: those of the
            nodes in ``gone``, because it may be one of them after a restart.
        gone: Ids of nodes that are no longer connected.
        encoder: The encoder of all rounds of a training, from `fedplug.to_config`. None: no update is wanted.
        min_size: Minimum number of elements. Smaller arrays are sent uncompressed.
        round_num: The server's round, from 1.
        values: Positions of the arrays whose trained values are sent exactly: statistics, integers and
            booleans. For all others the difference is sent.
        narrow: Positions of the arrays that a strategy made float64. Their differences stay float32.
        message: The message of a `fedplug.secure.MaskedSum`, under secure aggregation.
    """

    training: str
    accepted: Sequence[str] = ()
    gone: Sequence[str] = ()
    encoder: Mapping[str, object] | None = None
    min_size: int = 0
    round_num: int = 0
    values: Sequence[int] = ()
    narrow: Sequence[int] = ()
    message: bytes = b""

    def write(self) -> ConfigRecord:
        """Returns the record for `read`."""
        record = ConfigRecord({"format": FORMAT, "training": self.training})
        if self.encoder is not None:
            record["encoder"] = json.dumps(self.encoder)
            record["min-size"], record["round"] = self.min_size, self.round_num
        lists: dict[str, list[str] | list[int]] = {
            "accepted": list(self.accepted),
            "gone": list(self.gone),
            "values": list(self.values),
            "narrow": list(self.narrow),
        }
        if self.message:
            record["message"] = self.message
        for key, found in lists.items():
            if found:  # the bytes of an empty list are an error in flwr's `count_bytes`
                record[key] = found
        return record

    @classmethod
    def read(cls, content: RecordDict, key: str = KEY) -> Request | None:
        """Reads the server's request. Returns None if there is none.

        Raises:
            ValueError: The request is invalid for this release.
        """
        record = content.config_records.get(key)
        if record is None:
            return None
        asks = "encoder" in record
        return cls(
            training=_training(record),
            accepted=_texts(record.get("accepted", [])),
            gone=_texts(record.get("gone", [])),
            encoder=json.loads(_field(record, "encoder", str)) if asks else None,
            min_size=_field(record, "min-size", int) if asks else 0,
            round_num=_field(record, "round", int) if asks else 0,
            values=_places(record.get("values", [])),
            narrow=_places(record.get("narrow", [])),
            message=_field(record, "message", bytes) if "message" in record else b"",
        )


@dataclass(frozen=True)
class Reply:
    """A compressed update.

    Attributes:
        payloads: The payloads by array name, in the order of the model.
        receipt: The name of this update for the server's confirmation.
        dense_bytes: The bytes of the trained arrays by Flower's count.
    """

    payloads: Mapping[str, bytes]
    receipt: str
    dense_bytes: int

    def write(self, content: RecordDict) -> None:
        """Replaces the one `ArrayRecord` in the content of a message by this update."""
        (key,) = content.array_records
        data = b"".join(write_payloads(self.payloads.values()))
        shape = (self.dense_bytes,)  # in Flower, the shape is that of what the bytes are read as
        content[key] = ArrayRecord({KEY: Array(dtype="uint8", shape=shape, stype=STYPE, data=data)})
        content[KEY] = ConfigRecord({"format": FORMAT, "receipt": self.receipt})

    @classmethod
    def read(cls, content: RecordDict, names: Sequence[str]) -> Reply:
        """Reads a client's untrusted reply. The decoder checks the contents of the payloads.

        Args:
            content: The content of a message for which `is_compressed` is true.
            names: The names of the model's arrays, in order.

        Raises:
            ValueError: The reply is not an update of such a model.
        """
        record = content.config_records[KEY]
        if record.get("format") != FORMAT:
            raise ValueError(f"it is in format {record.get('format')!r}, not {FORMAT}")
        receipt = record.get("receipt")
        if not isinstance(receipt, str) or not 0 < len(receipt) <= _LONGEST_RECEIPT:
            raise ValueError("it has no receipt")
        array = _payloads(content)
        return cls(MessageReader(array.data).payloads(names), receipt, array.shape[0])


def is_compressed(content: RecordDict) -> bool:
    """Returns whether a client answered with a `Reply` rather than in Flower's own form."""
    return KEY in content.config_records


def _training(record: ConfigRecord) -> str:
    """Returns the training of a server's record, after a check of its format."""
    if record.get("format") != FORMAT:
        raise ValueError(
            f"the server's request has format {record.get('format')!r}, and this release reads {FORMAT}; "
            "install the same release of fedplug-flower on both sides"
        )
    training = _field(record, "training", str)
    if not _TRAINING.fullmatch(training):
        raise ValueError(f"the server's training is {training!r}, not 16 hexadecimal digits")
    return training


def _payloads(content: RecordDict) -> Array:
    arrays = [array for record in content.array_records.values() for array in record.values()]
    if len(arrays) != 1 or arrays[0].stype != STYPE or list(map(type, arrays[0].shape)) != [int]:
        raise ValueError("it does not hold one array of payloads")
    return arrays[0]


def _places(found: object) -> list[int]:
    if not isinstance(found, list) or not all(type(place) is int and place >= 0 for place in found):
        raise ValueError(f"the server's request names arrays by {found!r}, which are no places")
    return found


def _field(record: ConfigRecord, key: str, kind: type[T]) -> T:
    value = record.get(key)
    if type(value) is not kind:
        raise ValueError(f"the server's request has {value!r} as {key!r}; it should be {kind.__name__}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"the server's request names nodes or receipts as {value!r}, not by a list of texts")
    return tuple(value)
