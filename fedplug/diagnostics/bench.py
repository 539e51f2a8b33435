"""Measures the size, error and speed of an encoder on an update, for ``fedplug bench``.

The figures are for one machine and one update. Published measurements are in ``benchmarks/``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedplug.codecs import codec, decode_model
from fedplug.codecs.state import ArrayState
from fedplug.diagnostics.updates import Arrays, Update
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.statistics import is_statistic
from fedplug.errors import CapabilityError, ConfigError

__all__ = ["ENCODERS", "EncoderFigures", "Loop", "check_rounds", "measure", "timed"]

ENCODERS = (
    "identity",
    "auto",
    "bfloat16",
    "qsgd(rounding='nearest')",
    "qsgd(8)",
    "qsgd(4) | rans",
    "sign",
    "topk(0.1, scope='model') | qsgd(8)",
    "topk(0.01, scope='model') | qsgd(8)",
    "topk(0.01)",
    "randomk(0.01)",
)
"""The encoders to measure by default."""

_RUNS = range(7, 201)
"""The minimum and maximum number of runs."""
_SECONDS = 0.3
"""The total time after which no run is added to the minimum."""

_Input = TypeVar("_Input")
_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class EncoderFigures:
    """The figures of an encoder on an update.

    Attributes:
        encoder: The expression of the encoder.
        bytes_per_element: Size of the payloads with their headers, as a mean over the rounds.
        bits_per_element: The same in bits.
        nmse: Normalized mean squared error: ``||sum(decoded) - sum(x)||^2 / ||sum(x)||^2``, both summed over
            the rounds, so that error feedback reduces it from round to round.
        max_error: Largest error of an element, as a mean over the rounds.
        encode_seconds: Time from arrays to payloads, as the median of many runs.
        decode_seconds: Time from payloads to arrays, as the median of many runs.
        encode_gb_per_second: Encoding speed in 1e9 bytes of the dense arrays.
        decode_gb_per_second: Decoding speed in 1e9 bytes of the dense arrays.
        encode_spread: Half the interquartile range of the encoding times, relative to their median.
        decode_spread: The same for the decoding times.
        runs: Number of timed encodings.
    """

    encoder: str
    bytes_per_element: float
    bits_per_element: float
    nmse: float
    max_error: float
    encode_seconds: float
    decode_seconds: float
    encode_gb_per_second: float
    decode_gb_per_second: float
    encode_spread: float
    decode_spread: float
    runs: int


def check_rounds(rounds: int) -> None:
    """Checks a number of rounds.

    Raises:
        ConfigError: The number is less than 1.
    """
    if rounds < 1:
        raise ConfigError(f"rounds is {rounds}; it must be 1 or more")


class Loop:
    """Runs `fedplug.codec` in a steady loop: states and decoded arrays are overwritten."""

    def __init__(self, expression: str, arrays: Arrays) -> None:
        """Prepares the codec. Raises the errors of `fedplug.codec`."""
        self._codec = codec(expression)
        self._arrays = arrays
        self._out = {name: np.empty_like(array) for name, array in arrays.items()}
        self._is_one = len(arrays) == 1 and isinstance(self._codec.encoder, Encoder)

    def encode(self, state: ArrayState | None, round_num: int) -> tuple[dict[str, bytes], ArrayState]:
        """Returns payloads and the next state, which overwrites ``state``. None in the first round."""
        if not self._is_one:
            return self._codec.encode_model(self._arrays, state, round_num, in_place=state is not None)
        [(name, array)] = self._arrays.items()
        payload, state = self._codec.encode(array, state, round_num, in_place=state is not None)
        return {name: payload}, state

    def decode(self, payloads: dict[str, bytes]) -> Arrays:
        """Decodes the payloads."""
        return decode_model(payloads, out=self._out)


def measure(expression: str, update: Update, *, rounds: int = 1) -> EncoderFigures:
    """Encodes the same update in every round, then times one more round and checks each run of it.

    Args:
        expression: The expression of an encoder, or of rules, a budget and the like.
        update: The update to encode.
        rounds: Number of rounds, 1 or more.

    Raises:
        CapabilityError: The encoder has no form for NumPy arrays, or is not deterministic.
        ConfigError: The encoder cannot be parsed or does not fit the update, or ``rounds`` is less than 1.
        UnknownNameError: There is no such encoder.
    """
    check_rounds(rounds)
    run = Loop(expression, update.arrays)
    missing = {
        name: np.zeros(x.shape, np.result_type(x.dtype, np.float32)) for name, x in update.arrays.items()
    }
    state, sent = None, 0
    for round_num in range(rounds):
        payloads, state = run.encode(state, round_num)
        sent += sum(map(len, payloads.values()))
        for name, decoded in run.decode(payloads).items():
            missing[name] += update.arrays[name].astype(missing[name].dtype) - decoded
    counted = [name for name in missing if not is_statistic(name)] or list(missing)
    error = sum(_squared(missing[name]) for name in counted)
    whole = rounds**2 * sum(_squared(update.arrays[name]) for name in counted)

    def copied() -> ArrayState:
        assert state is not None, "there was a round"
        return {name: array.copy() for name, array in state.items()}

    payloads, _ = run.encode(copied(), rounds)
    received = {name: np.array(x) for name, x in run.decode(payloads).items()}

    def check_payloads(result: tuple[object, object]) -> None:
        if result[0] != payloads:
            raise CapabilityError(f"{expression} gave other bytes for the same update, state and round")

    def check_arrays(decoded: Arrays) -> None:
        if not all(np.array_equal(x, decoded[name]) for name, x in received.items()):
            raise CapabilityError(f"{expression} gave other numbers for the same bytes")

    encoding = timed(lambda state: run.encode(state, rounds), copied, check_payloads)
    decoding = timed(run.decode, lambda: payloads, check_arrays)
    return EncoderFigures(
        encoder=expression,
        bytes_per_element=sent / rounds / update.elements,
        bits_per_element=8 * sent / rounds / update.elements,
        nmse=error / whole,
        max_error=max(float(np.abs(missing[name]).max()) for name in counted) / rounds,
        encode_seconds=encoding.seconds,
        decode_seconds=decoding.seconds,
        encode_gb_per_second=update.dense_bytes / encoding.seconds / 1e9,
        decode_gb_per_second=update.dense_bytes / decoding.seconds / 1e9,
        encode_spread=encoding.spread,
        decode_spread=decoding.spread,
        runs=encoding.runs,
    )


def _squared(x: NDArray[np.generic]) -> float:
    return float(np.square(x, dtype=np.float64).sum())


class _Timing(NamedTuple):
    """The time of a call.

    Attributes:
        seconds: The median of the runs.
        spread: Half the interquartile range of the runs, relative to the median.
        runs: Number of runs.
    """

    seconds: float
    spread: float
    runs: int


def timed(
    call: Callable[[_Input], _Result], prepare: Callable[[], _Input], check: Callable[[_Result], None]
) -> _Timing:
    """Times many runs. The first run is not counted.

    Args:
        call: The function to time.
        prepare: A function that makes its argument for every run, not timed.
        check: A function that raises an error if a run's result is wrong, not timed.
    """
    times: list[float] = []
    while len(times) <= _RUNS.start or (sum(times[1:]) < _SECONDS and len(times) < _RUNS.stop):
        argument = prepare()
        begin = time.perf_counter()
        result = call(argument)
        times.append(time.perf_counter() - begin)
        check(result)
    low, median, high = statistics.quantiles(times[1:], method="inclusive")
    return _Timing(median, (high - low) / 2 / median, len(times) - 1)
