"""The encoder suite: every check fails for an encoder made to break it, and for no other."""

from __future__ import annotations

import pytest
import tensorflow as tf

from fedplug.registry.specs import Capabilities
from fedplug.testing import EncoderSuite, golden

BAD_PLUGINS = "encoders"


@pytest.fixture(scope="module")
def suite_of(tmp_path_factory, bad_plugins):
    """A suite for an encoder class that tries few tensors, so that many encoders can be tried."""
    folder = tmp_path_factory.mktemp("golden")
    good = bad_plugins(BAD_PLUGINS).GOOD
    for encoder in good:
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


def test_a_good_encoder_passes_every_check(good, suite_of, failures):
    assert not failures(suite_of(good, tff=True))


def test_a_bad_encoder_fails_exactly_the_check_it_was_made_for(check, bad, suite_of, failures):
    failed = failures(suite_of(bad, tff="tff" in check))
    assert set(failed) == {check}, failed
    assert all(failed.values())


def test_it_is_tried_with_the_dtypes_it_declares_unless_the_suite_names_some(bad_plugins):
    class OnlyFloat32(bad_plugins(BAD_PLUGINS).Whole):
        capabilities = Capabilities(needs_client_state=True, dtypes=("float32",))

    class Declared(EncoderSuite):
        def make_encoder(self):
            return OnlyFloat32()

    class Named(Declared):
        dtypes = (tf.float16, tf.bfloat16)

    assert {spec.dtype for spec in Declared().specs()} == {tf.float32}
    assert {spec.dtype for spec in Named().specs()} == {tf.float16, tf.bfloat16}


def test_there_is_a_bad_encoder_for_every_check(bad_plugins):
    # What this check tests, the container, is fedplug's own: an encoder cannot get it wrong.
    own = {"test_payloads_of_another_encoder_or_tensor_are_refused"}
    assert {check for check, _ in bad_plugins(BAD_PLUGINS).BAD} == set(EncoderSuite.checks()) - own
