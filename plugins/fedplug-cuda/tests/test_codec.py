"""`fedplug.codec` on device arrays: the payloads of the CPU, with residuals that stay on the device."""

import ml_dtypes
import numpy as np
import pytest

import fedplug
from fedplug.errors import CapabilityError, CapabilityWarning, NonFiniteError, StateError
from fedplug.ops.device_array import is_on_device, on_host

EXPRESSIONS = [
    "topk(0.05)",
    "topk(0.05, scope='model') | qsgd(8)",
    "topk(count=30) | qsgd(4) | rans",
    "topk(0.1, error_feedback=False)",
    "topk(0.05, decay=0.9) | gaps",
    "topk(count=3, chunk=64, decay=0.95) | codebook(2) | rans",
    "stc(0.05)",
    "randomk(0.05) | float16",
    "randomk(0.05, error_feedback=True) | qsgd(4)",
    "qsgd(3)",
    "qsgd(8) | rans",
    "sign",
    "bfp(4) | rans",
    "float16",
    "qsgd(5, rounding='nearest')",
]


def update(seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return {
        "kernel": rng.standard_normal((90, 30)).astype(dtype),
        "bias": rng.standard_normal(10).astype(dtype),  # small: sent uncompressed
        "bn.running_var": rng.random(80).astype(dtype),
        "out": rng.standard_normal((70, 3)).astype(dtype),
    }


def on_device(device, arrays):
    return {name: device.put(array) for name, array in arrays.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_payloads_and_residuals_are_those_of_the_cpu(device, expression, dtype):
    codec, state, expected_state = fedplug.codec(expression), None, None
    for round_num in range(3):
        arrays = update(round_num, dtype)
        expected, expected_state = codec.encode_model(arrays, expected_state, round_num)
        payloads, state = codec.encode_model(on_device(device, arrays), state, round_num)
        assert payloads == expected
    assert state.keys() == expected_state.keys()
    for key, residual in expected_state.items():
        assert on_host(state[key]).tobytes() == residual.tobytes(), key
        assert is_on_device(state[key]) == (key != "codec"), key


def test_a_state_moves_between_host_and_device(device):
    codec = fedplug.codec("topk(0.05) | qsgd(8)")
    _, expected_state = codec.encode_model(update(0))
    _, state = codec.encode_model(on_device(device, update(0)))
    expected, _ = codec.encode_model(update(1), expected_state, 1)
    host_state = {key: on_host(array) for key, array in state.items()}
    assert codec.encode_model(on_device(device, update(1)), host_state, 1)[0] == expected
    assert codec.encode_model(update(1), host_state, 1)[0] == expected


def test_encoders_without_kernels_are_given_copies_on_the_host_or_are_refused(device):
    arrays, held = update(0), on_device(device, update(0))
    for expression in ("ef21('sign')", "codebook(2)"):
        codec = fedplug.codec(expression)
        with pytest.warns(CapabilityWarning, match="copied to the host"):
            payloads = codec.encode_model(held)[0]
        assert payloads == codec.encode_model(arrays)[0]
    with pytest.raises(CapabilityError, match="does not run on CUDA devices"):
        fedplug.codec("codebook(2)", device="cuda").encode_model(held)
    assert fedplug.codec("topk(0.1)", device="cuda").encode_model(held)[0]


def test_a_model_of_several_dtypes_is_encoded(device):
    codec = fedplug.codec("topk(0.05, scope='model') | qsgd(8)")
    state = expected_state = None
    for round_num in range(2):
        arrays = {**update(round_num), "wide": update(round_num, np.float64)["kernel"]}
        expected, expected_state = codec.encode_model(arrays, expected_state, round_num)
        payloads, state = codec.encode_model(on_device(device, arrays), state, round_num)
        assert payloads == expected
    assert all(on_host(state[key]).tobytes() == each.tobytes() for key, each in expected_state.items())


def test_a_nan_is_refused_by_name_and_the_state_is_unchanged(device):
    codec = fedplug.codec("topk(0.05)")
    _, state = codec.encode_model(on_device(device, update(0)))
    before = {key: on_host(array).tobytes() for key, array in state.items()}
    broken = update(1)
    broken["out"][3, 1] = np.nan
    with pytest.raises(NonFiniteError, match="array 'out'"):
        codec.encode_model(on_device(device, broken), state, 1, in_place=True)
    assert {key: on_host(array).tobytes() for key, array in state.items()} == before


def test_a_state_of_another_model_is_refused(device):
    codec = fedplug.codec("topk(0.05)")
    _, state = codec.encode_model({"a": device.put(np.ones((20, 20), np.float32))})
    with pytest.raises(StateError):
        codec.encode_model({"a": device.put(np.ones((20, 21), np.float32))}, state)


def test_versions_of_a_model_on_a_device_are_those_of_the_cpu(device):
    versions = {
        fedplug.Broadcaster("lossless").publish(arrays)
        for arrays in (update(0), on_device(device, update(0)))
    }
    assert len(versions) == 1
