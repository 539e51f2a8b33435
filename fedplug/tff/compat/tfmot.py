"""Adapts encoding stages of TensorFlow Model Optimization (tfmot) as encoders.

A stage is recognized by its methods (`EncodingStageInterface`, `AdaptiveEncodingStageInterface`), so tfmot
need not be imported.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import tensorflow as tf

import fedplug.ops as ops
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.errors import ConfigError
from fedplug.ops import require
from fedplug.registry.specs import Capabilities

__all__ = ["StageEncoder"]

Stage: TypeAlias = Any
"""A stage of tfmot, recognized by its methods."""

_STAGE = ("name", "commutes_with_sum", "decode_needs_input_shape", "get_params", "encode", "decode")
_ADAPTIVE = ("initial_state", "update_state", "state_update_aggregation_modes")
_LONGEST_NAME = 24
_Layout = Mapping[str, tf.TensorSpec]

_DIMENSION_BYTES = 4
_LARGEST_DIMENSION = 2**31 - 1
_ENCODED, _PARAM, _SUMMANDS = "encoded ", "param ", "num_summands"


class StageEncoder(Encoder):
    """One tfmot encoding stage as a fedplug encoder.

    Example::

        encoder = StageEncoder(MyTopKStage, fraction=0.4)
        process = fedplug.tff.process.build_weighted_fed_avg(model_fn, sgd, encoder=encoder)

    Each client keeps the state of an adaptive stage. After every ``encode``, ``update_state`` receives the
    client's own ``state_update_tensors``, as if they were aggregated over this client alone (a stack gets a
    first axis of length 1).

    Decode parameters that are tensors are part of the payload, because the server has neither the client's
    state nor its random numbers. Python constants are recomputed.

    ``commutes_with_sum`` becomes the capability of that name, unless decode parameters are sent: these differ
    between clients, so such payloads cannot be summed. `fedplug.testing.EncoderSuite` checks the claim. It
    also detects stages that draw random numbers from TensorFlow's generators and so ignore the seed.

    The wire form "tfmot+<name of the stage>/1" has the encoded tensors, then the decode parameters that are
    tensors, each sorted by key. Both sides know the layout: a `tf.TensorSpec` for each name, with at most one
    unknown dimension. The bytes have, for each name, the unknown dimension (if any) as uint32, then the
    elements, row by row, little-endian.

    The interfaces: tensorflow_model_optimization 0.7, ``core/internal/tensor_encoding/core``.
    """

    name: ClassVar[str] = "tfmot"

    def __init__(self, stage: str | Callable[..., Stage], **arguments: object) -> None:
        """Makes the encoder.

        Args:
            stage: A stage's class or a function that makes one, at the top level of a module, or its name as
                ``"module:Class"``. If it takes an argument ``spec``, it is given the `tf.TensorSpec` of the
                tensor to encode, for a stage whose initial state depends on the shape.
            **arguments: Passed to ``stage``; JSON values.

        Raises:
            ConfigError: It cannot be found by name or imported, refuses the arguments, or does not make a
                stage.
        """
        self._target = stage if isinstance(stage, str) else _target_of(stage)
        self._make = _resolve(self._target)
        self._arguments = arguments
        self._takes_spec = _takes_spec(self._make)
        self._layouts: dict[tf.TensorSpec, Mapping[str, tf.TensorSpec]] = {}
        probe = self._stage(tf.TensorSpec([1], tf.float32))
        missing = [attribute for attribute in _STAGE if not hasattr(probe, attribute)]
        if missing:
            raise ConfigError(
                f"{self._target} makes a {type(probe).__name__}, which is no encoding stage: it has no "
                + ", ".join(missing)
            )
        if not isinstance(probe.name, str) or not 1 <= len(probe.name) <= _LONGEST_NAME:
            raise ConfigError(
                f"the name of a stage becomes part of a wire id, so it has 1 to {_LONGEST_NAME} characters; "
                f"{self._target} has {probe.name!r}"
            )
        self.wire_id = f"tfmot+{probe.name}/1"  # type: ignore[misc]
        self._capabilities = self._find_capabilities(probe)

    @property
    def capabilities(self) -> Capabilities:
        """``commutes_with_sum`` as the stage declares. Client state if the stage has an initial state."""
        return self._capabilities

    def get_config(self) -> dict[str, object]:
        """The stage by name, and its arguments."""
        return {"stage": self._target, **self._arguments}

    def init_state(self, spec: tf.TensorSpec) -> State:
        """The stage's initial state, as tensors."""
        return _initial_state(self._stage(spec))

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """The stage's encoded tensors as ``"encoded KEY"`` and its decode parameters as ``"param KEY"``."""
        del round_num
        stage = self._stage(tf.TensorSpec(x.shape, x.dtype))
        encode_params, decode_params = _params(stage, state)
        if _is_adaptive(stage):
            encoded, update = stage.encode(x, encode_params)
            modes = stage.state_update_aggregation_modes
            own = {key: _over_one_client(value, modes[key]) for key, value in update.items()}
            next_state = {k: tf.convert_to_tensor(v) for k, v in stage.update_state(dict(state), own).items()}
        else:
            encoded, next_state = stage.encode(x, encode_params), dict(state)
        payload = {f"{_ENCODED}{key}": tf.convert_to_tensor(encoded[key]) for key in sorted(encoded)}
        payload |= {
            f"{_PARAM}{key}": tf.convert_to_tensor(decode_params[key])
            for key in sorted(decode_params)
            if tf.is_tensor(decode_params[key])
        }
        return self._with_summands(payload), next_state

    def decode(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """Decodes with the stage. Refuses results that are not finite."""
        stage = self._stage(spec)
        encoded = {key[len(_ENCODED) :]: x for key, x in payload.items() if key.startswith(_ENCODED)}
        sent = {key[len(_PARAM) :]: x for key, x in payload.items() if key.startswith(_PARAM)}
        _, decode_params = _params(stage, _initial_state(stage))
        decoded = stage.decode(
            encoded,
            {**decode_params, **sent},
            num_summands=tf.cast(payload[_SUMMANDS], tf.int32) if _SUMMANDS in payload else None,
            shape=spec.shape if stage.decode_needs_input_shape else None,
        )
        if decoded.dtype != spec.dtype:
            raise ConfigError(
                f"stage {stage.name!r} decodes {decoded.dtype.name} from a {spec.dtype.name} tensor"
            )
        with require(tf.reduce_all(tf.math.is_finite(decoded)), f"{self.wire_id} decodes to NaN or infinity"):
            return tf.ensure_shape(tf.identity(decoded), spec.shape)

    def to_wire(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """See the class."""
        return _to_bytes(payload, self._layout(spec))

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """Refuses malformed bytes, see `_from_bytes`. The stage checks the values."""
        payload = _from_bytes(body, self._layout(spec), self.wire_id)
        return self._with_summands(payload)

    def _with_summands(self, payload: dict[str, tf.Tensor]) -> Payload:
        """Adds the number of summands, which is 1 and not sent, to payloads that may be summed."""
        return {**payload, _SUMMANDS: tf.constant(1.0)} if self._capabilities.commutes_with_sum else payload

    def _stage(self, spec: tf.TensorSpec) -> Stage:
        arguments = {**self._arguments, "spec": spec} if self._takes_spec else self._arguments
        try:
            return self._make(**arguments)
        except TypeError as error:
            raise ConfigError(f"{self._target} refuses its arguments: {error}") from error

    def _find_capabilities(self, stage: Stage) -> Capabilities:
        with tf.Graph().as_default():
            state = _initial_state(stage)
            _, decode_params = _params(stage, state)
            sends_params = any(tf.is_tensor(value) for value in decode_params.values())
            return Capabilities(
                commutes_with_sum=bool(stage.commutes_with_sum) and not sends_params,
                needs_client_state=bool(state),
            )

    def _layout(self, spec: tf.TensorSpec) -> Mapping[str, tf.TensorSpec]:
        """Returns the specs of the payload's tensors, found by tracing `encode` once."""
        if spec not in self._layouts:

            def payload(x: tf.Tensor) -> Payload:
                return self.encode(x, self.init_state(spec), tf.constant(0))[0]

            with tf.init_scope():
                traced = self._traced(payload, tf.TensorSpec(spec.shape, spec.dtype))
            found = {
                key: tf.TensorSpec(value.shape, value.dtype)
                for key, value in traced.structured_outputs.items()
                if key != _SUMMANDS
            }
            _check_layout(found, self.wire_id)
            self._layouts[spec] = found
        return self._layouts[spec]

    def _traced(
        self, function: Callable[[tf.Tensor], Payload], spec: tf.TensorSpec
    ) -> tf.types.experimental.ConcreteFunction:
        advice = "an encoder has no place for variables; keep what changes in the state of an adaptive stage"
        try:
            traced = tf.function(function, autograph=False).get_concrete_function(spec)
        except ValueError as error:  # TensorFlow's error for a variable made while tracing, among others
            raise ConfigError(f"{self._target} cannot be traced: {error}; {advice}") from error
        if traced.graph.variables:
            raise ConfigError(f"{self._target} uses a variable; {advice}")
        return traced


def _is_adaptive(stage: Stage) -> bool:
    return all(hasattr(stage, attribute) for attribute in _ADAPTIVE)


def _initial_state(stage: Stage) -> dict[str, tf.Tensor]:
    if not _is_adaptive(stage):
        return {}
    return {key: tf.convert_to_tensor(value) for key, value in stage.initial_state().items()}


def _params(stage: Stage, state: State) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    encode_params, decode_params = (
        stage.get_params(dict(state)) if _is_adaptive(stage) else stage.get_params()
    )
    return dict(encode_params), dict(decode_params)


def _over_one_client(value: tf.Tensor, mode: enum.Enum) -> tf.Tensor:
    value = tf.convert_to_tensor(value)
    return value[tf.newaxis] if mode.name == "STACK" else value


def _takes_spec(make: Callable[..., Stage]) -> bool:
    """Whether there is an argument ``spec``. Tfmot's decorators hide the arguments of the class inside."""
    makers = [vars(cls).get("__init__", cls) for cls in make.__mro__] if isinstance(make, type) else [make]
    return any("spec" in inspect.signature(maker).parameters for maker in makers if inspect.isfunction(maker))


def _target_of(make: Stage) -> str:
    """``"module:name"``; a class decorated by tfmot is found under the name of the class inside."""
    for found in make.__mro__ if isinstance(make, type) else (make,):
        target = f"{found.__module__}:{found.__qualname__}"
        try:
            if _resolve(target) is make:
                return target
        except ConfigError:
            continue
    raise ConfigError(f"{make!r} cannot be found by name; define it at the top level of a module")


def _resolve(target: str) -> Callable[..., Stage]:
    module, _, name = target.partition(":")
    try:
        found: Stage = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"stage {target!r} cannot be imported ({error}); write 'module:Class'") from error
    if not callable(found):
        raise ConfigError(f"stage {target!r} is a {type(found).__name__}, which makes no stages")
    made: Callable[..., Stage] = found
    return made


def _check_layout(layout: _Layout, what: str) -> None:
    """Refuses a layout that has no wire form.

    Raises:
        ConfigError: A tensor is not of numbers or bools, or more than one of its dimensions is unknown.
    """
    for key, spec in layout.items():
        if not (spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_bool):
            raise ConfigError(f"{what}: {key!r} is of {spec.dtype.name}, which cannot be sent")
        if spec.dtype.is_quantized or spec.shape.rank is None or spec.shape.as_list().count(None) > 1:
            raise ConfigError(
                f"{what}: {key!r} is {spec.dtype.name} {spec.shape}; what is sent has at most one "
                "dimension that is not known beforehand"
            )


def _to_bytes(tensors: Mapping[str, tf.Tensor], layout: _Layout) -> tf.Tensor:
    """Returns a uint8 vector. Tensors outside the layout are left out."""
    pieces = [tf.zeros([0], tf.uint8)]
    for key, spec in layout.items():
        if not spec.shape.is_fully_defined():
            unknown = spec.shape.as_list().index(None)
            pieces.append(ops.to_bytes(tf.shape(tensors[key])[unknown]))
        pieces.append(ops.to_bytes(tensors[key]))
    return tf.concat(pieces, axis=0)


def _from_bytes(body: tf.Tensor, layout: _Layout, what: str) -> dict[str, tf.Tensor]:
    """Inverts `_to_bytes`, for untrusted bytes.

    Raises:
        tf.errors.InvalidArgumentError: The number of bytes does not fit the layout and its sizes, a bool is
            neither 0 nor 1, or a floating-point number is not finite.
    """
    tensors = {}
    for key, spec in layout.items():
        known = spec.shape.as_list()
        row = math.prod(d for d in known if d is not None) * spec.dtype.size
        unknown = tf.constant(1)
        if None in known:
            unknown, body = _dimension(body, what)
        with require(
            unknown <= tf.size(body) // row if row else tf.constant(True),
            f"a {what} payload ends within {key!r}",
        ):
            size = tf.identity(unknown * row)
        values = ops.from_bytes(body[:size], spec.dtype)
        if spec.dtype.is_floating:
            with require(tf.reduce_all(tf.math.is_finite(values)), f"{key!r} holds a NaN or an infinity"):
                values = tf.identity(values)
        shape = tf.stack([unknown if d is None else d for d in known]) if known else []
        tensors[key] = tf.ensure_shape(tf.reshape(values, shape), spec.shape)
        body = body[size:]
    with require(tf.size(body) == 0, f"a {what} payload is longer than its tensors"):
        return {key: tf.identity(tensor) for key, tensor in tensors.items()}


def _dimension(body: tf.Tensor, what: str) -> tuple[tf.Tensor, tf.Tensor]:
    with require(tf.size(body) >= _DIMENSION_BYTES, f"a {what} payload is too short to hold its sizes"):
        (dimension,) = tf.unstack(ops.from_bytes(body[:_DIMENSION_BYTES], tf.uint32), num=1)
    with require(dimension <= _LARGEST_DIMENSION, f"a size in a {what} payload is too large"):
        return tf.cast(dimension, tf.int32), body[_DIMENSION_BYTES:]
