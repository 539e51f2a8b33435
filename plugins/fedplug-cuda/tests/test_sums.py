"""`fedplug.decode`, `Sum` and `ModelSum` on a device have the CPU's bits, and refuse payloads whole."""

import ml_dtypes
import numpy as np
import pytest
from fedplug_cuda import DeviceError

import fedplug
from fedplug.errors import ArgumentError, PayloadError
from fedplug.ops.device_array import is_on_device, on_host

SHAPES = {"kernel": (90, 30), "bias": (10,), "bn.running_var": (80,), "wide": (40, 5)}


def model(seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    dtypes = dict.fromkeys(SHAPES, dtype) | {"wide": np.float64}
    return {name: rng.standard_normal(shape).astype(dtypes[name]) for name, shape in SHAPES.items()}


def on_device(device, arrays):
    return {name: device.put(array) for name, array in arrays.items()}


def payloads_of(expression, seed, dtype=np.float32):
    return fedplug.codec(expression).encode_model(model(seed, dtype))[0]


def bits(arrays):
    return {name: on_host(array).tobytes() for name, array in arrays.items()}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("expression", ["topk(0.1) | qsgd(8)", "qsgd(4) | rans"])
def test_decoded_arrays_sums_and_means_have_the_bits_of_the_cpu(device, expression, dtype):
    held = on_device(device, model(0, dtype))
    on_cpu, there, other = (fedplug.ModelSum.like(each) for each in (model(0, dtype), held, held))
    for seed, weight in ((1, 1.0), (2, 3.0), (3, 0.3)):
        sent = payloads_of(expression, seed, dtype)
        decoded = fedplug.decode_model(sent, out=held)
        assert bits(decoded) == bits(fedplug.decode_model(sent))
        on_cpu.add(sent, weight)
        there.add(sent, weight)
    assert all(map(is_on_device, there.value().values()))
    assert bits(there.value()) == bits(on_cpu.value())
    assert bits(there.mean()) == bits(on_cpu.mean())
    assert {name: array.dtype for name, array in there.mean().items()} == {
        name: array.dtype for name, array in on_cpu.mean().items()
    }
    other.merge(there)
    assert bits(other.value()) == bits(on_cpu.value())
    assert (other.count, other.weight) == (3, on_cpu.weight)
    with pytest.raises(ArgumentError):
        on_cpu.merge(there)


def test_a_sum_of_one_array_is_where_the_array_is(device):
    x = model(1)["kernel"]
    payload, _ = fedplug.codec("topk(0.1)").encode(x)
    there, here = fedplug.Sum.like(device.put(x)), fedplug.Sum.like(x)
    for total in (there, here):
        total.add(payload, weight=2)
    assert is_on_device(there.value())
    assert on_host(there.value()).tobytes() == here.value().tobytes()


def test_a_payload_that_is_refused_changes_nothing(device):
    total = fedplug.ModelSum.like(on_device(device, model(0)))
    total.add(payloads_of("topk(0.1)", 1))
    before = bits(total.value())
    sent = payloads_of("topk(0.1)", 2)
    broken = {**sent, "wide": sent["wide"][:-1]}
    huge = {**sent, "wide": fedplug.codec("identity").encode(np.full((40, 5), 1e308))[0]}
    with pytest.raises(PayloadError, match="tensor 'wide'"):
        total.add(broken)
    assert bits(total.value()) == before
    total.add(huge)
    before = bits(total.value())
    with pytest.raises(PayloadError, match="tensor 'wide': the sum would be infinite"):
        total.add(huge)
    assert (bits(total.value()), total.count) == (before, 2)
    with pytest.raises(ArgumentError, match="out is float32"):
        fedplug.decode(sent["wide"], out=device.put(model(0)["kernel"]))


@pytest.mark.parametrize("operation", ["allocate", "copy", "launch"])
def test_a_device_that_refuses_an_addition_leaves_the_sum_unchanged(device, fake, operation):
    total = fedplug.ModelSum.like(on_device(device, model(0)))
    total.add(payloads_of("topk(0.1)", 1))
    before = bits(total.value())
    with fake.failing(operation), pytest.raises(DeviceError):
        total.add(payloads_of("topk(0.1)", 2))
    assert (bits(total.value()), total.count, total.weight) == (before, 1, 1.0)
