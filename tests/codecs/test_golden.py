"""States of clients that every later release must continue. As a program, this file writes the missing ones.

Each ``golden/NAME.safetensors`` has the state after two rounds, the update of the third, and its payloads.
``golden/clients`` is a store in which a payload of client "a" is not settled.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import numpy as safetensors

import fedplug

GOLDEN = Path(__file__).parent / "golden"
EXPRESSIONS = {
    "auto": "auto",
    "budget": "budget('topk(0.3)', 500)",
    "decay": "topk(0.1, decay=0.5)",
    "ef21": "ef21('topk(0.1)')",
    "model": "topk(0.1, scope='model') | qsgd(8)",
    "sign": "sign",
    "sixteen_bits": "qsgd(4)",
}
CLIENTS = "topk(0.1) | qsgd(4)"


def update(seed: int, dtype: str = "float32") -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed).standard_normal
    return {"kernel": draw((20, 30)).astype(dtype), "bias": draw(30).astype(dtype)}


def split(path: Path) -> dict[str, dict[str, np.ndarray]]:
    """Returns the arrays of a file by the part of their name before the first slash."""
    parts: dict[str, dict[str, np.ndarray]] = {"state": {}, "update": {}, "payload": {}}
    for key, array in safetensors.load_file(path).items():
        part, _, name = key.partition("/")
        parts[part][name] = array
    return parts


def joined(**parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{part}/{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


def as_arrays(payloads: dict[str, bytes]) -> dict[str, np.ndarray]:
    return {name: np.frombuffer(payload, np.uint8) for name, payload in payloads.items()}


def assert_same_payloads(payloads, expected):
    assert payloads == {name: array.tobytes() for name, array in expected.items()}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_client_continues_from_a_golden_state_with_the_same_bytes(name):
    golden = split(GOLDEN / f"{name}.safetensors")
    payloads, _ = fedplug.codec(EXPRESSIONS[name]).encode_model(golden["update"], golden["state"], 2)
    assert_same_payloads(payloads, golden["payload"])


def test_a_client_in_a_golden_store_settles_its_payload_and_continues(tmp_path):
    shutil.copytree(GOLDEN / "clients", tmp_path / "s")
    golden = split(GOLDEN / "clients.safetensors")
    with fedplug.open_store(f"sqlite:///{tmp_path}/s") as store:
        client = fedplug.ClientCodec(fedplug.codec(CLIENTS), store, "a", training="digits")
        assert client.settle(client.pending)
        payloads, _ = client.encode_model(golden["update"], 2)
    assert_same_payloads(payloads, golden["payload"])


def write_state(name: str) -> None:
    codec, state = fedplug.codec(EXPRESSIONS[name]), None
    dtype = "float16" if name == "sixteen_bits" else "float32"
    for round_num in range(2):
        _, state = codec.encode_model(update(round_num, dtype), state, round_num)
    payloads, _ = codec.encode_model(update(2, dtype), state, 2)
    parts = joined(state=state, update=update(2, dtype), payload=as_arrays(payloads))
    safetensors.save_file(parts, GOLDEN / f"{name}.safetensors")


def write_store() -> None:
    with fedplug.open_store(f"sqlite:///{GOLDEN}/clients") as store:
        client = fedplug.ClientCodec(fedplug.codec(CLIENTS), store, "a", training="digits")
        for round_num in range(2):
            client.settle(client.pending)
            client.encode_model(update(round_num), round_num)
    state = None
    for round_num in range(3):
        payloads, state = fedplug.codec(CLIENTS).encode_model(update(round_num), state, round_num)
    parts = joined(update=update(2), payload=as_arrays(payloads))
    safetensors.save_file(parts, GOLDEN / "clients.safetensors")


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for missing in (name for name in EXPRESSIONS if not (GOLDEN / f"{name}.safetensors").exists()):
        write_state(missing)
    if not (GOLDEN / "clients.safetensors").exists():
        write_store()
