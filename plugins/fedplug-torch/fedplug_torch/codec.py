"""`fedplug.codec` for tensors: any encoder to bytes, and bytes to tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import fedplug
from fedplug import wire
from fedplug.codecs import DEFAULT_MAX_BYTES
from fedplug.codecs.arrays import require_output
from fedplug.codecs.decoding import Plan, decoded, opened
from fedplug.errors import ArgumentError, PayloadError
from fedplug_torch.devices import as_operand, as_operands, as_results
from fedplug_torch.shards import local_shard, require_shards, shards_of, text_of
from fedplug_torch.tensors import arrays_like, as_array, as_tensor, require_dense, shares_memory

__all__ = ["Codec", "NamedTensors", "decode", "decode_model", "encode", "named", "numpy_codec"]

NamedTensors = torch.nn.Module | Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]]
"""The tensors of a model by name; a module, or its DistributedDataParallel, stands for its parameters."""

_WANTED = "pass the module, its named_parameters() (not its parameters()), or a mapping of tensors by name"

TensorState = Mapping[str, torch.Tensor]
"""A state: a flat mapping, which `safetensors.torch.save_file` accepts."""


class Codec:
    """Compresses tensors. The codec keeps no state itself. `fedplug.Codec` describes states and guarantees.

    C-contiguous tensors are read in place, including bfloat16. No graph is recorded. On a GPU with
    fedplug-cuda, encoders with kernels for it run there, and states stay there. For other encoders, and
    without fedplug-cuda, tensors are copied to the host.

    Of DTensors, such as the parameters of ``fully_shard``, each rank encodes its own shard. The state records
    which one, and belongs to it.
    """

    def __init__(self, encoder: object, **config: Any) -> None:
        """Takes a `fedplug.Codec`, or the arguments of `fedplug.codec`, and raises its errors."""
        self._codec = numpy_codec(encoder, **config)

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
            tensor: Dense finite tensor of any shape, on any device; of a DTensor, this rank's shard. Dtypes
                other than floats are sent uncompressed.
            state: The state from the previous call for this tensor. None the first time.
            round_num: Round number, 0 or more, for schedules and seeds.
            in_place: Whether to overwrite the tensors of ``state`` with the next state. The caller must not
                use ``state`` afterwards.
            out: A state that is no longer needed, which the next one overwrites.

        Returns:
            The payload, and the state for the next round. The state is empty if the encoder keeps none.

        Raises:
            ArgumentError: The tensor cannot be encoded, or the codec has rules (see `encode_model`).
            NonFiniteError: An element, or its sum with the residual, is NaN or infinite.
            StateError: ``state`` is of another codec, shape, dtype or shard.
        """
        operand, shards = as_operand(tensor), shards_of({"": tensor})
        payload, after = self._codec.encode(
            operand,
            as_operands(require_shards(state, shards)),
            round_num,
            in_place=in_place,
            out=as_operands(require_shards(out, shards)),
        )
        return payload, _state(after, shards)

    def encode_model(
        self,
        tensors: NamedTensors,
        states: TensorState | None = None,
        round_num: int = 0,
        *,
        in_place: bool = False,
        out: TensorState | None = None,
    ) -> tuple[dict[str, bytes], dict[str, torch.Tensor]]:
        """Compresses the tensors of a model together: rules use their names, budgets their bytes.

        Args:
            tensors: Tensors by name: a ``state_dict()``, ``named_parameters()``, a mapping, or a module for
                its parameters. Usually an update: the parameters after training minus those before.
            states: The states from the previous call, one flat dictionary for the whole model.
            round_num: Round number, see `encode`.
            in_place: Whether to overwrite ``states``, see `encode`.
            out: A state that is no longer needed, see `encode`.

        Raises:
            ArgumentError: A tensor cannot be encoded. The message names it.
            ConfigError: The encoder does not fit this model.
            NonFiniteError: A tensor is not finite, see `encode`. The message names it.
            StateError: ``states`` are of another codec or model, or of other shards.
        """
        found = named(tensors)
        operands, shards = as_operands(found) or {}, shards_of(found)
        payloads, after = self._codec.encode_model(
            operands,
            as_operands(require_shards(states, shards)),
            round_num,
            in_place=in_place,
            out=as_operands(require_shards(out, shards)),
        )
        return payloads, _state(after, shards)

    def __repr__(self) -> str:
        return f"fedplug_torch.Codec({str(self._codec.encoder)!r})"


def encode(
    tensor: torch.Tensor, encoder: object, state: TensorState | None = None, round_num: int = 0
) -> tuple[bytes, dict[str, torch.Tensor]]:
    """Encodes one tensor: ``Codec(encoder).encode(tensor, state, round_num)``."""
    return Codec(encoder).encode(tensor, state, round_num)


def decode(
    payload: object, *, out: torch.Tensor | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> torch.Tensor:
    """Decodes the payload of any encoder.

    Args:
        payload: Untrusted bytes from an ``encode`` or a TFF process, in any buffer or a uint8 tensor.
        out: Tensor of the same shape and dtype to overwrite, for example a parameter, or a DTensor with
            such a shard, undefined after an error. A C-contiguous tensor on the CPU is written in place,
            others through a copy.
        max_bytes: Maximum size of a new tensor without ``out``.

    Returns:
        ``out``, or a new tensor on the CPU.

    Raises:
        PayloadError: The bytes are not a payload, are corrupt, exceed ``max_bytes`` when decoded, or are of
            an encoder that is not installed.
        ArgumentError: ``out`` does not fit, or ``payload`` is not a buffer.
    """
    max_bytes = wire.check_max_bytes(max_bytes)
    plan, body = _opened(payload, out)
    return _decoded(plan, body, out, max_bytes)


def decode_model(
    payloads: Mapping[str, object], *, out: NamedTensors | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> dict[str, torch.Tensor]:
    """Decodes the tensors of a model, by name.

    Args:
        payloads: Payloads from `Codec.encode_model`.
        out: Tensors to overwrite, for some or all of the names: a mapping, or a module for its parameters.
            All, and the checksums of all payloads, are checked before one is written.
        max_bytes: Maximum size of all new tensors together.

    Raises:
        PayloadError: A payload is invalid, see `decode`. The message names the tensor.
        ArgumentError: A tensor of ``out`` does not fit, or a payload is not a buffer.
    """
    max_bytes = wire.check_max_bytes(max_bytes)
    parts: dict[str, tuple[Plan, NDArray[np.uint8]]] = {}
    tensors: dict[str, torch.Tensor] = {}
    places = {} if out is None else named(out)
    name = None
    try:
        for name, payload in payloads.items():
            parts[name] = _opened(payload, places.get(name))
        for name, (plan, body) in parts.items():
            tensors[name] = _decoded(plan, body, places.get(name), max_bytes)
            if name not in places:
                max_bytes -= tensors[name].nbytes
    except (ArgumentError, PayloadError) as error:
        raise type(error)(f"tensor {name!r}: {error}") from error
    return tensors


def _opened(payload: object, out: torch.Tensor | None) -> tuple[Plan, NDArray[np.uint8]]:
    """Reads the header of a payload, and checks the place of its tensor. None stands for a new one."""
    plan, body = opened(as_array(payload) if isinstance(payload, torch.Tensor) else payload, None)
    if out is not None:
        require_dense(shard := local_shard(out))
        require_output(arrays_like({"": shard})[""], plan.spec.shape, plan.spec.dtype)
    return plan, body


def _decoded(plan: Plan, body: NDArray[np.uint8], out: torch.Tensor | None, max_bytes: float) -> torch.Tensor:
    """Decodes a body into ``out``, which was checked, or into a new tensor."""
    if out is None:
        return as_tensor(decoded(plan, body, None, max_bytes))
    shard = local_shard(out)
    if shares_memory(shard):
        decoded(plan, body, as_array(shard), max_bytes)
        if not out.is_inference():
            torch.autograd.graph.increment_version(out)  # autograd cannot see NumPy's writes
    else:
        host = torch.empty(shard.shape, dtype=shard.dtype, device="cpu")
        decoded(plan, body, as_array(host), max_bytes)
        shard.detach().copy_(host)
    return out


def named(tensors: NamedTensors) -> dict[str, torch.Tensor]:
    """Returns the tensors by name, without DistributedDataParallel's prefix ``module.``.

    Raises:
        ArgumentError: The value is none of `NamedTensors`, or a name is not text.
    """
    if isinstance(tensors, torch.nn.parallel.DistributedDataParallel):
        tensors = tensors.module
    if isinstance(tensors, torch.nn.Module):
        _reshard(tensors)
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


def _reshard(module: torch.nn.Module) -> None:
    """Makes the parameters DTensors again that ``fully_shard`` has left whole after a forward pass."""
    fsdp = sys.modules.get("torch.distributed.fsdp")  # it has sharded nothing before it was imported
    for part in module.modules() if fsdp else ():
        if isinstance(part, fsdp.FSDPModule):
            part.reshard()


def _state(arrays: Mapping[str, object], shards: Mapping[str, str]) -> dict[str, torch.Tensor]:
    """Returns a state as tensors. One with arrays records its shards."""
    return {**as_results(arrays), **text_of(shards)} if arrays else {}


def _iterated(tensors: object) -> Iterable[object]:
    if isinstance(tensors, str | torch.Tensor) or not isinstance(tensors, Iterable):
        raise ArgumentError(f"a {type(tensors).__name__} is no model; {_WANTED}")
    return tensors


def numpy_codec(encoder: object, **config: Any) -> fedplug.Codec:
    """Returns the codec on arrays for any form of an encoder or codec."""
    if isinstance(encoder, Codec):
        encoder = encoder._codec
    if isinstance(encoder, fedplug.Codec):
        if config:
            raise ArgumentError(f"{encoder!r} is a codec already; it takes no arguments")
        return encoder
    return fedplug.codec(encoder, **config)
