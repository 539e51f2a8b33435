"""The encoder suite: every check fails for an encoder made to break it, and for no other."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import tensorflow as tf

from fedplug.testing import EncoderSuite, golden, run


def _load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / f"bad_plugins/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


encoders = _load("encoders")


@pytest.fixture(scope="module")
def golden_folder(tmp_path_factory):
    """Golden payloads that the good encoders wrote."""
    folder = tmp_path_factory.mktemp("golden")
    for encoder in encoders.GOOD:
        golden.add(folder, encoder(), "float32", (3, 5))
    return folder


def suite_of(encoder, folder, tff=False):
    """A suite that tries few tensors, so that many encoders can be tried."""

    class Suite(EncoderSuite):
        shapes = ((7,),)
        dtypes = (tf.float32,)
        golden = folder if encoder.wire_id in ("whole/1", "grid/1") else None
        check_tff = tff
        trials = 300

        def make_encoder(self):
            return encoder()

    return Suite


def failures(suite):
    return {result.check: result.reason for result in run(suite) if result.status == "fail"}


@pytest.mark.parametrize("encoder", encoders.GOOD)
def test_a_good_encoder_passes_every_check(encoder, golden_folder):
    assert not failures(suite_of(encoder, golden_folder, tff=True))


@pytest.mark.parametrize(("check", "encoder"), encoders.BAD, ids=lambda value: getattr(value, "__name__", ""))
def test_a_bad_encoder_fails_exactly_the_check_it_was_made_for(check, encoder, golden_folder):
    failed = failures(suite_of(encoder, golden_folder, tff="tff" in check))
    assert set(failed) == {check}, failed
    assert all(failed.values())


def test_there_is_a_bad_encoder_for_every_check():
    # What this check tests, the container, is fedplug's own: an encoder cannot get it wrong.
    own = {"test_payloads_of_another_encoder_or_tensor_are_refused"}
    assert {check for check, _ in encoders.BAD} == set(EncoderSuite.checks()) - own
