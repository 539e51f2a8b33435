"""Payloads of a fixed size have the bytes and means of the CPU, and nothing waits for the device."""

import fedplug_cuda
import ml_dtypes
import numpy as np
import pytest
from fedplug_cuda import fixed

import fedplug
from fedplug.errors import ArgumentError, CapabilityError
from fedplug.ops.types import ArraySpec

CHUNKED = "topk(count=64, chunk=4096) | codebook(2) | offsets(4096)"
SMALL = "topk(count=3, chunk=10, decay=0.9) | codebook(8) | offsets(10)"
DENSE = "topk(0.5, chunk=2048) | codebook(3) | offsets(2048)"  # sums of several thousand values
RAW = "topk(count=7, chunk=5000) | offsets(5000)"
WHOLE = "topk(count=3000, chunk=9000) | codebook(1) | offsets(9000)"
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def update(n, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(n).astype(dtype)


def on_the_host(encoder, x, residual):
    spec = ArraySpec(x.shape, x.dtype)
    payload, state = encoder.encode(x, {"residual": residual}, 0)
    return encoder.to_wire(payload, spec), state["residual"]


def encoded(device, x, residual, encoder):
    """The payload, the residual, and the number of non-finite sums, on the host."""
    held = device.put(x)
    bytes_of = fixed._sizes(fixed._form(encoder, held)[0], 1)[0]
    found = fedplug_cuda.encode_fixed(held, device.put(residual), encoder)
    payload = device.get(found.payload, np.empty(bytes_of, np.uint8))
    return (
        payload,
        device.get(found.residual, residual),
        int(device.get(found.non_finite, np.empty(2, np.uint32))[0]),
    )


def mean(device, payloads, n, encoder, dtype=np.float32):
    held = fedplug_cuda.to_device(np.concatenate(payloads))
    return device.get(fedplug_cuda.mean_of_fixed(held, device.put(np.empty(n, dtype)), encoder), update(n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("expression", "n"),
    [
        (CHUNKED, 0),
        (CHUNKED, 1),
        (CHUNKED, 9000),
        (SMALL, 9),
        (SMALL, 95),
        (DENSE, 5000),
        (RAW, 12_000),
        (WHOLE, 3000),
    ],
)
def test_payloads_and_residuals_are_those_of_the_cpu(device, expression, n, dtype):
    encoder, residual = fedplug.encoder(expression), np.zeros(n, np.float32)
    for seed in range(2):
        payload, after, non_finite = encoded(device, update(n, seed, dtype), residual, encoder)
        expected, residual = on_the_host(encoder, update(n, seed, dtype), residual)
        assert payload.tobytes() == expected.tobytes()
        assert after.tobytes() == residual.tobytes()
        assert non_finite == 0


def beyond_16_bits(n):
    """A sum with a residual of 40,000 becomes the largest number."""
    x = np.full(n, 65504, np.float16)
    x[::3] = -6e-8
    return x


@pytest.mark.parametrize("expression", [CHUNKED, RAW])
@pytest.mark.parametrize("change", ["few levels", "beyond 16 bits", 0, 1e-42, 1e-20, 1e30])
def test_all_magnitudes_have_the_bits_of_the_cpu(device, expression, change):
    encoder, residual = fedplug.encoder(expression), np.zeros(9000, np.float32)
    if change == "beyond 16 bits":
        x, residual = beyond_16_bits(9000), residual + 40_000
    else:
        x = np.rint(update(9000)) if change == "few levels" else update(9000) * np.float32(change)
    payload, after, _ = encoded(device, x, residual, encoder)
    expected, residual = on_the_host(encoder, x, residual)
    assert payload.tobytes() == expected.tobytes()
    assert after.tobytes() == residual.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("expression", [CHUNKED, RAW])
def test_means_are_those_of_the_cpu(device, expression, dtype):
    encoder, n, residual = fedplug.encoder(expression), 9000, np.zeros(9000, np.float32)
    payloads = [on_the_host(encoder, update(n, seed, dtype), residual)[0] for seed in range(3)]
    total = fedplug.Sum((n,))
    for payload in payloads:
        total.add(fedplug.wire.frame(payload.tobytes(), encoder.wire_id, np.dtype(dtype).name, (n,)))
    refused = np.zeros_like(payloads[0])
    found = mean(device, [payloads[0], refused, *payloads[1:]], n, encoder, dtype)
    assert found.tobytes() == (total.value() / np.float32(4)).tobytes()


def test_a_tensor_that_is_not_finite_is_refused_and_its_residual_stays(device):
    encoder, x, residual = fedplug.encoder(CHUNKED), update(9000), update(9000, 1)
    x[[3, 8999]] = np.nan, np.inf
    payload, after, non_finite = encoded(device, x, residual, encoder)
    assert not payload.any()
    assert after.tobytes() == residual.tobytes()
    assert non_finite == 2


def test_any_changed_byte_gives_a_mean_that_is_finite_or_nan_as_a_whole(device):
    encoder, n = fedplug.encoder(SMALL), 50
    good = on_the_host(encoder, update(n), np.zeros(n, np.float32))[0]
    good_mean, refused = mean(device, [good], n, encoder), 0
    for at in range(0, good.size, 7):
        bad = good.copy()
        bad[at] ^= 0xFF
        found = mean(device, [bad], n, encoder)
        frame = fedplug.wire.frame(bad.tobytes(), encoder.wire_id, "float32", (n,))
        try:
            expected = fedplug.decode(frame)
        except fedplug.errors.PayloadError:
            refused += 1
            assert np.isnan(found).all() or not bad[0]
            continue
        assert found.tobytes() == expected.tobytes()
    assert refused > 0
    assert np.isfinite(good_mean).all()


def test_nothing_waits_for_the_device(device, fake):
    encoder, x = fedplug.encoder(CHUNKED), device.put(update(9000))
    residual, like = device.put(update(9000, 1)), device.put(update(9000))
    before = fake.calls()["wait"]
    sent = fedplug_cuda.encode_fixed(x, residual, encoder)
    fedplug_cuda.mean_of_fixed(sent.payload, like, encoder)
    assert fake.calls()["wait"] == before


def test_values_that_do_not_fit_are_refused(device):
    encoder, x = fedplug.encoder(CHUNKED), device.put(update(9000))
    with pytest.raises(ArgumentError, match="the residual float32 of the same size"):
        fedplug_cuda.encode_fixed(x, device.put(update(3)), encoder)
    with pytest.raises(ArgumentError, match="there are 5 bytes; payloads of"):
        fedplug_cuda.mean_of_fixed(device.put(np.zeros(5, np.uint8)), x, encoder)
    with pytest.raises(ArgumentError, match="make the stream current instead of passing it"):
        fedplug_cuda.encode_fixed(device.put(update(9000, 0, np.float16)), x, encoder, stream=0)
    with pytest.raises(ArgumentError, match="must be float32, float16 or bfloat16"):
        fedplug_cuda.encode_fixed(device.put(update(9000, 0, np.float64)), x, encoder)
    payloads, like = device.put(np.zeros(5, np.uint8)), device.put(update(9000, 0, np.float64))
    with pytest.raises(ArgumentError, match="the tensors are float64"):
        fedplug_cuda.mean_of_fixed(payloads, like, encoder)
    for expression in ("randomk(0.01)", "qsgd(8)", "topk(count=3, chunk=8) | sign | offsets(8)"):
        with pytest.raises(CapabilityError, match="does not run on a device without waiting"):
            fedplug_cuda.encode_fixed(x, x, fedplug.encoder(expression))
