"""Payloads of a fixed size: equal to the codec's, compiled, over gloo, and on a GPU if there is one."""

import fixed_jobs
import numpy as np
import pytest
import torch
from fedplug_torch import FixedSize
from fedplug_torch.fixed import encode_fixed, mean_of_fixed

import fedplug
from fedplug.errors import ArgumentError, CapabilityError, PayloadError

CHUNKED = "topk(count=64, chunk=4096) | codebook(2) | offsets(4096)"
EXPRESSIONS = [
    CHUNKED,
    "topk(count=5, chunk=64, decay=0.9) | offsets(64)",
    "topk(0.05, chunk=512) | qsgd(4) | offsets(512)",
    "sign",
    "identity",
]


def randn(shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_payloads_and_residuals_are_those_of_the_codec(expression, dtype):
    fixed, codec, state, residual = FixedSize(expression), fedplug.codec(expression, min_size=0), None, None
    for round_num in range(3):
        x = randn((90, 100), round_num, dtype)
        expected, state = codec.encode(x, state, round_num)
        sent = fixed.encode(x, fixed.zeros(x) if residual is None else residual, round_num)
        residual = sent.residual
        assert fixed.container(sent.payload, x) == expected
        assert sent.payload.numel() == fixed.payload_bytes(x)
        if "residual" in state:
            np.testing.assert_array_equal(residual.numpy(), state["residual"])
        received = torch.from_numpy(fedplug.decode(expected).astype(np.float64))
        assert torch.equal(fixed.mean(sent.payload[None], x).double(), received)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("expression", [CHUNKED, "sign"])
def test_the_ops_are_registered_as_torch_requires(expression, dtype):
    fixed = FixedSize(expression)
    x, text = randn((2, 5000), dtype=dtype), fixed._encoder
    torch.library.opcheck(encode_fixed, (x, fixed.zeros(x), text, 0))
    payload = fixed.encode(x, fixed.zeros(x)).payload
    torch.library.opcheck(mean_of_fixed, (torch.stack([payload, payload]), x, text))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_ranks_end_with_the_means_of_the_codec(two_ranks, compiled):
    results = two_ranks.run(fixed_jobs.means, CHUNKED, 3, compiled=compiled)
    expected = fixed_jobs.codec_means(CHUNKED, 3)
    for found, _, refused in results:
        assert refused == [0, 0, 0]
        for mean, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mean, wanted)


def test_a_refused_tensor_counts_as_zeros_on_all_ranks(two_ranks):
    good, bad = two_ranks.run(fixed_jobs.means, CHUNKED, 3, broken_rank=1)
    assert (good[2], bad[2]) == ([0, 0, 0], [0, 1, 0])
    for mine, theirs in zip(good[0], bad[0], strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert np.isfinite(mine).all()


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(CapabilityError, match="have no fixed size; use for instance"):
        FixedSize("topk(0.01)")
    with pytest.raises(CapabilityError, match="keeps memory"):
        FixedSize("ef21('sign')")
    fixed, x = FixedSize(CHUNKED), randn(5000)
    with pytest.raises(ArgumentError, match=r"the residual is torch.float32\[3\] on cpu, and the tensor"):
        fixed.encode(x, torch.zeros(3))
    with pytest.raises(ArgumentError, match=r"they must be torch.uint8\[ranks, "):
        fixed.mean(torch.zeros(2, 3, dtype=torch.uint8), x)
    payload = fixed.encode(x, fixed.zeros(x)).payload
    payload[7] = 255
    with pytest.raises(PayloadError, match="rank 0, tensor 'tensor'"):
        fixed.mean(payload[None], x)
