"""Models whose arrays are sent in every way: encoded, by exact differences, and not at all."""

from __future__ import annotations

import numpy as np

from fedplug.wire.message import Contents, MessageReader, write


def model(seed: int = 0, step: float = 0.0) -> dict[str, np.ndarray]:
    """Returns a model; a step moves all floats but the frozen ones by small random amounts."""
    start, move = np.random.default_rng(seed), np.random.default_rng([seed, round(step * 1e6)])

    def weights(*shape: int) -> np.ndarray:
        drift = 1e-3 * step * move.standard_normal(shape)
        return (start.standard_normal(shape) * 0.05 + drift).astype(np.float32)

    frozen = start.standard_normal((40, 50)).astype(np.float32)
    return {
        "conv.weight": weights(64, 30),
        "bn.running_var": np.abs(weights(128)) + 1,
        "bn.num_batches_tracked": np.asarray(int(step) + 2**40),
        "frozen.weight": frozen,
        "mask": np.where(np.tri(9, dtype=bool), np.float32(0), np.float32(-np.inf)),
        "linear.weight": weights(300, 10),
        "linear.bias": weights(10),
    }


def opened(message: bytes) -> tuple[Contents, dict[str, memoryview]]:
    """Returns the list of a message, and its payloads by name."""
    reader = MessageReader(message)
    contents = reader.contents()
    return contents, reader.payloads(contents.sent)


def closed(contents: Contents, payloads) -> bytes:
    """Returns the message of a list, and payloads by name."""
    return b"".join(write(contents, payloads.values()))


def assert_same_bits(found, expected):
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == array.tobytes(), name
