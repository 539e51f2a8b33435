"""Top-k sparsification, of a tensor or of a whole model, with error feedback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_error_feedback
from fedplug.encoders.base import State
from fedplug.encoders.sparsifiers.sparsity import Sparsity
from fedplug.encoders.stages import Selection, Sparsifier
from fedplug.errors import ConfigError
from fedplug.ops import Array
from fedplug.registry.specs import EXECUTIONS, Capabilities
from fedplug.schedules import Schedule

__all__ = ["TopK"]

_SCOPES = ("tensor", "model")


class TopK(Sparsifier):
    """Keeps the k entries of largest magnitude; with error feedback the others stay in the client's residual.

    ``a = x + residual``; the payload is the k entries of ``a`` with the largest ``|a|`` (ties: the lower
    index), and ``residual' = a`` with those set to zero, so that ``decode(payload) + residual' == a`` bit for
    bit. Without error feedback the residual is always zero and what is not sent is lost.

    With ``scope="model"`` the tensors that share this encoder are one: k is a share of all their elements,
    and the largest of them all are kept, so that of all ways to allocate k entries the least is lost. A
    tensor may then send nothing. They must be of one dtype.

    Sources: Stich et al., "Sparsified SGD with Memory", NeurIPS 2018 (arXiv 1809.07599), algorithm 1;
    Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019
    (arXiv 1901.09847).

    With the default stages after it, for float32 about 5 bytes per entry kept where 1 % are kept, 0.05 bytes
    per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "topk"
    sparsity: Sparsity

    def __init__(
        self,
        fraction: float | Schedule | None = None,
        *,
        count: int | None = None,
        error_feedback: bool = True,
        scope: str = "tensor",
    ) -> None:
        """Exactly one of ``fraction`` and ``count`` is given.

        Args:
            fraction: Of the elements of each tensor, above 0 and at most 1; at least one entry is kept. Or a
                schedule of such numbers.
            count: Entries kept in each tensor, at least 1; all of a smaller tensor.
            error_feedback: Keep what was not sent in the client's state and add it the next time.
            scope: ``"tensor"``, or ``"model"``: fraction and count are of all tensors together.

        Raises:
            ConfigError: Neither or both are given, or something is out of range.
        """
        self.sparsity = Sparsity("topk", fraction, count)
        check_error_feedback("topk", error_feedback)
        if scope not in _SCOPES:
            raise ConfigError(f"topk scope is {scope!r}; it must be one of {', '.join(_SCOPES)}")
        self._scope = scope
        self.error_feedback = error_feedback

    @property
    def capabilities(self) -> Capabilities:
        """Biased; a payload's sum is not the payload of a sum. State only with error feedback."""
        return Capabilities(
            needs_client_state=self.error_feedback,
            bounded_sensitivity=not self.error_feedback,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, Any]:
        config = {**self.sparsity.get_config(), "error_feedback": self.error_feedback}
        return config if self._scope == "tensor" else {**config, "scope": self._scope}

    def select(self, x: Array, state: State, round_num: Array) -> Selection:
        k = self.sparsity.of_size(ops.num_elements(x), round_num)
        chosen = ops.topk_residual(x, self.residual_of(x, state), k)
        return Selection(chosen.values, chosen.indices, self.state_of(chosen.residual))

    def grouped_select(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Array
    ) -> list[Selection]:
        """From each tensor by itself, or with ``scope="model"`` from all of them."""
        if self._scope == "tensor":
            return super().grouped_select(xs, states, round_num)
        dtypes = sorted({x.dtype.name for x in xs})
        if len(dtypes) > 1:
            raise ConfigError(
                f"topk with scope='model' compares the entries of all its tensors, and these are of "
                f"{' and '.join(dtypes)}; give each dtype a rule of its own"
            )
        k = self.sparsity.of_size(sum(ops.num_elements(x) for x in xs), round_num)
        residuals = [self.residual_of(x, state) for x, state in zip(xs, states, strict=True)]
        chosen = ops.grouped_topk_residual(xs, residuals, k)
        begins, ends = chosen.row_splits[:-1], chosen.row_splits[1:]
        return [
            Selection(
                chosen.values[begins[t] : ends[t]],
                chosen.indices[begins[t] : ends[t]],
                self.state_of(residual),
            )
            for t, residual in enumerate(chosen.residuals)
        ]
