"""Measures on this machine whether compression saves time on a link of a given speed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedplug.encoders.arguments import check_number
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.model.normal_numbers import normal_numbers
from fedplug.encoders.quantizers.identity import Identity
from fedplug.errors import MissingDependencyError
from fedplug.ops.lowering import use_lowering
from fedplug.ops.types import Array, ArraySpec

__all__ = ["BreakEven", "break_even"]

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
