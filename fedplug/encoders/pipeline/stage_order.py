"""The order of the stages of a pipeline, and errors for other orders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from fedplug.encoders.coders import Rice
from fedplug.encoders.quantizers import Identity, IdentityStage
from fedplug.encoders.stages import EntropyCoder, IndexCoder, Quantizer, Sparsifier
from fedplug.errors import CapabilityError, ConfigError
from fedplug.ops.spec import dtype_for

__all__ = ["DEFAULT_INDEX_CODER", "DEFAULT_QUANTIZER", "Stage", "Stages", "arrange"]

Stage = Sparsifier | Quantizer | EntropyCoder | IndexCoder

DEFAULT_QUANTIZER = IdentityStage()
DEFAULT_INDEX_CODER = Rice()

_ROLES: tuple[tuple[type, str, str], ...] = (
    (Sparsifier, "a sparsifier", "topk(0.01)"),
    (Quantizer, "a quantizer", "qsgd(8)"),
    (EntropyCoder, "an entropy coder", ""),
    (IndexCoder, "an index coder", "rice"),
)
_SPARSIFIER, _QUANTIZER, _ENTROPY_CODER, _INDEX_CODER = range(4)


class Stages(NamedTuple):
    """The stages of a pipeline by their roles, with defaults."""

    sparsifier: Sparsifier | None
    quantizer: Quantizer
    entropy_coder: EntropyCoder | None
    index_coder: IndexCoder


def arrange(given: Sequence[Any]) -> Stages:
    """Returns the stages by their roles.

    Raises:
        CapabilityError: The stages are not in order, or one of them has nothing to do.
        ConfigError: There are no stages.
    """
    if not given:
        raise ConfigError("a pipeline has no stages; give it at least one, for instance topk(0.01)")
    given = [DEFAULT_QUANTIZER if isinstance(stage, Identity) else stage for stage in given]
    roles = [_role(stage, given) for stage in given]
    for (left, left_role), (right, right_role) in pairwise(zip(given, roles, strict=True)):
        if left_role >= right_role:
            raise CapabilityError(
                "the stages of a pipeline are sparsifier | quantizer | entropy coder | index coder, each at "
                f"most once; {left!r} is {_ROLES[left_role][1]} and cannot be followed by {right!r}, "
                f"{_ROLES[right_role][1]}; use {_remedy(given)}"
            )
    by_role = dict(zip(roles, given, strict=True))
    sparsifier, entropy_coder = by_role.get(_SPARSIFIER), by_role.get(_ENTROPY_CODER)
    if entropy_coder is not None:
        _require_symbols(by_role.get(_QUANTIZER), entropy_coder, given)
    if _INDEX_CODER in by_role and sparsifier is None:
        raise CapabilityError(
            f"{by_role[_INDEX_CODER]!r} is an index coder, and without a sparsifier there are no indices; "
            f"use {_remedy(given)}"
        )
    own_coder = None if sparsifier is None else sparsifier.index_coder
    index_coder = by_role.get(_INDEX_CODER, own_coder or DEFAULT_INDEX_CODER)
    if type(index_coder) is type(own_coder) and index_coder != own_coder:
        raise CapabilityError(
            f"{index_coder!r} cannot write the indices of {sparsifier!r}, for which {own_coder!r} is made; "
            f"use {own_coder!r}, or leave it out"
        )
    return Stages(
        sparsifier,
        by_role.get(_QUANTIZER, DEFAULT_QUANTIZER),
        entropy_coder,
        index_coder,
    )


def _require_symbols(
    quantizer: Quantizer | None, entropy_coder: EntropyCoder, given: Sequence[object]
) -> None:
    if quantizer is None:
        raise CapabilityError(
            f"{entropy_coder!r} is an entropy coder, which shortens what a quantizer wrote, and there is "
            f"none before it; use {_remedy(given)}"
        )
    dtype = dtype_for(quantizer.capabilities.executes_on, "float32")
    if quantizer.symbols(0, dtype) is None:
        raise CapabilityError(
            f"{entropy_coder!r} shortens symbols of one fixed number of bits, and {quantizer!r} has none; "
            f"use 'qsgd(8) | {entropy_coder!r}', or leave {entropy_coder!r} out"
        )


def _role(stage: object, given: Sequence[object]) -> int:
    for role, (contract, _, _) in enumerate(_ROLES):
        if isinstance(stage, contract):
            return role
    raise CapabilityError(
        f"{stage!r} is neither a sparsifier nor a quantizer nor an entropy coder nor an index coder, so it "
        f"cannot be a stage of a pipeline; use it alone, or {_remedy(given)}"
    )


def _remedy(given: Sequence[object]) -> str:
    """Returns stages that work, with the given stages as far as there is a place for them."""
    found = {
        role: next((stage for stage in given if isinstance(stage, contract)), None)
        for role, (contract, _, _) in enumerate(_ROLES)
    }
    coded, indexed = found[_ENTROPY_CODER] is not None, found[_INDEX_CODER] is not None
    needed = {_SPARSIFIER: indexed or not coded, _QUANTIZER: coded}
    texts = [
        repr(found[role]) if found[role] is not None else default if needed.get(role) else ""
        for role, (_, _, default) in enumerate(_ROLES)
    ]
    return repr(" | ".join(text for text in texts if text))
