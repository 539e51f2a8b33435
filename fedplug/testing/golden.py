"""Golden payloads: containers that are written once and decoded by every later release.

``<folder>/<wire id, with "-" for "/">/<name>.payload`` is a container of `fedplug.wire`. ``<name>.json`` has
the encoder's configuration and the decoded values as little-endian bytes, on one line::

    {"wire_id": "topk/1", "dtype": "float32", "shape": [10], "config": {...}, "decoded": "<hex>"}

``python -m fedplug.testing.golden FOLDER "topk(0.01)"`` adds payloads. Nothing changes an existing one.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import fedplug.wire as wire
from fedplug.errors import PayloadError

if TYPE_CHECKING:
    from fedplug.encoders.base import Encoder

__all__ = ["Vector", "add", "read"]

_SPECS = (("float32", (10,)), ("float32", ()), ("float32", (0,)), ("float64", (3, 5)), ("bfloat16", (33,)))


@dataclass(frozen=True)
class Vector:
    """A golden payload with a valid container that matches its description."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    config: Mapping[str, object]
    body: bytes
    decoded: NDArray[np.generic]


def read(folder: Path, wire_id: str) -> Iterator[Vector]:
    """Reads the golden payloads of a wire id, sorted by name.

    Raises:
        PayloadError: A container is damaged or differs from its description.
    """
    for description in sorted(_folder(folder, wire_id).glob("*.json")):
        facts = json.loads(description.read_text(encoding="utf-8"))
        container = wire.unframe(description.with_suffix(".payload").read_bytes())
        found = (container.wire_id, container.dtype, list(container.shape))
        said = (facts["wire_id"], facts["dtype"], facts["shape"])
        if found != said or container.wire_id != wire_id:
            raise PayloadError(f"{description} describes {said} under {wire_id!r}; the payload is {found}")
        decoded = np.frombuffer(bytes.fromhex(facts["decoded"]), _numpy_dtype(container.dtype))
        yield Vector(
            name=f"{wire_id} {description.stem}",
            dtype=container.dtype,
            shape=container.shape,
            config=facts["config"],
            body=container.body,
            decoded=decoded.reshape(container.shape),
        )


def add(folder: Path, encoder: Encoder, dtype: str, shape: tuple[int, ...]) -> Path:
    """Encodes a normally distributed tensor and records the payload.

    Returns:
        The path of the description.

    Raises:
        FileExistsError: The payload exists. Golden payloads never change.
    """
    from fedplug.testing import executions  # reading needs no encoder

    on = executions.installed(encoder.capabilities.executes_on)[0]
    spec = on.spec(shape, dtype)
    x = on.tensor("normal", spec)
    payload, _ = encoder.encode(x, encoder.init_state(spec), on.round_num(0))
    body = on.numpy(encoder.to_wire(payload, spec)).tobytes()
    facts = {
        "wire_id": encoder.wire_id,
        "dtype": dtype,
        "shape": list(shape),
        "config": encoder.get_config(),
        "decoded": on.numpy(encoder.decode(payload, spec)).tobytes().hex(),
    }
    place = _folder(folder, encoder.wire_id)
    place.mkdir(parents=True, exist_ok=True)
    description = place / f"{dtype}-{'x'.join(map(str, shape)) or 'scalar'}.json"
    with description.open("x", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
    with description.with_suffix(".payload").open("xb") as file:
        file.write(wire.frame(body, encoder.wire_id, dtype, shape))
    return description


def _folder(folder: Path, wire_id: str) -> Path:
    return folder / re.sub(r"[^A-Za-z0-9_.-]", "-", wire_id)


def _numpy_dtype(name: str) -> np.dtype[np.generic]:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name).newbyteorder("<")


def main() -> None:
    """Adds golden payloads for an encoder to a folder."""
    from fedplug.encoders.pipeline.pipeline import as_tensor_encoder

    parser = argparse.ArgumentParser(prog="python -m fedplug.testing.golden", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where golden payloads are kept, for instance tests/golden")
    parser.add_argument("encoder", help="an expression, for instance 'topk(0.3)'")
    arguments = parser.parse_args()
    encoder = as_tensor_encoder(arguments.encoder, "what writes golden payloads")
    for dtype, shape in (each for each in _SPECS if each[0] in encoder.capabilities.dtypes):
        print(add(arguments.folder, encoder, dtype, shape))


if __name__ == "__main__":
    main()
