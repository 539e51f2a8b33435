"""Decodes payloads into arrays, without a configuration. Every byte is untrusted.

This module refuses a payload whose header, size or wire id the receiver does not expect. `wire_ids` finds the
reader of its bytes, which refuses the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Container, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.codecs.arrays import DTYPES, require_mapping, require_output
from fedplug.codecs.wire_ids import PayloadReader, WireIds, reader_of
from fedplug.encoders.quantizers import Identity
from fedplug.errors import ArgumentError, ConfigError, PayloadError
from fedplug.ops import donation
from fedplug.ops.device_array import is_on_device
from fedplug.ops.types import ArraySpec
from fedplug.types import Values

__all__ = ["DEFAULT_MAX_BYTES", "Plan", "decode", "decode_model", "decoded", "expected_of", "opened", "read"]

DEFAULT_MAX_BYTES = 2**30


def decode(
    payload: object,
    *,
    out: NDArray[np.generic] | None = None,
    max_bytes: float = DEFAULT_MAX_BYTES,
    wire_ids: WireIds = None,
) -> Values:
    """Decodes a payload of any installed encoder. Needs no configuration.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("topk(count=2)").encode(np.float32([1, -5, 2, 4]))
    >>> fedplug.decode(payload)
    array([ 0., -5.,  0.,  4.], dtype=float32)

    Args:
        payload: The untrusted payload from `Codec.encode` or a TFF process: any C-contiguous buffer.
        out: An array of the right shape and dtype to write into; after an error its contents are undefined.
            It may be on a CUDA device, see docs/gpu.md.
        max_bytes: Maximum memory for decoding, the new array included: a payload of a few bytes can represent
            any number of zeros. With ``out`` the shape is the limit instead.
        wire_ids: The wire ids to accept, such as ``{codec.encoder.wire_id}``. Others are refused before their
            body is read. None: those of all installed encoders.

    Returns:
        ``out``, or a new array, of the shape and dtype in the payload; finite.

    Raises:
        PayloadError: The bytes are not a payload or were changed, decoding takes more than ``max_bytes``, or
            the encoder is not expected or not installed.
        ArgumentError: ``out`` does not fit, ``payload`` is not a buffer, or ``max_bytes`` is not a number of
            at least 0.
    """
    max_bytes = wire.check_max_bytes(max_bytes)
    plan, body = opened(payload, wire_ids)
    if out is not None:
        require_output(out, plan.spec.shape, plan.spec.dtype)
    return decoded(plan, body, out, max_bytes)


def decoded(plan: Plan, body: NDArray[np.uint8], out: NDArray[np.generic] | None, max_bytes: float) -> Values:
    """Decodes the body of a payload into ``out``, which was checked, or into a new array."""
    spec = plan.spec
    if out is None:
        _require_at_most(max_bytes, plan, body)
    if out is not None and is_on_device(out):
        cast(Any, out).backend.write(out, *read(plan, body, None, packed=True))
        return out
    values: NDArray[np.generic]
    values, indices = read(plan, body, out)
    if indices is not None:
        dense = kernels.scatter_decode(values, indices, size=plan.size, out=out)
        return dense if out is not None else dense.reshape(spec.shape)
    if out is None and np.may_share_memory(values, body):
        out = kernels.empty(spec.shape, spec.dtype)
    if out is None:
        return values.reshape(spec.shape)
    if values.base is not out and not np.shares_memory(values, out):
        np.copyto(out, values.reshape(spec.shape))
    return out


def decode_model(
    payloads: Mapping[str, object],
    *,
    out: Mapping[str, NDArray[np.generic]] | None = None,
    max_bytes: float = DEFAULT_MAX_BYTES,
    wire_ids: WireIds | Mapping[str, Container[str]] = None,
) -> dict[str, Values]:
    """Decodes the payloads of a model's arrays.

    >>> import fedplug, numpy as np
    >>> payloads, _ = fedplug.codec("topk(count=1)", min_size=0).encode_model({"bias": np.float32([1, 3])})
    >>> fedplug.decode_model(payloads)
    {'bias': array([0., 3.], dtype=float32)}

    Args:
        payloads: The untrusted payloads from `Codec.encode_model`, by name.
        out: Arrays to write into, by name, for some or all payloads. All are checked before one is written.
        max_bytes: Maximum memory for decoding, all new arrays included.
        wire_ids: The expected wire ids as for `decode`: for all arrays, or by name, as `Codec.wire_ids`
            returns them.

    Raises:
        PayloadError: A payload is refused, see `decode`. The message names the tensor.
        ArgumentError: An argument is refused, see `decode`. The message names the tensor.
    """
    require_mapping("what a client sent", "payloads", payloads)
    if isinstance(wire_ids, Mapping) and (unknown := sorted(payloads.keys() - wire_ids.keys())):
        raise PayloadError(f"there are payloads of {unknown}, which wire_ids does not name")
    max_bytes = wire.check_max_bytes(max_bytes)
    expected = expected_of(wire_ids, payloads)
    places = {} if out is None else out
    require_mapping("out", "arrays", places)
    parts: dict[str, tuple[Plan, NDArray[np.uint8]]] = {}
    arrays: dict[str, NDArray[np.generic]] = {}
    name = None
    try:
        for name, payload in payloads.items():
            plan, body = parts[name] = opened(payload, expected[name])
            if name in places:
                require_output(places[name], plan.spec.shape, plan.spec.dtype)
        for name, (plan, body) in parts.items():
            arrays[name] = decoded(plan, body, places.get(name), max_bytes)
            if name not in places:
                max_bytes -= arrays[name].nbytes
    except (ArgumentError, PayloadError) as error:
        raise type(error)(f"tensor {name!r}: {error}") from error
    return arrays


def expected_of(
    wire_ids: WireIds | Mapping[str, Container[str]], names: Collection[str]
) -> Mapping[str, WireIds]:
    """Returns the wire ids that are expected for each array of a model.

    Raises:
        ArgumentError: They are given by name, and one is missing.
    """
    if not isinstance(wire_ids, Mapping):
        return dict.fromkeys(names, wire_ids)
    for name in names:
        if name not in wire_ids:
            raise ArgumentError(f"tensor {name!r}: wire_ids does not name it; it names {sorted(wire_ids)}")
    return wire_ids


class Plan(NamedTuple):
    """The properties of a payload that its header determines.

    Attributes:
        wire_id: The wire id.
        spec: The spec of the array that was encoded.
        size: Number of its elements.
        array_bytes: Number of their bytes.
        reader: The reader of the payload's bytes.
    """

    wire_id: str
    spec: ArraySpec
    size: int
    array_bytes: int
    reader: PayloadReader


@functools.lru_cache(maxsize=1024)
def _plan(wire_id: str, dtype: str, shape: tuple[int, ...]) -> Plan:
    """Returns the properties that a header determines.

    Raises:
        PayloadError: No array has this shape, or no installed encoder reads such payloads.
    """
    spec = ArraySpec(shape, DTYPES[dtype])
    itemsize = int(spec.dtype.itemsize)
    wire.require_possible(shape, itemsize)
    if wire_id != Identity.wire_id and not ops.is_floating(spec.dtype):
        raise PayloadError(f"the payload has the wire id {wire_id!r}, which is for floats, not {spec.dtype}")
    size = ops.num_elements(spec)
    return Plan(wire_id, spec, size, size * itemsize, reader_of(wire_id))


def opened(payload: Any, wire_ids: WireIds) -> tuple[Plan, NDArray[np.uint8]]:
    """Reads the header of a payload.

    Args:
        payload: The untrusted payload, as for `decode`.
        wire_ids: The expected wire ids, as for `decode`.

    Returns:
        The properties in the header, and the body for `read`.

    Raises:
        PayloadError, ArgumentError: The payload is refused, see `decode`.
    """
    if isinstance(wire_ids, str):
        raise ArgumentError(f"wire_ids is {wire_ids!r}; give a set of wire ids")
    try:
        wire_id, dtype, shape, body = kernels.unframe(payload)
    except (ArgumentError, TypeError) as error:
        advice = ""
        if isinstance(payload, Mapping):
            advice = "; `fedplug.decode_model` takes payloads by name"
        elif isinstance(payload, tuple | list):
            advice = (
                "; give the first of the pair that `Codec.encode` returns, or the first of that of "
                "`encode_model` to `fedplug.decode_model`"
            )
        message = f"a payload is bytes or a buffer, not a {type(payload).__name__}{advice}"
        raise ArgumentError(message) from error
    if wire_ids is not None and wire_id not in wire_ids:
        known = ", ".join(sorted(wire_ids)) if isinstance(wire_ids, Collection) else repr(wire_ids)
        raise PayloadError(f"the payload has the wire id {wire_id!r}; expected {known}")
    return _plan(wire_id, dtype, shape), body


def _require_at_most(max_bytes: float, plan: Plan, body: NDArray[np.uint8]) -> None:
    spec, size = plan.spec, plan.array_bytes
    try:
        needed = size if size > max_bytes else plan.reader.peak_bytes(body, spec, plan.size)
    except (ArgumentError, ConfigError) as error:
        raise _blaming(plan, error) from error
    if needed > max_bytes:
        raise PayloadError(
            f"the payload stands for {spec.dtype}{list(spec.shape)}, {size} bytes, and takes up to {needed} "
            f"to decode; max_bytes is {max_bytes}; raise it, or pass out="
        )


def read(
    plan: Plan, body: NDArray[np.uint8], place: NDArray[np.generic] | None, *, packed: bool = False
) -> tuple[Any, NDArray[np.int32] | None]:
    """Decodes the body of a payload.

    Args:
        plan: The properties in its header.
        body: The untrusted bytes.
        place: Memory for the elements of a dense payload, which is used if they fit.
        packed: Whether to return the code of a dense payload, which was checked, if a device can decode it.

    Returns:
        All elements, ``[n]``, or their code, and None. For a sparse payload the values that were sent,
        ``[k]``, and their indices, strictly ascending, ``[k]`` int32.

    Raises:
        PayloadError: The bytes are refused, see `decode`.
    """
    reader = plan.reader
    before = None if reader.sparse else donation.result_place.set(place)
    try:
        if packed and (code := reader.packed(body, plan.spec, plan.size)) is not None:
            return code, None
        return reader.entries(body, plan.spec, plan.size)
    except (ArgumentError, ConfigError) as error:
        raise _blaming(plan, error) from error
    finally:
        if before is not None:
            donation.result_place.reset(before)


def _blaming(plan: Plan, error: Exception) -> PayloadError:
    """Returns the error for an impossible configuration, which the payload has."""
    return PayloadError(f"a payload with the wire id {plan.wire_id!r} cannot be read: {error}")
