"""Encoders that each break one promise, which the suite must name. Those in `GOOD` pass all checks.

`BAD` pairs a check with the encoder that must fail it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import ClassVar

import numpy as np
import tensorflow as tf

from fedplug import ops
from fedplug.encoders import BodyParts, Encoder, Measured, Pipeline
from fedplug.encoders.quantizers import QSGD, IdentityStage
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.ops import require
from fedplug.ops.lowering import resolve_lowering
from fedplug.registry.specs import EXECUTIONS, Capabilities


class Whole(Encoder):
    """Rounds to whole numbers with error feedback. Passes all checks."""

    name: ClassVar[str] = "whole"
    wire_id: ClassVar[str] = "whole/1"

    capabilities = Capabilities(needs_client_state=True)

    def get_config(self):
        return {}

    def init_state(self, spec):
        return {"residual": tf.zeros(spec.shape, spec.dtype)}

    def encode(self, x, state, round_num):
        a = x + state["residual"]
        values = tf.round(a)
        return {"values": values}, {"residual": a - values}

    def decode(self, payload, spec):
        return tf.ensure_shape(payload["values"], spec.shape)

    def to_wire(self, payload, spec):
        return ops.to_bytes(payload["values"])

    def from_wire(self, body, spec):
        expected = spec.shape.num_elements() * spec.dtype.size
        with require(tf.size(body) == expected, f"a payload takes {expected} bytes"):
            values = ops.from_bytes(body, spec.dtype)
        with require(tf.reduce_all(tf.math.is_finite(values)), "a payload holds a NaN or an infinity"):
            return {"values": tf.reshape(tf.identity(values), spec.shape)}


class Grid(Whole):
    """Rounds to whole numbers, unbiased and without state. Passes all checks."""

    name: ClassVar[str] = "grid"
    wire_id: ClassVar[str] = "grid/1"
    step = 1.0

    capabilities = Capabilities(unbiased=True, needs_seed=True)

    def init_state(self, spec):
        return {}

    def encode(self, x, state, round_num):
        noise = tf.random.stateless_uniform(x.shape, [0, round_num], dtype=tf.float64)
        return {"values": tf.cast(tf.floor(tf.cast(x, tf.float64) + noise), x.dtype)}, {}


class NameWithSpaces(Whole):
    name: ClassVar[str] = "Whole Numbers"


class ConfigWithTuple(Whole):
    def __init__(self, sizes=(1, 2)):
        self.sizes = tuple(sizes)

    def get_config(self):
        return {"sizes": self.sizes}


class ConfigForgetsAnArgument(Whole):
    def __init__(self, step=3):
        self.step = step

    def get_config(self):
        return {"step": self.step}

    @classmethod
    def from_config(cls, config):
        return cls(step=4)


class ReturnsNoState(Whole):
    """Returns the payload without a state."""

    def encode(self, x, state, round_num):
        return super().encode(x, state, round_num)[0]


class Dice(Grid):
    """Draws its noise from TensorFlow's global generator."""

    def encode(self, x, state, round_num):
        noise = tf.random.uniform(x.shape, dtype=tf.float64)
        return {"values": tf.cast(tf.floor(tf.cast(x, tf.float64) + noise), x.dtype)}, {}


class KeepsTheLast(Whole):
    """Keeps a client's tensor on the instance."""

    def __init__(self):
        self.last = None

    def encode(self, x, state, round_num):
        self.last = x
        return super().encode(x, state, round_num)


class RemembersByItself(Whole):
    """After some rounds it uses the state that it kept in the process, not the one it is given."""

    _kept: ClassVar[dict] = {}

    def encode(self, x, state, round_num):
        if not tf.executing_eagerly():
            return super().encode(x, state, round_num)
        if round_num > 8:
            state = self._kept[x.shape]
        payload, self._kept[x.shape] = super().encode(x, state, round_num)
        return payload, self._kept[x.shape]


class GrowingState(Whole):
    def encode(self, x, state, round_num):
        payload, next_state = super().encode(x, state, round_num)
        return payload, {**next_state, "round": round_num}


class OverflowingDecode(Grid):
    """Doubles and halves every number, so that huge numbers become infinite."""

    def decode(self, payload, spec):
        huge = tf.abs(payload["values"]) > spec.dtype.max / 3
        return tf.where(huge, tf.cast(float("inf"), spec.dtype), payload["values"])


class LosesTheSign(Grid):
    """Sends magnitudes without signs."""

    capabilities = Capabilities(needs_seed=True)

    def encode(self, x, state, round_num):
        payload, state = super().encode(x, state, round_num)
        return {"values": tf.abs(payload["values"])}, state


class DividesByTheNorm(Grid):
    """Computes 0 / 0 as one half."""

    def encode(self, x, state, round_num):
        payload, state = super().encode(x, state, round_num)
        zero = tf.reduce_all(x == 0) & tf.constant(x.shape.num_elements() > 0)
        return {"values": tf.where(zero, tf.cast(0.5, x.dtype), payload["values"])}, state


class DenormalsBecomeOnes(Grid):
    """Inspects the bits of denormal numbers, which TensorFlow treats as zero."""

    def encode(self, x, state, round_num):
        payload, state = super().encode(x, state, round_num)
        unsigned = tf.as_dtype(f"uint{8 * x.dtype.size}")
        magnitude = tf.bitwise.left_shift(tf.bitcast(x, unsigned), tf.constant(1, unsigned))
        denormal = (magnitude > 0) & (tf.abs(x) < x.dtype.as_numpy_dtype(1e-30))
        return {"values": tf.where(denormal, tf.cast(1, x.dtype), payload["values"])}, state


class SloppySum(Whole):
    """Adds the weight to the sum."""

    def accumulate(self, accumulator, payload, weight, spec):
        return super().accumulate(accumulator, payload, weight, spec) + weight


class UndeclaredState(Whole):
    capabilities = Capabilities()


class DeclaresStateItHasNot(Grid):
    capabilities = Capabilities(unbiased=True, needs_seed=True, needs_client_state=True)


class StateNeverWritten(Grid):
    capabilities = Capabilities(unbiased=True, needs_seed=True, needs_client_state=True)

    def init_state(self, spec):
        return {"memory": tf.zeros(spec.shape, spec.dtype)}

    def encode(self, x, state, round_num):
        return super().encode(x, state, round_num)[0], state


class StateNeverRead(StateNeverWritten):
    def encode(self, x, state, round_num):
        return super().encode(x, state, round_num)[0], {"memory": x}


class LosesSomeLater(Whole):
    """Resets the residual every ten rounds."""

    def encode(self, x, state, round_num):
        payload, next_state = super().encode(x, state, round_num)
        keep = tf.cast(round_num % 10 != 9, x.dtype)
        return payload, {"residual": keep * next_state["residual"]}


class NotLossless(Whole):
    capabilities = Capabilities(lossless=True, needs_client_state=True)


class DoesNotCommute(Grid):
    """Sends a count, and decodes a sum of payloads as their mean."""

    capabilities = Capabilities(unbiased=True, needs_seed=True, commutes_with_sum=True)

    def encode(self, x, state, round_num):
        payload, state = super().encode(x, state, round_num)
        return {**payload, "count": tf.ones([], x.dtype)}, state

    def decode(self, payload, spec):
        return payload["values"] / payload["count"]

    def from_wire(self, body, spec):
        return {**super().from_wire(body, spec), "count": tf.ones([], spec.dtype)}


class LeavesEntriesOut(Whole):
    """Sends the first half of the entries, and claims to send every entry."""

    capabilities = Capabilities(needs_client_state=True, sends_every_entry=True)

    def encode(self, x, state, round_num):
        a = tf.reshape(x + state["residual"], [-1])
        sent = tf.range(tf.size(a)) < tf.size(a) // 2
        values = tf.reshape(tf.where(sent, a, tf.zeros_like(a)), x.shape)
        return {"values": values}, {"residual": tf.reshape(a, x.shape) - values}


class ClaimsAFixedSize(Pipeline):
    """Codes indices in as many bits as they need, and claims that all payloads have one size."""

    name: ClassVar[str] = "claims"

    def __init__(self):
        super().__init__(["topk(0.3)", "rice"])

    def get_config(self):
        return {}

    @property
    def capabilities(self):
        return dataclasses.replace(super().capabilities, fixed_size=True, executes_on=("numpy",))


class MissesItsBound(Whole):
    """Rounds by up to one half, and claims an error bound of a thousandth of the range."""

    capabilities = Capabilities(needs_client_state=True, relative_error_bound=1e-3)


class UndeclaredSeed(Grid):
    capabilities = Capabilities(unbiased=True)


class TellsWhetherThereIsAny(Whole):
    """Sends the tensor uncompressed, with a flag outside the sum that says whether it is zero."""

    wire_id: ClassVar[str] = "flagged/1"

    capabilities = Capabilities(commutes_with_sum=True, secure_aggregation_safe=True)

    def init_state(self, spec):
        return {}

    def encode(self, x, state, round_num):
        return {"values": x, "any": tf.reduce_any(x != 0)}, {}

    def to_wire(self, payload, spec):
        flag = tf.cast(tf.reshape(payload["any"], [1]), tf.uint8)
        return tf.concat([flag, super().to_wire(payload, spec)], axis=0)

    def from_wire(self, body, spec):
        with require((tf.size(body) > 0) & (body[0] <= 1), "a payload begins with 0 or 1"):
            flag = tf.identity(body[0]) > 0
        return {**super().from_wire(body[1:], spec), "any": flag}


class RoundsUp(Whole):
    """Claims that the norm never grows, although rounding can increase it."""

    capabilities = Capabilities(needs_client_state=True, bounded_sensitivity=True)


class Biased(Grid):
    """Rounds up too rarely, and claims to be unbiased."""

    def encode(self, x, state, round_num):
        noise = tf.random.stateless_uniform(x.shape, [0, round_num], dtype=tf.float64)
        return {"values": tf.cast(tf.floor(tf.cast(x, tf.float64) + noise**2), x.dtype)}, {}


class UnnumberedWireId(Whole):
    wire_id: ClassVar[str] = "whole"


class LossyWire(Grid):
    """Loses the signs on the wire."""

    def to_wire(self, payload, spec):
        return ops.to_bytes(tf.abs(payload["values"]))


class CountsItsBytesTwice(Grid, Measured):
    def body_parts(self, body, spec):
        return BodyParts(tf.size(body), tf.size(body), math.nan)


class WireOfInt8(Grid):
    """Writes the right bytes with the wrong dtype."""

    def to_wire(self, payload, spec):
        return tf.bitcast(super().to_wire(payload, spec), tf.int8)

    def from_wire(self, body, spec):
        return super().from_wire(tf.bitcast(body, tf.uint8), spec)


class ShapeByTrust(Whole):
    """Decodes as many numbers as the payload holds, whatever the shape."""

    def from_wire(self, body, spec):
        with require(tf.size(body) % spec.dtype.size == 0, "no whole numbers"):
            values = ops.from_bytes(body, spec.dtype)
        with require(tf.reduce_all(tf.math.is_finite(values)), "a payload holds a NaN or an infinity"):
            values = tf.identity(values)
        right = tf.size(values) == spec.shape.num_elements()
        return {"values": tf.cond(right, lambda: tf.reshape(values, spec.shape), lambda: values)}

    def decode(self, payload, spec):
        return payload["values"]


class LetsNanIn(Whole):
    def from_wire(self, body, spec):
        expected = spec.shape.num_elements() * spec.dtype.size
        with require(tf.size(body) == expected, f"a payload takes {expected} bytes"):
            return {"values": tf.reshape(ops.from_bytes(body, spec.dtype), spec.shape)}


class BelievesCounts(Whole):
    """Allocates the number of elements that the first bytes name before it checks the length."""

    wire_id: ClassVar[str] = "counted/1"

    def to_wire(self, payload, spec):
        count = ops.to_bytes(tf.size(payload["values"], tf.int32))
        return tf.concat([count, super().to_wire(payload, spec)], axis=0)

    def from_wire(self, body, spec):
        with require(tf.size(body) >= 4, "a payload begins with its count"):
            count = ops.from_bytes(body[:4], tf.int32)[0]
        with require((count >= 0) & (count <= 2**27), "more elements than any tensor has"):
            room = tf.fill([tf.minimum(count, 2**22)], 1.0)
        with require(tf.reduce_sum(room) == spec.shape.num_elements(), "a payload's count is wrong"):
            body = tf.identity(body[4:])
        return super().from_wire(body, spec)


class AnotherLayout(Whole):
    """Writes the numbers in reverse order under the wire id of `Whole`."""

    def to_wire(self, payload, spec):
        return super().to_wire({"values": tf.reverse(tf.reshape(payload["values"], [-1]), [0])}, spec)

    def from_wire(self, body, spec):
        values = super().from_wire(body, spec)["values"]
        return {"values": tf.reshape(tf.reverse(tf.reshape(values, [-1]), [0]), spec.shape)}


class EagerOnly(Whole):
    """Encodes differently while it is traced."""

    def encode(self, x, state, round_num):
        a = x + state["residual"]
        values = tf.round(a) if tf.executing_eagerly() else tf.floor(a)
        return {"values": values}, {"residual": a - values}


class AnotherTwin(Whole):
    """The compiled op rounds; its reference truncates."""

    def encode(self, x, state, round_num):
        a = x + state["residual"]
        values = tf.round(a) if resolve_lowering() == "fused" else tf.floor(a)
        return {"values": values}, {"residual": a - values}


class TensorOnSelf(Whole):
    """Holds an eager tensor, which a TFF computation cannot capture."""

    def __init__(self):
        self._step = tf.constant(1.0)

    def encode(self, x, state, round_num):
        payload, next_state = super().encode(x, state, round_num)
        return {"values": payload["values"] * tf.cast(self._step, x.dtype)}, next_state


class Loudest(Whole):
    """Sends entries at least half as large as the largest magnitude of all tensors. Passes all checks."""

    name: ClassVar[str] = "loudest"
    wire_id: ClassVar[str] = "loudest/1"

    def encode(self, x, state, round_num):
        return Loudest.grouped_encode(self, [x], [state], round_num)[0]

    def grouped_encode(self, xs, states, round_num):
        sums = [x + state["residual"] for x, state in zip(xs, states, strict=True)]
        largest = tf.reduce_max(tf.abs(tf.concat([tf.zeros([1], xs[0].dtype), *map(flat, sums)], axis=0)))
        values = [tf.where(tf.abs(a) < largest / 2, tf.zeros_like(a), a) for a in sums]
        return [({"values": v}, {"residual": a - v}) for a, v in zip(sums, values, strict=True)]


class Everywhere(Whole):
    """Runs `Whole` on NumPy arrays, too. Passes all checks."""

    capabilities = Capabilities(needs_client_state=True, executes_on=EXECUTIONS)

    def init_state(self, spec):
        return {"residual": ops.zeros(spec)}

    def encode(self, x, state, round_num):
        a = x + state["residual"]
        values = ops.round(a)
        return {"values": values}, {"residual": a - values}

    def decode(self, payload, spec):
        return ops.ensure_shape(payload["values"], spec.shape)

    def from_wire(self, body, spec):
        length = ops.num_elements(spec) * ops.itemsize(spec.dtype)
        values = ops.from_bytes(ops.of_length(body, length, "whole numbers"), spec.dtype)
        with require(ops.all_finite(values), "a payload holds a NaN or an infinity"):
            return {"values": ops.reshape(ops.identity(values), spec.shape)}


class OnNumPy(Everywhere):
    """Runs on NumPy only. Passes all checks."""

    capabilities = Capabilities(needs_client_state=True, executes_on=("numpy",))

    def to_wire(self, payload, spec):
        return np.frombuffer(payload["values"].tobytes(), np.uint8)


class CutsOffOnNumPy(Everywhere):
    """Rounds tensors but truncates arrays."""

    def encode(self, x, state, round_num):
        if tf.is_tensor(x):
            return super().encode(x, state, round_num)
        a = x + state["residual"]
        return {"values": np.trunc(a)}, {"residual": a - np.trunc(a)}


class ReadsWhatItGaveAway(OnNumPy):
    """Reads the residual after an op that may have overwritten it."""

    capabilities = Capabilities(  # the op takes these dtypes
        needs_client_state=True, executes_on=("numpy",), dtypes=("float32", "float64")
    )

    def encode(self, x, state, round_num):
        taken = ops.topk_residual(x, state["residual"], 2)
        values = ops.reshape(ops.scatter_decode(x.size, taken.values, taken.indices), x.shape)
        return {"values": values}, {"residual": x + state["residual"] - values}


class SendsWhatNobodyTakes(Everywhere):
    """Does not check for infinities, and uses a payload key that the codec does not check either."""

    def encode(self, x, state, round_num):
        payload, state = super().encode(x, state, round_num)
        return {"whole": payload["values"]}, state

    def decode(self, payload, spec):
        return super().decode({"values": payload["whole"]}, spec)

    def to_wire(self, payload, spec):
        return super().to_wire({"values": payload["whole"]}, spec)

    def from_wire(self, body, spec):
        return {"whole": super().from_wire(body, spec)["values"]}


class ReadsAnotherConfiguration(Everywhere):
    """Its receiver reads a configuration with twice the scale."""

    wire_id: ClassVar[str] = "scaled/1"

    def __init__(self, scale=1):
        self.scale = scale

    def get_config(self):
        return {"scale": self.scale}

    def from_wire(self, body, spec):
        return {"values": super().from_wire(body, spec)["values"] * ops.astype(self.scale, spec.dtype)}

    @classmethod
    def from_payload(cls, body, spec):
        return cls(scale=2)


class ScribblerOnArrays(OnNumPy):
    """Adds into the given accumulator."""

    def accumulate(self, accumulator, payload, weight, spec):
        accumulator += weight * self.decode(payload, spec)
        return accumulator


class LetsNumPyComplain(OnNumPy):
    """Leaves the refusal of bytes of the wrong length to NumPy."""

    def from_wire(self, body, spec):
        values = np.frombuffer(body.tobytes(), spec.dtype).reshape(spec.shape)
        with require(ops.all_finite(values), "a payload holds a NaN or an infinity"):
            return {"values": values}


class BelievesCountsOnNumPy(OnNumPy):
    """Allocates the number of elements that the first bytes name before it checks the length."""

    wire_id: ClassVar[str] = "counted/1"

    def to_wire(self, payload, spec):
        count = np.array([payload["values"].size], np.uint32)
        return np.concatenate([count.view(np.uint8), super().to_wire(payload, spec)])

    def from_wire(self, body, spec):
        with require(body.size >= 4, "a payload begins with its count"):
            count = int(body[:4].copy().view(np.uint32)[0])
        room = np.ones(min(count, 2**20))
        with require(room.size == ops.num_elements(spec), "a payload's count is wrong"):
            return super().from_wire(body[4:], spec)


class FillsInMissingBytes(OnNumPy):
    """Reads zeros for the bytes that a payload lacks."""

    def from_wire(self, body, spec):
        length = ops.num_elements(spec) * ops.itemsize(spec.dtype)
        return super().from_wire(np.concatenate([body, np.zeros(max(0, length - body.size), np.uint8)]), spec)


class ClipsWhatNoEncoderWrites(OnNumPy):
    """Makes a number out of the bits of every other one."""

    def from_wire(self, body, spec):
        with np.errstate(invalid="ignore"):
            values = np.nan_to_num(body.copy().view(spec.dtype)) if body.size % 4 == 0 else body
        return super().from_wire(values.reshape(-1).view(np.uint8), spec)


class IgnoresBytesInAStage(IdentityStage):
    """A quantizer that reads as many bytes as it needs."""

    name: ClassVar[str] = "lenient"
    wire_id: ClassVar[str] = "lenient/1"
    uncompressed: ClassVar[bool] = False
    capabilities = Capabilities(executes_on=("numpy",))

    def encode(self, values, round_num):
        return super().encode(ops.require_finite(values, "the update"), round_num)

    def decode(self, code, count, dtype):
        return super().decode(code[: count * dtype.itemsize], count, dtype)


class LenientStage(Pipeline):
    name: ClassVar[str] = "lenient_stage"

    def __init__(self):
        super().__init__([IgnoresBytesInAStage()])

    def get_config(self):
        return {}


class ReadsBehindTheBuffer(OnNumPy):
    """Its kernel believes the shape and not the length, and checks afterwards."""

    def from_wire(self, body, spec):
        length = ops.num_elements(spec) * ops.itemsize(spec.dtype)
        body = np.ascontiguousarray(body)
        copy = np.frombuffer(ctypes.string_at(body.ctypes.data, length), np.uint8)
        return super().from_wire(copy if body.size == length else body, spec)


class ReadsBehindTheTensor(OnNumPy):
    """Its kernel reads a whole vector register at the end of a tensor."""

    def encode(self, x, state, round_num):
        ctypes.string_at(np.ascontiguousarray(x).ctypes.data, x.nbytes + 16)
        return super().encode(x, state, round_num)


class CrashesOnDamagedBytes(OnNumPy):
    def from_wire(self, body, spec):
        if body.size > 3 and body[3] == 255:
            ctypes.memset(8, 0, 8)
        return super().from_wire(body, spec)


class AllocatesInItsKernel(BelievesCountsOnNumPy):
    """Allocates the number of elements that the first bytes name, outside of Python."""

    def from_wire(self, body, spec):
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
            ctypes.c_void_p,
            [ctypes.c_size_t],
            [ctypes.c_void_p],
        )
        with require(body.size >= 4, "a payload begins with its count"):
            count = int(body[:4].copy().view(np.uint32)[0])
        libc.free(libc.malloc(count))
        with require(count == ops.num_elements(spec), "a payload's count is wrong"):
            return OnNumPy.from_wire(self, body[4:], spec)


class ComparesEachWithEach(OnNumPy):
    """Looks for the nearest neighbours of every eighth number, of so many at once that calls cost little."""

    def encode(self, x, state, round_num):
        flat = x.reshape(-1)
        for begin in range(0, flat.size, 64):
            np.abs(flat[begin : begin + 64 : 8, None] - flat).min(axis=1)
        return super().encode(x, state, round_num)


class BiasedInLaterBlocks(Grid):
    """Rounds down from the second block on, and claims to be unbiased."""

    def encode(self, x, state, round_num):
        payload, state = super().encode(x, state, round_num)
        later = tf.reshape(tf.range(tf.size(x)), x.shape) >= 512
        return {"values": tf.where(later, tf.floor(x), payload["values"])}, state


def flat(x):
    return tf.reshape(x, [-1])


class AnotherTogether(Loudest):
    """Rounds a tensor that is encoded alone."""

    def encode(self, x, state, round_num):
        return Whole.encode(self, x, state, round_num)


class AllInOne(Loudest):
    """Sends one payload for all tensors."""

    def grouped_encode(self, xs, states, round_num):
        return super().grouped_encode(xs, states, round_num)[:1]


class ForgetsAmongOthers(Loudest):
    """Halves the residuals of tensors that are encoded together."""

    def grouped_encode(self, xs, states, round_num):
        encoded = super().grouped_encode(xs, states, round_num)
        if len(xs) == 1:
            return encoded
        return [(payload, {"residual": state["residual"] / 2}) for payload, state in encoded]


class TogetherOnlyEagerly(Loudest):
    """Encodes each tensor by itself while it is traced."""

    def grouped_encode(self, xs, states, round_num):
        if tf.executing_eagerly():
            return super().grouped_encode(xs, states, round_num)
        return [self.encode(x, state, round_num) for x, state in zip(xs, states, strict=True)]


class Forgets(Whole):
    """Drops the residual of a client that missed a round."""

    def init_state(self, spec):
        return {**super().init_state(spec), "last": tf.zeros([], tf.int32)}

    def encode(self, x, state, round_num):
        missed = round_num > state["last"] + 1
        left = {"residual": tf.where(missed, tf.zeros_like(x), state["residual"])}
        payload, kept = super().encode(x, left, round_num)
        return payload, {**kept, "last": tf.convert_to_tensor(round_num, tf.int32)}


class Follows(Grid):
    """Sends rounded differences from a memory, and adds them to it. Passes all checks."""

    name: ClassVar[str] = "follows"

    capabilities = Capabilities(needs_client_state=True, needs_seed=True, sends_differences=True)

    def init_state(self, spec):
        return {"memory": tf.zeros(spec.shape, spec.dtype)}

    def encode(self, x, state, round_num):
        payload, _ = super().encode(x - state["memory"], {}, round_num)
        return payload, {"memory": state["memory"] + payload["values"]}


class RemembersWhatItDidNotSend(Follows):
    """Its memory is the tensor itself, which the server does not know."""

    def encode(self, x, state, round_num):
        return super().encode(x, state, round_num)[0], {"memory": x}


class AddsWholeTensors(Follows):
    """Encodes the tensor instead of its difference from the memory."""

    def encode(self, x, state, round_num):
        payload, _ = Grid.encode(self, x, {}, round_num)
        return payload, {"memory": state["memory"] + payload["values"]}


class Shared(SharedK):
    """Sends entries for a secure sum, on NumPy arrays alone."""

    def __init__(self):
        super().__init__(0.5, clients=4)

    def get_config(self):
        return {}

    @property
    def capabilities(self):
        return dataclasses.replace(super().capabilities, executes_on=("numpy",))


class SendsSignedNumbers(Shared):
    """Sends negative numbers, which are none of the ring."""

    def encode(self, x, state, round_num):
        payload, state = super().encode(x, state, round_num)
        return {**payload, "integers": self.signed(payload["integers"])}, state


class WrapsForOneMore(Shared):
    """Claims that one more client may take part than its limit allows."""

    @property
    def capabilities(self):
        return dataclasses.replace(super().capabilities, most_summands=5)


GOOD = [Whole, Grid, Loudest, Everywhere, OnNumPy, Follows]


class Differences(QSGD):
    """Writes each symbol as the difference from the previous symbol."""

    name: ClassVar[str] = "differences"
    wire_id: ClassVar[str] = "differences/1"

    def encode(self, values, round_num):
        code, start = super().encode(values, round_num), self.symbols(ops.size(values), values.dtype).start
        levels = ops.astype(code[start:], "int32")
        before = ops.concat([levels[:1] * 0, levels[:-1]])
        return ops.concat([code[:start], ops.astype((levels - before) % 256, "uint8")])

    def decode(self, code, count, dtype):
        start = self.symbols(count, dtype).start
        steps = ops.astype(code[start:], "int32")
        levels = (ops.cumulative_sum(steps) + steps) % 256
        return super().decode(ops.concat([code[:start], ops.astype(levels, "uint8")]), count, dtype)


class ReadsItsNeighbours(Pipeline):
    name: ClassVar[str] = "neighbours"

    def __init__(self):
        super().__init__([Differences(rounding="nearest")])

    def get_config(self):
        return {}


BAD = [
    ("test_it_has_a_name_for_the_registry", NameWithSpaces),
    ("test_its_config_survives_json_and_makes_an_equal_component", ConfigWithTuple),
    ("test_its_config_survives_json_and_makes_an_equal_component", ConfigForgetsAnArgument),
    ("test_its_methods_can_be_called_and_return_what_they_should", ReturnsNoState),
    ("test_equal_encoders_give_equal_bits", Dice),
    ("test_a_round_done_again_later_has_the_same_result", RemembersByItself),
    ("test_it_keeps_nothing_of_a_client_on_itself", KeepsTheLast),
    ("test_the_state_keeps_its_structure_shapes_and_dtypes", GrowingState),
    ("test_decoded_values_are_finite_and_have_shape_and_dtype_of_the_input", OverflowingDecode),
    ("test_decoded_values_have_the_sign_of_the_input", LosesTheSign),
    ("test_zeros_are_decoded_as_zeros", DividesByTheNorm),
    ("test_denormal_numbers_keep_their_size", DenormalsBecomeOnes),
    ("test_accumulating_is_adding_the_weighted_decoded_tensor", SloppySum),
    ("test_it_has_state_exactly_if_it_declares_that_it_needs_some", UndeclaredState),
    ("test_it_has_state_exactly_if_it_declares_that_it_needs_some", DeclaresStateItHasNot),
    ("test_its_state_is_written_and_read", StateNeverWritten),
    ("test_its_state_is_written_and_read", StateNeverRead),
    ("test_payload_and_residual_add_up", LosesSomeLater),
    ("test_payload_and_residual_add_up", Forgets),
    ("test_a_memory_is_the_sum_of_its_sent_differences", RemembersWhatItDidNotSend),
    ("test_a_memory_comes_near_to_a_tensor_that_stays", AddsWholeTensors),
    ("test_lossless_means_bit_for_bit", NotLossless),
    ("test_commuting_with_a_sum_means_that_payloads_may_be_summed", DoesNotCommute),
    ("test_unbiased_means_that_the_mean_over_rounds_is_the_input", Biased),
    ("test_unbiased_means_that_the_mean_over_rounds_is_the_input", BiasedInLaterBlocks),
    ("test_it_needs_a_seed_exactly_if_the_round_makes_a_difference", UndeclaredSeed),
    ("test_safe_for_secure_aggregation_means_that_only_sums_tell_of_the_data", TellsWhetherThereIsAny),
    ("test_sending_every_entry_means_that_equal_magnitudes_keep_their_signs", LeavesEntriesOut),
    ("test_masked_integers_are_numbers_of_the_ring", SendsSignedNumbers),
    ("test_a_sum_of_the_most_summands_does_not_wrap", WrapsForOneMore),
    ("test_bounded_sensitivity_means_that_no_norm_grows", RoundsUp),
    ("test_no_entry_is_further_off_than_its_error_bound", MissesItsBound),
    ("test_payloads_of_a_fixed_size_have_one_size_for_every_content_and_round", ClaimsAFixedSize),
    ("test_its_wire_id_names_a_frozen_layout", UnnumberedWireId),
    ("test_sent_values_are_received", LossyWire),
    ("test_no_byte_is_spent_twice", CountsItsBytesTwice),
    ("test_sent_values_are_received", WireOfInt8),
    ("test_entries_are_read_from_their_own_symbols", ReadsItsNeighbours),
    ("test_hostile_bytes_are_refused_or_are_a_valid_payload", ShapeByTrust),
    ("test_hostile_bytes_are_refused_or_are_a_valid_payload", LetsNanIn),
    ("test_hostile_bytes_are_refused_or_are_a_valid_payload", CrashesOnDamagedBytes),
    ("test_hostile_bytes_that_are_accepted_have_one_meaning", FillsInMissingBytes),
    ("test_hostile_bytes_that_are_accepted_have_one_meaning", ClipsWhatNoEncoderWrites),
    ("test_hostile_bytes_that_are_accepted_have_one_meaning", LenientStage),
    ("test_no_byte_outside_of_a_buffer_is_read", ReadsBehindTheBuffer),
    ("test_no_byte_outside_of_a_buffer_is_read", ReadsBehindTheTensor),
    ("test_time_does_not_grow_with_the_square_of_the_size", ComparesEachWithEach),
    ("test_hostile_bytes_do_not_take_memory", AllocatesInItsKernel),
    ("test_hostile_bytes_do_not_take_memory", BelievesCounts),
    ("test_golden_payloads_are_read_as_they_always_were", AnotherLayout),
    ("test_its_arguments_are_not_changed", ScribblerOnArrays),
    ("test_hostile_bytes_are_refused_or_are_a_valid_payload", LetsNumPyComplain),
    ("test_hostile_bytes_do_not_take_memory", BelievesCountsOnNumPy),
    ("test_numpy_arrays_and_tensors_give_the_same_bits", CutsOffOnNumPy),
    ("test_donated_residuals_give_the_same_bits", ReadsWhatItGaveAway),
    ("test_no_array_is_sent_that_is_not_finite", SendsWhatNobodyTakes),
    ("test_it_is_read_without_its_configuration", ReadsAnotherConfiguration),
    ("test_a_graph_equals_eager_execution", EagerOnly),
    ("test_compiled_ops_and_their_references_give_the_same", AnotherTwin),
    ("test_a_tff_process_sends_the_bytes_of_eager_execution", TensorOnSelf),
    ("test_a_tensor_encoded_together_with_no_other_is_encoded_as_alone", AnotherTogether),
    ("test_tensors_encoded_together_are_received_one_by_one", AllInOne),
    ("test_payloads_and_residuals_of_tensors_encoded_together_add_up", ForgetsAmongOthers),
    ("test_tensors_are_encoded_together_alike_on_all_arrays_and_in_graphs", TogetherOnlyEagerly),
]
