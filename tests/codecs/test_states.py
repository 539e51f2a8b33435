"""Tests states: plain arrays that survive stores and files, and are refused where they do not belong."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as safetensors

import fedplug
from fedplug.errors import NonFiniteError, StateError
from fedplug.testing.expect import same_tensors

WITH_STATE = [
    "topk(0.2)",
    "topk(0.2) | qsgd(3)",
    "sign",
    "randomk(0.2, error_feedback=True)",
    "stc(0.2)",
]
DTYPES = ["float32", "float64", "float16", "bfloat16"]
SHAPE = (6, 11)


def update(seed, dtype="float32", shape=SHAPE):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.dtype(dtype))


def copied(state):
    return {key: array.copy() for key, array in state.items()}


def after_rounds(codec, rounds, dtype="float32"):
    state = None
    for round_num in range(rounds):
        payload, state = codec.encode(update(round_num, dtype), state, round_num)
    return payload, state


@pytest.mark.parametrize("expression", WITH_STATE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_client_continues_from_a_store_or_a_file(expression, dtype, tmp_path):
    codec = fedplug.codec(expression)
    _, state = after_rounds(codec, 2, dtype)
    expected = codec.encode(update(2, dtype), state, 2)
    for name in ("memory://", f"sqlite:///{tmp_path}/states"):
        with fedplug.open_store(name) as store:
            process = store.open_process("training", {})
            process.commit(0, client_states={"client": state}, server_state={})
            stored = process.read_clients(["client"])["client"]
        payload, after = codec.encode(update(2, dtype), stored, 2)
        assert payload == expected[0]
        same_tensors("a state", after, expected[1])
    if dtype == "bfloat16":
        return  # safetensors reads it only for libraries other than NumPy
    loaded = safetensors.load(safetensors.save(state))
    payload, after = fedplug.codec(expression).encode(update(2, dtype), loaded, 2, in_place=True)
    assert payload == expected[0]
    same_tensors("a state", after, expected[1])


@pytest.mark.parametrize("expression", WITH_STATE)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_an_update_whose_sum_with_the_residual_is_infinite_does_not_change_the_state(expression, dtype):
    codec = fedplug.codec(expression)
    _, state = after_rounds(codec, 2, dtype)
    for key in state.keys() - {"codec"}:
        state[key][...] = np.finfo(state[key].dtype).max
    kept = copied(state)
    with pytest.raises(NonFiniteError):
        codec.encode(np.full(SHAPE, ml_dtypes.finfo(dtype).max), state, 2, in_place=True)
    same_tensors("a state", state, kept)


def test_an_encoder_that_keeps_nothing_has_no_state():
    for expression in ("qsgd(4)", "identity", "topk(0.1, error_feedback=False)", "randomk(0.1)"):
        codec = fedplug.codec(expression)
        _, state = codec.encode(update(0))
        assert state == {}
        assert codec.encode(update(0), {})[0] == codec.encode(update(0))[0]
        with pytest.raises(StateError, match=r"keeps no state, and was given \['residual'\]"):
            codec.encode(update(0), {"residual": update(1)})


def altered(**changes):
    _, state = after_rounds(fedplug.codec("topk(0.2)"), 1)
    return {**state, **changes}


def without(key):
    return {other: array for other, array in altered().items() if other != key}


VERSION_0 = np.frombuffer(b"fedplug state 0: topk(fraction=0.2, error_feedback=True)", np.uint8)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            after_rounds(fedplug.codec("topk(0.3)"), 1)[1],
            r"another codec: expected '.*0\.2.*', found '.*0\.3",
        ),
        (
            after_rounds(fedplug.codec("randomk(0.2, error_feedback=True)"), 1)[1],
            "another codec: expected '.*topk.*', found '.*randomk",
        ),
        (altered(codec=VERSION_0), "expected 'fedplug state 1: .*', found 'fedplug state 0: "),
        (altered(codec=np.uint8([255, 254])), "found '��'"),
        (
            altered(residual=update(0, shape=(11, 6))),
            r"'residual' .*expected float32\[6, 11\], found float32\[11, 6\]",
        ),
        (altered(residual=update(0, "float64")), r"expected float32\[6, 11\], found float64\[6, 11\]"),
        (altered(residual=update(0).astype(">f4")), r"expected float32\[6, 11\], found >f4\[6, 11\]"),
        (altered(residual=[1, 2]), r"expected float32\[6, 11\], found \[1, 2\]"),
        (
            altered(momentum=update(0)),
            r"expected a state with \['residual'\], found \['momentum', 'residual'\]",
        ),
        (without("residual"), r"expected a state with \['residual'\], found \[\]"),
        (without("codec"), r"has the key 'codec'; found \['residual'\]"),
        ({}, r"has the key 'codec'; found \[\]"),
        ([update(0)], "a state is a dictionary of arrays, not a list"),
    ],
)
def test_a_state_of_another_kind_is_refused_with_both_kinds(state, message):
    codec = fedplug.codec("topk(0.2)")
    for use in ({"state": state}, {"out": state}):
        with pytest.raises(StateError, match=message):
            codec.encode(update(3), **use)


@pytest.mark.parametrize("expression", WITH_STATE)
def test_a_state_that_cannot_be_written_over_is_copied(expression):
    codec = fedplug.codec(expression)
    _, state = after_rounds(codec, 1)
    expected = codec.encode(update(1), state)
    turned = {key: np.asfortranarray(array) for key, array in state.items()}
    read_only = copied(state)
    for array in read_only.values():
        array.flags.writeable = False
    for unfit in (turned, read_only):
        for in_place in (False, True):
            payload, after = codec.encode(update(1), unfit, in_place=in_place)
            assert payload == expected[0]
            same_tensors("a state", after, expected[1])
            same_tensors("a state", unfit, state)
            assert not any(np.shares_memory(after[key], unfit[key]) for key in after.keys() - {"codec"})
        with pytest.raises(StateError, match="cannot be written; it must be writable and C-contiguous"):
            codec.encode(update(1), state, out=unfit)


def test_the_next_state_is_not_written_over_the_one_it_is_made_of():
    codec = fedplug.codec("topk(0.2)")
    _, state = after_rounds(codec, 1)
    with pytest.raises(StateError, match="of out shares memory with the state"):
        codec.encode(update(1), state, out=state)
