"""Tests that no payload is decoded by an encoder that did not write it, because two have one wire id."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug.codecs import decoding
from fedplug.codecs.wire_ids import reader_of
from fedplug.encoders import Identity, Pipeline
from fedplug.encoders.coders import Rice
from fedplug.encoders.quantizers import QSGD
from fedplug.errors import PayloadError, PluginError
from fedplug.registry import resolve
from fedplug.registry.specs import EncoderSpec

X = np.arange(4, dtype=np.float32)
PLUGIN = """
from fedplug.encoders import Identity
from fedplug.encoders.coders import Rice
from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import EXECUTIONS, EncoderSpec

class Acme({base}):
    name = "{name}"
    wire_id = "{wire_id}"

@hookimpl
def fedplug_encoders():
    facts = {{"summary": "", "wire_id": "{declared}", "executes_on": EXECUTIONS}}
    return [EncoderSpec(name="{name}", target="{module}:Acme", **facts)]
"""


@pytest.fixture
def clash(install):
    """Returns ``clash(name, wire_id)``: a plugin with an encoder of that name and wire id."""

    def forget():
        for cached in (reader_of, decoding._plan):
            cached.cache_clear()

    def make(name, wire_id, declared=None, base="Identity"):
        facts = {"module": f"clash_{name}", "name": name, "wire_id": wire_id, "declared": declared or wire_id}
        install(f"clash-{name}", PLUGIN.format(base=base, **facts))
        forget()

    yield make
    forget()


def test_payloads_of_a_wire_id_of_two_plugins_are_refused_with_both(clash):
    clash("one", "shared/1")
    payload, _ = fedplug.codec("one").encode(X)
    assert fedplug.decode(payload).tolist() == X.tolist()
    clash("two", "shared/1")
    with pytest.raises(
        PayloadError, match=r"'one' of clash-one 1\.0 and 'two' of clash-two 1\.0: `pip unins"
    ):
        fedplug.decode(payload)
    assert [entry.status for entry in resolve.catalog().problems()] == ["wire clash"] * 2
    with pytest.raises(PayloadError, match="clash-two"):
        fedplug.decode(fedplug.codec("two").encode(X)[0])


@pytest.mark.parametrize(
    ("wire_id", "base", "owner"), [("qsgd/1", "Identity", "qsgd"), ("rice/1", "Rice", "rice")]
)
def test_a_built_in_encoder_or_stage_keeps_its_wire_id(clash, wire_id, base, owner):
    clash("mine", wire_id, base=base)
    with pytest.raises(PluginError, match=f"{wire_id}' is declared by '{owner}' of fedplug .* and 'mine' of"):
        fedplug.encoder("mine")
    assert fedplug.decode(fedplug.codec("topk(count=2) | qsgd(4)").encode(X)[0]).shape == (4,)


def test_a_class_must_have_the_wire_id_that_is_declared_for_it(clash):
    clash("mine", "qsgd/1", declared="mine/1")
    with pytest.raises(PluginError, match="whose wire id is 'qsgd/1', not the declared 'mine/1'"):
        fedplug.encoder("mine")


class DecodesDifferently(QSGD):
    name = "different"

    def decode(self, code, count, dtype):
        return 2 * super().decode(code, count, dtype)


class EncodesDifferently(Identity):
    name = "same_layout"

    def encode(self, x, state, round_num):
        return super().encode(-x, state, round_num)


class Borrows(Identity):
    name = "borrows"
    wire_id = "qsgd/1"


class OtherIndices(Rice):
    name = "other_indices"

    def decode(self, code, count, size):
        return super().decode(code, count, size)


@pytest.mark.parametrize(
    "encoder",
    [Borrows(), Pipeline([DecodesDifferently(4)]), Pipeline(["topk(0.5)", "qsgd(4)", OtherIndices()])],
)
def test_an_encoder_whose_payloads_another_class_would_decode_is_refused(encoder):
    with pytest.raises(PluginError, match=r"would decode its payloads; give it a wire id of its own"):
        fedplug.codec(encoder).encode(X)


def test_an_encoder_that_writes_the_layout_of_another_one_is_decoded_by_it():
    payload, _ = fedplug.codec(EncodesDifferently()).encode(X)
    assert fedplug.decode(payload).tolist() == [0, -1, -2, -3]


@pytest.mark.parametrize("wire_id", ["acme", "acme/x", "a+b/1", "sparse/1", "changes/1", 1, "zwölf/1"])
def test_a_declared_wire_id_is_one_part_with_a_number(wire_id):
    with pytest.raises(PluginError, match="EncoderSpec 'acme': the wire id"):
        EncoderSpec(name="acme", target="acme:Acme", summary="", wire_id=wire_id)
