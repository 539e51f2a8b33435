"""Tests that clients that were asked and left out are treated as not sampled."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.runtime import Candidates
from fedplug.tff.training.trainer import OverSampling, Trainer


@pytest.fixture
def leaving_out(monkeypatch):
    """Makes this process a runtime that leaves out the first candidate and takes the last."""
    context = tff.framework.get_context_stack().current

    def make(process):
        run = process.next

        def next_fn(state, data, states):
            assert isinstance(data, Candidates)
            data.request.took_part = list(range(1, data.request.needed + 1))
            return run(state, [data[i].value for i in data.took_part], [states[i] for i in data.took_part])

        monkeypatch.setattr(context, "takes_candidates", True, raising=False)
        monkeypatch.setattr(process, "_next_fn", next_fn)

    return make


def assert_equal_weights(*states):
    weights = (state.global_model_weights.trainable for state in states)
    tf.nest.map_structure(np.testing.assert_array_equal, *weights)


def test_a_client_that_was_left_out_keeps_its_state_and_the_others_theirs(process, client_data, leaving_out):
    plain = Trainer(process, client_data, clients_per_round=2, seed=3)
    trainer = Trainer(process, client_data, clients_per_round=2, seed=3, over_sampling=OverSampling(0.5))
    assert trainer.sample(1) == plain.sample(1)
    selection = trainer.select(1)
    asked = [client.client_id for client in selection]
    assert (asked[:2], len(asked), selection.needed) == (plain.sample(1), 3, 2)

    before = trainer.initialize()
    expected = plain.next(plain.initialize(), selection[1:])
    states = plain.client_states(asked)
    leaving_out(process)
    output = trainer.next(before, selection)
    assert_equal_weights(output.state, expected.state)
    tf.nest.map_structure(np.testing.assert_array_equal, trainer.client_states(asked), states)
    assert output.metrics["participation"] == {"asked": 3, "took_part": 2}
    assert trainer.last_metrics["participation"] == {"asked": 3, "took_part": 2}
    kept = trainer._states.metadata
    assert (kept["took_part"], kept["left_out"]) == (asked[1:], asked[:1])


def test_a_runtime_without_workers_asks_no_more_than_are_needed(process, client_data):
    plain = Trainer(process, client_data, clients_per_round=2, seed=3).run(3)
    sampled = Trainer(process, client_data, clients_per_round=2, seed=3, over_sampling=OverSampling()).run(3)
    assert_equal_weights(sampled, plain)


def test_invalid_arguments_are_refused(process, client_data):
    with pytest.raises(ConfigError, match="extra is 0; it must be above 0"):
        OverSampling(0)
    with pytest.raises(ConfigError, match="first must be 'done' or 'order', found 'fast'"):
        OverSampling(first="fast")
    with pytest.raises(ConfigError, match=r"over_sampling is 0\.3"):
        Trainer(process, client_data, over_sampling=0.3)
