"""A hook for ``fully_shard`` that compresses the all-reduce between the replicas of a sharded model.

FSDP reduces the gradients of one module at a time over the shards of a replica, and then calls the module's
hook. Each rank exchanges its shards with the ranks that have the same shards of other replicas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist

import fedplug
from fedplug.codecs.pending import Pending
from fedplug.codecs.state import OWNER
from fedplug.errors import ArgumentError, CapabilityError, FedplugError, StateError
from fedplug_torch.codec import named, numpy_codec
from fedplug_torch.devices import as_result
from fedplug_torch.exchange import Exchange, RankError
from fedplug_torch.feedback import Feedback
from fedplug_torch.mean import means_of
from fedplug_torch.memory import Memory
from fedplug_torch.process_group import OwnGroup
from fedplug_torch.shards import as_dtensor, local_shard, shards_of
from fedplug_torch.tensors import arrays_like, as_array, require_whole

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule

__all__ = ["ReplicaHook"]

_MAX_ERROR_BYTES = 2000
"""Maximum size of an error message for the other ranks of a replica."""


class _Parameter(NamedTuple):
    """A parameter, and how FSDP reduces its gradient.

    Attributes:
        sharded: The parameter, a DTensor.
        form: A meta tensor in shape and dtype of the reduced gradient of this rank's shard.
        padded: Number of elements that each shard has in FSDP's buffer.
    """

    sharded: torch.Tensor
    form: torch.Tensor
    padded: int


class _Unit:
    """The parameters that FSDP reduces together, by name and in FSDP's order.

    Attributes:
        parameters: The parameters.
        feedback: The residuals of their gradients.
    """

    def __init__(self, parameters: dict[str, _Parameter], codec: fedplug.Codec, memory: Memory) -> None:
        self.parameters = parameters
        forms = _forms(parameters)
        self.feedback = Feedback(codec.for_part(arrays_like(forms)), memory, spare=False)
        self.feedback.fit(forms)

    def gradients(self, reduced: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns views of FSDP's buffer in the shapes of this rank's shards."""
        sizes = [parameter.padded for parameter in self.parameters.values()]
        if reduced.numel() != sum(sizes):
            raise ArgumentError(
                f"FSDP reduced {reduced.numel()} elements, and {', '.join(self.parameters)} have "
                f"{sum(sizes)}; if a step does not use all parameters, call "
                "set_reduce_scatter_unused_params(True) of the model; if parameters were frozen or unfrozen, "
                "make another ReplicaHook"
            )
        return {
            name: part[: parameter.form.numel()].view(parameter.form.shape)
            for part, (name, parameter) in zip(reduced.split(sizes), self.parameters.items(), strict=True)
        }


class ReplicaHook:
    """Averages gradients over the replicas of a model of ``fully_shard`` by payloads, with error feedback.

    Shard each replica over its own ranks, and pass the group of the ranks that have the same shards::

        mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh["shard"])
        hook = ReplicaHook("topk(0.01) | qsgd(8)", model, process_group=mesh.get_group("replicate"))

    Each gradient is then the mean over all ranks, with the same bits in every replica. The modules given to
    ``fully_shard`` are encoded one at a time, so ``scope="model"`` compares the tensors of one of them.

    torch.distributed.checkpoint saves the hook, including the residuals of all shards, as
    ``dcp.save({"hook": hook, ...})``.

    Attributes:
        step: Number of backward passes with an exchange.
        bytes_sent: Bytes that this process has sent to other replicas.
        dense_bytes: Bytes that it would have sent in a ring all-reduce of the same gradients.
        error: The error of the last backward pass on this rank, or None.
    """

    def __init__(
        self,
        encoder: object,
        module: torch.nn.Module,
        *,
        process_group: dist.ProcessGroup,
        memory: Memory = "device",
    ) -> None:
        """Registers a hook in each module that was given to ``fully_shard``.

        All replicas start with the trained parameters of the first, as in DDP.

        Args:
            encoder: Any argument of `fedplug.codec`, or a `Codec`, but no budget.
            module: The model. Each parameter that requires a gradient is sharded by ``fully_shard`` over a
                mesh of one dimension.
            process_group: The ranks that have the same shards of other replicas, for instance
                ``mesh.get_group("replicate")``. Payloads travel in a group of fedplug's own.
            memory: Where residuals are kept between steps, see `fedplug_torch.memory.Memory`.

        Raises:
            ArgumentError: A parameter is not sharded, or in another way. The message gives the remedy. Or
                parameters differ between replicas in names, shapes, shards or dtypes. Nothing has changed.
            CapabilityError: The encoder is a budget.
            ConfigError: The encoder cannot be parsed. See also `fedplug.codec`.
            RankError: Another rank of ``process_group`` raised one of these errors.
        """
        self._replicas = OwnGroup(process_group)
        self._has_begun = False
        self.step = self.bytes_sent = self.dense_bytes = 0
        self.error: Exception | None = None
        exchange = Exchange(self._replicas)
        try:
            parts = _parts_of(module)
            whole = {name: parameter for part in parts.values() for name, parameter in part.items()}
            _require_sharded(named(module), whole)
            codec = numpy_codec(encoder).require_updates()
            self._owner = codec.owner.tobytes().decode()
            _require_parts(codec, whole)
            units = {part: _Unit(parameters, codec, memory) for part, parameters in parts.items()}
            self._shards = OwnGroup(_group_of(whole))
        except Exception as error:
            exchange.tell(error)
            raise
        exchange.require_same({name: _text(parameter) for name, parameter in whole.items()})
        exchange.broadcast(local_shard(parameter.sharded) for parameter in whole.values())
        self._units = list(units.values())
        for part, unit in units.items():
            part.set_all_reduce_hook(partial(self._reduce, unit))

    def state_dict(self) -> dict[str, torch.Tensor | str]:
        """Returns a copy of the state for the next step, for torch.distributed.checkpoint.

        The residuals of a replica are DTensors like the parameters. Another number of shards can therefore
        load them, but not another number of replicas.
        """
        state = {"step": torch.tensor(self.step, device="cpu"), OWNER: self._owner}
        for unit in self._units:
            for key, saved_as, parameter in self._entries(unit):
                tensor = as_result(unit.feedback.residuals.state[key]).clone()
                state[saved_as] = tensor if parameter is None else as_dtensor(tensor, parameter)
        return state

    def load_state_dict(self, state: Mapping[str, torch.Tensor | str]) -> None:
        """Continues from the result of `state_dict`, with the same bits.

        Raises:
            StateError: The state is of another encoder, model or mesh. Nothing has changed.
        """
        if state.get(OWNER) != self._owner:
            raise StateError(f"the state is of another codec: {state.get(OWNER)!r}, not {self._owner!r}")
        if wrong := dict(_shapes(state).items() ^ _shapes(self.state_dict()).items()):
            names = ", ".join(sorted(wrong)[:4])
            raise StateError(f"the state is not of a ReplicaHook of this model and mesh; look at {names}")
        for unit in self._units:
            entries = list(self._entries(unit))
            loaded = {key: as_array(local_shard(state[saved_as])).copy() for key, saved_as, _ in entries}
            unit.feedback.residuals = Pending(loaded)
        self.step = int(state["step"])

    def _entries(self, unit: _Unit) -> Iterator[tuple[str, str, torch.Tensor | None]]:
        """Yields the key of each array of a unit's state, its key in a state dictionary, and its parameter.

        The parameter is None if the array does not have one element for each of the shard.
        """
        replica = f"replica {self._replicas.index} of {self._replicas.place[1]}"
        shard = f"shard {self._shards.index} of {self._shards.place[1]}"
        for name, parameter in unit.parameters.items():
            for key in unit.feedback.keys[name]:
                if tuple(unit.feedback.residuals.state[key].shape) == parameter.form.shape:
                    yield key, f"{replica}/{key}", parameter.sharded
                else:
                    yield key, f"{replica}/{shard}/{key}", None

    def _reduce(self, unit: _Unit, reduced: torch.Tensor) -> None:
        """Replaces a unit's gradients in FSDP's buffer by the mean over replicas.

        Errors are raised when the backward pass ends: until then FSDP's collectives need this rank.
        """
        if not self._has_begun:
            self._has_begun, self.error = True, None
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        try:
            self._average(unit, reduced)
        except Exception as error:
            self.error = self.error or error

    def _average(self, unit: _Unit, reduced: torch.Tensor) -> None:
        exchange, feedback = Exchange(self._replicas), unit.feedback
        with exchange.telling(feedback.limits):
            if self.error is not None:
                raise self.error
            gradients = unit.gradients(reduced)
            payloads = feedback.encode(gradients, self.step, again=True)
        messages = exchange.all_gather(payloads, feedback.limits)
        for name, mean in means_of(messages, gradients, feedback.wire_ids):
            gradients[name].copy_(mean)
        self.bytes_sent += exchange.bytes_sent
        replicas = exchange.place[1]
        self.dense_bytes += sum(g.nbytes for g in gradients.values()) * 2 * (replicas - 1) // replicas

    def _finish(self) -> None:
        """Keeps the new residuals, or raises the errors of all ranks.

        The ranks of a replica tell each other first, and then those with the same shards, so that all know.
        """
        self._has_begun = False
        error, found = self.error, set[str]()
        if error is not None:
            found = {str(error) if isinstance(error, FedplugError) else repr(error)}
        for group in (self._shards, self._replicas):
            texts = {"error": "\n".join(sorted(found)).encode()[:_MAX_ERROR_BYTES]}
            for theirs in Exchange(group).all_gather(texts, {"error": _MAX_ERROR_BYTES}).values():
                found.update(theirs["error"].tobytes().decode(errors="replace").splitlines())
        for unit in self._units:
            unit.feedback.settle(accepted=not found)
        if found:
            raise RankError("; ".join(sorted(found))) from error
        self.step += 1


def _parts_of(module: torch.nn.Module) -> dict[FSDPModule, dict[str, _Parameter]]:
    """Returns the parameters that FSDP reduces together, by one of their modules and by name."""
    from torch.distributed.fsdp import FSDPModule  # takes a second

    if not isinstance(module, torch.nn.Module):
        raise ArgumentError(f"a {type(module).__name__} is no module; pass the model of fully_shard")
    names = {parameter: name for name, parameter in named(module).items()}
    groups: dict[object, FSDPModule] = {}
    for part in module.modules():
        if isinstance(part, FSDPModule):
            try:  # torch has no public way to ask for the order of parameters
                groups.setdefault(part._get_fsdp_state()._fsdp_param_group, part)
            except AssertionError as error:
                raise ArgumentError(f"the parameters of a module are on several meshes: {error}") from error
    groups.pop(None, None)
    parts = {part: dict(_parameters_of(group, names)) for group, part in groups.items()}
    return {part: parameters for part, parameters in parts.items() if parameters}


def _parameters_of(group: Any, names: Mapping[torch.Tensor, str]) -> Iterator[tuple[str, _Parameter]]:
    """Yields the parameters of one of FSDP's groups that require a gradient, in its order."""
    for each in group.fsdp_params:
        parameter = getattr(each._module_info.module, each._module_info.param_name)
        if parameter.requires_grad:
            policy = each.mp_policy
            dtype = policy.reduce_dtype or policy.param_dtype or parameter.dtype
            form = torch.empty(local_shard(parameter).shape, dtype=dtype, device="meta")
            padded = list(parameter.shape)
            dim = getattr(parameter.placements[-1], "dim", 0)
            padded[dim] = math.ceil(padded[dim] / parameter.device_mesh.size(-1))
            yield names[parameter], _Parameter(parameter, form, math.prod(padded))


def _require_sharded(parameters: Mapping[str, torch.Tensor], reduced: Mapping[str, _Parameter]) -> None:
    """Raises ArgumentError for a parameter that requires a gradient and that the hook cannot average."""
    for name, parameter in parameters.items():
        if not parameter.requires_grad:
            continue
        placements = getattr(parameter, "placements", ())
        if any(placement.is_replicate() for placement in placements):
            raise ArgumentError(
                f"parameter {name!r} is replicated by torch, which adds the dense gradients of replicas "
                "before it calls a hook; shard it over the ranks of one replica, fully_shard(module, "
                "mesh=mesh['shard']), and pass process_group=mesh.get_group('replicate')"
            )
        if len(placements) > 1 or any(placement.is_partial() for placement in placements):
            raise ArgumentError(
                f"parameter {name!r} has the placements {placements}; the hook is for parameters that are "
                "sharded by fully_shard alone, over a mesh of one dimension"
            )
        require_whole({name: local_shard(parameter)})
        if name not in reduced:
            raise ArgumentError(
                f"parameter {name!r} is not sharded by fully_shard, so no hook gets its gradient; call "
                "fully_shard for its module too, or freeze it"
            )


def _require_parts(codec: fedplug.Codec, parameters: Mapping[str, _Parameter]) -> None:
    """Raises an error if the encoder does not fit the whole model, or needs to see all of it at once."""
    if codec.model_encoder(arrays_like(_forms(parameters))).rate_control is not None:
        raise CapabilityError(
            f"{codec.encoder!r} adjusts encoders by the bytes of a whole model, and modules of fully_shard "
            "are encoded one at a time; use the encoder without a budget"
        )


def _group_of(parameters: Mapping[str, _Parameter]) -> dist.ProcessGroup:
    """Returns the process group of the ranks of this replica."""
    meshes: set[DeviceMesh] = {parameter.sharded.device_mesh for parameter in parameters.values()}
    if len(meshes) > 1:
        raise ArgumentError(f"parameters are sharded over several meshes: {meshes}; use one for all")
    group: dist.ProcessGroup = meshes.pop().get_group()
    return group


def _forms(parameters: Mapping[str, _Parameter]) -> dict[str, torch.Tensor]:
    return {name: parameter.form for name, parameter in parameters.items()}


def _shapes(state: Mapping[str, object]) -> dict[str, torch.Size | None]:
    """Returns the shapes of this rank's shards in a state. None for values that are no tensors."""
    return {key: getattr(local_shard(value), "shape", None) for key, value in state.items()}


def _text(parameter: _Parameter) -> str:
    shard = shards_of({"": parameter.sharded})[""]
    return f"{str(parameter.form.dtype).removeprefix('torch.')}{shard}"
