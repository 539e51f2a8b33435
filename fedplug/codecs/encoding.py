"""From arrays to bytes: one array at a time, or a model's arrays together."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedplug import api, kernels, ops, wire
from fedplug.codecs.arrays import DTYPE_NAMES, as_array, named_arrays
from fedplug.codecs.decoding import decode
from fedplug.codecs.metrics import TensorMetrics
from fedplug.codecs.state import (
    OWNER,
    ArrayState,
    StateForm,
    flattened,
    key_of,
    owner,
    require_owner,
    unflattened,
)
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE, ModelEncoder
from fedplug.encoders.standalone.identity import Identity
from fedplug.errors import ArgumentError, CapabilityError, NonFiniteError
from fedplug.ops import donation
from fedplug.ops.checks import sums_may_overflow
from fedplug.ops.device_array import is_on_device, on_host
from fedplug.ops.donation import donate_residuals
from fedplug.ops.types import ArraySpec
from fedplug.registry.component import plain

__all__ = ["Codec", "as_round", "codec"]

_MOST_PLANS = 1024
_ROUNDS_END = 2**31

_CONTROL = "codec/"
"""Before the names of what rate control keeps, in the state of a model."""


def codec(
    encoder: Any, /, *, min_size: int = DEFAULT_MIN_SIZE, exactly: Collection[str] = (), **config: Any
) -> Codec:
    """An encoder for NumPy arrays: bytes out.

    Args:
        encoder: Anything an encoder may be: an expression such as ``"topk(0.01) | qsgd(4)"``, a name with its
            arguments in ``config``, rules, a budget, a configuration, or an encoder; see `fedplug.encoder`.
        min_size: Minimum number of elements; `Codec.encode_model` sends smaller arrays uncompressed.
        exactly: Names of further arrays that `Codec.encode_model` sends uncompressed, such as buffers; see
            `Codec.sent_exactly`.
        config: The arguments of the encoder that a name stands for.

    Raises:
        CapabilityError: It executes in TensorFlow only, or its stages do not fit together.
        ConfigError: It cannot be read, or an encoder refuses its arguments.
        UnknownNameError: No such encoder, or no such argument; the message lists the nearest.
        PluginError: An encoder's plugin is broken.
    """
    return Codec(api.encoder(encoder, **config), min_size=min_size, exactly=exactly)


class Codec:
    """Compresses arrays; keeps nothing itself, so that one may serve any number of clients and threads.

    What a client keeps between rounds, the residual of error feedback for instance, is its state: a
    dictionary of arrays that `encode` returns and takes in the next round. A state belongs to one client and
    one array.
    """

    def __init__(
        self,
        encoder: Encoder | EncoderAssignment,
        *,
        min_size: int = DEFAULT_MIN_SIZE,
        exactly: Collection[str] = (),
    ) -> None:
        """See `fedplug.codec`."""
        if not isinstance(encoder, Encoder | EncoderAssignment):
            raise ArgumentError(f"a codec is made of an encoder, not of {encoder!r}; see fedplug.codec")
        if "numpy" not in encoder.capabilities.executes_on:
            raise CapabilityError(
                f"{encoder!r} executes in TensorFlow only, so it cannot encode NumPy arrays; use it in a "
                "TFF process (fedplug.tff.process), or another encoder, see `fedplug plugins list`"
            )
        min_size = plain(min_size)
        check_whole("min_size", min_size, 0)
        self.encoder = encoder
        self._exactly = _as_names(exactly)
        self.min_size = min_size
        self._owner = owner(encoder)
        self._identity = Identity()
        self._plans: dict[tuple[tuple[int, ...], np.dtype[Any]], _Plan] = {}
        self._models: dict[tuple[ArraySpec, ...], _Model] = {}

    @property
    def owner(self) -> NDArray[np.uint8]:
        """The text, as bytes, that a state of this codec has under ``"codec"``."""
        return self._owner

    def encode(
        self,
        array: Any,
        state: ArrayState | None = None,
        round_num: int = 0,
        *,
        in_place: bool = False,
        out: ArrayState | None = None,
    ) -> tuple[bytes, dict[str, NDArray[Any]]]:
        """Compresses one array.

        Args:
            array: NumPy, PyTorch, JAX or anything else with ``__dlpack__`` or ``__array__``, on the CPU; any
                shape; finite. Arrays that are not of floats are sent uncompressed.
            state: What this client's previous call for this array returned; None the first time.
            round_num: 0 or more; for schedules and seeds.
            in_place: Write the next state over the arrays of ``state``, which the caller then gives up: no
                memory of the array's size is allocated. Arrays that cannot be written are copied. After a
                NonFiniteError the state is unchanged; but in `encode_model`, where finite numbers and
                residuals add up to an infinity, what was encoded before has its next state already, though
                there is no payload of it. With ``out`` the state is never touched.
            out: A state that is not needed any more, of the same codec and array: the next state is written
                over its arrays. The faster way: two states that take turns.

        Returns:
            The payload, and the state for the next round: empty for encoders that keep nothing.

        Raises:
            ArgumentError: ``array`` is no array that can be encoded, or the codec is of rules (see
                `encode_model`).
            NonFiniteError: An element, or its sum with the residual, is NaN or infinite.
            StateError: ``state`` is of another codec, shape or dtype.
        """
        if type(round_num) is not int or not 0 <= round_num < _ROUNDS_END:
            round_num = as_round(round_num)
        x = as_array(array)
        encoder, spec, form, header = self._plans.get((x.shape, x.dtype)) or self._plan(x)
        if state is None:
            given, in_place = encoder.init_state(spec), True
        else:
            given = form.require(state, donated=in_place)
        spare = form.spare(out, given)
        before = donation.spare_residuals.set(None if in_place else spare)  # quicker than `donate_residuals`
        try:
            payload, next_state = encoder.encode_container(x, given, round_num, spec, header)
        finally:
            donation.spare_residuals.reset(before)
        return payload, form.tagged(next_state)

    def encode_model(
        self,
        arrays: Mapping[str, Any],
        states: ArrayState | None = None,
        round_num: int = 0,
        *,
        in_place: bool = False,
        out: ArrayState | None = None,
        metrics: TensorMetrics | None = None,
    ) -> tuple[dict[str, bytes], dict[str, NDArray[Any]]]:
        """Compresses the arrays of a model together: rules look at their names, budgets at their bytes.

        Args:
            arrays: The arrays by name; as for `encode`. Statistics (see `sent_exactly`), arrays of fewer than
                ``min_size`` elements, and those that are not of floats, are sent uncompressed.
            states: What this client's previous call returned; None the first time. One flat dictionary for
                the whole model, ``{"dense/kernel/residual": ...}``, with what a budget keeps of its own.
            round_num: As for `encode`.
            in_place: As for `encode`.
            out: As for `encode`.
            metrics: Adds up what became of each array; see `TensorMetrics` for what it tells, and
                docs/observe.md for what it costs. The payloads are the same.

        Returns:
            A payload for each array, and the state for the next round.

        Raises:
            ArgumentError: As for `encode`; the message names the array. Or ``metrics`` are of other arrays.
            ConfigError: The encoder does not fit this model: a rule that matches nothing, a budget too small.
            NonFiniteError: As for `encode`.
            StateError: ``states`` are of another codec, or of another model.
        """
        round_num = as_round(round_num)
        named = named_arrays(arrays)
        model = self._model(_specs(named))
        xs = model.placed(list(named.values()), metrics is not None)
        if metrics is not None:
            metrics.require(list(named))
        given: ArrayState
        if states is None:
            given, in_place = model.first(), True
        else:
            given = model.form.require(states, donated=in_place)
        spare = model.form.spare(out, given)
        model.require_finite(xs, all_of_them=in_place and states is not None)
        with sums_may_overflow(), donate_residuals(None if in_place else spare):
            try:
                buffers, next_state = model.encode(xs, given, round_num)
            except NonFiniteError:
                model.require_finite([on_host(x) for x in xs], all_of_them=True)  # says which
                raise
        if metrics is not None:
            model.measure(metrics, xs, buffers, next_state)
        payloads = {name: buffer.tobytes() for name, buffer in zip(named, buffers, strict=True)}
        return payloads, model.form.tagged(next_state)

    def sent_exactly(self, arrays: Mapping[str, Any]) -> dict[str, list[str]]:
        """Says which arrays of a model `encode_model` sends uncompressed: their names by reason.

        Statistics are known by their names: PyTorch's ``running_*`` and ``num_batches_tracked``, Keras's
        ``moving_*``, and all in Flax's ``batch_stats``. A rule whose pattern names them compresses them.

        >>> import numpy as np
        >>> model = {"conv": np.zeros(999), "bn.running_var": np.zeros(99), "bn.weight": np.zeros(9)}
        >>> codec("topk(0.01)").sent_exactly(model)
        {'statistics': ['bn.running_var'], 'fewer than 64 elements': ['bn.weight']}

        Args:
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.

        Raises:
            ArgumentError: An array cannot be encoded; the message names it.
            ConfigError: The encoder does not fit this model.
        """
        specs = _specs(named_arrays(arrays))
        found: dict[str, list[str]] = {}
        for name, reason in zip(arrays, self._model(specs).sent_exactly, strict=True):
            if reason is not None:
                found.setdefault(reason, []).append(name)
        return found

    def wire_ids(self, arrays: Mapping[str, Any]) -> dict[str, frozenset[str]]:
        """Returns the wire ids to expect of each payload of `encode_model`, for receivers.

        An uncompressed payload is always expected, too.

        Args:
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.

        Raises:
            ArgumentError: As for `encode_model`.
            ConfigError: As for `encode_model`.
        """
        model = self._model(_specs(named_arrays(arrays)))
        return {
            name: frozenset({wire_id, Identity.wire_id})
            for name, wire_id in zip(arrays, model.wire_ids, strict=True)
        }

    def carry_over(
        self, states: ArrayState | None, arrays: Mapping[str, Any]
    ) -> tuple[ArrayState | None, list[str]]:
        """Fits a state of `encode_model` to a model whose arrays have changed since.

        What is kept for arrays of the same name, shape and dtype goes on. All other arrays begin without a
        residual.

        Args:
            states: The state that `encode_model` returned for the model as it was; None the first time.
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.

        Returns:
            The state to pass to `encode_model`, and the names of arrays whose residual is dropped.

        Raises:
            ArgumentError: As for `encode_model`.
            ConfigError: As for `encode_model`.
            StateError: ``states`` are of another codec.
        """
        if not states:
            return None, []
        return self._model(_specs(named_arrays(arrays))).carried_over(states)

    def state_keys(self, arrays: Mapping[str, Any]) -> dict[str, list[str]]:
        """Lists which entries of a state of `encode_model` belong to each array, by the array's name.

        Args:
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.
        """
        return self._model(_specs(named_arrays(arrays))).keys()

    def put_back(
        self, payloads: Mapping[str, bytes], states: ArrayState, arrays: Mapping[str, Any]
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Adds payloads that did not reach the receiver to the residuals they were taken from.

        Args:
            payloads: The payloads that `encode_model` returned.
            states: The next state that the same call returned, which the caller gives up.
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.

        Returns:
            The state as if nothing had been sent, and by name what the payloads hold of arrays that have no
            residual: only the caller can send that again.

        Raises:
            StateError: ``states`` are of another codec, or of another model.
        """
        return self._model(_specs(named_arrays(arrays))).put_back(payloads, states)

    def require_updates(self) -> Codec:
        """Itself; for receivers who take what they decode for the update and keep nothing between rounds.

        Raises:
            CapabilityError: What is decoded are differences from a memory that the receiver has to keep.
        """
        if self.encoder.capabilities.sends_differences:
            raise CapabilityError(
                f"{self.encoder!r} sends differences from a memory that this receiver does not keep, and "
                "would take for updates; use topk(0.01), or a TFF process with the aggregator memory_mean"
            )
        return self

    def __repr__(self) -> str:
        return f"codec({str(self.encoder)!r})"

    def _plan(self, x: NDArray[Any]) -> _Plan:
        """What to keep for arrays of this shape and dtype."""
        if not isinstance(self.encoder, Encoder):
            raise ArgumentError(
                f"{self.encoder!r} is for the arrays of a model; call encode_model({{'name': array, ...}})"
            )
        spec = ArraySpec(x.shape, x.dtype)
        encoder = self.encoder if ops.is_floating(x.dtype) else self._identity
        form = StateForm(encoder.init_state(spec), self._owner)
        plan = _Plan(encoder, spec, form, wire.header(encoder.wire_id, DTYPE_NAMES[x.dtype], x.shape))
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[x.shape, x.dtype] = plan
        return plan

    def _model(self, specs: tuple[ArraySpec, ...]) -> _Model:
        model = self._models.get(specs)
        if model is None:
            encoder = ModelEncoder(self.encoder, specs, min_size=self.min_size, exactly=self._exactly)
            model = self._models[specs] = _Model(encoder, self._owner)
        return model


class _Plan(NamedTuple):
    """What follows from shape and dtype of an array alone, so once for all rounds and clients."""

    encoder: Encoder
    spec: ArraySpec
    form: StateForm
    header: bytes


class _Model:
    """The encoder for arrays of given names, shapes and dtypes, and what its state looks like."""

    def __init__(self, encoder: ModelEncoder, text: NDArray[np.uint8]) -> None:
        self._encoder = encoder
        self._text = text
        self._names = [str(spec.name) for spec in encoder.specs]
        self.sent_exactly = encoder.sent_exactly
        self.wire_ids = [encoder.wire_id for encoder in encoder.encoders]
        self._lossless = [encoder.capabilities.lossless for encoder in encoder.encoders]
        self._on_device = [
            "cuda" in each.capabilities.executes_on and encoder.rate_control is None
            for each in encoder.encoders
        ]
        self._keys = [list(state) for state in encoder.init_state()]
        self._control = [] if encoder.rate_control is None else list(encoder.rate_control.init())
        self.form = StateForm(self.first(), text)

    def placed(self, xs: list[NDArray[Any]], measured: bool) -> list[NDArray[Any]]:
        """The arrays where they are encoded: device arrays are copied to the host unless a kernel takes them.

        Args:
            xs: The arrays.
            measured: Whether metrics are measured, which happens on the host.
        """
        return [
            x if on_device and not measured else on_host(x)
            for x, on_device in zip(xs, self._on_device, strict=True)
        ]

    def keys(self) -> dict[str, list[str]]:
        """The keys in the state of the model, by array."""
        by_name = zip(self._names, self._keys, strict=True)
        return {name: [key_of(name, key) for key in keys] for name, keys in by_name}

    def put_back(
        self, payloads: Mapping[str, bytes], state: ArrayState
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """See `Codec.put_back`."""
        host = {key: on_host(array) for key, array in state.items()}
        given = self.form.require(host, donated=True)
        states = unflattened(self._names, given, self._keys)
        lost = {}
        for encoder, spec, name, own in zip(
            self._encoder.encoders, self._encoder.specs, self._names, states, strict=True
        ):
            sent = decode(payloads[name], out=np.empty(spec.shape, spec.dtype))
            residual = encoder.kept_residual(own)
            if residual is None:
                lost[name] = sent
            else:
                residual += sent.astype(residual.dtype)
        return self.form.tagged(given), lost

    def require_finite(self, xs: list[NDArray[Any]], *, all_of_them: bool) -> None:
        """Raises NonFiniteError for an array on the host that holds a NaN or an infinity.

        Args:
            xs: The arrays.
            all_of_them: Not only those that are sent as they are, and at which no encoder looks.
        """
        for name, x, lossless in zip(self._names, xs, self._lossless, strict=True):
            looked_at = (all_of_them or lossless) and ops.is_floating(x.dtype) and not is_on_device(x)
            if looked_at and not kernels.all_finite(x):
                raise NonFiniteError(f"array {name!r}: it holds a NaN or an infinity")

    def first(self) -> dict[str, NDArray[Any]]:
        """The state of a client that takes part for the first time."""
        state = flattened(self._names, self._encoder.init_state())
        if self._encoder.rate_control is not None:
            control = _prefixed(self._encoder.rate_control.init())
            if taken := state.keys() & control.keys():
                raise ArgumentError(f"the name {min(taken)!r} is taken by rate control; rename array 'codec'")
            state.update(control)
        return state

    def carried_over(self, states: ArrayState) -> tuple[ArrayState, list[str]]:
        """See `Codec.carry_over`."""
        require_owner(states, self._text)
        fitting = self.form.fitting(states)
        if fitting == self.form.keys == states.keys() - {OWNER}:
            return states, []
        for name, keys in zip(self._names, self._keys, strict=True):
            mine = {key_of(name, key) for key in keys}
            if not mine <= fitting:
                fitting -= mine
        after = self.form.tagged({**self.first(), **{key: states[key] for key in fitting}})
        dropped = states.keys() - fitting - {OWNER} - {_CONTROL + key for key in self._control}
        return after, sorted({key.rpartition("/")[0] for key in dropped})

    def encode(
        self, xs: list[NDArray[Any]], state: ArrayState, round_num: int
    ) -> tuple[list[NDArray[np.uint8]], dict[str, NDArray[Any]]]:
        """The payloads, as buffers, and the next state."""
        control = {key: state[_CONTROL + key] for key in self._control}
        before = unflattened(self._names, state, self._keys)
        buffers, after = self._encoder.encode(xs, before, round_num, control)
        next_state = flattened(self._names, after)
        rate_control = self._encoder.rate_control
        if rate_control is not None:
            sizes = np.array([len(buffer) for buffer in buffers], np.int64)
            measured = {"tensor_bytes": sizes, "payloads": np.int32(1)}
            if rate_control.reported:
                received = self._encoder.decode(buffers)
                measured.update(rate_control.report(xs, received, after))
            next_state.update(_prefixed(rate_control.next(control, measured)))
        return list(buffers), next_state

    def measure(
        self,
        metrics: TensorMetrics,
        xs: list[NDArray[Any]],
        buffers: list[NDArray[np.uint8]],
        next_state: ArrayState,
    ) -> None:
        """Adds what became of the arrays to the metrics."""
        metrics.measure(self._encoder, xs, buffers, unflattened(self._names, next_state, self._keys))


def _prefixed(control: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {_CONTROL + key: np.asarray(value) for key, value in control.items()}


def _specs(arrays: Mapping[str, NDArray[Any]]) -> tuple[ArraySpec, ...]:
    return tuple(ArraySpec(x.shape, x.dtype, name) for name, x in arrays.items())


def _as_names(exactly: Any) -> frozenset[str]:
    """Returns the names of arrays; raises ArgumentError for a single text, and for anything but texts."""
    names = list(exactly) if isinstance(exactly, Iterable) and not isinstance(exactly, str) else [None]
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"exactly is {exactly!r}; it must be a list of names, such as ['bn.running_var']")
    return frozenset(names)


def as_round(round_num: Any) -> int:
    """Returns a round number as an int; raises ArgumentError unless it is a whole number below 2^31."""
    try:
        number = operator.index(round_num)
    except TypeError:
        number = -1
    if not 0 <= number < _ROUNDS_END:
        raise ArgumentError(f"round_num is {round_num!r}; it must be a whole number from 0 to 2^31 - 1")
    return number
