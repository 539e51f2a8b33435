"""The value codes on NumPy arrays. The reader in C has the layouts of the other forms."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from fedplug import errors, kernels

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
FORMS = [
    {"form": "float16"},
    {"form": "bfloat16"},
    {"form": "nearest", "block_size": 16},
    {"form": "qsgd", "bits": 4, "block_size": 64},
    {"form": "sign"},
    {"form": "codebook", "bits": 2},
    {"form": "bounded", "relative": 0.01},
    {"form": "bfp", "bits": 5, "block_size": 32},
]
forms = pytest.mark.parametrize("options", FORMS, ids=lambda options: options["form"])


def normal(n=1000, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(n).astype(dtype)


@forms
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_a_list_is_encoded_as_one_after_the_other(options, dtype):
    exact = [normal(n, np.result_type(dtype, np.float32)) for n in (1000, 0, 300_000, 1)]
    vectors = [each.astype(dtype) for each in exact]
    errors_of_all = np.empty(sum(map(len, exact)), exact[0].dtype)
    codes = kernels.encode_values_of_each(vectors, exact=exact, errors=errors_of_all, seed=5, **options)
    wanted = [kernels.encode_values(each, seed=5, **options) for each in vectors]
    assert [code.tobytes() for code in codes] == [code.tobytes() for code in wanted]
    decoded = [
        kernels.decode_values(code, len(x), dtype=dtype, **options)
        for code, x in zip(codes, vectors, strict=True)
    ]
    lost = [x - y.astype(x.dtype) for x, y in zip(exact, decoded, strict=True)]
    assert errors_of_all.tobytes() == np.concatenate(lost).tobytes()
    codes = kernels.encode_values_of_each(vectors, seed=5, **options)
    assert [code.tobytes() for code in codes] == [code.tobytes() for code in wanted]


@forms
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_what_is_decoded_elsewhere_is_checked_as_here(options, dtype):
    if options["form"] in ("codebook", "bounded"):
        with pytest.raises(errors.ArgumentError):
            kernels.check_values(np.zeros(9, np.uint8), 0, options["form"])
        return
    rng = np.random.default_rng(1)
    good = kernels.encode_values(normal(300, dtype), **options)
    refused = 0
    for length in (good.size - 1, *[good.size] * 60):
        code = good[:length].copy()
        code[rng.integers(length, size=2)] ^= rng.integers(0, 256, 2, np.uint8)
        try:
            values = kernels.decode_values(code, 300, dtype=dtype, **options)
        except errors.PayloadError as error:
            refused += 1
            with pytest.raises(errors.PayloadError, match=re.escape(str(error))):
                kernels.check_values(code, 300, dtype=dtype, **options)
        else:
            largest = kernels.check_values(code, 300, dtype=dtype, **options)
            assert largest == float(np.abs(values).max())
    assert refused


def test_a_list_that_does_not_fit_is_refused():
    x = normal(10)
    with pytest.raises(errors.ArgumentError, match="errors has 9 elements"):
        kernels.encode_values_of_each([x], "sign", exact=[x], errors=np.empty(9, np.float32))
    with pytest.raises(errors.ArgumentError, match="exact has 9 elements and values has 10"):
        kernels.encode_values_of_each([x], "sign", exact=[x[:9]], errors=np.empty(10, np.float32))
    with pytest.raises(errors.ArgumentError, match="values has dtype float64"):
        kernels.encode_values_of_each([x, x.astype(np.float64)], "sign")
    with pytest.raises(errors.NonFiniteError) as refused:
        kernels.encode_values_of_each([x, x * np.inf], "sign")
    assert refused.value.count == 10


def test_a_codebook_is_laid_out_as_documented():
    x = np.float32([1, -1, 3, -3, 3])  # mean 0.6, standard deviation 2.61: bins are 3.91 wide
    code = kernels.encode_values(x, "codebook", bits=2)
    assert code[0] == 2
    assert code[1:17].view(np.float32).tolist() == [0, -3, 0, 3]
    assert list(code[17:]) == [0b01_11_10_10, 0b11]


def test_bounded_values_are_laid_out_as_documented():
    # The error bound is 0.2 * 5 = 1, so steps are almost 2 and the levels are 1, -2, 0 and 1, of 7 levels.
    code = kernels.encode_values(np.float32([2, -3, 0, 1.5]), "bounded", relative=0.2)
    assert code[:12].view(np.float32).tolist() == [np.float32(0.2), -3, 2]
    assert list(code[12:]) == [0b10_000_011, 0b011_0]


def test_values_may_be_decoded_into_memory_that_is_there():
    x, out = normal(), np.empty((10, 100), np.float32)
    code = kernels.encode_values(x, "qsgd")
    assert kernels.decode_values(code, 1000, "qsgd", out=out) is out
    np.testing.assert_array_equal(out.ravel(), kernels.decode_values(code, 1000, "qsgd"))


def test_values_that_are_not_finite_are_counted():
    with pytest.raises(errors.NonFiniteError, match="2 of 3 values are NaN or infinite") as error:
        kernels.encode_values(np.float32([np.nan, 0, np.inf]), "sign")
    assert error.value.count == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernels.encode_values(normal(), "zip"), "no value code is called 'zip'; there are float16"),
        (lambda: kernels.encode_values(normal(), "qsgd", bits=1), r"bits = 1 is not in \[2, 8\]"),
        (lambda: kernels.encode_values(normal()[::2], "sign"), "not C-contiguous"),
        (lambda: kernels.encode_values(np.arange(3), "sign"), "values has dtype int64"),
        (lambda: kernels.decode_values(np.zeros(4, np.uint8), -1, "sign"), "count = -1 is not in"),
        (
            lambda: kernels.decode_values(np.zeros(4, np.uint8), 2, "float16", out=np.zeros(3, np.float32)),
            "out has 3 elements of float32; it must have 2 of float32",
        ),
    ],
)
def test_a_wrong_argument_is_refused(call, message):
    with pytest.raises(errors.ArgumentError, match=message):
        call()


def test_a_claim_of_many_values_is_refused_before_memory_is_taken_for_them():
    with pytest.raises(errors.PayloadError, match="2147483647 values take 4294967294 bytes, not 3"):
        kernels.decode_values(np.zeros(3, np.uint8), 2**31 - 1, "float16")
