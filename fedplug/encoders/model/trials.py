"""Tries encoders on normal numbers: do they save time, and is a model that they send close enough?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

import fedplug.ops as ops
from fedplug.encoders.arguments import check_number
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.quantizers import Identity
from fedplug.errors import CapabilityError, ConfigError, MissingDependencyError
from fedplug.ops.lowering import use_lowering
from fedplug.ops.types import Array, ArraySpec, Scalar, Spec

__all__ = ["BreakEven", "break_even", "check_broadcast_encoder", "normal_numbers"]


def normal_numbers(specs: Iterable[Spec]) -> list[Array]:
    """Returns the same arrays in every call: normal numbers for floats, and zeros for other dtypes."""

    def numbers(spec: Spec, seed: int) -> Array:
        zeros = ops.zeros(spec)
        if not ops.is_floating(spec.dtype):
            return zeros
        return ops.asarray(np.random.default_rng(seed).standard_normal(zeros.shape), like=zeros)

    return [numbers(spec, seed) for seed, spec in enumerate(specs)]


_REPEATS = 5
_MEGABIT_BYTES = 1e6 / 8


@dataclass(frozen=True)
class BreakEven:
    """The time of a client's update with an encoder, and uncompressed.

    Attributes:
        megabits_per_second: The speed of the link.
        encode_seconds: The time of the encoder, from tensors to buffers.
        sent_bytes: The size of its buffers in a client's first round, before rate control adjusts anything.
        plain_seconds: The time to make buffers of the uncompressed tensors.
        plain_bytes: The size of those buffers.
    """

    megabits_per_second: float
    encode_seconds: float
    sent_bytes: int
    plain_seconds: float
    plain_bytes: int

    @property
    def seconds(self) -> float:
        """The time to encode and to send."""
        return self.encode_seconds + self._transfer(self.sent_bytes)

    @property
    def seconds_as_it_is(self) -> float:
        """The time to send the uncompressed update."""
        return self.plain_seconds + self._transfer(self.plain_bytes)

    @property
    def pays(self) -> bool:
        """Whether the encoder saves time."""
        return self.seconds < self.seconds_as_it_is

    @property
    def pays_below(self) -> float:
        """The speed in megabits per second below which it saves time. Infinite if encoding takes no time."""
        extra = self.encode_seconds - self.plain_seconds
        saved = max(self.plain_bytes - self.sent_bytes, 0) / _MEGABIT_BYTES
        return saved / extra if extra > 0 else float("inf")

    def _transfer(self, size: int) -> float:
        return size / (self.megabits_per_second * _MEGABIT_BYTES)

    def __str__(self) -> str:
        verdict = "pays" if self.pays else "does not pay"
        encoding, sending, plain = (
            f"{1e3 * seconds:.3g} ms"
            for seconds in (self.encode_seconds, self._transfer(self.sent_bytes), self.seconds_as_it_is)
        )
        return (
            f"compression {verdict} on a link of {self.megabits_per_second:g} Mbit/s: encoding takes "
            f"{encoding} here and sending {self.sent_bytes} bytes {sending}; the {self.plain_bytes} bytes of "
            f"the uncompressed update take {plain}; it pays below {self.pays_below:.3g} Mbit/s"
        )


def break_even(model: ModelEncoder, megabits_per_second: float, *, lowering: str | None = None) -> BreakEven:
    """Measures an encoder on normally distributed numbers, as the median of a few runs.

    It uses NumPy arrays if the encoder executes on them and no lowering is given, else TensorFlow's graphs.
    The processor of a client may be slower than this machine's. Then compression pays less.

    Args:
        model: The encoder for the model. Its specs may be NumPy's or TensorFlow's.
        megabits_per_second: The speed of the link from a client to the server, above 0.
        lowering: The lowering of TensorFlow's ops. See `fedplug.ops.lowering.use_lowering`.

    Raises:
        ConfigError: The speed is not a number above 0.
        MissingDependencyError: It needs TensorFlow, which is not installed.
    """
    check_number("break_even megabits_per_second", megabits_per_second, lambda speed: speed > 0, "above 0")
    on_arrays = lowering is None and "numpy" in model.capabilities.executes_on
    encoder_for = _numpy_encoder if on_arrays else _tensorflow_encoder
    plain = ModelEncoder(Identity(), model.specs)
    with use_lowering(lowering or "auto"):
        encode_seconds, sent_bytes = _measure(encoder_for(model))
        plain_seconds, plain_bytes = _measure(encoder_for(plain))
    return BreakEven(
        megabits_per_second=megabits_per_second,
        encode_seconds=encode_seconds,
        sent_bytes=sent_bytes,
        plain_seconds=plain_seconds,
        plain_bytes=plain_bytes,
    )


def _numpy_encoder(model: ModelEncoder) -> Callable[[], Sequence[Array]]:
    """Returns a function that makes the buffers of a client's first round from NumPy arrays."""
    specs = [ArraySpec(spec.shape, spec.dtype.name, spec.name) for spec in model.specs]
    model = ModelEncoder(model.encoder, specs, min_size=model.min_size)
    xs, states = normal_numbers(specs), model.init_state()
    return lambda: model.encode(xs, states, 0)[0]


def _tensorflow_encoder(model: ModelEncoder) -> Callable[[], Sequence[Array]]:
    """Returns a function that does the same in a graph."""
    try:
        import tensorflow as tf  # must not be needed to import the encoders
    except ModuleNotFoundError as error:
        what = f"break_even for {model.encoder!r}"
        raise MissingDependencyError(what, error.name or "") from error
    specs = [tf.TensorSpec(spec.shape, spec.dtype.name, spec.name) for spec in model.specs]
    model = ModelEncoder(model.encoder, specs, min_size=model.min_size)
    xs, states, round_num = normal_numbers(specs), model.init_state(), tf.constant(0)
    encode = tf.function(lambda xs, states: model.encode(xs, states, round_num)[0], autograph=False)
    return lambda: encode(xs, states)


def _measure(encode: Callable[[], Sequence[Array]]) -> tuple[float, int]:
    """Returns seconds and bytes. The first run is not counted."""
    buffers = encode()
    times = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        buffers = encode()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), sum(len(buffer) for buffer in buffers)


_CLOSE = 0.1
"""The largest accepted ``||x - decode(encode(x))||^2 / ||x||^2`` of normally distributed numbers."""


def check_broadcast_encoder(encoder: ModelEncoder) -> None:
    """Checks that every tensor of a model keeps all its entries, with a small error.

    Raises:
        CapabilityError: An encoder leaves entries out, or its error is too large.
        ConfigError: The encoder has rate control, which is measured on updates.
    """
    if encoder.rate_control is not None:
        raise ConfigError(
            f"{encoder.encoder!r} cannot encode a broadcast: a broadcast has no rate control; use an encoder "
            "without a budget, such as bfp(5) | rans"
        )
    for each, spec in _smallest_of_each(encoder).values():
        promises = each.capabilities
        error = _relative_error(each, spec)
        if not promises.sends_every_entry or error >= _CLOSE:
            raise CapabilityError(
                f"{each!r} cannot encode a broadcast: clients train on what is decoded, so every entry must "
                f"be sent with a squared error below {_CLOSE:.0%}, and the error of tensor "
                f"{spec.name!r} is {error:.0%}; use an encoder that comes closer, such as bfp(5) | rans"
            )


def _smallest_of_each(encoder: ModelEncoder) -> dict[int, tuple[Encoder, Spec]]:
    """Returns each lossy encoder, by its id, with the smallest tensor that it encodes."""
    each = zip(encoder.encoders, encoder.specs, strict=True)
    lossy = [(one, spec) for one, spec in each if not one.capabilities.lossless]
    return {id(one): (one, spec) for one, spec in sorted(lossy, key=lambda pair: -ops.num_elements(pair[1]))}


def _relative_error(encoder: Encoder, spec: Spec) -> float:
    """Returns ``||x - decode(encode(x))||^2 / ||x||^2`` of normally distributed numbers."""
    alone = ModelEncoder(encoder, [spec], min_size=0)
    [x] = normal_numbers([spec])
    buffers, _ = alone.encode([x], alone.init_state(), 0)
    [y] = alone.decode(buffers)
    return float(ops.divide_no_nan(_squares(x - y), _squares(x)))


def _squares(x: Array) -> Scalar:
    return ops.sum_of_squares(ops.astype(x, "float64"))
