"""Local SGD and DiLoCo: many steps on each worker, then one compressed exchange of the changes.

Source: Douillard et al. 2023, "DiLoCo: Distributed Low-Communication Training of Language Models" (arXiv
2311.08105), algorithm 1. With SGD at learning rate 1 and no momentum as the outer optimizer, it is local SGD
(Stich 2019, arXiv 1805.09767). The same with decaying error feedback is SparseLoCo (Sarfi et al. 2025,
arXiv 2508.15706).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from numpy.typing import NDArray

from fedplug.codecs.arrays import require_mapping
from fedplug.codecs.state import OWNER, require_owner
from fedplug.errors import ArgumentError, StateError
from fedplug.ops.device_array import on_host
from fedplug.registry.component import plain
from fedplug_torch.codec import NamedTensors, named, numpy_codec
from fedplug_torch.devices import as_operands, as_result
from fedplug_torch.exchange import Exchange, copied_group
from fedplug_torch.mean import expected_of, max_payload_bytes, mean_of
from fedplug_torch.nested import contiguous_copy, flatten, unflatten
from fedplug_torch.shards import as_dtensor, is_dtensor, local_shard, require_shards, shards_of, text_of
from fedplug_torch.tensors import as_array, as_arrays, as_tensor, require_whole

__all__ = ["OuterStep"]

_ANCHOR, _PARAMETER, _UNSENT, _CODEC = "anchor/", "parameter/", "unsent/", "codec/"
"""The prefixes of tensor names in a state dictionary."""

_OPTIMIZER = "optimizer"
_COUNTERS = ("inner_step", "outer_step", "bytes_sent", "dense_bytes")


class _Pending(NamedTuple):
    """A message of `OuterStep.encode`, until `OuterStep.apply` decides whether it was sent."""

    state: dict[str, NDArray[Any]]
    payloads: dict[str, bytes]


class OuterStep:
    """Uses the mean of all workers' changes in ``inner_steps`` steps as an outer optimizer's gradient.

    Each worker has one object for its model. If workers are processes of torch.distributed, call `step` after
    every step of the inner optimizer. Otherwise call `encode` on every worker and `apply` with all results,
    over any transport or in a loop within one process. Buffers, such as batch normalization statistics, stay
    on each worker.

    Attributes:
        optimizer: The outer optimizer; its learning rate may change between steps.
        inner_step: Number of calls of `step` since the last exchange.
        outer_step: Number of exchanges.
        bytes_sent: Bytes of this worker's applied payloads, per other worker.
        dense_bytes: Bytes of the changes of these payloads without compression.
    """

    def __init__(
        self,
        parameters: NamedTensors,
        encoder: Any,
        *,
        inner_steps: int,
        optimizer: torch.optim.Optimizer | None = None,
        process_group: dist.ProcessGroup | None = None,
        offload: bool = False,
    ) -> None:
        """Records the current parameters.

        With torch.distributed initialized, all ranks start from the first rank's parameters, as in DDP.
        Workers in one process must be equal already.

        Args:
            parameters: A module, or its ``named_parameters()``; those without gradients are left out.
            encoder: An encoder for the changes of a model: any argument of `fedplug.codec`, or a `Codec`.
            inner_steps: Number of steps between two exchanges, at least 1.
            optimizer: An optimizer of the same parameters; by default DiLoCo's, Nesterov's SGD with learning
                rate 0.7 and momentum 0.9.
            process_group: A process group that supports CPU tensors; all ranks by default. For parameters
                sharded by ``fully_shard``, it is required: the ranks with the same shards, which exchange
                them, such as ``mesh.get_group("replicate")``.
            offload: Whether anchors and residuals of parameters on a GPU are kept in host memory, the anchors
                in pinned memory, between exchanges. By default they are on the GPU, residuals if fedplug-cuda
                is installed and the encoder runs there.

        Raises:
            ArgumentError: There are no parameters, ``inner_steps`` is less than 1, a parameter is sharded by
                FullyShardedDataParallel, or by ``fully_shard`` without ``process_group``, or is of an
                unsupported dtype; or ranks have parameters of other names, shapes, shards or dtypes. Nothing
                has changed.
            ConfigError: The encoder cannot be parsed; see also `fedplug.codec`.
            RankError: Another rank raised one of these errors.
        """
        self._inner_steps = inner_steps = plain(inner_steps)
        self._group = process_group
        self._is_distributed = dist.is_initialized()
        exchange = Exchange(process_group) if self._is_distributed else None
        try:
            self._given = parameters if isinstance(parameters, torch.nn.Module) else named(parameters)
            self._parameters = _trained(self._given)
            _require_group(self._parameters, process_group)
            require_whole(self._shards())
            if type(inner_steps) is not int or inner_steps < 1:
                raise ArgumentError(f"inner_steps is {inner_steps!r}; it must be a whole number, 1 or more")
            self._codec = numpy_codec(encoder).require_updates()
            self.optimizer = optimizer or torch.optim.SGD(
                self._parameters.values(), lr=0.7, momentum=0.9, nesterov=True
            )
            trained = {p for group in self.optimizer.param_groups for p in group["params"]}
            if trained != set(self._parameters.values()):
                raise ArgumentError("the outer optimizer is of other parameters than those that are given")
        except Exception as error:
            if exchange is not None:
                exchange.tell(error)
            raise
        if exchange is not None:
            exchange.require_same({name: _form(p) for name, p in self._parameters.items()})
            exchange.broadcast(self._shards().values())
        self.inner_step = self.outer_step = self.bytes_sent = self.dense_bytes = 0
        self._offload = offload
        self._anchor = {name: self._anchor_of(p) for name, p in self._shards().items()}
        self._kept: dict[str, NDArray[Any]] | None = None
        self._spare: dict[str, NDArray[Any]] | None = None
        self._pending: _Pending | None = None
        self._unsent: dict[str, NDArray[Any]] = {}  # changes of parameters without residuals
        self._given_forms = {name: f"{_form(p)} on {p.device}" for name, p in self._parameters.items()}
        self._limits = {name: max_payload_bytes(p) for name, p in self._shards().items()}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_group": copied_group(self._group)}

    def step(self) -> bool:
        """Counts a step of the inner optimizer; every ``inner_steps``-th call exchanges the changes.

        Returns:
            Whether this call exchanged; the parameters are then equal on all ranks.

        Raises:
            RankError: A rank could not encode, for example because its parameters are not finite. It is
                raised on every rank; nothing has changed, and the next call tries again.
            PayloadError: A rank sent an invalid payload; the message names rank and parameter. Nothing has
                changed.
            ArgumentError: torch.distributed was not initialized when this object was created.
        """
        if not self._is_distributed:
            raise ArgumentError(
                "torch.distributed is not initialized; call init_process_group first, or encode and apply"
            )
        exchange = Exchange(self._group)
        self.inner_step += 1
        if self.inner_step < self._inner_steps:
            return False
        try:
            payloads = self.encode()
        except Exception as error:
            exchange.all_gather_error(error, self._limits)
            raise
        self.apply(exchange.all_gather(payloads, self._limits), accepted=True)
        return True

    def encode(self) -> dict[str, bytes]:
        """Returns this worker's changes since the last exchange, ``anchor - parameter``, as payloads.

        The next `apply` decides whether they were sent. Another call before it returns the same bytes.

        Raises:
            NonFiniteError: A parameter is not finite; the message names it.
            ArgumentError: A parameter is new or was replaced since this object was created.
        """
        self._require_same_parameters()
        changes = {}
        for name, p in self._shards().items():
            changes[name] = _change(self._anchor[name].to(p.device, non_blocking=True), p.detach())
            if name in self._unsent:
                changes[name] += as_tensor(self._unsent[name]).to(p.device)
        out = self._spare if self._pending is None else self._pending.state
        self._spare = self._pending = None  # overwritten from here on
        payloads, after = self._codec.encode_model(as_operands(changes), self._kept, self.outer_step, out=out)
        if self._offload:
            after = {name: on_host(array) for name, array in after.items()}
        self._pending = _Pending(after, payloads)
        return payloads

    def apply(self, messages: Mapping[str, Mapping[str, Any]], *, accepted: bool | None = None) -> None:
        """Takes one step of the outer optimizer from the anchor, with the mean of all workers' changes.

        If this worker's own message is missing, it counts as not sent: its content is added to the residual,
        and so to the worker's next message. The missing message must therefore never be applied later.

        Args:
            messages: Untrusted results of `encode`, by name of the worker. All workers must use the same
                order to get bit-identical results.
            accepted: Whether this worker's own message is among them. By default this is decided by comparing
                the bytes.

        Raises:
            PayloadError: A payload is invalid; the message names worker and parameter. Nothing has changed.
            ArgumentError: ``messages`` is empty, or a message lacks a parameter; or ``accepted`` is True, but
                this worker has encoded nothing.
        """
        require_mapping("what workers sent", "messages", messages)
        for worker, payloads in messages.items():
            require_mapping(f"the message of {worker}", "payloads", payloads)
            if payloads.keys() != self._parameters.keys():
                wrong = ", ".join(sorted(payloads.keys() ^ self._parameters.keys()))
                raise ArgumentError(f"the payloads of {worker} are not those of this model; look at {wrong}")
        if not messages:
            raise ArgumentError("no worker sent anything, so there is no mean")
        pending = self._pending
        if accepted and pending is None:
            raise ArgumentError("accepted is True, and this worker has no message; call encode first")
        if accepted is None and pending is not None:
            accepted = any(_same(payloads, pending.payloads) for payloads in messages.values())
        shards = self._shards()
        expected = expected_of(self._codec, shards)
        means = {name: mean_of(messages, name, p, expected[name]) for name, p in shards.items()}
        gradients = {name: p.grad for name, p in self._parameters.items()}
        with torch.no_grad():
            for name, p in self._parameters.items():
                shards[name].copy_(self._anchor[name])
                p.grad = as_dtensor(means[name].to(p.device), p)
            self.optimizer.step()
            for name, p in self._parameters.items():
                self._anchor[name].copy_(shards[name])
                p.grad = gradients[name]
        if pending is not None:
            state = pending.state
            if accepted:
                self.bytes_sent += sum(map(len, pending.payloads.values()))
                self.dense_bytes += sum(p.nbytes for p in shards.values())
                self._unsent = {}
            else:
                like = as_arrays(self._anchor)
                state, self._unsent = self._codec.put_back(pending.payloads, state, like)
            self._kept, self._spare, self._pending = state, self._kept, None
        self.outer_step += 1
        self.inner_step = 0

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns a copy of everything that affects the next outer step, for `safetensors.torch.save_file`.

        It has the result of the last outer step, the current parameters if they differ, the outer optimizer
        with its hyperparameters, the residuals and the counters. The model's buffers and the inner optimizer
        must be saved separately. Every worker saves this to its own file.

        Raises:
            ArgumentError: The outer optimizer keeps values other than tensors, numbers and texts.
        """
        numbers = {name: getattr(self, name) for name in _COUNTERS}
        tensors = {_ANCHOR + name: tensor for name, tensor in self._anchor.items()}
        for name, p in self._shards().items():
            if not torch.equal(p, self._anchor[name].to(p.device)):
                tensors[_PARAMETER + name] = p
        tensors |= {_UNSENT + name: as_tensor(array) for name, array in self._unsent.items()}
        kept = {OWNER: self._codec.owner, **(self._kept or {})}
        tensors |= {_CODEC + name: as_result(array) for name, array in kept.items()}
        return {
            **{name: torch.tensor(number) for name, number in numbers.items()},
            **{name: contiguous_copy(tensor) for name, tensor in tensors.items()},
            **text_of(shards_of(self._parameters)),
            **flatten([self._optimizer_form(), self.optimizer.state_dict()], _OPTIMIZER),
        }

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continues from the result of `state_dict` with the same bits, including the parameters.

        Raises:
            StateError: The state is of other parameters or shards, another outer optimizer or another
                encoder. Nothing has changed.
        """
        state = require_shards(state, shards_of(self._parameters)) or {}
        (form, optimizer), of_optimizer = unflatten(state, _OPTIMIZER)
        self._require_state(state, of_optimizer)
        if form != self._optimizer_form():
            raise StateError(f"the state is of the outer optimizer {form}, not of {self._optimizer_form()}")
        kept = _below(state, _CODEC)
        require_owner(kept, self._codec.owner)
        _load(self.optimizer, optimizer)
        with torch.no_grad():
            for name, p in self._shards().items():
                self._anchor[name].copy_(state[_ANCHOR + name])
                p.copy_(state.get(_PARAMETER + name, self._anchor[name]))
        for name in _COUNTERS:
            setattr(self, name, int(state[name]))
        self._unsent = _below(state, _UNSENT)
        self._kept, self._spare, self._pending = kept if len(kept) > 1 else None, None, None

    def _shards(self) -> dict[str, torch.Tensor]:
        """Returns what this rank has of each parameter; ``fully_shard`` may replace its memory."""
        return as_arrays(self._parameters, local_shard) or {}

    def _anchor_of(self, parameter: torch.Tensor) -> torch.Tensor:
        """Returns a copy of the parameter, where anchors are kept."""
        if not self._offload or not parameter.is_cuda:
            return parameter.detach().clone()
        return parameter.detach().cpu().pin_memory()

    def _optimizer_form(self) -> list[Any]:
        """Returns the class of the outer optimizer, and the parameter names in each of its groups."""
        names = {p: name for name, p in self._parameters.items()}
        groups = [[names[p] for p in group["params"]] for group in self.optimizer.param_groups]
        return [type(self.optimizer).__name__, groups]

    def _require_state(self, state: Mapping[str, torch.Tensor], of_optimizer: set[str]) -> None:
        forms = {name: _form(p) for name, p in self._shards().items()}
        needed = {_ANCHOR + name: form for name, form in forms.items()}
        possible = {prefix + name: form for name, form in forms.items() for prefix in (_PARAMETER, _UNSENT)}
        others = {*_COUNTERS, *of_optimizer}
        wrong = (needed.keys() | others) - state.keys()
        for key, tensor in state.items():
            known = key in others or key.startswith(_CODEC)
            if not known and _form(tensor) != (needed.get(key) or possible.get(key)):
                wrong.add(key)
        if wrong:
            names = ", ".join(sorted(wrong))
            raise StateError(f"the state is not of an OuterStep of these parameters; look at {names}")

    def _require_same_parameters(self) -> None:
        for name, p in _trained(self._given).items():
            if self._parameters.get(name) is not p:
                raise ArgumentError(
                    f"parameter {name!r} is new, or requires a gradient only since the OuterStep was made; "
                    "make another one of the model as it is now"
                )
        for name, p in self._parameters.items():
            before, now = self._given_forms[name], f"{_form(p)} on {p.device}"
            if before != now:
                raise ArgumentError(
                    f"parameter {name!r} was {before}, and is {now}; make another OuterStep of the model as "
                    "it is now"
                )


def _trained(parameters: NamedTensors) -> dict[str, torch.Tensor]:
    """Returns the parameters that require a gradient; shared ones appear once, with their first name."""
    names: dict[torch.Tensor, str] = {}
    for name, p in named(parameters).items():
        if p.requires_grad:
            names.setdefault(p, name)
    if not names:
        raise ArgumentError("no parameter requires a gradient, so there is nothing to train")
    return {name: p for p, name in names.items()}


def _require_group(parameters: Mapping[str, torch.Tensor], group: dist.ProcessGroup | None) -> None:
    """Raises ArgumentError if parameters are sharded, and the ranks with the same shards are not given."""
    sharded = next((name for name, p in parameters.items() if is_dtensor(p)), None)
    if sharded is not None and group is None:
        raise ArgumentError(
            f"parameter {sharded!r} is a DTensor, so ranks have different shards of it; pass process_group=, "
            "the ranks that have the same shards, for instance mesh.get_group('replicate')"
        )


def _change(anchor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Returns ``anchor - parameter``; 0 for unchanged entries, even if they are infinite or NaN."""
    change = anchor - parameter
    if not change.isfinite().all():
        change[(anchor == parameter) | (anchor.isnan() & parameter.isnan())] = 0
    return change


def _form(tensor: torch.Tensor) -> str:
    shard = shards_of({"": tensor}).get("", str(list(tensor.shape)))
    return f"{str(tensor.dtype).removeprefix('torch.')}{shard}"


def _same(payloads: Mapping[str, Any], own: Mapping[str, bytes]) -> bool:
    return all(len(payloads[name]) == len(own[name]) and bytes(payloads[name]) == own[name] for name in own)


def _below(state: Mapping[str, torch.Tensor], prefix: str) -> dict[str, NDArray[Any]]:
    """Returns copies of the tensors in one part of a state dictionary."""
    return {
        key.removeprefix(prefix): as_array(tensor).copy()
        for key, tensor in state.items()
        if key.startswith(prefix)
    }


def _load(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Loads a state dictionary with its dtypes; PyTorch would convert most tensors to the parameter's."""
    try:
        optimizer.load_state_dict(saved)
    except (KeyError, ValueError) as error:
        raise StateError(f"the outer optimizer does not take its state: {error}") from error
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for index, loaded in optimizer.state_dict()["state"].items():
        loaded.update(_moved(saved["state"][index], loaded))
        for key, value in loaded.items():  # per-element values of a sharded parameter were saved as its shard
            if isinstance(value, torch.Tensor) and value.shape == local_shard(parameters[index]).shape:
                loaded[key] = as_dtensor(value, parameters[index])


def _moved(value: Any, like: Any) -> Any:
    """Returns the nested value with each tensor on the device of its counterpart."""
    if isinstance(value, torch.Tensor):
        return value.to(like.device)
    if isinstance(value, dict):
        return {key: _moved(item, like[key]) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(*both) for both in zip(value, like, strict=True))
    return value
