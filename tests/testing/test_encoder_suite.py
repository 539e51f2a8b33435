"""Tests that each encoder check fails for the encoder made to break it, and for no other."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow as tf

from fedplug.registry import resolve
from fedplug.registry.specs import Capabilities
from fedplug.testing import (
    CannotRun,
    EncoderSuite,
    NotApplicable,
    encoder_wire,
    executions,
    golden,
    memory,
    run,
)
from fedplug.testing.execution import NumPy

BAD_PLUGINS = ("encoders",)
PLUGIN = """
from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import EXECUTIONS, EncoderSpec

@hookimpl
def fedplug_encoders():
    target = "bad_encoders:ReadsAnotherConfiguration"
    facts = {"wire_id": "scaled/1", "executes_on": EXECUTIONS}
    return [EncoderSpec(name="whole", target=target, summary="for a test", **facts)]
"""


@pytest.fixture(scope="module")
def suite_of(tmp_path_factory, bad_plugins):
    """Returns a function that makes a suite with few tensors for an encoder class, to keep the tests fast."""
    folder = tmp_path_factory.mktemp("golden")
    good = bad_plugins("encoders").GOOD
    for encoder in {encoder.wire_id: encoder for encoder in good}.values():
        golden.add(folder, encoder(), "float32", (3, 5))
    recorded = {encoder.wire_id for encoder in good}

    def make(encoder, tff=False):
        class Suite(EncoderSuite):
            shapes = ((7,),)
            dtypes = (tf.float32,)
            golden = folder if encoder.wire_id in recorded else None
            check_tff = tff
            trials = 300

            def make_encoder(self):
                return encoder()

        return Suite

    return make


@pytest.fixture(scope="module", autouse=True)
def _read_by_wire_id(tmp_path_factory, bad_plugins):
    """Installs a distribution that declares the reader of one of the encoders."""
    site = tmp_path_factory.mktemp("site")
    (site / "bad_plugin.py").write_text(PLUGIN)
    info = site / "bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{resolve.GROUP}]\nbad = bad_plugin\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setitem(sys.modules, "bad_encoders", bad_plugins("encoders"))
        resolve.catalog.cache_clear()
        yield
    sys.modules.pop("bad_plugin", None)
    resolve.catalog.cache_clear()


@pytest.fixture(autouse=True)
def _few_damaged_payloads(request, monkeypatch):
    """Tries a quarter of the random damages, and few of all kinds where a check without damages must fail."""
    check = request.getfixturevalue("check") if "check" in request.fixturenames else "hostile"
    for count in ("_FLIPS", "_CUTS", "_RANDOM"):
        monkeypatch.setattr(encoder_wire, count, getattr(encoder_wire, count) // 4)
    if "hostile" not in check and "byte" not in check:
        monkeypatch.setattr(encoder_wire, "_COUNTED_BYTES", 1)
        monkeypatch.setattr(encoder_wire, "_FLIPS", 2)


def test_a_good_encoder_passes_every_check(good, suite_of, failures):
    assert not failures(suite_of(good, tff=True))


def test_a_bad_encoder_fails_exactly_the_check_it_was_made_for(check, bad, suite_of, failures):
    if bad.__name__ == "BelievesCounts":
        memory.of_tensors(lambda: None)  # skips if TensorFlow does not measure its memory on this processor
    failed = failures(suite_of(bad, tff="tff" in check))
    assert set(failed) == {check}, failed
    assert all(failed.values())


def test_an_error_about_a_nan_names_the_tensor(bad_plugins, suite_of, failures):
    class DividesByZero(bad_plugins("encoders").OnNumPy):
        def encode(self, x, state, round_num):
            with np.errstate(all="ignore"):
                largest = np.max(np.abs(x))
                return super().encode(x / largest * largest, state, round_num)

    found = failures(suite_of(DividesByZero))
    assert found
    finite = "test_decoded_values_are_finite_and_have_shape_and_dtype_of_the_input"
    assert found[finite].startswith(
        "float32[7] (zeros) is decoded with a NaN or an infinity, as has 'values' of"
    )
    assert ", for float32[7] (zeros)" in found["test_sent_values_are_received"]


def test_it_is_tried_with_the_dtypes_it_declares_unless_the_suite_names_some(bad_plugins):
    class OnlyFloat32(bad_plugins("encoders").Whole):
        capabilities = Capabilities(needs_client_state=True, dtypes=("float32",))

    class Declared(EncoderSuite):
        def make_encoder(self):
            return OnlyFloat32()

    class Named(Declared):
        dtypes = (tf.float16, tf.bfloat16)

    class ByName(Declared):
        dtypes = ("float16", np.float64)

    assert {spec.dtype for spec in Declared().specs()} == {tf.float32}
    assert {spec.dtype for spec in Named().specs()} == {tf.float16, tf.bfloat16}
    assert {spec.dtype for spec in ByName().specs()} == {tf.float16, tf.float64}


def test_a_residual_of_a_16_bit_tensor_must_be_float32(bad_plugins, suite_of, failures):
    class SixteenBits(suite_of(bad_plugins("encoders").Whole)):
        dtypes = (tf.bfloat16,)

    (message,) = {
        reason.split("the residual of ")[-1].split("]")[-1]
        for check, reason in failures(SixteenBits).items()
        if "add_up" in check
    }
    assert "is bfloat16; it must be float32, see fedplug.ops.wide_spec" in message


def test_encoders_without_numpy_are_tried_on_tensors_only(bad_plugins, suite_of):
    plugins = bad_plugins("encoders")
    names = {
        encoder: [str(each) for each in suite_of(encoder)().executions()]
        for encoder in (plugins.Whole, plugins.Everywhere, plugins.OnNumPy)
    }
    assert list(names.values()) == [["tensorflow"], ["numpy", "tensorflow"], ["numpy"]]
    reasons = {result.check: result.reason for result in run(suite_of(plugins.OnNumPy))}
    check = "test_a_graph_equals_eager_execution"
    assert reasons[check] == "it does not declare that it executes on tensorflow"


def test_checks_of_a_declared_execution_that_is_not_here_did_not_run(bad_plugins, suite_of, monkeypatch):
    monkeypatch.setattr(executions, "installed", lambda declared: (NumPy(),))
    suite = suite_of(bad_plugins("encoders").Everywhere)()
    assert suite.unavailable() == {"tensorflow": "TensorFlow is not installed"}
    for check in ("numpy_arrays_and_tensors_give_the_same_bits", "a_graph_equals_eager_execution"):
        with pytest.raises(CannotRun, match="TensorFlow is not installed"):
            getattr(suite, f"test_{check}")()
    with pytest.raises(NotApplicable, match="on NumPy arrays only"):
        suite_of(bad_plugins("encoders").OnNumPy)().test_numpy_arrays_and_tensors_give_the_same_bits()


def test_there_is_a_bad_encoder_for_every_check(bad_plugins):
    assert {check for check, _ in bad_plugins("encoders").BAD} == set(EncoderSuite.checks())
