"""Tests that an exception from a signal handler anywhere in a sum leaves no client partly added."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fedplug
from fedplug.codecs import accumulator, sums

SHAPES = {f"tensor {place}": (40, 9) for place in range(4)}
ENCODERS = ["identity", "topk(0.3)", "qsgd(4)"]


class LateError(Exception):
    """The exception of the signal handler."""


def interrupted(call, at):
    """Raises LateError where Python runs signal handlers: at the start of a function and after a C function.

    ``at`` is the index of the place among those in the module of sums.

    Returns:
        Whether ``call`` reached that place.
    """
    left, places = at, (accumulator.__file__, sums.__file__)

    def hook(frame, event, argument):
        nonlocal left
        if event not in ("call", "c_return") or frame.f_code.co_filename not in places:
            return
        left -= 1
        if left < 0:
            sys.setprofile(None)
            raise LateError

    sys.setprofile(hook)
    try:
        call()
    except LateError:
        return True
    finally:
        sys.setprofile(None)
    return False


def added(total):
    """The factors of the update in each tensor of a sum, in its count and in its weight."""
    arrays = total.value()
    arrays = arrays.values() if isinstance(arrays, dict) else [arrays]
    return {round(float(number), 3) for array in arrays for number in np.unique(array[array != 0])} | {
        float(total.count),
        total.weight,
    }


def model_sum():
    return fedplug.ModelSum(SHAPES)


def sum_of_one():
    return fedplug.Sum((40, 9))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("make", [model_sum, sum_of_one])
@pytest.mark.parametrize("how", ["add", "merge"])
def test_an_exception_anywhere_adds_all_or_nothing(make, how, encoder):
    """Interrupts an add and a merge once at every step."""
    ones = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    payloads, _ = fedplug.codec(encoder).encode_model(ones)
    addend = payloads if make is model_sum else payloads["tensor 0"]
    outcomes, at = [], 0
    while True:
        total, other = make(), make()
        total.add(addend)
        other.add(addend)
        call = {"add": lambda t=total: t.add(addend), "merge": lambda t=total, o=other: t.merge(o)}[how]
        if not interrupted(call, at):
            break
        at += 1
        outcomes.append(added(total))
    assert at > 5
    assert {1.0} in outcomes
    assert all(outcome in ({1.0}, {2.0}) for outcome in outcomes)
