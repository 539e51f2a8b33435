"""`fedplug.codec` on tensors: any encoder, bytes out; and bytes to tensors. Must not know of other ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

import fedplug
from fedplug.codecs import DEFAULT_MAX_BYTES
from fedplug.errors import ArgumentError, PayloadError
from fedplug_torch.devices import as_operand, as_operands, as_results
from fedplug_torch.tensors import as_array, as_tensor, require_dense, shares_memory

__all__ = ["Codec", "NamedTensors", "decode", "decode_model", "encode", "named", "numpy_codec"]

NamedTensors = torch.nn.Module | Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]]
"""A module stands for its parameters, and may be wrapped in DistributedDataParallel."""

_WANTED = "pass the module, its named_parameters() (not its parameters()), or a mapping of tensors by name"

TensorState = Mapping[str, torch.Tensor]
"""A state: flat, so that `safetensors.torch.save_file` takes it as it is."""


class Codec:
    """Compresses tensors; keeps nothing itself. `fedplug.Codec` says what a state is and what is promised.

    C-contiguous tensors are read where they lie, bfloat16 too; no graph is recorded. On a GPU, with
    fedplug-cuda installed, encoders that have kernels there work there, and states stay there; for other
    encoders, and without fedplug-cuda, tensors are copied to the host.
    """

    def __init__(self, encoder: Any, *, min_size: int | None = None, **config: Any) -> None:
        """Takes what `fedplug.codec` takes, and raises what it raises; or a `fedplug.Codec`."""
        self._codec = numpy_codec(encoder, min_size=min_size, **config)

    def encode(
        self,
        tensor: torch.Tensor,
        state: TensorState | None = None,
        round_num: int = 0,
        *,
        in_place: bool = False,
        out: TensorState | None = None,
    ) -> tuple[bytes, dict[str, torch.Tensor]]:
        """Compresses one tensor.

        Args:
            tensor: Dense, of any shape, on any device; finite. Tensors not of floats are sent uncompressed.
            state: What the previous call for this tensor returned; None the first time.
            round_num: 0 or more; for schedules and seeds.
            in_place: Write the next state over the tensors of ``state``, which the caller then gives up.
            out: A state that is not needed any more, over which the next one is written.

        Returns:
            The payload, and the state for the next round: empty for encoders that keep nothing.

        Raises:
            ArgumentError: The tensor cannot be encoded, or the codec is of rules (see `encode_model`).
            NonFiniteError: An element, or its sum with the residual, is NaN or infinite.
            StateError: ``state`` is of another codec, shape or dtype.
        """
        payload, after = self._codec.encode(
            as_operand(tensor), as_operands(state), round_num, in_place=in_place, out=as_operands(out)
        )
        return payload, as_results(after)

    def encode_model(
        self,
        tensors: NamedTensors,
        states: TensorState | None = None,
        round_num: int = 0,
        *,
        in_place: bool = False,
        out: TensorState | None = None,
    ) -> tuple[dict[str, bytes], dict[str, torch.Tensor]]:
        """Compresses the tensors of a model together: rules look at their names, budgets at their bytes.

        Args:
            tensors: By name: a ``state_dict()``, ``named_parameters()``, a mapping, or a module, which stands
                for its parameters. An update, most often: after training minus before.
            states: What the previous call returned, one flat dictionary for the whole model.
            round_num: As for `encode`, like the rest.
            in_place: As for `encode`.
            out: As for `encode`.

        Raises:
            ArgumentError: As for `encode`; the message names the tensor.
            ConfigError: The encoder does not fit this model.
            NonFiniteError: As for `encode`; the message names the tensor.
            StateError: ``states`` are of another codec, or of another model.
        """
        payloads, after = self._codec.encode_model(
            as_operands(named(tensors)) or {},
            as_operands(states),
            round_num,
            in_place=in_place,
            out=as_operands(out),
        )
        return payloads, as_results(after)

    def __repr__(self) -> str:
        return f"fedplug_torch.Codec({str(self._codec.encoder)!r})"


def encode(
    tensor: torch.Tensor, encoder: Any, state: TensorState | None = None, round_num: int = 0
) -> tuple[bytes, dict[str, torch.Tensor]]:
    """One tensor with an encoder that is used once: ``Codec(encoder).encode(tensor, state, round_num)``."""
    return Codec(encoder).encode(tensor, state, round_num)


def decode(
    payload: Any, *, out: torch.Tensor | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> torch.Tensor:
    """The tensor that a payload stands for, whichever encoder wrote it.

    Args:
        payload: From an ``encode``, or of a TFF process: bytes, any buffer, or a uint8 tensor. Untrusted.
        out: Of the tensor's shape and dtype, to be written over, a parameter too; after an error it holds
            anything. On the CPU and C-contiguous it is written where it lies, otherwise by way of a copy.
        max_bytes: The largest tensor to make where there is no ``out``.

    Returns:
        ``out``, or a new tensor on the CPU.

    Raises:
        PayloadError: The bytes are no payload, were changed on the way, are larger when decoded than
            ``max_bytes``, or of an encoder that is not installed.
        ArgumentError: ``out`` does not fit, or ``payload`` is no buffer.
    """
    buffer = as_array(payload) if isinstance(payload, torch.Tensor) else payload
    if out is None:
        return as_tensor(fedplug.decode(buffer, max_bytes=max_bytes))
    require_dense(out)
    if shares_memory(out):
        fedplug.decode(buffer, out=as_array(out))
        torch.autograd.graph.increment_version(out)  # NumPy wrote, of which autograd knows nothing
    else:
        host = torch.empty(out.shape, dtype=out.dtype)
        fedplug.decode(buffer, out=as_array(host))
        out.detach().copy_(host)
    return out


def decode_model(
    payloads: Mapping[str, Any], *, out: NamedTensors | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> dict[str, torch.Tensor]:
    """The tensors of a model, by name.

    Args:
        payloads: From `Codec.encode_model`.
        out: Tensors to be written over, for some or all of the names: a mapping, or a module for its
            parameters.
        max_bytes: The most that all new tensors may take together.

    Raises:
        PayloadError: As for `decode`; the message names the tensor.
        ArgumentError: As for `decode`.
    """
    tensors: dict[str, torch.Tensor] = {}
    places = {} if out is None else named(out)
    for name, payload in payloads.items():
        try:
            tensors[name] = decode(payload, out=places.get(name), max_bytes=max_bytes)
        except (ArgumentError, PayloadError) as error:
            raise type(error)(f"tensor {name!r}: {error}") from error
        if name not in places:
            max_bytes = max_bytes - tensors[name].nbytes  # not in place: it may be the caller's tensor
    return tensors


def named(tensors: NamedTensors) -> dict[str, torch.Tensor]:
    """Returns the tensors by name; without the ``module.`` that DistributedDataParallel puts before names.

    Raises:
        ArgumentError: It is none of `NamedTensors`, or a name is no text.
    """
    if isinstance(tensors, torch.nn.parallel.DistributedDataParallel):
        tensors = tensors.module
    if isinstance(tensors, torch.nn.Module):
        return dict(tensors.named_parameters())
    pairs = list(tensors.items() if isinstance(tensors, Mapping) else _iterated(tensors))
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            found = (
                f"the name {pair[0]!r}" if isinstance(pair, tuple) and pair else f"a {type(pair).__name__}"
            )
            raise ArgumentError(f"tensors of a model have names that are text; found {found}; {_WANTED}")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ArgumentError(f"several tensors have one name; of {len(pairs)}, {len(found)} names differ")
    return found


def _iterated(tensors: Any) -> Iterable[Any]:
    if isinstance(tensors, str | torch.Tensor) or not isinstance(tensors, Iterable):
        raise ArgumentError(f"a {type(tensors).__name__} is no model; {_WANTED}")
    return tensors


def numpy_codec(encoder: Any, *, min_size: int | None = None, **config: Any) -> fedplug.Codec:
    """The codec on arrays, of anything that an encoder may be, or as it is."""
    if isinstance(encoder, Codec):
        encoder = encoder._codec
    if isinstance(encoder, fedplug.Codec):
        if min_size is not None or config:
            raise ArgumentError(f"{encoder!r} is a codec already; it takes no arguments")
        return encoder
    if min_size is not None:
        config["min_size"] = min_size
    return fedplug.codec(encoder, **config)
