"""A quick look at how fast the kernels and encoders are on this machine, for ``fedplug bench``.

Takes the best of a few runs: a look, not a measurement to publish (for those, see ``benchmarks/``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fedplug import kernels
from fedplug.encoders.base import Encoder, State
from fedplug.encoders.reading import as_tensor_encoder
from fedplug.errors import ConfigError

__all__ = [
    "ENCODERS",
    "EncoderFigures",
    "KernelFigures",
    "check_elements",
    "encoder_figures",
    "encoder_of",
    "kernel_figures",
    "machine",
]

ENCODERS = (
    "identity",
    "bfloat16",
    "qsgd(8)",
    "sign",
    "topk(0.01)",
    "topk(0.01) | qsgd(8) | rice",
    "randomk(0.01)",
)
"""Those that are timed when none are named."""

_RUNS = 5
_CLIENTS = 8
_KEPT = 100
"""One in so many elements is sent."""
_BITS = 4
_BLOCK = 512
"""Of the levels that are symbols to code."""


@dataclass(frozen=True, kw_only=True)
class KernelFigures:
    """How long a kernel took.

    Attributes:
        kernel: What was called.
        seconds: The best of a few runs.
        copies: That divided by the time to copy an array of float32 with as many elements.
    """

    kernel: str
    seconds: float
    copies: float


@dataclass(frozen=True, kw_only=True)
class EncoderFigures:
    """What an encoder did with one tensor of normally distributed float32, in graphs.

    Attributes:
        encoder: Its expression.
        bytes_per_element: Of the payload.
        error: ``||decode(encode(x)) - x||^2 / ||x||^2``, in a first round.
        encode_seconds: From the tensor to bytes, the best of a few runs.
        decode_seconds: Back again.
    """

    encoder: str
    bytes_per_element: float
    error: float
    encode_seconds: float
    decode_seconds: float


def machine() -> str:
    """What the kernels run on, in a line."""
    threads = kernels.num_threads()
    return f"{threads} thread{'s' if threads > 1 else ''}, {kernels.simd_level()}"


def kernel_figures(elements: int) -> Iterator[KernelFigures]:
    """Times the kernels on NumPy arrays.

    Args:
        elements: Of the arrays; one in a hundred is sent by each of 8 clients.

    Raises:
        ConfigError: Fewer than 1,000 elements.
    """
    check_elements(elements)
    rng = np.random.default_rng(0)
    delta = rng.standard_normal(elements, np.float32)
    residual, target = np.zeros_like(delta), np.empty_like(delta)
    count = elements // _KEPT
    values, indices = kernels.topk_residual(delta, residual.copy(), count)
    code = kernels.encode_indices(indices, elements)
    packed = kernels.encode_values(delta, "qsgd", bits=_BITS, block_size=_BLOCK)
    packed = packed[len(packed) - (elements * _BITS + 7) // 8 :]  # the levels, without their scales
    symbols = kernels.encode_symbols(packed, elements, bits=_BITS)
    splits = np.arange(_CLIENTS + 1, dtype=np.int64) * count
    all_values, all_indices = np.tile(values, _CLIENTS), np.tile(indices, _CLIENTS)
    calls: dict[str, Callable[[], object]] = {
        "copy": lambda: np.copyto(target, delta),
        "topk_residual, 1 %": lambda: kernels.topk_residual(delta, residual, count, out=(values, indices)),
        f"scatter_decode_add, {_CLIENTS} x 1 %": lambda: kernels.scatter_decode_add(
            target, all_values, all_indices, splits
        ),
        "encode_indices, 1 %": lambda: kernels.encode_indices(indices, elements),
        "decode_indices, 1 %": lambda: kernels.decode_indices(code, count, elements),
        f"encode_symbols, {_BITS} bits": lambda: kernels.encode_symbols(packed, elements, bits=_BITS),
        f"decode_symbols, {_BITS} bits": lambda: kernels.decode_symbols(symbols, elements, bits=_BITS),
    }
    copying = _best(calls["copy"])
    for name, call in calls.items():
        seconds = copying if name == "copy" else _best(call)
        yield KernelFigures(kernel=name, seconds=seconds, copies=seconds / copying)


def encoder_of(expression: str) -> Encoder:
    """The encoder to time. Raises as `encoder_figures` does."""
    return as_tensor_encoder(expression, "the encoder to time")


def encoder_figures(expression: str, elements: int) -> EncoderFigures:
    """Times one encoder both ways, in TensorFlow graphs.

    Args:
        expression: Of the encoder.
        elements: Of the tensor.

    Raises:
        ConfigError: Fewer than 1,000 elements, an expression that cannot be read, or one for whole models.
        UnknownNameError: No such encoder.
    """
    check_elements(elements)
    encoder, spec = encoder_of(expression), tf.TensorSpec([elements], tf.float32)
    x = tf.constant(np.random.default_rng(0).standard_normal(elements, np.float32))
    state = encoder.init_state(spec)

    def encoding(x: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
        payload, next_state = encoder.encode(x, state, tf.constant(0))
        return encoder.to_wire(payload, spec), next_state

    def decoding(body: tf.Tensor) -> tf.Tensor:
        return encoder.decode(encoder.from_wire(body, spec), spec)

    encode = tf.function(encoding, autograph=False)
    decode = tf.function(decoding, autograph=False, input_signature=[tf.TensorSpec([None], tf.uint8)])
    body, _ = encode(x, state)
    error = tf.reduce_sum(tf.square(decode(body) - x)) / tf.reduce_sum(tf.square(x))
    return EncoderFigures(
        encoder=expression,
        bytes_per_element=len(body) / elements,
        error=float(error),
        encode_seconds=_best(lambda: encode(x, state)),
        decode_seconds=_best(lambda: decode(body)),
    )


def _best(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_RUNS + 1):  # the first one warms up
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def check_elements(elements: int) -> None:
    """Refuses a tensor so small that there is nothing to see.

    Raises:
        ConfigError: Fewer than 1,000 elements.
    """
    if elements < 1000:
        raise ConfigError(f"elements is {elements}; to see anything it takes 1000 or more")
