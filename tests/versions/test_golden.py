"""Messages and a model that every later release must read. As a program, this file writes the missing ones.

``golden/NAME-snapshot.message`` brings a receiver to the first version of a model, and
``golden/NAME-changes.message`` to the second. A receiver refuses another model than the message names: a
version is the checksum of all bits. ``golden/received`` is a store with the first version of "auto".
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from published import assert_same_bits, model, opened

import fedplug

GOLDEN = Path(__file__).parent / "golden"
ENCODERS = {
    "auto": "auto",
    "bfloat16": "bfloat16",
    "lossless": "lossless",
    "qsgd": "qsgd(8)",
}


def messages(name: str) -> tuple[bytes, bytes]:
    return (GOLDEN / f"{name}-snapshot.message").read_bytes(), (
        GOLDEN / f"{name}-changes.message"
    ).read_bytes()


@pytest.mark.parametrize("name", ENCODERS)
def test_golden_messages_bring_a_receiver_to_their_versions(name):
    snapshot, changes = messages(name)
    receiver = fedplug.Receiver()
    for message, kind in ((snapshot, "snapshot"), (changes, "changes")):
        receiver.apply(message)
        assert (opened(message)[0].kind, opened(message)[0].version) == (kind, receiver.version)
    if name == "lossless":
        assert_same_bits(receiver.model, model(step=1))


def test_a_receiver_continues_from_a_golden_store(tmp_path):
    snapshot, changes = messages("auto")
    shutil.copytree(GOLDEN / "received", tmp_path / "s")
    with fedplug.open_store(f"sqlite:///{tmp_path}/s") as store:
        receiver = fedplug.Receiver(store, "a")
        assert receiver.version == opened(snapshot)[0].version
        receiver.apply(changes)
        assert receiver.version == opened(changes)[0].version


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in (name for name in ENCODERS if not (GOLDEN / f"{name}-changes.message").exists()):
        server = fedplug.Broadcaster(ENCODERS[name])
        first = server.publish(model())
        (GOLDEN / f"{name}-snapshot.message").write_bytes(server.message())
        server.publish(model(step=1))
        (GOLDEN / f"{name}-changes.message").write_bytes(server.message(first))
    if not (GOLDEN / "received").exists():
        with fedplug.open_store(f"sqlite:///{GOLDEN}/received") as received:
            fedplug.Receiver(received, "a").apply(messages("auto")[0])
