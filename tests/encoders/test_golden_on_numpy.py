"""Tests that golden payloads, including those of plugins, decode to the recorded values on NumPy arrays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedplug
from fedplug.testing import expect, golden

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "tests" / "golden", *sorted(ROOT.glob("plugins/*/tests/golden"))]
PAYLOADS = sorted(path for folder in FOLDERS for path in folder.glob("*/*.json"))


def vector_of(description):
    wire_id = json.loads(description.read_text(encoding="utf-8"))["wire_id"]
    vectors = golden.read(description.parents[1], wire_id)
    (found,) = (vector for vector in vectors if vector.name == f"{wire_id} {description.stem}")
    return found


@pytest.mark.parametrize("description", PAYLOADS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_payload_is_decoded_without_a_configuration(description):
    vector = vector_of(description)
    decoded = fedplug.decode(description.with_suffix(".payload").read_bytes())
    expect.same_bits(vector.name, decoded, vector.decoded)


def test_there_are_golden_payloads_of_plugins_too():
    assert len({path.parents[1] for path in PAYLOADS}) == 2
