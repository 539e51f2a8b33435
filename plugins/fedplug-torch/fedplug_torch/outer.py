"""Local SGD and DiLoCo: many steps on each worker, then one compressed exchange of what they changed.

Source: Douillard et al. 2023, "DiLoCo: Distributed Low-Communication Training of Language Models" (arXiv
2311.08105), algorithm 1. With SGD at learning rate 1 and no momentum as the outer optimizer it is local SGD
(Stich 2019, arXiv 1805.09767); with that and error feedback that decays it is SparseLoCo (Sarfi et al. 2025,
arXiv 2508.15706).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, StateError
from fedplug_torch.codec import NamedTensors, named, numpy_codec
from fedplug_torch.exchange import Exchange
from fedplug_torch.mean import max_payload_bytes, mean_of
from fedplug_torch.tensors import as_array, as_tensor

__all__ = ["OuterStep"]

_ANCHOR, _CODEC, _OPTIMIZER = "anchor/", "codec/", "optimizer/"
"""Before the names of tensors in a state dictionary."""

_COUNTERS = ("inner_step", "outer_step", "bytes_sent")


class _Pending(NamedTuple):
    """What `OuterStep.encode` made, until `OuterStep.apply` says that it counts."""

    state: dict[str, NDArray[Any]]
    num_bytes: int


class OuterStep:
    """Every ``inner_steps`` steps: the mean of all workers' changes is the gradient of an outer optimizer.

    One object a worker, over its model. Where workers are processes of torch.distributed, call `step` after
    every step of the inner optimizer. Anything else that carries bytes, or a loop over workers in one
    process, calls `encode` on every worker and `apply` with what all of them made. Buffers (the statistics of
    batch normalization) stay each worker's own.

    Attributes:
        optimizer: The outer one; its learning rate may be changed between steps.
        inner_step: How many calls of `step` there were since the last exchange.
        outer_step: How many exchanges there were.
        bytes_sent: What this worker handed to each of the others, in payloads.
    """

    def __init__(
        self,
        parameters: NamedTensors,
        encoder: Any,
        *,
        inner_steps: int,
        optimizer: torch.optim.Optimizer | None = None,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        """Remembers where the parameters are.

        With torch.distributed initialized all ranks begin from the first rank's parameters, as in DDP.
        Workers in one process must be equal already.

        Args:
            parameters: A module, or its ``named_parameters()``; those that require no gradient are left out.
            encoder: For the changes of a model, what `fedplug.codec` takes, or a `Codec`.
            inner_steps: H, at least 1.
            optimizer: Of the same parameters; by default that of DiLoCo, Nesterov's SGD with learning rate
                0.7 and momentum 0.9.
            process_group: Of CPU tensors; default: all ranks.

        Raises:
            ArgumentError: There are no parameters, or ``inner_steps`` is less than 1.
            ConfigError: The encoder cannot be read, and all that `fedplug.codec` raises.
        """
        self._parameters = {name: p for name, p in named(parameters).items() if p.requires_grad}
        if not self._parameters:
            raise ArgumentError("no parameter requires a gradient, so there is nothing to train")
        if inner_steps < 1:
            raise ArgumentError(f"inner_steps is {inner_steps}; it must be at least 1")
        self._codec = numpy_codec(encoder).require_updates()
        self.optimizer = optimizer or torch.optim.SGD(
            self._parameters.values(), lr=0.7, momentum=0.9, nesterov=True
        )
        trained = {p for group in self.optimizer.param_groups for p in group["params"]}
        if trained != set(self._parameters.values()):
            raise ArgumentError("the outer optimizer is of other parameters than those that are given")
        self._exchange = Exchange(process_group) if dist.is_initialized() else None
        if self._exchange is not None:
            self._exchange.broadcast(list(self._parameters.values()))
        self._inner_steps = inner_steps
        self.inner_step = self.outer_step = self.bytes_sent = 0
        self._anchor = {name: p.detach().clone() for name, p in self._parameters.items()}
        self._kept: dict[str, NDArray[Any]] | None = None
        self._spare: dict[str, NDArray[Any]] | None = None
        self._pending: _Pending | None = None
        self._limits = {name: max_payload_bytes(p) for name, p in self._parameters.items()}

    def step(self) -> bool:
        """To be called after every step of the inner optimizer; every ``inner_steps``-th call exchanges.

        Returns:
            Whether this was such a call: then the parameters are the same on all ranks.

        Raises:
            RankError: A rank could not encode, as its parameters are not finite, say. On every rank; nothing
                has changed, and the next call tries again.
            PayloadError: A rank sent what cannot be read; the message names rank and parameter. As before.
            ArgumentError: torch.distributed was not initialized when this object was made.
        """
        if self._exchange is None:
            raise ArgumentError(
                "torch.distributed is not initialized; call init_process_group first, or encode and apply"
            )
        self.inner_step += 1
        if self.inner_step < self._inner_steps:
            return False
        try:
            payloads = self.encode()
        except Exception as error:
            self._exchange.all_gather_error(error, self._limits)
            raise
        self.apply(self._exchange.all_gather(payloads, self._limits))
        return True

    def encode(self) -> dict[str, bytes]:
        """What this worker changed since the last exchange, ``anchor - parameter``, as payloads.

        The residual is kept by the next `apply`; calling this again before it gives the same bytes.

        Raises:
            NonFiniteError: A parameter is not finite; the message names it.
        """
        changes = {name: as_array(self._anchor[name] - p.detach()) for name, p in self._parameters.items()}
        out = self._spare if self._pending is None else self._pending.state
        self._spare = self._pending = None  # written over from here on
        payloads, after = self._codec.encode_model(changes, self._kept, self.outer_step, out=out)
        self._pending = _Pending(after, sum(map(len, payloads.values())))
        return payloads

    def apply(self, messages: Mapping[str, Mapping[str, Any]]) -> None:
        """The outer step: takes the mean of all workers' changes from where the last one ended.

        Args:
            messages: What `encode` returned on every worker, by any name of the worker; in the same order on
                all of them, so that they end with the same bits. Untrusted.

        Raises:
            PayloadError: One cannot be read; the message names worker and parameter. Nothing has changed.
            ArgumentError: ``messages`` is empty, or one lacks a parameter.
        """
        for worker, payloads in messages.items():
            if payloads.keys() != self._parameters.keys():
                wrong = ", ".join(sorted(payloads.keys() ^ self._parameters.keys()))
                raise ArgumentError(f"the payloads of {worker} are not those of this model; look at {wrong}")
        if not messages:
            raise ArgumentError("no worker sent anything, so there is no mean")
        means = {name: mean_of(messages, name, p) for name, p in self._parameters.items()}
        gradients = {name: p.grad for name, p in self._parameters.items()}
        with torch.no_grad():
            for name, p in self._parameters.items():
                p.copy_(self._anchor[name])
                p.grad = means[name].to(p.device)
            self.optimizer.step()
            for name, p in self._parameters.items():
                self._anchor[name].copy_(p)
                p.grad = gradients[name]
        if self._pending is not None:
            self.bytes_sent += self._pending.num_bytes
            self._kept, self._spare, self._pending = self._pending.state, self._kept, None
        self.outer_step += 1
        self.inner_step = 0

    def state_dict(self) -> dict[str, torch.Tensor]:
        """A copy of all that the next outer step needs, for `safetensors.torch.save_file`.

        Where the last one ended, the outer optimizer's tensors, the residuals and the counters. Model and
        inner optimizer have their own. Every worker saves this in a file of its own.
        """
        numbers = {name: getattr(self, name) for name in _COUNTERS}
        tensors = {_ANCHOR + name: tensor for name, tensor in self._anchor.items()}
        tensors |= {_CODEC + name: as_tensor(array) for name, array in (self._kept or {}).items()}
        for name, p in self._parameters.items():
            for key, value in self.optimizer.state[p].items():
                if isinstance(value, torch.Tensor):
                    tensors[f"{_OPTIMIZER}{name}/{key}"] = value
        return {
            **{name: torch.tensor(number) for name, number in numbers.items()},
            **{name: tensor.detach().clone() for name, tensor in tensors.items()},
        }

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Goes on where `state_dict` was called, with the same bits.

        Raises:
            StateError: It is of other parameters. Nothing has changed. A state of another encoder is one in
                the next `encode`.
        """
        self._require_state(state)
        for name in _COUNTERS:
            setattr(self, name, int(state[name]))
        self.optimizer.state.clear()
        kept = {}
        for name, tensor in state.items():
            if name.startswith(_ANCHOR):
                self._anchor[name.removeprefix(_ANCHOR)].copy_(tensor)
            elif name.startswith(_CODEC):
                kept[name.removeprefix(_CODEC)] = as_array(tensor).copy()
            elif name.startswith(_OPTIMIZER):
                parameter, _, key = name.removeprefix(_OPTIMIZER).rpartition("/")
                self.optimizer.state[self._parameters[parameter]][key] = tensor.clone()
        self._kept, self._spare, self._pending = kept or None, None, None

    def _require_state(self, state: Mapping[str, torch.Tensor]) -> None:
        wanted = {_ANCHOR + name: p.shape for name, p in self._parameters.items()}
        found = {name: tensor.shape for name, tensor in state.items() if name.startswith(_ANCHOR)}
        wrong = set(_COUNTERS) - state.keys()
        wrong |= {name for name, _ in wanted.items() ^ found.items()}
        wrong |= {
            name
            for name in state
            if name.startswith(_OPTIMIZER)
            and name.removeprefix(_OPTIMIZER).rpartition("/")[0] not in self._parameters
        }
        if wrong:
            names = ", ".join(sorted(wrong))
            raise StateError(f"the state is not of an OuterStep of these parameters; look at {names}")
