"""Encodes one array, or the arrays of a model, into payloads."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import fedplug.api as api
import fedplug.kernels as kernels
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.codecs.arrays import as_array, named_arrays
from fedplug.codecs.decoding import decode
from fedplug.codecs.metrics import TensorMetrics
from fedplug.codecs.state import OWNER, ArrayState, StateForm, owner, require_owner
from fedplug.codecs.wire_ids import require_readable
from fedplug.encoders.arguments import check_whole
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.assignments.rules import Slices
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import DEFAULT_MIN_SIZE, ModelEncoder
from fedplug.encoders.quantizers import Identity
from fedplug.errors import ArgumentError, CapabilityError, CapabilityWarning, NonFiniteError
from fedplug.kernels.arguments import whole
from fedplug.ops import donation
from fedplug.ops.checks import sums_may_overflow
from fedplug.ops.device_array import is_on_device, on_host
from fedplug.ops.types import ArraySpec, Scalar
from fedplug.registry.component import Description, plain
from fedplug.types import Values

__all__ = ["Codec", "as_round", "codec"]

_MOST_MODELS = 1024
_ROUNDS_END = 2**31


def codec(
    encoder: Description,
    /,
    *,
    min_size: int = DEFAULT_MIN_SIZE,
    exactly: Collection[str] = (),
    device: Literal["cuda"] | None = None,
    **config: object,
) -> Codec:
    """Returns a codec, which turns NumPy arrays into payloads.

    >>> import fedplug, numpy as np
    >>> codec = fedplug.codec("topk(0.01) | qsgd(4)")
    >>> payload, state = codec.encode(np.arange(10_000, dtype=np.float32))
    >>> len(payload)
    205
    >>> fedplug.decode(payload).shape
    (10000,)

    Args:
        encoder: An expression such as ``"topk(0.01) | qsgd(4)"``, a name with its arguments in ``config``,
            rules, a budget, a configuration, or an encoder. See `fedplug.encoder`.
        min_size: Minimum number of elements. `Codec.encode_model` sends smaller arrays uncompressed.
        exactly: Names of further arrays that `Codec.encode_model` sends uncompressed, such as buffers. See
            `Codec.sent_exactly`.
        device: "cuda" refuses to copy arrays from a CUDA device to the host because their encoder does not
            run there. Default: they are copied with a `fedplug.errors.CapabilityWarning`.
        config: The arguments of the encoder with this name.

    Raises:
        CapabilityError: The encoder executes in TensorFlow only, or its stages do not fit together.
        ConfigError: The encoder cannot be read, or refuses its arguments.
        UnknownNameError: There is no such encoder or argument. The message lists the nearest names.
        PluginError: The encoder's plugin is broken.
    """
    return Codec(api.encoder(encoder, **config), min_size=min_size, exactly=exactly, device=device)


class Codec:
    """Compresses arrays. Holds no client's state, so any number of clients and threads may share it.

    The state of a client, such as the residual of error feedback, is a dictionary of arrays. `encode` returns
    it, and takes it in the next round. A state belongs to one client and one array, or one model.
    """

    def __init__(
        self,
        encoder: Encoder | EncoderAssignment,
        *,
        min_size: int = DEFAULT_MIN_SIZE,
        exactly: Collection[str] = (),
        device: Literal["cuda"] | None = None,
    ) -> None:
        """See `fedplug.codec`."""
        if not isinstance(encoder, Encoder | EncoderAssignment):
            raise ArgumentError(f"a codec needs an encoder, not {encoder!r}; see fedplug.codec")
        if "numpy" not in encoder.capabilities.executes_on:
            raise CapabilityError(
                f"{encoder!r} executes in TensorFlow only, so it cannot encode NumPy arrays; use it in a "
                "TFF process (fedplug.tff.process), or another encoder, see `fedplug plugins list`"
            )
        min_size = plain(min_size)
        check_whole("min_size", min_size, 0)
        self.encoder = encoder
        self._exactly = _as_names(exactly)
        if device not in (None, "cuda"):
            raise ArgumentError(f"device is {device!r}; it must be 'cuda' or None")
        self.min_size = min_size
        self._device = device
        self._text = repr(encoder)
        self._owner = owner(self._text)
        self._arrays: dict[tuple[tuple[int, ...], np.dtype[np.generic]], _Model] = {}
        self._models: dict[tuple[object, ...], _Model] = {}

    @property
    def owner(self) -> NDArray[np.uint8]:
        """The text, as bytes, that identifies this codec under ``"codec"`` in a state."""
        return self._owner

    @property
    def signature(self) -> dict[str, object]:
        """The settings by which a store knows the codec of a client again."""
        return {"codec": self._text, "min_size": self.min_size}

    def encode(
        self,
        array: object,
        state: ArrayState | None = None,
        round_num: int = 0,
        *,
        in_place: bool = False,
        out: ArrayState | None = None,
    ) -> tuple[bytes, dict[str, Values]]:
        """Compresses one array; with error feedback, the state carries the unsent part to the next round.

        >>> import fedplug, numpy as np
        >>> codec = fedplug.codec("topk(count=1)")
        >>> payload, state = codec.encode(np.float32([3, 2, 1]))
        >>> fedplug.decode(payload), state["residual"]
        (array([3., 0., 0.], dtype=float32), array([0., 2., 1.], dtype=float32))
        >>> payload, state = codec.encode(np.float32([3, 2, 1]), state, round_num=1)
        >>> fedplug.decode(payload)
        array([0., 4., 0.], dtype=float32)

        Args:
            array: A finite array on the CPU, of any shape: NumPy, PyTorch, JAX or anything else with
                ``__dlpack__`` or ``__array__``. Arrays of integers and booleans are sent uncompressed.
            state: The state from this client's previous call for this array. None the first time.
            round_num: The round number, 0 or more, for schedules and seeds.
            in_place: Whether the next state is written over the arrays of ``state``, which the caller then
                gives up: nothing of the array's size is allocated. Read-only arrays are copied. After a
                NonFiniteError the state of one array is unchanged. In `encode_model`, if the sum of finite
                numbers and a residual is infinite, arrays before that one already have their next state,
                although their payloads are lost. With ``out`` the state never changes.
            out: A state of the same codec and array that is no longer needed: the next state is written over
                its arrays. It is the faster way: two states take turns.

        Returns:
            The payload, and the state for the next round: empty for encoders without state.

        Raises:
            ArgumentError: ``array`` cannot be encoded, or the codec has rules (see `encode_model`).
            NonFiniteError: An element, or its sum with the residual, is NaN or infinite.
            StateError: ``state`` belongs to another codec, shape or dtype.
        """
        x = as_array(array)
        model = self._arrays.get((x.shape, x.dtype)) or self._of_one(x)
        payloads, next_state = model.encode([x], state, round_num, in_place, out)
        return payloads[0], next_state

    def encode_model(
        self,
        arrays: Mapping[str, object],
        states: ArrayState | None = None,
        round_num: int = 0,
        *,
        in_place: bool = False,
        out: ArrayState | None = None,
        metrics: TensorMetrics | None = None,
        base: Mapping[str, object] | None = None,
    ) -> tuple[dict[str, bytes], dict[str, Values]]:
        """Compresses the arrays of a model: rules see their names, and budgets their sizes.

        >>> import fedplug, numpy as np
        >>> model = {"kernel": np.ones((100, 100), np.float32), "bias": np.ones(10, np.float32)}
        >>> payloads, state = fedplug.codec("qsgd(8)").encode_model(model)
        >>> {name: len(payload) for name, payload in payloads.items()}
        {'kernel': 10116, 'bias': 74}
        >>> list(fedplug.decode_model(payloads))
        ['kernel', 'bias']

        Args:
            arrays: The arrays by name, each as for `encode`. Statistics (see `sent_exactly`), arrays of fewer
                than ``min_size`` elements, integers and booleans are sent uncompressed.
            states: The state from this client's previous call. None the first time. It is one flat dictionary
                for the whole model, ``{"dense/kernel/residual": ...}``, and includes the state of a budget.
            round_num: The round number, as for `encode`.
            in_place: Whether to overwrite the state, as for `encode`.
            out: Memory for the next state, as for `encode`.
            metrics: Adds up measurements of each array, see `TensorMetrics`; docs/observe.md has the cost.
                The payloads do not change.
            base: The arrays by name to which the receiver adds the decoded ones, if they are known. Variances
                and counts have no negative element in ``base`` and in ``base + arrays``. An array that would
                have one at the receiver is sent exactly, and keeps its residual. Not with ``in_place``.

        Returns:
            The payloads by name, and the state for the next round.

        Raises:
            ArgumentError: An argument is refused, see `encode`. The message names the array. Or
                ``metrics`` has other arrays.
            ConfigError: The encoder does not fit this model: a rule matches nothing, say, or a budget is too
                small.
            NonFiniteError: An array is refused, see `encode`. The message names it.
            StateError: ``states`` belong to another codec or another model.
        """
        model = self._seen(arrays)
        named: Mapping[str, Any] = arrays if model is not None else named_arrays(arrays)
        if model is None:
            model = self._model(named)
        if metrics is not None:
            metrics.require(list(named))
        olds = None if base is None else self._bases(base, named, in_place=in_place)
        payloads, next_state = model.encode(
            list(named.values()), states, round_num, in_place, out, metrics, olds
        )
        return dict(zip(named, payloads, strict=True)), next_state

    def sent_exactly(self, arrays: Mapping[str, object]) -> dict[str, list[str]]:
        """Returns the names of the arrays that `encode_model` sends uncompressed, by reason.

        Statistics are known by their names: PyTorch's ``running_*`` and ``num_batches_tracked``, Keras's
        ``moving_*``, and all arrays in Flax's ``batch_stats``. A rule whose pattern names them compresses
        them.

        >>> import fedplug, numpy as np
        >>> model = {"conv": np.zeros(999), "bn.running_var": np.zeros(99), "bn.weight": np.zeros(9)}
        >>> fedplug.codec("topk(0.01)").sent_exactly(model)
        {'statistics': ['bn.running_var'], 'fewer than 64 elements': ['bn.weight']}

        Args:
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.

        Raises:
            ArgumentError: An array cannot be encoded. The message names it.
            ConfigError: The encoder does not fit this model.
        """
        encoder = self.model_encoder(arrays)
        found: dict[str, list[str]] = {}
        for name, reason in zip(arrays, encoder.sent_exactly, strict=True):
            if reason is not None:
                found.setdefault(reason, []).append(name)
        return found

    def model_encoder(self, arrays: Mapping[str, object]) -> ModelEncoder:
        """Returns the encoder for the arrays of a model, which knows the encoder of each array.

        Args:
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.

        Raises:
            ArgumentError: An array is refused, see `encode_model`.
            ConfigError: The encoder does not fit this model.
        """
        return self._model(named_arrays(arrays)).encoder

    def wire_ids(self, arrays: Mapping[str, object]) -> dict[str, frozenset[str]]:
        """Returns the wire ids that a receiver should expect of each payload of `encode_model`.

        They include that of an uncompressed payload.

        Args:
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.

        Raises:
            ArgumentError: An array is refused, see `encode_model`.
            ConfigError: The encoder does not fit this model.
        """
        encoders = self.model_encoder(arrays).encoders
        return {
            name: frozenset({encoder.wire_id, Identity.wire_id})
            for name, encoder in zip(arrays, encoders, strict=True)
        }

    def carry_over(
        self, states: ArrayState | None, arrays: Mapping[str, object]
    ) -> tuple[ArrayState | None, list[str]]:
        """Adapts a state of `encode_model` to a model whose arrays have changed since.

        The residuals of arrays with the same name and shape are kept. Those of floats in another dtype are
        rounded to it. All other arrays begin without a residual.

        Args:
            states: The state that `encode_model` returned for the former model. None the first time.
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.

        Returns:
            The state to pass to `encode_model`, and the names of arrays whose residual is dropped.

        Raises:
            ArgumentError: An array is refused, see `encode_model`.
            ConfigError: The encoder does not fit this model.
            StateError: ``states`` belong to another codec.
        """
        if not states:
            return None, []
        model = self._seen(arrays) or self._model(named_arrays(arrays))
        return model.carried_over(states)

    def state_keys(self, arrays: Mapping[str, object]) -> dict[str, list[str]]:
        """Returns the keys in a state of `encode_model` that belong to each array, by the array's name.

        Args:
            arrays: The arrays by name, as for `encode_model`; only names, shapes and dtypes matter.
        """
        keys = self._model(named_arrays(arrays)).form.keys
        return {name: list(mine) for name, mine in zip(arrays, keys, strict=True)}

    def for_part(self, arrays: Mapping[str, object]) -> Codec:
        """Returns the codec for a part of a model, which leaves out rules that match none of its arrays.

        Args:
            arrays: The arrays of the part by name; only names, shapes and dtypes matter.
        """
        if isinstance(self.encoder, Encoder):
            return self
        encoder = self.encoder.for_part(_specs(named_arrays(arrays)))
        exactly = self._exactly & arrays.keys()
        return Codec(encoder, min_size=self.min_size, exactly=exactly, device=self._device)

    def for_slices(self, arrays: Mapping[str, object], parts: Mapping[str, str], share: float = 1) -> Codec:
        """Returns a codec for parts of a model's arrays, such as blocks of rows.

        Each part is encoded by the encoder of its whole array: rules match the name and size of that array.
        One call may encode any of the parts. ``scope="model"`` compares those of one call. Fractions and
        counts apply to each part. States are of the same codec.

        Args:
            arrays: The whole arrays by name, as for `encode_model`; only names, shapes and dtypes matter.
            parts: The name of the whole array, by name of the part.
            share: The parts' share of the bytes of a budget, above 0 and at most 1.

        Raises:
            ArgumentError: An array is refused, see `encode_model`.
            ConfigError: The encoder does not fit this model.
        """
        encoders = dict(zip(arrays, self.model_encoder(arrays).encoders, strict=True))
        codec = copy.copy(self)
        codec.encoder = Slices(self.encoder, {name: encoders[whole] for name, whole in parts.items()}, share)
        codec.min_size, codec._exactly, codec._arrays, codec._models = 0, frozenset(), {}, {}
        return codec

    def require_updates(self) -> Codec:
        """Returns itself; for receivers that take decoded arrays for updates and keep no memory.

        Raises:
            CapabilityError: The decoded arrays are differences from a memory that the receiver has to keep.
        """
        if self.encoder.capabilities.sends_differences:
            raise CapabilityError(
                f"{self.encoder!r} sends differences from a memory, and this receiver keeps none and would "
                "take them for updates; use topk(0.01), or a TFF process with the aggregator memory_mean"
            )
        return self

    def __repr__(self) -> str:
        return f"codec({str(self.encoder)!r})"

    def _bases(
        self, base: Mapping[str, object], arrays: Mapping[str, Values], *, in_place: bool
    ) -> list[Values]:
        """Returns the base of each array. Raises ArgumentError unless it has one of its shape."""
        if in_place:
            raise ArgumentError(
                "in_place=True overwrites the residuals that base= may have to keep; pass one"
            )
        found: Mapping[str, Any] = {name: base[name] for name in arrays if name in base}
        if self._seen(found) is None:
            found = named_arrays(found)
        for name, x in arrays.items():
            if name not in found or found[name].shape != x.shape:
                raise ArgumentError(f"base has no array {name!r} of the shape {list(x.shape)}")
        return [found[name] for name in arrays]

    def _of_one(self, x: NDArray[np.generic]) -> _Model:
        """Returns the model that consists of one unnamed array of this shape and dtype."""
        if not isinstance(self.encoder, Encoder):
            raise ArgumentError(
                f"{self.encoder!r} is for the arrays of a model; call encode_model({{'name': array, ...}})"
            )
        if len(self._arrays) >= _MOST_MODELS:
            self._arrays.clear()
        model = _Model(
            ModelEncoder(self.encoder, [ArraySpec(x.shape, x.dtype)], min_size=0), self._owner, self._device
        )
        self._arrays[x.shape, x.dtype] = model
        return model

    def _seen(self, arrays: object) -> _Model | None:
        """Returns the model of arrays that need neither a check nor a copy. None if they may need one."""
        if type(arrays) is not dict or set(map(type, arrays.values())) != {np.ndarray}:
            return None
        key = []
        for name, x in arrays.items():
            key.append((name, x.shape, x.dtype, x.flags.c_contiguous and x.flags.aligned))
        return self._models.get(tuple(key))

    def _model(self, arrays: Mapping[str, NDArray[np.generic]]) -> _Model:
        """Returns the model of arrays from `named_arrays`."""
        key = tuple([(name, x.shape, x.dtype, True) for name, x in arrays.items()])
        model = self._models.get(key)
        if model is None:
            specs = _specs(arrays)
            encoder = ModelEncoder(self.encoder, specs, min_size=self.min_size, exactly=self._exactly)
            model = self._models[key] = _Model(encoder, self._owner, self._device)
        return model


class _Model:
    """The encoder for arrays of given names, shapes and dtypes, and the form of its state."""

    def __init__(self, encoder: ModelEncoder, text: NDArray[np.uint8], device: str | None = None) -> None:
        self.encoder = encoder
        self._device = device
        for each in {id(each): each for each in encoder.encoders}.values():
            require_readable(each)
        self._names = [spec.name for spec in encoder.specs]
        *states, control = self._first()
        self.form = StateForm(self._names, states, control, text)
        self._on_device = [
            "cuda" in each.capabilities.executes_on and encoder.rate_control is None
            for each in encoder.encoders
        ]

    def encode(
        self,
        xs: list[NDArray[np.generic]],
        state: ArrayState | None,
        round_num: int,
        in_place: bool,
        out: ArrayState | None,
        metrics: TensorMetrics | None = None,
        bases: Sequence[Values] | None = None,
    ) -> tuple[Sequence[bytes], dict[str, NDArray[np.generic]]]:
        """See `Codec.encode_model`."""
        if type(round_num) is not int or not 0 <= round_num < _ROUNDS_END:
            round_num = as_round(round_num)
        for place, x in enumerate(xs):  # kernels take device arrays where they can; metrics need the host
            if type(x) is not np.ndarray and not (self._on_device[place] and metrics is None):
                if metrics is None and self.encoder.sent_exactly[place] is None:
                    self._tell_of_copy(place)
                xs[place] = on_host(x)
        if state is None:
            given, in_place = self._first(), False  # zeros that nothing was written to take no memory
        else:
            given = self.form.require(state, donated=in_place)
            if in_place and len(xs) > 1:  # before a state is written over
                self._require_finite(xs)
        spare = [] if out is None else self.form.spare(out, given)
        *before, control = given
        donated = donation.spare_residuals.set(None if in_place else spare)  # quicker than `donate_residuals`
        try:
            payloads, states, control = self._encode(xs, before, control, round_num)
        except NonFiniteError:
            self._require_finite([on_host(x) for x in xs])  # says which
            raise
        finally:
            donation.spare_residuals.reset(donated)
        if bases is not None:
            payloads, states = self._nonnegative(bases, xs, before, payloads, states)
        if metrics is not None:
            metrics.measure(self.encoder, xs, payloads, states)
        return payloads, self.form.joined(states, control)

    def _nonnegative(
        self,
        bases: Sequence[Values],
        xs: Sequence[Values],
        before: Sequence[ArrayState],
        payloads: Sequence[bytes],
        after: Sequence[ArrayState],
    ) -> tuple[list[bytes], list[ArrayState]]:
        """Sends arrays exactly that would become negative at the receiver alone."""
        exact, kept = list(payloads), list(after)
        for place, (base, x) in enumerate(zip(bases, map(on_host, xs), strict=True)):
            if self.encoder.sent_exactly[place] is not None or _is_negative(base) or _is_negative(base + x):
                continue
            if _is_negative(base + decode(payloads[place], out=np.empty(x.shape, x.dtype))):
                exact[place] = wire.frame(x.tobytes(), Identity.wire_id, x.dtype.name, x.shape)
                kept[place] = {key: np.array(on_host(array)) for key, array in before[place].items()}
        return exact, kept

    def _tell_of_copy(self, place: int) -> None:
        """Warns that an array is copied to the host because its encoder does not run on a CUDA device.

        Raises:
            CapabilityError: The codec is for CUDA devices only.
        """
        which = repr(self.encoder.encoders[place])
        if self.encoder.rate_control is not None:
            which += " under rate control"
        problem = f"{which} does not run on CUDA devices (`fedplug plugins list` says which encoders do)"
        if self._device == "cuda":
            raise CapabilityError(f"{problem}; give the codec another encoder, or no device=")
        warnings.warn(
            f"{problem}; arrays are copied to the host to be encoded", CapabilityWarning, stacklevel=4
        )

    def _encode(
        self,
        xs: Sequence[NDArray[np.generic]],
        states: Sequence[ArrayState],
        control: ArrayState,
        round_num: int,
    ) -> tuple[Sequence[bytes], Sequence[ArrayState], ArrayState]:
        """Returns the payloads, the next state of each array, and the next control."""
        rate_control = self.encoder.rate_control
        if rate_control is None:
            encoded: Any = self.encoder.encode(xs, states, round_num)
            return *encoded, control
        after: Any
        payloads, after = self.encoder.encode(xs, states, round_num, control)
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        measured: dict[str, Scalar] = {"tensor_bytes": sizes, "payloads": np.int32(1)}
        if rate_control.reported:
            with sums_may_overflow():
                measured.update(rate_control.report(xs, self.encoder.decode(payloads), after))
        following: Any = rate_control.next(control, measured)
        return payloads, after, following

    def carried_over(self, states: ArrayState) -> tuple[ArrayState, list[str]]:
        """See `Codec.carry_over`."""
        require_owner(states, self.form.text)
        fitting = self.form.fitting(states)
        if {OWNER, *fitting} == states.keys() == self.form.all_keys:
            return {**fitting, OWNER: states[OWNER]}, []
        for mine in self.form.keys:
            if not mine.keys() <= fitting.keys():
                fitting = {key: array for key, array in fitting.items() if key not in mine}
        dropped = states.keys() - fitting.keys() - self.form.control.keys() - {OWNER}
        *first, control = self._first()
        return {**self.form.joined(first, control), **fitting}, sorted(
            {key.rpartition("/")[0] for key in dropped}
        )

    def _first(self) -> list[ArrayState]:
        """Returns the state of each array in the first round, and last that of rate control."""
        rate_control = self.encoder.rate_control
        states: Sequence[Any] = self.encoder.init_state()
        first: Any = {} if rate_control is None else rate_control.init()
        return [*states, first]

    def _require_finite(self, xs: Sequence[NDArray[np.generic]]) -> None:
        """Raises NonFiniteError, with the name, for an array on the host with a NaN or an infinity."""
        for name, x in zip(self._names, xs, strict=True):
            if name is None or is_on_device(x) or not ops.is_floating(x.dtype):
                continue
            if not kernels.all_finite(x):
                raise NonFiniteError(f"array {name!r}: it holds a NaN or an infinity; leave this update out")


def _is_negative(array: Values) -> bool:
    """Returns whether an array has an element below zero."""
    return bool((array < 0).any())


def _specs(arrays: Mapping[str, NDArray[np.generic]]) -> tuple[ArraySpec, ...]:
    return tuple(ArraySpec(x.shape, x.dtype, name) for name, x in arrays.items())


def _as_names(exactly: object) -> frozenset[str]:
    """Returns the names of arrays. Raises ArgumentError for a single text, and for anything but texts."""
    names = list(exactly) if isinstance(exactly, Iterable) and not isinstance(exactly, str) else [None]
    if not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"exactly is {exactly!r}; it must be a list of names, such as ['bn.running_var']")
    return frozenset(names)


def as_round(round_num: object) -> int:
    """Returns a round number as an int. Raises ArgumentError unless it is a whole number below 2^31."""
    return whole("round_num", round_num, 0, _ROUNDS_END - 1)
