"""`fedplug.decode`, `Sum` and `ModelSum` on a device have the CPU's bits, and refuse payloads whole."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from fedplug_cuda import DeviceError

import fedplug
from fedplug.errors import ArgumentError, PayloadError
from fedplug.ops.device_array import is_on_device, on_host
from fedplug.ops.types import ArraySpec
from fedplug.testing import golden

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"
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
@pytest.mark.parametrize(
    "expression",
    [
        "topk(0.1) | qsgd(8)",
        "qsgd(4) | rans",
        "sign",
        "bfp(5)",
        "float16",
        "bfloat16",
        "qsgd(rounding='nearest') | rans",
        "codebook(3)",
    ],
)
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


@pytest.mark.parametrize("form", ["qsgd", "bfp", "nearest", "float16", "sign"])
def test_golden_payloads_of_dense_quantizers_are_decoded_as_they_always_were(device, form):
    for vector in golden.read(GOLDEN, f"{form}/1"):
        payload = fedplug.wire.frame(vector.body, f"{form}/1", vector.dtype, vector.shape)
        found = fedplug.decode(payload, out=device.put(np.zeros_like(vector.decoded)))
        assert on_host(found).tobytes() == vector.decoded.tobytes()


@pytest.mark.parametrize("expression", ["qsgd(4, block_size=64)", "sign", "bfp(3)", "float16"])
def test_a_changed_code_is_refused_as_on_the_cpu(device, expression):
    rng, encoder = np.random.default_rng(0), fedplug.encoder(expression)
    x = model(0)["kernel"]
    spec = ArraySpec(x.shape, x.dtype)
    good = encoder.to_wire(encoder.encode(x, encoder.init_state(spec), 0)[0], spec)
    outcomes = set()
    for changes in range(40):
        body = good.copy()
        places = rng.integers(body.size, size=changes % 3)
        body[places] ^= rng.integers(0, 256, places.size, np.uint8)
        body[rng.integers(4)] = 255 if changes % 2 else body[0]
        payload = fedplug.wire.frame(body.tobytes(), encoder.wire_id, "float32", x.shape)
        here, there = fedplug.Sum(x.shape), fedplug.Sum.like(device.put(np.zeros_like(x)))
        try:
            here.add(payload, weight=0.3)
        except PayloadError as error:
            with pytest.raises(PayloadError, match=re.escape(str(error))):
                there.add(payload, weight=0.3)
            with pytest.raises(PayloadError, match=re.escape(str(error))):
                fedplug.decode(payload, out=device.put(x))
            outcomes.add("refused")
        else:
            there.add(payload, weight=0.3)
            outcomes.add("added")
        assert on_host(there.value()).tobytes() == here.value().tobytes()
    assert outcomes == {"refused", "added"}


def test_sums_are_beside_an_array(device):
    beside, sent = device.put(np.zeros(3, np.float32)), payloads_of("topk(0.1)", 1)
    dtypes = dict.fromkeys(SHAPES, np.float64)
    here, there = fedplug.ModelSum(SHAPES, dtypes), fedplug.ModelSum(SHAPES, dtypes, beside=beside)
    for total in (here, there):
        total.add(sent)
    held = there.value(copy=False)
    assert all(map(is_on_device, held.values()))
    there.add(sent)
    here.add(sent)
    assert bits(held) == bits(here.value()) == bits(here.value(copy=False))
    with pytest.raises(ArgumentError, match="a sum on a device is of float32 or float64, not of float16"):
        fedplug.ModelSum(SHAPES, np.float16, beside=beside)


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


@pytest.mark.parametrize("expression", ["topk(0.1)", "qsgd(8)"])
@pytest.mark.parametrize("operation", ["allocate", "copy", "launch"])
def test_a_device_that_refuses_an_addition_leaves_the_sum_unchanged(device, fake, operation, expression):
    total = fedplug.ModelSum.like(on_device(device, model(0)))
    total.add(payloads_of(expression, 1))
    before = bits(total.value())
    for at in range(3 if expression != "topk(0.1)" and operation == "launch" else 1):
        with fake.failing(operation, at), pytest.raises(DeviceError):
            total.add(payloads_of(expression, 2))
    assert (bits(total.value()), total.count, total.weight) == (before, 1, 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_an_update_that_could_make_the_model_infinite_is_refused_as_on_the_cpu(device, dtype):
    largest = float(ml_dtypes.finfo(dtype).max)
    x = np.array([1, -largest / 2, np.nan, np.inf], dtype)
    small, large = (fedplug.codec("identity").encode(np.full(4, y, dtype))[0] for y in (largest / 4, largest))
    for total in (fedplug.Sum.like(x), fedplug.Sum.like(device.put(x))):
        total.add(small)
        with pytest.raises(PayloadError, match="could make the model infinite"):
            total.add(large)
