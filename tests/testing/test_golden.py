"""Tests that golden payloads are written once and never changed, and that every built-in encoder has some."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedplug
from fedplug.encoders import Encoder, Identity
from fedplug.errors import PayloadError
from fedplug.registry.resolve import catalog
from fedplug.testing import golden

FOLDER = Path(__file__).parents[1] / "golden"
EXAMPLES = [
    example
    for entry in catalog().entries
    if entry.builtin and entry.kind == "encoder"
    for example in entry.examples
    if isinstance(fedplug.encoder(example), Encoder)  # not those of whole models
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_built_in_encoder_has_golden_payloads(example):
    wire_id = fedplug.encoder(example).wire_id
    assert list(golden.read(FOLDER, wire_id)), "add some with `python -m fedplug.testing.golden`"


def test_a_golden_payload_is_decoded_exactly(tmp_path):
    golden.add(tmp_path, Identity(), "bfloat16", (2, 3))
    (vector,) = golden.read(tmp_path, "identity/1")
    assert (vector.dtype, vector.shape, vector.config) == ("bfloat16", (2, 3), {})
    assert vector.decoded.tobytes() == vector.body


def test_adding_never_changes_a_golden_payload(tmp_path):
    description = golden.add(tmp_path, Identity(), "float32", (4,))
    before = description.with_suffix(".payload").read_bytes()
    with pytest.raises(FileExistsError):
        golden.add(tmp_path, Identity(), "float32", (4,))
    assert description.with_suffix(".payload").read_bytes() == before


def test_a_payload_that_differs_from_its_description_is_refused(tmp_path):
    description = golden.add(tmp_path, Identity(), "float32", (4,))
    description.write_text(description.read_text().replace("float32", "int32"))
    with pytest.raises(PayloadError, match="int32"):
        list(golden.read(tmp_path, "identity/1"))
