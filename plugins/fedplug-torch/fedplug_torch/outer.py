"""Local SGD and DiLoCo: many steps on each worker, then one compressed exchange of the changes.

Source: Douillard et al. 2023, "DiLoCo: Distributed Low-Communication Training of Language Models" (arXiv
2311.08105), algorithm 1. Fragments, delay and mixing are those of Streaming DiLoCo (Douillard et al. 2025,
arXiv 2501.18512). With SGD at learning rate 1 and no momentum as the outer optimizer, it is local SGD
(Stich 2019, arXiv 1805.09767). The same with decaying error feedback is SparseLoCo (Sarfi et al. 2025,
arXiv 2508.15706).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import torch
import torch.distributed as dist
from torch.nn.parameter import is_lazy

from fedplug.codecs.arrays import require_mapping
from fedplug.errors import ArgumentError, StateError
from fedplug.registry.component import plain
from fedplug_torch.codec import NamedTensors, named, numpy_codec
from fedplug_torch.division import codecs_of, divided
from fedplug_torch.exchange import Exchange
from fedplug_torch.fragment import Fragment, form, has_message, joined
from fedplug_torch.mean import Payload
from fedplug_torch.memory import Memory, require_memory
from fedplug_torch.nested import contiguous_copy, unflatten
from fedplug_torch.outer_exchange import Messages, OuterExchange
from fedplug_torch.outer_optimizer import flat_state, load_unflattened
from fedplug_torch.process_group import OwnGroup
from fedplug_torch.rank_state import RankState, part_of, ranks_of, this_rank
from fedplug_torch.shards import is_dtensor, local_shard, require_shards, shards_of, text_of
from fedplug_torch.tensors import as_arrays, require_whole, wide_dtype

__all__ = ["OuterStep"]

_normal_mode = torch.inference_mode(False)  # tensors made in inference mode could not be changed later

_OPTIMIZER = "optimizer"
_COUNTERS = ("inner_step", "outer_step", "bytes_sent", "dense_bytes")
_PENDING = "has_message"


class OuterStep:
    """Uses the mean of all workers' changes in ``inner_steps`` steps as an outer optimizer's gradient.

    Each worker has one object for its model. If workers are processes of torch.distributed, call `step` after
    every step of the inner optimizer. Otherwise call `encode` on every worker and `apply` with all results,
    over any transport or in a loop within one process. Buffers, such as batch normalization statistics, stay
    on each worker.

    With several ``fragments``, parts of the model are exchanged in turn, one every ``inner_steps /
    fragments`` steps. With ``fragment_sync_delay``, the exchange runs while the worker trains on.

    Outer steps of 16-bit parameters are computed in float32. An inner optimizer that keeps float32 masters of
    such parameters overwrites them in its next step, and so undoes every outer step: give the masters to this
    class as ``parameters``.

    Attributes:
        optimizer: The outer optimizer. Its learning rate may change between steps.
        inner_step: Number of calls of `step` since the last exchange.
        outer_step: Number of exchanges, of all fragments together.
        bytes_sent: Bytes of this worker's applied payloads, per other worker.
        dense_bytes: Bytes of the changes of these payloads without compression.
    """

    @_normal_mode
    @torch.no_grad()
    def __init__(
        self,
        parameters: NamedTensors,
        encoder: object,
        *,
        inner_steps: int,
        optimizer: torch.optim.Optimizer | None = None,
        fragments: int | Sequence[object] = 1,
        fragment_sync_delay: int = 0,
        fragment_update_alpha: float = 0.0,
        process_group: dist.ProcessGroup | None = None,
        memory: Memory = "device",
    ) -> None:
        """Records the current parameters.

        With torch.distributed initialized, all ranks start from the first rank's parameters, as in DDP.
        Workers in one process must be equal already.

        Args:
            parameters: A module, or its ``named_parameters()``. Those without gradients are left out.
            encoder: An encoder for the changes of a model: any argument of `fedplug.codec`, or a `Codec`.
                Budgets and ``scope="model"`` apply to a fragment, and rounds count its exchanges.
            inner_steps: Number of steps between two exchanges of the same parameters; a multiple of the
                number of fragments.
            optimizer: An optimizer of the same parameters; by default DiLoCo's, Nesterov's SGD with learning
                rate 0.7 and momentum 0.9. It steps on copies of the parameters of a fragment.
            fragments: The number of fragments of about equal sizes, or a list with a module, or a list of
                parameters, for each.
            fragment_sync_delay: Number of inner steps between sending and applying, less than ``inner_steps /
                fragments``.
            fragment_update_alpha: Weight of a worker's own parameters in the new ones, from 0 to 1. With 0,
                workers are equal after an exchange, and lose the steps of the delay.
            process_group: The process group with the ranks. All ranks by default. For parameters sharded by
                ``fully_shard``, it is required: the ranks with the same shards, which exchange them, such as
                ``mesh.get_group("replicate")``. Payloads travel in a group of fedplug's own.
            memory: Where residuals are kept between exchanges, see `fedplug_torch.memory.Memory`. With
                "host", anchors of parameters on a GPU are in pinned host memory, too.

        Raises:
            ArgumentError: There are no parameters, a number is out of range, a parameter is in no fragment,
                sharded by FullyShardedDataParallel, or by ``fully_shard`` without ``process_group``, or is of
                an unsupported dtype, or ranks have other parameters, shards or numbers. Nothing has changed.
            ConfigError: The encoder cannot be parsed, or does not fit the parameters. See `fedplug.codec`.
            RankError: Another rank raised one of these errors.
        """
        self._is_distributed = dist.is_initialized()
        exchange = Exchange(OwnGroup(process_group)) if self._is_distributed else None
        try:
            self._given = parameters if isinstance(parameters, torch.nn.Module) else named(parameters)
            self._parameters = _trained(self._given)
            _require_group(self._parameters, process_group)
            shards = as_arrays(self._parameters, local_shard) or {}
            require_whole(shards)
            parts = divided(self._parameters, fragments)
            self._interval = _interval(inner_steps, len(parts), fragment_sync_delay, fragment_update_alpha)
            self._delay, self._alpha = int(fragment_sync_delay), float(fragment_update_alpha)
            require_memory(memory)
            codecs = codecs_of(numpy_codec(encoder).require_updates(), shards, parts)
            self.optimizer = optimizer or _nesterov(self._parameters)
            trained = {p for group in self.optimizer.param_groups for p in group["params"]}
            if trained != set(self._parameters.values()):
                raise ArgumentError("the outer optimizer is of other parameters than those that are given")
        except Exception as error:
            if exchange is not None:
                exchange.tell(error)
            raise
        if exchange is not None:
            exchange.require_same(
                {
                    **{name: _form_in(name, p, parts) for name, p in self._parameters.items()},
                    "the argument inner_steps": str(self._interval * len(parts)),
                    "the argument fragment_sync_delay": str(self._delay),
                    "the argument fragment_update_alpha": str(self._alpha),
                }
            )
            exchange.broadcast(shards.values())
        self.inner_step = self.outer_step = self.bytes_sent = self.dense_bytes = 0
        self._fragments = [Fragment(*both, memory) for both in zip(parts, codecs, strict=True)]
        self._exchange = OuterExchange(
            OwnGroup(process_group, alone=self._delay > 0), in_background=self._delay > 0
        )

    @property
    def message(self) -> dict[str, bytes] | None:
        """The payloads of the last `encode` that `apply` has not settled yet, or None."""
        pending = self._next.message
        return None if pending is None else dict(pending)

    @_normal_mode
    @torch.no_grad()
    def step(self) -> bool:
        """Counts a step of the inner optimizer, and sends and applies the changes of a fragment when due.

        Returns:
            Whether this call applied an outer step. The parameters of its fragment are then equal on all
            ranks, unless ``fragment_update_alpha`` keeps a part of each rank's own.

        Raises:
            RankError: A rank could not encode, for example because its parameters are not finite, or could
                not take the outer step, for example because the optimizer had no memory. It is raised on
                every rank. Nothing has changed, and the next call tries again.
            PayloadError: A rank sent an invalid payload. The message names rank and parameter. Nothing has
                changed.
            ArgumentError: torch.distributed was not initialized when this object was created, or ranks
                have loaded states of different outer steps. Nothing has changed.
        """
        if not self._is_distributed:
            raise ArgumentError(
                "torch.distributed is not initialized; call init_process_group first, or encode and apply"
            )
        self.inner_step += 1
        if self.inner_step < self._interval - self._delay:
            return False
        fragment = self._next
        if not self._exchange.is_open:
            self._exchange.send(lambda: self.message or self.encode(), self._shared, fragment.feedback.limits)
        if self.inner_step < self._interval:
            return False
        try:
            self._apply(self._exchange.receive(), True, self._exchange.agreed())
        except Exception:
            fragment.drop()  # the next call encodes again
            raise
        return True

    @_normal_mode
    @torch.no_grad()
    def encode(self) -> dict[str, bytes]:
        """Returns this worker's changes of the next fragment, ``anchor - parameter``, as payloads.

        The next `apply` decides whether they were sent, after any number of inner steps. Another call before
        it replaces the message; without training in between, it returns the same bytes.

        Raises:
            NonFiniteError: A parameter is not finite. The message names it.
            ArgumentError: A parameter is new or was replaced since this object was created.
        """
        for name, p in _trained(self._given).items():
            if self._parameters.get(name) is not p:
                raise ArgumentError(
                    f"parameter {name!r} is new, or requires a gradient only since the OuterStep was made; "
                    "make another one of the model as it is now"
                )
        return self._next.encode(self.outer_step // len(self._fragments))

    @_normal_mode
    @torch.no_grad()
    def apply(self, messages: Messages, *, accepted: bool | None = None) -> None:
        """Takes one step of the outer optimizer from the anchor, with the mean of all workers' changes.

        After any error, also of the optimizer, the parameters, their gradients, the optimizer's state and the
        residuals are as before.

        If this worker's own message is missing, it counts as not sent: its content is added to the residual,
        and so to the worker's next message. The missing message must therefore never be applied later.

        Args:
            messages: Untrusted results of `encode`, by name of the worker. All workers must use the same
                order to get bit-identical results.
            accepted: Whether this worker's own message is among them. By default this is decided by comparing
                the bytes.

        Raises:
            PayloadError: A payload is invalid. The message names worker and parameter. Nothing has changed.
            ArgumentError: ``messages`` is empty, a message lacks a parameter, a payload is not a buffer, or
                ``accepted`` is True, but this worker has encoded nothing.
        """
        fragment = self._next
        require_mapping("what workers sent", "messages", messages)
        for worker, payloads in messages.items():
            require_mapping(f"the message of {worker}", "payloads", payloads)
            if wrong := ", ".join(sorted(payloads.keys() ^ fragment.parameters.keys())):
                place = f"fragment {self._place} of " if len(self._fragments) > 1 else ""
                raise ArgumentError(
                    f"the payloads of {worker} are not those of {place}this model; look at {wrong}"
                )
        if not messages:
            raise ArgumentError("no worker sent anything, so there is no mean")
        pending = fragment.message
        if accepted and pending is None:
            raise ArgumentError("accepted is True, and this worker has no message; call encode first")
        if accepted is None and pending is not None:
            accepted = any(_same(payloads, pending) for payloads in messages.values())
        self._apply(messages, bool(accepted), contextlib.nullcontext())

    def _apply(self, messages: Messages, accepted: bool, agreed: AbstractContextManager[None]) -> None:
        """Takes an outer step unless ``agreed`` raises an error. See `Fragment.apply`."""
        fragment, pending = self._next, self._next.message
        fragment.apply(
            messages, self.optimizer, self._alpha, sent=accepted, round_num=self.outer_step, agreed=agreed
        )
        if accepted and pending is not None:
            self.bytes_sent += sum(map(len, pending.values()))
            self.dense_bytes += fragment.dense_bytes
        self.outer_step += 1
        self.inner_step = 0

    def __repr__(self) -> str:
        steps = f"outer_step={self.outer_step}, inner_step={self.inner_step}"
        return f"OuterStep({len(self._parameters)} parameters, {steps})"

    @_normal_mode
    @torch.no_grad()
    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns a copy of everything that affects the next outer steps, for `safetensors.torch.save_file`.

        It has the result of the last outer step of every fragment, the current parameters, the outer
        optimizer with its hyperparameters, the residuals, a message that was not applied yet, and the
        counters. The model's buffers and the inner optimizer must be saved separately. Every worker saves
        this to its own file. See `RankState` for the keys.

        Raises:
            ArgumentError: The outer optimizer keeps values other than tensors, numbers and texts.
        """
        numbers = {name: torch.tensor(getattr(self, name), device="cpu") for name in _COUNTERS}
        numbers[_PENDING] = torch.tensor(int(self._next.message is not None), device="cpu")
        of_optimizer = flat_state(self.optimizer, self._parameters, _OPTIMIZER)
        fragments = {
            _prefix(place) + name: contiguous_copy(tensor)
            for place, fragment in enumerate(self._fragments)
            for name, tensor in fragment.state_dict().items()
        }
        entries = numbers | fragments | text_of(shards_of(self._parameters)) | of_optimizer
        return RankState(entries, this_rank())

    @_normal_mode
    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continues from the result of `state_dict` with the same bits, including the parameters.

        With torch.distributed, all ranks load together, states of the same outer step. A message that was in
        transit is sent again by `step`. See also `message`.

        Raises:
            StateError: The state is of another rank, of other parameters, shards or fragments, another outer
                optimizer or another encoder. Nothing has changed.
        """
        self._load(part_of(state, this_rank(), "and a rank without one calls join() with that of another"))

    def _load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Loads the entries of a rank by name."""
        state = require_shards(state, shards_of(self._parameters)) or {}
        optimizer, used = unflatten(state, _OPTIMIZER)
        used |= {*_COUNTERS, _PENDING}
        wrong = used - state.keys()
        parts = self._parts(state)
        if int(state.get(_PENDING, 0)) and not any(has_message(part) for part in parts):
            raise StateError(
                "the state lacks the message that was in transit when it was saved, because "
                "torch.distributed.checkpoint loads only what a new OuterStep has; save when step() has "
                "returned True, or save each rank's state_dict() to a file"
            )
        for place, (fragment, part) in enumerate(zip(self._fragments, parts, strict=True)):
            wrong |= {_prefix(place) + key for key in fragment.wrong_keys(part)}
            used |= {_prefix(place) + key for key in part}
        if wrong := wrong | (state.keys() - used):
            names = ", ".join(sorted(wrong))
            raise StateError(f"the state is not of an OuterStep of these parameters; look at {names}")
        loads = [fragment.prepared(part) for fragment, part in zip(self._fragments, parts, strict=True)]
        load_unflattened(self.optimizer, self._parameters, optimizer)
        self._exchange.abandon()
        for load in loads:
            load()
        for name in _COUNTERS:
            setattr(self, name, int(state[name]))

    @_normal_mode
    @torch.no_grad()
    def join(self, state: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor] | None = None) -> None:
        """Continues from the state of another worker, as a worker that is new or was away.

        The worker starts from the result of the last outer steps, without the other worker's residuals and
        message. This is also for a rank without a saved state after a restart with more ranks.

        Args:
            state: The present state of any other worker, or the states of several.
            own: An earlier state of this worker, whose residuals are kept; a message in it counts as sent.

        Raises:
            StateError: A state does not fit, see `load_state_dict`. Nothing has changed.
        """
        state = part_of(state, ranks_of(state)[0], "")
        own = part_of(own, ranks_of(own)[0], "") if own else {}
        own = require_shards(own, shards_of(self._parameters)) or {}
        counters = {name: own.get(name, torch.tensor(0)) for name in ("bytes_sent", "dense_bytes")}
        counters[_PENDING] = torch.tensor(0)
        fragments = {
            _prefix(place) + key: tensor
            for place, (theirs, mine) in enumerate(zip(self._parts(state), self._parts(own), strict=True))
            for key, tensor in joined(theirs, mine).items()
        }
        others = {key: tensor for key, tensor in state.items() if not key.startswith("fragment ")}
        self._load({**others, **counters, **fragments})

    @property
    def _place(self) -> int:
        return self.outer_step % len(self._fragments)

    @property
    def _next(self) -> Fragment:
        """The fragment of the next exchange."""
        return self._fragments[self._place]

    def _shared(self) -> dict[str, str]:
        """Returns the values that must be equal on all ranks before an exchange."""
        return {"outer_step": str(self.outer_step), "the checksum of its result": self._next.checksum()}

    def _parts(self, state: Mapping[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        """Returns the state of each fragment."""
        prefixes = [_prefix(place) for place in range(len(self._fragments))]
        return [
            {key.removeprefix(prefix): tensor for key, tensor in state.items() if key.startswith(prefix)}
            for prefix in prefixes
        ]


def _trained(parameters: NamedTensors) -> dict[str, torch.Tensor]:
    """Returns the parameters that require a gradient. Shared ones appear once, with their first name."""
    names: dict[torch.Tensor, str] = {}
    for name, p in named(parameters).items():
        if p.requires_grad:
            _require_writable(name, p)
            names.setdefault(p, name)
    if not names:
        raise ArgumentError("no parameter requires a gradient, so there is nothing to train")
    return {name: p for p, name in names.items()}


_MASTERS = ("main_param", "_hp_mapping")
"""Attributes in which Megatron and DeepSpeed link a parameter to the float32 master of their optimizers."""


def _require_writable(name: str, parameter: torch.Tensor) -> None:
    """Raises ArgumentError if nothing can change a parameter, or an inner optimizer would undo the change."""
    if not is_lazy(parameter) and parameter.is_inference():
        raise ArgumentError(
            f"parameter {name!r} was made in inference mode, so it cannot be trained; clone it"
        )
    if any(getattr(parameter, attribute, None) is not None for attribute in _MASTERS):
        raise ArgumentError(
            f"parameter {name!r} has a float32 master in its inner optimizer, which would undo every outer "
            "step; pass the masters by name as parameters"
        )


def _nesterov(parameters: Mapping[str, torch.Tensor]) -> torch.optim.Optimizer:
    """Returns DiLoCo's outer optimizer; with momenta, so that its state has the entries of a later one."""
    optimizer = torch.optim.SGD(parameters.values(), lr=0.7, momentum=0.9, nesterov=True)
    for p in parameters.values():
        optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p, dtype=wide_dtype(p))
    return optimizer


def _require_group(parameters: Mapping[str, torch.Tensor], group: dist.ProcessGroup | None) -> None:
    """Raises ArgumentError if parameters are sharded, and the ranks with the same shards are not given."""
    sharded = next((name for name, p in parameters.items() if is_dtensor(p)), None)
    if sharded is not None and group is None:
        raise ArgumentError(
            f"parameter {sharded!r} is a DTensor, so ranks have different shards of it; pass process_group=, "
            "the ranks that have the same shards, for instance mesh.get_group('replicate')"
        )


def _form_in(name: str, parameter: torch.Tensor, parts: Sequence[Mapping[str, torch.Tensor]]) -> str:
    """Returns the form of a parameter, and its fragment if there are several."""
    place = next(place for place, part in enumerate(parts) if name in part)
    return form(parameter) + (f" in fragment {place}" if len(parts) > 1 else "")


def _interval(inner_steps: object, fragments: int, delay: object, alpha: object) -> int:
    """Returns the number of inner steps between two exchanges. Raises ArgumentError for wrong numbers."""
    inner_steps, delay, alpha = plain(inner_steps), plain(delay), plain(alpha)
    if type(inner_steps) is not int or inner_steps < 1:
        raise ArgumentError(f"inner_steps is {inner_steps!r}; it must be a whole number, 1 or more")
    if inner_steps % fragments:
        raise ArgumentError(
            f"inner_steps is {inner_steps}; with {fragments} fragments it must be a multiple of {fragments}, "
            "because one fragment is exchanged at a time"
        )
    interval = inner_steps // fragments
    if type(delay) is not int or not 0 <= delay < interval:
        raise ArgumentError(
            f"fragment_sync_delay is {delay!r}; it must be a whole number from 0 to {interval - 1}, because "
            "a fragment is applied before the next one is sent, inner_steps / fragments later"
        )
    if type(alpha) not in (int, float) or not 0 <= alpha <= 1:
        raise ArgumentError(f"fragment_update_alpha is {alpha!r}; it must be a number from 0 to 1")
    return interval


def _prefix(place: int) -> str:
    """Returns the prefix of a fragment's tensors in a state dictionary."""
    return f"fragment {place}/"


def _same(payloads: Mapping[str, Payload], own: Mapping[str, bytes]) -> bool:
    return all(len(payloads[name]) == len(own[name]) and bytes(payloads[name]) == own[name] for name in own)
