"""A communication hook for DistributedDataParallel: gradients travel as payloads, residuals stay on the rank.

All gradients of a step are encoded together when the last bucket is full, and exchanged once. So encoders see
the whole model (rules, budgets, ``scope="model"``), and nothing depends on how DDP divides it into buckets,
which it does anew after the first step.
"""

# No `from __future__ import annotations`: DDP compares the annotations of a hook with classes.

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from fedplug.errors import ArgumentError, StateError
from fedplug_torch.codec import named, numpy_codec
from fedplug_torch.exchange import Exchange
from fedplug_torch.mean import max_payload_bytes, mean_of
from fedplug_torch.tensors import as_array, as_tensor

__all__ = ["FedplugState", "fedplug_hook"]

_OF_THE_CODEC = "codec/"
"""Before the names of what the codec keeps, in a state dictionary."""


class FedplugState:
    """What `fedplug_hook` keeps from step to step, on one rank.

    Beside the gradients it takes the memory of two residuals where the encoder has error feedback: what the
    step began with stays until every rank's payloads have been added.

    Attributes:
        step: How many steps were taken.
        bytes_sent: What this rank handed to each of the others: payloads and their sizes; during the warm-up
            dense gradients.
        error: What made the last backward pass fail, or None.
    """

    def __init__(
        self,
        encoder: Any,
        module: torch.nn.Module,
        *,
        process_group: dist.ProcessGroup | None = None,
        warmup_steps: int = 0,
    ) -> None:
        """Knows the parameters of a module by name.

        Args:
            encoder: What `fedplug.codec` takes, or a `Codec`.
            module: Whose gradients the hook is for, before or after it is wrapped by DDP.
            process_group: That of DDP, and of CPU tensors; default: all ranks.
            warmup_steps: So many steps send dense gradients, before payloads begin (Lin et al. 2018, section
                3.3). Schedules of the encoder begin with the first payload.

        Raises:
            ArgumentError: torch.distributed is not initialized, or ``warmup_steps`` is negative.
            ConfigError: The encoder cannot be read, and all that `fedplug.codec` raises.
        """
        if warmup_steps < 0:
            raise ArgumentError(f"warmup_steps is {warmup_steps}; it must be at least 0")
        self.step = 0
        self.bytes_sent = 0
        self.error: Exception | None = None
        self._warmup_steps = warmup_steps
        self._codec = numpy_codec(encoder).require_updates()
        self._group = process_group
        self._exchange = Exchange(process_group)
        self._names = {parameter: name for name, parameter in named(module).items()}
        self._kept: dict[str, NDArray[Any]] | None = None
        self._spare: dict[str, NDArray[Any]] | None = None
        self._gradients: dict[str, torch.Tensor] = {}
        self._ready: torch.futures.Future[Exception | None] = torch.futures.Future()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """A copy of all that the next step needs, for `safetensors.torch.save_file`.

        Every rank has its own, and saves it in a file of its own.
        """
        numbers = {
            "step": self.step,
            "bytes_sent": self.bytes_sent,
            "rank": self._exchange.rank,
            "world_size": self._exchange.world_size,
        }
        return {
            **{name: torch.tensor(number) for name, number in numbers.items()},
            **{_OF_THE_CODEC + name: as_tensor(array).clone() for name, array in (self._kept or {}).items()},
        }

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Goes on where `state_dict` was called, with the same bits.

        Raises:
            StateError: It is not of this class, or of another rank, or of another number of ranks. A state of
                another encoder or model is one in the next step.
        """
        missing = {"step", "bytes_sent", "rank", "world_size"} - state.keys()
        if missing:
            raise StateError(f"the state is not of FedplugState: it lacks {', '.join(sorted(missing))}")
        saved = int(state["rank"]), int(state["world_size"])
        if saved != (self._exchange.rank, self._exchange.world_size):
            raise StateError(
                f"the state is of rank {saved[0]} of {saved[1]}, and this is rank {self._exchange.rank} of "
                f"{self._exchange.world_size}; every rank loads its own, and another number of ranks begins "
                "without"
            )
        self.step, self.bytes_sent = int(state["step"]), int(state["bytes_sent"])
        kept = {
            name.removeprefix(_OF_THE_CODEC): as_array(tensor).copy()
            for name, tensor in state.items()
            if name.startswith(_OF_THE_CODEC)
        }
        self._kept, self._spare = kept or None, None

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        """One call of the hook; DDP makes them in the order of the buckets, the same on every rank."""
        if self.step < self._warmup_steps:
            return self._reduce_dense(bucket)
        if bucket.index() == 0:  # a backward pass before may have ended early
            self._gradients, self._ready = {}, torch.futures.Future()
        buffer, ready = bucket.buffer(), self._ready
        if any(parameter not in self._names for parameter in bucket.parameters()):
            raise ArgumentError("DDP has parameters that the module of FedplugState has not; pass the same")
        names = [self._names[parameter] for parameter in bucket.parameters()]
        if buffer.layout is not torch.strided:  # of an embedding, which DDP gives a bucket of its own
            raise ArgumentError(f"the gradient of {names[0]!r} is sparse; pass sparse=False to the embedding")
        self._gradients |= dict(zip(names, bucket.gradients(), strict=True))
        reduced: torch.futures.Future[torch.Tensor] = ready.then(lambda done: _or_raise(done.value(), buffer))
        if bucket.is_last():
            self.error = None
            try:
                self._reduce_all()
            except Exception as error:
                self.error = error
            self._gradients = {}
            ready.set_result(self.error)
        return reduced

    def _reduce_dense(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        self.bytes_sent += bucket.buffer().nbytes
        self.step += bucket.is_last()
        return default_hooks.allreduce_hook(self._group, bucket)  # type: ignore[arg-type]  # None: all ranks

    def _reduce_all(self) -> None:
        """Replaces every gradient of the step by the mean; after an error the state is as before."""
        gradients = {name: self._gradients[name] for name in self._names.values() if name in self._gradients}
        limits = {name: max_payload_bytes(gradient) for name, gradient in gradients.items()}
        try:
            payloads, after = self._encode(gradients)
        except Exception as error:
            self._exchange.all_gather_error(error, limits)
            raise
        messages = self._exchange.all_gather(payloads, limits)
        for name, gradient in gradients.items():
            gradient.copy_(mean_of(messages, name, gradient))
        self._kept, self._spare = after, self._kept
        self.step += 1
        self.bytes_sent += sum(map(len, payloads.values())) + 8 * (1 + len(payloads))

    def _encode(
        self, gradients: Mapping[str, torch.Tensor]
    ) -> tuple[dict[str, bytes], dict[str, NDArray[Any]]]:
        """Payloads by parameter, and the next state.

        A gradient of zeros sends nothing, and its residual waits: DDP leaves a parameter alone that no rank
        used (``find_unused_parameters``), so that what was sent for it would be lost.
        """
        arrays = {name: as_array(gradient) for name, gradient in gradients.items()}
        round_num = self.step - self._warmup_steps
        kept = self._kept or {}
        payloads, after = self._codec.encode_model(arrays, self._kept, round_num, out=self._spare)
        self._spare = None  # written over from here on
        for name, gradient in gradients.items():
            if not gradient.any():
                payloads[name] = b""
                for key in (key for key in kept if key.startswith(f"{name}/")):
                    np.copyto(after[key], kept[key])
        return payloads, after


def fedplug_hook(state: FedplugState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """For ``ddp_model.register_comm_hook(FedplugState("topk(0.01)", model), fedplug_hook)``.

    Args:
        state: One for each DDP model and rank.
        bucket: A part of the gradients, which are replaced by the mean over the ranks.

    Returns:
        Done when the last bucket of the step was. What goes wrong on a rank is raised by ``backward()`` on
        every rank, as a RuntimeError with the text of the error, which is in ``state.error``. Step and
        residuals are then as before, and the gradients hold anything.
    """
    return state.reduce(bucket)


def _or_raise(error: Exception | None, value: torch.Tensor) -> torch.Tensor:
    if error is not None:
        raise error
    return value
