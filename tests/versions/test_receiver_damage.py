"""A Receiver with a damaged folder reports that, or asks for a snapshot; it never has another model."""

from __future__ import annotations

import random
import shutil

import numpy as np

import fedplug
from fedplug.errors import StoreError

MODELS = [{"w": np.full(3000, number, np.float32), "b": np.arange(3.0) + number} for number in range(2)]


def test_a_flipped_bit_anywhere_leaves_the_model_a_snapshot_or_an_error(tmp_path, caplog):
    server, folder, damaged = fedplug.Broadcaster("lossless"), tmp_path / "s", tmp_path / "damaged"
    with fedplug.open_store(f"sqlite:///{folder}") as store:
        receiver = fedplug.Receiver(store, "7")
        for model in MODELS:
            server.publish(model)
            receiver.apply(server.message(receiver.version))
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.stat().st_size]
    files = [path for path in files if (folder / path).is_file()]
    chance, seen = random.Random(0), set()
    for count in range(60):
        shutil.copytree(folder, damaged)
        path = damaged / files[count % len(files)]
        content = bytearray(path.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        try:
            with fedplug.open_store(f"sqlite:///{damaged}") as store:
                receiver = fedplug.Receiver(store, "7")
                seen.add("a model" if receiver.version else "a snapshot")
                assert receiver.version in (None, server.version)
                model = receiver.apply(server.message(receiver.version))
        except StoreError:
            seen.add("an error")
        else:
            for name, array in MODELS[1].items():
                np.testing.assert_array_equal(model[name], array)
        shutil.rmtree(damaged)
    assert "a model" in seen
    assert seen - {"a model"}
    assert ("a snapshot" in seen) == ("the stored model is damaged" in caplog.text)
