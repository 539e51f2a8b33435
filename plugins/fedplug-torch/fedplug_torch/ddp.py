"""A communication hook for DistributedDataParallel: exchanges payloads, and keeps residuals on each rank.

All gradients of a step are encoded together when the last bucket is full, and exchanged once. Encoders
therefore see the whole model (rules, budgets, ``scope="model"``). Nothing depends on DDP's division into
buckets, which changes after the first step.
"""

# No `from __future__ import annotations`: DDP compares the annotations of a hook with classes.

import contextlib
import operator
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from fedplug.errors import ArgumentError, FedplugError, StateError
from fedplug.registry.component import plain
from fedplug_torch.codec import named, numpy_codec
from fedplug_torch.exchange import Exchange, RankError
from fedplug_torch.feedback import Feedback
from fedplug_torch.memory import Memory
from fedplug_torch.process_group import OwnGroup
from fedplug_torch.rank_state import RankState, part_of, ranks_of
from fedplug_torch.reduction import Gather, TwoPhase
from fedplug_torch.tensors import real_view, require_whole

__all__ = ["FedplugState", "fedplug_hook"]

_COUNTERS, _RANKS = ("step", "bytes_sent", "dense_bytes"), "world_size"

_nbytes = operator.attrgetter("nbytes")

_GRADIENTS, _MEANS = "codec/", "mean/"
"""The prefixes of residuals in a state dictionary."""


class FedplugState:
    """The state of `fedplug_hook` between steps, on one rank.

    It may be created before the process group. It can be copied and pickled, alone or with its DDP model. The
    copy of a DDP model has no hook until ``register_comm_hook`` is called for it.

    An encoder with error feedback takes the memory of two residuals: the previous one stays until every
    rank's payloads have been added. With fedplug-cuda, the residuals of encoders that run there are on the
    device of the gradients.

    Attributes:
        step: Number of steps.
        bytes_sent: Bytes that this rank has sent to other ranks, without the warm-up and without the
            comparison of arguments in the first step.
        dense_bytes: Bytes that it would have sent in a ring all-reduce of the same gradients.
        error: The error of the last backward pass, or None.
    """

    def __init__(
        self,
        encoder: object,
        module: torch.nn.Module,
        *,
        process_group: dist.ProcessGroup | None = None,
        warmup_steps: int = 0,
        mean_encoder: object = None,
        memory: Memory = "device",
    ) -> None:
        """Reads the names of a module's parameters. All ranks pass equal arguments.

        Args:
            encoder: Any argument of `fedplug.codec`, or a `Codec`.
            module: The model that DDP wraps, or the DDP model.
            process_group: The process group of DDP; by default that of the DDP model, or all ranks if
                ``module`` is the model that DDP wraps. Payloads travel in a group of fedplug's own.
            warmup_steps: Number of first steps that send dense gradients (Lin et al. 2018, section 3.3).
                Schedules of the encoder begin with the first payload.
            mean_encoder: The encoder of the means that more than two ranks exchange. ``encoder`` by default.
            memory: Where residuals are kept between steps, see `fedplug_torch.memory.Memory`.

        Raises:
            ArgumentError: ``module`` is not a module, an argument is out of range, or a parameter is sharded
                (FSDP, DTensor) or of a dtype that payloads do not support.
            ConfigError: An encoder cannot be parsed. See also `fedplug.codec`.
        """
        if not isinstance(module, torch.nn.Module):
            raise ArgumentError(f"a {type(module).__name__} is no module; pass the model that DDP wraps")
        warmup_steps = plain(warmup_steps)
        if type(warmup_steps) is not int or warmup_steps < 0:
            raise ArgumentError(f"warmup_steps is {warmup_steps!r}; it must be a whole number of at least 0")
        self.step = self.bytes_sent = self.dense_bytes = 0
        self.error: Exception | None = None
        self._warmup_steps = warmup_steps
        codec = numpy_codec(encoder).require_updates()
        mean_codec = codec if mean_encoder is None else numpy_codec(mean_encoder).require_updates()
        self._is_compared = False
        self._feedback, self._mean_feedback = Feedback(codec, memory), Feedback(mean_codec, memory)
        if isinstance(module, DistributedDataParallel):
            process_group, module = process_group or module.process_group, module.module
        self._group, self._module = OwnGroup(process_group), module
        self._names = _names_of(self._module)
        self._place: tuple[int, int] | None = None  # the rank, and the number of ranks, of the residuals
        self._reduction: Gather | TwoPhase | None = None
        self._fitted: tuple[tuple[int, int], object] | None = None
        self._gradients: dict[str, torch.Tensor] = {}  # of this step
        self._ready: torch.futures.Future[None] | None = None
        self._ranks: Exchange | None = None  # of this step

    def __getstate__(self) -> dict[str, object]:
        """Omits everything that belongs to one step, or can be made again."""
        omitted = ("_ready", "error", "_reduction", "_fitted", "_ranks")
        return {**self.__dict__, **dict.fromkeys(omitted), "_gradients": {}}

    def __repr__(self) -> str:
        return f"FedplugState({str(self._feedback.codec.encoder)!r}, step={self.step})"

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Returns a copy of the state for the next step, for `safetensors.torch.save_file`.

        Every rank has its own state, and must save it to its own file, or in torch.distributed.checkpoint.
        See `RankState` for the keys.

        Raises:
            ArgumentError: torch.distributed is not initialized, so the rank is unknown.
        """
        rank, ranks = self._place or self._group.place
        if dist.is_initialized() and self._fitted is None:
            self._fit(_reduced(self._module))  # the form of the residuals
        numbers = {name: getattr(self, name) for name in _COUNTERS} | {_RANKS: ranks}
        entries = {name: torch.tensor(number, device="cpu") for name, number in numbers.items()}
        kept = self._feedback.entries(_GRADIENTS) | self._mean_feedback.entries(_MEANS)
        return RankState(entries | {name: tensor.clone() for name, tensor in kept.items()}, rank)

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continues from the result of `state_dict`, with the same bits.

        Raises:
            StateError: The state is not of this class, or of another encoder, rank or number of ranks.
                Nothing has changed. Without a process group, a wrong rank is detected in the next step, which
                also drops residuals of unknown parameters.
        """
        here = self._group.place if dist.is_initialized() else None
        rank = here[0] if here else ranks_of(state)[0]
        state = part_of(state, rank, "and another number of ranks begins without")
        missing = {*_COUNTERS, _RANKS} - state.keys()
        if missing:
            raise StateError(f"the state is not of FedplugState: it lacks {', '.join(sorted(missing))}")
        if rank is None or min(int(state[name]) for name in _COUNTERS) < 0:
            raise StateError("the state is damaged: its counters are not those of a FedplugState")
        saved = rank, int(state[_RANKS])
        _require_same_place(saved, here or saved)
        gradients, means = self._feedback.read(state, _GRADIENTS), self._mean_feedback.read(state, _MEANS)
        self._feedback.residuals, self._mean_feedback.residuals = gradients, means
        self._place, self._fitted = saved, None
        for name in _COUNTERS:
            setattr(self, name, int(state[name]))

    def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        """Handles one call of the hook; DDP makes them in the same order on every rank."""
        if self._ready is None or bucket.index() == 0:  # an earlier backward pass may have been aborted
            if self._ready is not None:
                self._settle(succeeded=False)
            self.error, self._ready = None, torch.futures.Future()
        gradients, buffer, ready = self._named_gradients(bucket), bucket.buffer(), self._ready
        if not self._is_compared:
            self._require_same_messages()
        if self.step < self._warmup_steps:
            return self._reduce_dense(bucket)
        self._gradients.update(gradients)
        reduced = ready.then(lambda _: buffer)
        if bucket.is_last():
            self._exchange_all()
            ready.set_result(None)
            _at_the_end(self._conclude)
        return reduced

    def _require_same_messages(self) -> None:
        """Raises an error on every rank if ranks would send messages of different kinds.

        In the first step, gloo would otherwise end the process, or a rank would wait for ever.
        """
        rest = f"{max(0, self._warmup_steps - self.step)} steps"
        Exchange(self._group).require_same({"the rest of the warm-up": rest}, "arguments")
        self._is_compared = True

    def _named_gradients(self, bucket: dist.GradBucket) -> dict[str, torch.Tensor]:  # type: ignore[name-defined]
        """Returns views of the bucket in the shapes of its parameters. Complex numbers as pairs of reals.

        ``bucket.gradients()`` is not used: it stops early for complex parameters, and mixes up elements of
        transposed and ``channels_last`` ones, which DDP lays out like the parameter's memory.
        """
        parameters, buffer = bucket.parameters(), bucket.buffer()
        if not self._names.keys() >= set(parameters):
            self._names = _names_of(self._module)  # layers may have been added
            if not self._names.keys() >= set(parameters):
                raise ArgumentError(
                    "DDP has parameters that the module of FedplugState has not; pass the same"
                )
        if buffer.layout is not torch.strided:  # an embedding, to which DDP gives its own bucket
            name = self._names[parameters[0]]
            raise ArgumentError(f"the gradient of {name!r} is sparse; pass sparse=False to the embedding")
        found, begin = {}, 0
        flat = real_view(buffer).flatten()  # a bucket of complex numbers is complex before torch 2.13
        for parameter in parameters:
            like = parameter if parameter.dtype.is_floating_point else real_view(parameter)
            part, begin = flat[begin : begin + like.numel()], begin + like.numel()
            is_contiguous = like.is_contiguous()
            found[self._names[parameter]] = part.view(like.shape) if is_contiguous else _like(part, like)
        return found

    def _reduce_dense(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
        self.step += bucket.is_last()
        return default_hooks.allreduce_hook(self._group.given, bucket)  # type: ignore[arg-type]  # None: all ranks

    def _exchange_all(self) -> None:
        """Replaces all gradients of the step by their means. See `Gather.reduce`."""
        given = self._gradients  # in the order of buckets
        gradients = self._gradients = {name: given[name] for name in self._names.values() if name in given}
        try:
            self._ranks = Exchange(self._group)
            problem = self._fit(gradients, self._ranks.place)
            assert self._reduction is not None
            self._reduction.reduce(gradients, self._ranks, self.step - self._warmup_steps, problem)
        except Exception as error:
            self.error = error
        self._settle(succeeded=self.error is None)

    def _conclude(self) -> None:
        """Raises the error of the step at the end of the backward pass."""
        if self.error is not None:
            raise _as_rank_error(self.error)

    def _settle(self, *, succeeded: bool) -> None:
        """Keeps the residuals of a step that succeeded on all ranks, or leaves them as they were."""
        for feedback in (self._feedback, self._mean_feedback):
            feedback.settle(accepted=succeeded)
        if succeeded and self._ranks is not None and self._fitted is not None:
            self._place = self._fitted[0]
            self.step += 1
            self.bytes_sent += self._ranks.bytes_sent
            size, ranks = sum(map(_nbytes, self._gradients.values())), self._place[1]
            self.dense_bytes += size * 2 * (ranks - 1) // ranks
        self._gradients, self._ready, self._ranks = {}, None, None

    def _fit(
        self, gradients: Mapping[str, torch.Tensor], place: tuple[int, int] | None = None
    ) -> Exception | None:
        """Prepares the exchange for the model as it is now. Returns an error of this rank, to tell all."""
        here = place or self._group.place
        form = here, {name: (gradient.shape, gradient.dtype) for name, gradient in gradients.items()}
        try:
            if form != self._fitted or self._reduction is None:
                self._fitted, two_phase = None, TwoPhase(self._feedback, self._mean_feedback)
                self._reduction = two_phase if here[1] > 2 else Gather(self._feedback)
                self._reduction.fit(gradients, self._group)
                self._fitted = form
            _require_same_place(self._place or here, here)
        except Exception as error:
            return error
        return None


def fedplug_hook(state: FedplugState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """Reduces gradients for ``ddp_model.register_comm_hook(FedplugState(...), fedplug_hook)``.

    Args:
        state: The state of this DDP model and rank.
        bucket: A part of the gradients, which are replaced by the mean over the ranks.

    Returns:
        A future that completes with the last bucket of the step. An error on any rank makes ``backward()``
        raise a RankError on every rank. ``state.error`` has the error of this rank. Step and residuals are
        then unchanged, and the gradients are undefined.

    Raises:
        ArgumentError: Ranks have different warm-ups, raised in the first step.
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
    """Returns the names by parameter. Raises an error for parameters that payloads cannot hold."""
    require_whole(_reduced(module))
    return {parameter: name for name, parameter in named(module).items()}


def _reduced(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the parameters that DDP reduces, by name. Complex ones as pairs of reals."""
    left_to_others = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
    return {
        name: real_view(parameter)
        for name, parameter in named(module).items()
        if parameter.requires_grad and name not in left_to_others and not is_lazy(parameter)
    }


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


def _as_rank_error(error: Exception) -> Exception:
    if not isinstance(error, FedplugError) or isinstance(error, RankError):
        return error
    rank_error = RankError(str(error))
    rank_error.__cause__ = error
    return rank_error


def _at_the_end(conclude: Callable[[], None]) -> None:
    """Calls a function, which may raise an error, when the backward pass ends, after DDP's own work.

    An error in a bucket's future would abort that work, and later steps would fail, too.
    """
    queue = torch.autograd.Variable._execution_engine.queue_callback
    try:
        # DDP queues its work after this call, so before the inner one.
        queue(lambda: queue(conclude))
    except RuntimeError:
        # With DDP's `join`, a rank that ended early takes part in steps outside of a backward pass.
        with contextlib.suppress(Exception):
            conclude()
