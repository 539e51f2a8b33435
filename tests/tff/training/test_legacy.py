"""Stores of release 0.1, where stages were encoders of their own; it wrote what is in ``yesterday/``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fedplug import Trainer, encoder, from_config, open_store
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import StoreMismatchError
from fedplug.stores.memory import MemoryStore
from fedplug.tff.training import legacy

YESTERDAY = Path(__file__).parent / "yesterday"
SIGNATURES = json.loads((YESTERDAY / "signatures.json").read_text(encoding="utf-8"))
SPECS = [tf.TensorSpec([100, 1], tf.float32, "kernel"), tf.TensorSpec([1], tf.float32, "bias")]


def signature_of(written, **more):
    made = ModelEncoder(encoder(written), SPECS, min_size=0).get_config()
    return {"process": "fed_avg", "encoder": made, "broadcast_encoder": None, **more}


@pytest.mark.parametrize("case", SIGNATURES, ids=lambda case: str(case["written_as"]))
def test_a_signature_of_release_0_1_means_the_encoder_that_it_was_written_for(case):
    store = MemoryStore()
    kept = {"process": "fed_avg", "encoder": case["signature"], "broadcast_encoder": None}
    store.open_process("mine", kept)
    assert legacy.open_process(store, "mine", signature_of(case["written_as"])).signature == kept


@pytest.mark.parametrize(("key", "value"), [("min_size", 1), ("wire_ids", ["other/1", "other/1"])])
def test_another_encoder_is_refused(key, value):
    store = MemoryStore()
    asked = signature_of("qsgd(8)")
    store.open_process("mine", {**asked, "encoder": {**asked["encoder"], key: value}})
    with pytest.raises(StoreMismatchError, match=f"encoder.{key}"):
        legacy.open_process(store, "mine", asked)


def test_what_differs_is_named_in_the_terms_of_today():
    store = MemoryStore()
    store.open_process("mine", {"process": "fed_avg", "encoder": SIGNATURES[0]["signature"]})
    with pytest.raises(StoreMismatchError, match=r"fraction is 0\.1 in the store and 0\.2 here"):
        legacy.open_process(store, "mine", signature_of("topk(0.2)"))


def test_a_training_with_a_broadcast_of_an_earlier_release_is_refused_and_not_misread():
    store, asked = MemoryStore(), signature_of("topk(0.1)")
    earlier = {**asked, "broadcast_encoder": asked["encoder"], "client_state": "<broadcast=int64>"}
    store.open_process("mine", earlier)
    now = {**earlier, "broadcast_encoder": {**asked["encoder"], "snapshot": None}, "client_state": "<...>"}
    with pytest.raises(StoreMismatchError, match="finish it with that release, or begin again"):
        legacy.open_process(store, "mine", now)


def test_an_encoder_that_is_not_installed_is_named_as_the_store_does():
    store = MemoryStore()
    kept = {"encoder": "gone", "config": {}, "wire_ids": ["gone/1"], "min_size": 0}
    store.open_process("mine", {"encoder": kept, "broadcast_encoder": None, "distributions": ["gone-codec"]})
    with pytest.raises(StoreMismatchError, match="made with gone-codec, which is not installed"):
        legacy.open_process(store, "mine", signature_of("topk(0.1)"))


def test_a_training_of_release_0_1_goes_on(build, client_data, tmp_path):
    shutil.copytree(YESTERDAY / "store", tmp_path / "store")
    process = build("topk(0.1)")
    with open_store(f"sqlite:///{tmp_path}/store") as store:
        resumed = Trainer(process, client_data, store=store, clients_per_round=2, seed=7)
        straight = Trainer(process, client_data, clients_per_round=2, seed=7)
        assert resumed.last_round == 2
        straight.run(2)
        kept, wanted = (each.client_states(resumed.sample(1)) for each in (resumed, straight))
        assert all(np.any(state[0]["residual"]) for state in kept.values())
        # Not bit for bit: rounds 1 and 2 may have been another machine's.
        tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), kept, wanted)
        weights = [each.run(4).global_model_weights.trainable for each in (resumed, straight)]
        tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), *weights)


def test_a_configuration_of_the_entropy_coded_encoder_of_release_0_1_is_read():
    stages = {"quantizer": {"name": "qsgd", "config": {"bits": 4}}, "coder": {"name": "rans", "config": {}}}
    today = encoder("qsgd(4) | rans")
    assert from_config({"kind": "encoder", "name": "entropy_coded", "config": stages}) == today
    assert encoder("entropy_coded", quantizer="qsgd(4)", coder="rans") == today
    assert encoder("entropy_coded('qsgd(4)', 'rans')") == today
