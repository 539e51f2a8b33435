"""Tests that constraints on the server's weights apply at the start and after every round."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.tff.process import build_weighted_fed_avg, constrain_weights

pytestmark = pytest.mark.usefixtures("inprocess")


@pytest.fixture
def process(model_fn, sgd):
    return build_weighted_fed_avg(model_fn, sgd, encoder="topk(0.1)")


def weights_of(state):
    return [np.asarray(w) for w in state.global_model_weights.trainable]


def test_the_weights_are_projected_at_the_start_and_after_a_round_and_nothing_else_changes(
    process, dataset
) -> None:
    constraints = [tf.keras.constraints.NonNeg(), None, tf.keras.constraints.MaxNorm(0.5), None]
    constrained = constrain_weights(process, constraints)
    start = constrained.initialize()

    def projected(state):
        free = zip(weights_of(state), constraints, strict=True)
        return [w if constraint is None else constraint(tf.constant(w)).numpy() for w, constraint in free]

    tf.nest.map_structure(np.testing.assert_array_equal, weights_of(start), projected(process.initialize()))
    client = [process.initialize_client()]
    ours = constrained.next(start, [dataset(1)], client)
    theirs = process.next(start, [dataset(1)], client)
    for found, expected in zip(weights_of(ours["state"]), projected(theirs["state"]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    tf.nest.map_structure(np.testing.assert_array_equal, ours["client_states"], theirs["client_states"])
    tf.nest.map_structure(np.testing.assert_array_equal, ours["metrics"], theirs["metrics"])


def test_the_types_and_the_signature_stay_so_that_a_trainer_and_a_store_take_it_as_before(process) -> None:
    constrained = constrain_weights(process, [tf.keras.constraints.NonNeg()] * 4)
    assert constrained.next.type_signature.is_equivalent_to(process.next.type_signature)
    assert constrained.signature == process.signature


def test_there_must_be_a_constraint_for_every_tensor(process) -> None:
    with pytest.raises(ConfigError, match="1 constraints for 4 trainable tensors"):
        constrain_weights(process, [None])


def test_a_constraint_that_changes_the_shape_is_refused(process) -> None:
    with pytest.raises(ConfigError, match="constraint 1 makes"):
        constrain_weights(process, [None, lambda w: w[:1], None, None])
