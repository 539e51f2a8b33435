"""A communication hook for DistributedDataParallel: exchanges payloads, and keeps residuals on each rank.

All gradients of a step are encoded together when the last bucket is full, and exchanged once. Encoders
therefore see the whole model (rules, budgets, ``scope="model"``). Nothing depends on DDP's division into
buckets, which changes after the first step.
"""

# No `from __future__ import annotations`: DDP compares the annotations of a hook with classes.

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from fedplug.codecs.state import OWNER, require_owner
from fedplug.errors import ArgumentError, FedplugError, StateError
from fedplug.ops.device_array import is_on_device
from fedplug.registry.component import plain
from fedplug_torch.codec import named, numpy_codec
from fedplug_torch.devices import as_operands, as_result
from fedplug_torch.exchange import Exchange, RankError, copied_group
from fedplug_torch.mean import expected_of, max_payload_bytes, mean_of
from fedplug_torch.tensors import as_array, real_view, require_whole

__all__ = ["FedplugState", "fedplug_hook"]

_log = logging.getLogger("fedplug")

_COUNTERS = ("step", "bytes_sent", "dense_bytes")

_OF_THE_CODEC = "codec/"
"""The prefix of the codec's entries in a state dictionary."""


class FedplugState:
    """The state of `fedplug_hook` between steps, on one rank.

    It may be created before the process group. It can be copied and pickled, alone or with its DDP model. The
    copy of a DDP model has no hook until ``register_comm_hook`` is called for it.

    An encoder with error feedback takes the memory of two residuals: the previous one stays until every
    rank's payloads have been added. With fedplug-cuda, the residuals of encoders that run there are on the
    device of the gradients.

    Attributes:
        step: Number of steps.
        bytes_sent: Bytes of payloads and their sizes sent to each other rank, without the warm-up.
        dense_bytes: Bytes of the gradients of these payloads without compression.
        error: The error of the last backward pass, or None.
    """

    def __init__(
        self,
        encoder: Any,
        module: torch.nn.Module,
        *,
        process_group: dist.ProcessGroup | None = None,
        warmup_steps: int = 0,
    ) -> None:
        """Reads the names of a module's parameters.

        Args:
            encoder: Any argument of `fedplug.codec`, or a `Codec`.
            module: The model that DDP wraps, or the DDP model.
            process_group: The process group of DDP, which must support CPU tensors; all ranks by default.
            warmup_steps: Number of first steps that send dense gradients (Lin et al. 2018, section 3.3).
                Schedules of the encoder begin with the first payload.

        Raises:
            ArgumentError: ``module`` is not a module, ``warmup_steps`` is negative, or a parameter is sharded
                (FSDP, DTensor) or of a dtype that payloads do not support.
            ConfigError: The encoder cannot be parsed; see also `fedplug.codec`.
        """
        if not isinstance(module, torch.nn.Module):
            raise ArgumentError(f"a {type(module).__name__} is no module; pass the model that DDP wraps")
        warmup_steps = plain(warmup_steps)
        if type(warmup_steps) is not int or warmup_steps < 0:
            raise ArgumentError(f"warmup_steps is {warmup_steps!r}; it must be a whole number of at least 0")
        self.step = self.bytes_sent = self.dense_bytes = 0
        self.error: Exception | None = None
        self._warmup_steps = warmup_steps
        self._codec = numpy_codec(encoder).require_updates()
        self._group = process_group
        self._module = module.module if isinstance(module, DistributedDataParallel) else module
        self._names = _names_of(self._module)
        self._kept: dict[str, NDArray[Any]] | None = None
        self._spare: dict[str, NDArray[Any]] | None = None
        self._place: tuple[int, int] | None = None  # rank and number of ranks of `_kept`
        self._gradients: dict[str, torch.Tensor] = {}
        self._ready: torch.futures.Future[None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Omits everything that belongs to one step."""
        of_one_step = {"_spare": None, "_gradients": {}, "_ready": None, "error": None}
        return {**self.__dict__, **of_one_step, "_group": copied_group(self._group)}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns a copy of the state for the next step, for `safetensors.torch.save_file`.

        Every rank has its own state, and must save it to its own file.

        Raises:
            ArgumentError: torch.distributed is not initialized, so the rank is unknown.
        """
        rank, world_size = self._place or Exchange(self._group).place
        numbers = {
            "step": self.step,
            "bytes_sent": self.bytes_sent,
            "dense_bytes": self.dense_bytes,
            "rank": rank,
            "world_size": world_size,
        }
        kept = {OWNER: self._codec.owner, **(self._kept or {})}
        return {
            **{name: torch.tensor(number) for name, number in numbers.items()},
            **{_OF_THE_CODEC + name: as_result(array).clone() for name, array in kept.items()},
        }

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continues from the result of `state_dict`, with the same bits.

        Raises:
            StateError: The state is not of this class, or of another encoder, rank or number of ranks.
                Nothing has changed. Without a process group, a wrong rank is detected in the next step, which
                also drops residuals of unknown parameters.
        """
        missing = {*_COUNTERS, "rank", "world_size"} - state.keys()
        if missing:
            raise StateError(f"the state is not of FedplugState: it lacks {', '.join(sorted(missing))}")
        place = int(state["rank"]), int(state["world_size"])
        if dist.is_initialized():
            _require_same_place(place, Exchange(self._group).place)
        kept = {
            name.removeprefix(_OF_THE_CODEC): as_array(tensor).copy()
            for name, tensor in state.items()
            if name.startswith(_OF_THE_CODEC)
        }
        require_owner(kept, self._codec.owner)
        for name in _COUNTERS:
            setattr(self, name, int(state[name]))
        self._place, self._kept, self._spare = place, kept if len(kept) > 1 else None, None

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        """Handles one call of the hook; DDP makes them in the same order on every rank."""
        if self._ready is None or bucket.index() == 0:  # an earlier backward pass may have been aborted
            self._gradients, self._ready = {}, torch.futures.Future()
        gradients, buffer, ready = self._named_gradients(bucket), bucket.buffer(), self._ready
        if self.step < self._warmup_steps:
            return self._reduce_dense(bucket)
        self._gradients |= gradients
        reduced: torch.futures.Future[torch.Tensor] = ready.then(lambda _: buffer)
        if bucket.is_last():
            self.error = None
            try:
                self._reduce_all()
            except Exception as error:
                self.error = error
                _raise_at_the_end(error)
            self._gradients, self._ready = {}, None
            ready.set_result(None)
        return reduced

    def _named_gradients(self, bucket: dist.GradBucket) -> dict[str, torch.Tensor]:  # type: ignore[name-defined]
        """Returns views of the bucket in the shapes of its parameters; complex numbers as pairs of reals.

        ``bucket.gradients()`` is not used: it stops early for complex parameters, and mixes up elements of
        transposed and ``channels_last`` ones, which DDP lays out like the parameter's memory.
        """
        parameters, buffer = bucket.parameters(), bucket.buffer()
        if any(parameter not in self._names for parameter in parameters):
            self._names = _names_of(self._module)  # layers may have been added
        if any(parameter not in self._names for parameter in parameters):
            raise ArgumentError("DDP has parameters that the module of FedplugState has not; pass the same")
        if buffer.layout is not torch.strided:  # an embedding, to which DDP gives its own bucket
            name = self._names[parameters[0]]
            raise ArgumentError(f"the gradient of {name!r} is sparse; pass sparse=False to the embedding")
        reals = [real_view(parameter.detach()) for parameter in parameters]
        parts = buffer.split([real.numel() for real in reals])
        return {
            self._names[parameter]: _like(part, real)
            for parameter, part, real in zip(parameters, parts, reals, strict=True)
        }

    def _reduce_dense(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        self.step += bucket.is_last()
        return default_hooks.allreduce_hook(self._group, bucket)  # type: ignore[arg-type]  # None: all ranks

    def _reduce_all(self) -> None:
        """Replaces every gradient of the step by the mean; after an error the state is unchanged."""
        gradients = {name: self._gradients[name] for name in self._names.values() if name in self._gradients}
        limits = {name: max_payload_bytes(gradient) for name, gradient in gradients.items()}
        exchange = Exchange(self._group)
        try:
            _require_same_place(self._place or exchange.place, exchange.place)
            payloads, after, before = self._encode(gradients)
        except Exception as error:
            exchange.all_gather_error(error, limits)
            raise
        messages = exchange.all_gather(payloads, limits)
        expected = expected_of(self._codec, gradients)
        for name, gradient in gradients.items():
            gradient.copy_(mean_of(messages, name, gradient, expected[name]))
        self._kept, self._spare = after, before
        self._place = exchange.place
        self.step += 1
        self.bytes_sent += sum(map(len, payloads.values())) + 8 * (1 + len(payloads))
        self.dense_bytes += sum(gradient.nbytes for gradient in gradients.values())

    def _encode(
        self, gradients: Mapping[str, torch.Tensor]
    ) -> tuple[dict[str, bytes], dict[str, NDArray[Any]], dict[str, NDArray[Any]] | None]:
        """Returns payloads by parameter, the next state and the previous one, for the same parameters.

        A gradient of zeros sends nothing and keeps its residual: DDP does not change a parameter that no rank
        used (``find_unused_parameters``), so anything sent for it would be lost.
        """
        arrays = as_operands(gradients)
        round_num = self.step - self._warmup_steps
        kept, dropped = self._codec.carry_over(self._kept, arrays)
        spare = self._spare if kept is self._kept else None
        self._spare = None  # overwritten from here on
        payloads, after = self._codec.encode_model(arrays, kept, round_num, out=spare)
        if dropped:
            _log.warning("the model has changed; the residuals of parameters %s are dropped", dropped)
        keys = self._codec.state_keys(arrays)
        for name, gradient in gradients.items():
            if not gradient.any():
                payloads[name] = b""
                for key in keys[name] if kept else ():
                    if is_on_device(after[key]):  # never written over, so both states may have it
                        after[key] = kept[key]
                    else:
                        np.copyto(after[key], kept[key])
        return payloads, after, None if kept is None else dict(kept)


def fedplug_hook(state: FedplugState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """Reduces gradients for ``ddp_model.register_comm_hook(FedplugState(...), fedplug_hook)``.

    Args:
        state: The state of this DDP model and rank.
        bucket: A part of the gradients, which are replaced by the mean over the ranks.

    Returns:
        A future that completes with the last bucket of the step. An error on any rank makes ``backward()``
        raise a RankError on every rank; ``state.error`` has the error of this rank. Step and residuals are
        then unchanged, and the gradients are undefined.
    """
    if not isinstance(state, FedplugState):
        raise ArgumentError(
            f"the state of fedplug_hook is a {type(state).__name__}; register it as "
            "register_comm_hook(FedplugState('topk(0.01)', model), fedplug_hook)"
        )
    if not isinstance(bucket, dist.GradBucket):  # type: ignore[attr-defined]
        raise ArgumentError(
            f"fedplug_hook takes the buckets of DistributedDataParallel, not a {type(bucket).__name__}; it "
            "cannot be registered with FSDP, nor where DDP is compiled by the Python reducer"
        )
    return state.reduce(bucket)


def _names_of(module: torch.nn.Module) -> dict[torch.Tensor, str]:
    """Returns the names by parameter; raises an error for parameters that payloads cannot hold."""
    names = {parameter: name for name, parameter in named(module).items()}
    left_to_others = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
    reduced = {
        name: parameter
        for parameter, name in names.items()
        if parameter.requires_grad and name not in left_to_others and not is_lazy(parameter)
    }
    require_whole({name: real_view(parameter) for name, parameter in reduced.items()})
    return names


def _like(part: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Returns a parameter's part of a bucket in the parameter's shape and DDP's layout."""
    strides = torch.empty_like(parameter, device="meta").stride()
    if strides != parameter.stride():  # DDP lays out tensors with gaps or overlaps in C order
        return part.view(parameter.shape)
    return part.as_strided(parameter.shape, strides, part.storage_offset())


def _require_same_place(saved: tuple[int, int], here: tuple[int, int]) -> None:
    if saved != here:
        raise StateError(
            f"the state is of rank {saved[0]} of {saved[1]}, and this is rank {here[0]} of {here[1]}; every "
            "rank loads its own, and another number of ranks begins without"
        )


def _raise_at_the_end(error: Exception) -> None:
    """Raises an error when the backward pass ends, after DDP's own work.

    An error in a bucket's future would abort that work, and later steps would fail, too.
    """
    if isinstance(error, FedplugError) and not isinstance(error, RankError):
        cause, error = error, RankError(str(error))
        error.__cause__ = cause

    def fail() -> None:
        raise error

    queue = torch.autograd.Variable._execution_engine.queue_callback
    # DDP queues its work after this call, so before `fail`. With DDP's `join`, a rank that ended early takes
    # part in steps outside of a backward pass, where nothing can be queued.
    with contextlib.suppress(RuntimeError):
        queue(lambda: queue(fail))
