"""Sparsifiers: the first stage of a pipeline, which chooses the entries that are sent."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import ClassVar

import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.encoders.arguments import check_error_feedback, check_number, check_seed, check_whole
from fedplug.encoders.base import State
from fedplug.encoders.coders import Seeded
from fedplug.encoders.stages import Selection, Sparsifier, Sparsity
from fedplug.errors import ConfigError
from fedplug.ops import types
from fedplug.ops.device_array import on_host
from fedplug.ops.scatter import gather_finite_of_each, take_from_sum_of_each
from fedplug.ops.topk import chunked_topk_residual_of_each, topk_residual_of_each
from fedplug.ops.types import Array, DType, Scalar
from fedplug.registry.specs import EXECUTIONS_AND_CUDA, Capabilities
from fedplug.schedules import Schedule

__all__ = ["RandomK", "TopK"]

_SCOPES = ("tensor", "model")
_RESIDUAL, _DTYPE = operator.itemgetter("residual"), operator.attrgetter("dtype")


class TopK(Sparsifier):
    """Sends the k entries of largest magnitude; with error feedback the residual keeps the others.

    >>> import fedplug, numpy as np
    >>> codec = fedplug.codec("topk(0.5)")
    >>> payload, state = codec.encode(np.float32([1, -5, 2, 4]))
    >>> fedplug.decode(payload), state["residual"]
    (array([ 0., -5.,  0.,  4.], dtype=float32), array([1., 0., 2., 0.], dtype=float32))

    ``a = x + residual``; the payload is the k entries of ``a`` with the largest ``|a|`` (ties: the lower
    index), and ``residual' = a`` with those set to zero, so that ``decode(payload) + residual' == a`` bit for
    bit. Without error feedback the residual is always zero, and the unsent part is lost.

    With ``scope="model"`` the tensors that share this encoder are one: k is a share of all their elements,
    and the largest of all entries are sent, which minimises the loss over all ways to allocate k entries. A
    tensor may then send nothing. The tensors may have several dtypes, and have fewer than 2^31 elements
    together.

    With ``chunk``, the flattened tensor is split into chunks of that many elements, and k entries are
    selected from each; a shorter last chunk sends all its elements if it has no more. No part of a tensor
    waits for the others, and the selection stays in the processor's cache. It does not run in TensorFlow's
    graphs. With ``decay``, the unsent part fades: ``a = x + decay * residual``, product and sum each rounded
    once. Together they are SparseLoCo's: ``topk(count=64, chunk=4096, decay=0.95) | codebook(2) | rans``.

    Sources: Stich et al., "Sparsified SGD with Memory", NeurIPS 2018 (arXiv 1809.07599), algorithm 1.
    Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019
    (arXiv 1901.09847). Chunk and decay: Peng, Quesnelle, Kingma, "DeMo: Decoupled Momentum Optimization",
    2024 (arXiv 2411.19870), and Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo",
    2025 (arXiv 2508.15706).

    With the default stages after it, for float32 about 5 bytes per entry sent if 1 % are sent, 0.05 bytes per
    element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "topk"
    sparsity: Sparsity

    def __init__(
        self,
        fraction: float | Schedule | None = None,
        *,
        count: int | None = None,
        chunk: int | None = None,
        decay: float = 1.0,
        error_feedback: bool = True,
        scope: str = "tensor",
    ) -> None:
        """Makes the sparsifier. Exactly one of ``fraction`` and ``count`` is given.

        Args:
            fraction: The share of the elements of each tensor, above 0 and at most 1, or a schedule of such
                numbers; at least one entry is sent.
            count: Number of entries to send of each tensor, at least 1. All entries of a smaller tensor.
            chunk: Number of elements of a chunk, at least 1. ``fraction`` and ``count`` then apply to each
                chunk. Default: the tensor is one chunk.
            decay: The share of the residual that is added, above 0 and at most 1, rounded to the residual's
                dtype.
            error_feedback: Whether the client keeps the unsent part and adds it to its next update.
            scope: ``"tensor"``, or ``"model"``: ``fraction`` and ``count`` then apply to all tensors
                together.

        Raises:
            ConfigError: Neither or both are given, or an argument is out of range.
        """
        self.sparsity = Sparsity("topk", fraction, count)
        if chunk is not None:
            check_whole("topk chunk", chunk, 1, wire.MAX_ELEMENTS)
        check_number("topk decay", decay, lambda share: 0 < share <= 1, "above 0 and at most 1")
        check_error_feedback("topk", error_feedback)
        if decay != 1 and not error_feedback:
            raise ConfigError("topk decay is of the residual, and without error feedback there is none")
        if scope not in _SCOPES:
            raise ConfigError(f"topk scope is {scope!r}; it must be one of {', '.join(_SCOPES)}")
        if scope == "model" and chunk is not None:
            raise ConfigError(
                "topk with chunk chooses within each chunk of each tensor, and with scope='model' among all "
                "tensors; give one of the two"
            )
        self._chunk = chunk
        self._decay = decay
        self._scope = scope
        self.error_feedback = error_feedback

    @property
    def capabilities(self) -> Capabilities:
        """Biased; a sum of payloads is not the payload of a sum. Keeps state only with error feedback."""
        return Capabilities(
            needs_client_state=self.error_feedback,
            bounded_sensitivity=not self.error_feedback,
            compares_tensors=self._scope == "model",
            fixed_size=self._scope == "tensor" and self.sparsity.fixed,
            executes_on=EXECUTIONS_AND_CUDA if self._chunk is None else ("numpy", "cuda"),
        )

    def get_config(self) -> dict[str, object]:
        config = {**self.sparsity.get_config(), "error_feedback": self.error_feedback}
        given = {"chunk": self._chunk, "decay": self._decay, "scope": self._scope}
        defaults = {"chunk": None, "decay": 1, "scope": "tensor"}
        return {**config, **{name: value for name, value in given.items() if value != defaults[name]}}

    def select(self, x: Array, state: State, round_num: Scalar) -> Selection:
        return self._select_each([x], [state], round_num)[0]

    def grouped_select(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[Selection]:
        """Selects from each tensor by itself, or with ``scope="model"`` from all of them."""
        if self._scope == "tensor":
            if type(self).select is not TopK.select:  # a subclass has its own way
                return super().grouped_select(xs, states, round_num)
            return self._select_each(xs, states, round_num)
        k = self.sparsity.of_size(sum(map(ops.num_elements, xs)), round_num)
        dtypes = list(map(_DTYPE, xs))
        if len(set(dtypes)) == 1:
            return self._selections(topk_residual_of_each(xs, self._decayed(xs, states), k))
        # Sums are rounded in their dtype and compared in float64.
        sums = [on_host(x) for x in xs]
        if self.error_feedback:
            residuals = map(on_host, self._decayed(xs, states))
            sums = [x + residual for x, residual in zip(sums, residuals, strict=True)]
        sums = [ops.astype(each, "float64") for each in sums]
        selections = self._selections(topk_residual_of_each(sums, list(map(ops.no_residual, sums)), k))
        return [
            Selection(
                ops.astype(chosen.values, dtype),
                chosen.indices,
                {key: ops.astype(residual, dtype) for key, residual in chosen.state.items()},
            )
            for chosen, dtype in zip(selections, dtypes, strict=True)
        ]

    def _select_each(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[Selection]:
        """Selects from each tensor by itself."""
        sizes = list(map(ops.num_elements, xs))
        if self._chunk is None:
            ks = list(map(self.sparsity.of_size, sizes, itertools.repeat(round_num)))
            return self._selections(topk_residual_of_each(xs, self._decayed(xs, states), ks))
        before = list(map(self.residual_of, xs, states))
        ks = [self.sparsity.of_size(min(self._chunk, n), round_num) for n in sizes]
        return self._selections(
            chunked_topk_residual_of_each(xs, before, ks, chunk=self._chunk, decay=self._decay)
        )

    def _selections(self, chosen: Sequence[types.TopK]) -> list[Selection]:
        selections = []
        for each in chosen:
            state = {"residual": each.residual} if self.error_feedback else {}
            selections.append(Selection(each.values, each.indices, state))
        return selections

    def _decayed(self, xs: Sequence[Array], states: Sequence[State]) -> list[Array | None]:
        """Returns the share of each residual that is added to its tensor."""
        if self.error_feedback and self._decay == 1:
            return list(map(_RESIDUAL, states))
        residuals = map(self.residual_of, xs, states)
        return [
            ops.multiply(residual, ops.asarray(self._decay, like=x)) if residual is not None else None
            for x, residual in zip(xs, residuals, strict=True)
        ]


class RandomK(Sparsifier):
    """Sends one random entry of each of k runs of equal length ``n / k``, as nearly as possible.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("randomk(0.5)").encode(np.float32([1, 2, 3, 4]))
    >>> fedplug.decode(payload)
    array([0., 4., 6., 0.], dtype=float32)

    The entry is sent times the length of its run, so that the expectation is ``x`` and the variance ``(n/k -
    1) ||x||^2`` if k divides n. That is the variance of k entries drawn from all n, but in O(k), in ascending
    order, and with evenly spread neighbours. The entries depend on the seed and the round only, so all
    clients send the same ones. With error feedback values are not scaled, and the others stay in the
    residual.

    Source: Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018 (arXiv 1809.07599),
    definition 2.1 (rand-k), drawn in strata. Wangni, Wang, Liu, Zhang, "Gradient Sparsification for
    Communication-Efficient Distributed Optimization", NeurIPS 2018 (arXiv 1710.09854), for the scaling.

    Its own index coder is `Seeded`: with the default stages a payload is k values and about 12 bytes, so
    ``itemsize * k / n`` bytes per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "randomk"
    sparsity: Sparsity

    def __init__(
        self,
        fraction: float | Schedule | None = None,
        *,
        count: int | None = None,
        seed: int = 0,
        error_feedback: bool = False,
    ) -> None:
        """Makes the sparsifier. Exactly one of ``fraction`` and ``count`` is given.

        Args:
            fraction: The share of the elements of each tensor, above 0 and at most 1, or a schedule of such
                numbers; at least one entry is sent.
            count: Number of entries to send of each tensor, at least 1. All entries of a smaller tensor.
            seed: The seed of the drawn entries, 0 to 2^31 - 1.
            error_feedback: Whether the client keeps the unsent part and adds it to its next update, instead
                of scaling up the sent part.

        Raises:
            ConfigError: Neither or both are given, or an argument is out of range.
        """
        self.sparsity = Sparsity("randomk", fraction, count)
        check_seed("randomk", seed)
        check_error_feedback("randomk", error_feedback)
        self._seed = seed
        self.error_feedback = error_feedback
        self.index_coder = Seeded(seed=seed)

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased without error feedback. Keeps state with it. All clients send the same entries."""
        return Capabilities(
            unbiased=not self.error_feedback,
            commutes_with_sum=True,
            needs_client_state=self.error_feedback,
            needs_seed=True,
            secure_aggregation_safe=True,
            fixed_size=self.sparsity.fixed,
            executes_on=EXECUTIONS_AND_CUDA,
        )

    def get_config(self) -> dict[str, object]:
        return {**self.sparsity.get_config(), "seed": self._seed, "error_feedback": self.error_feedback}

    def select(self, x: Array, state: State, round_num: Scalar) -> Selection:
        return self.grouped_select([x], [state], round_num)[0]

    def grouped_select(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[Selection]:
        """Selects from each tensor by itself."""
        seed = ops.round_seed(self._seed, round_num)
        sizes = [ops.num_elements(x) for x in xs]
        counts = [self.sparsity.of_size(size, round_num) for size in sizes]
        indices = [ops.draw_indices(seed, count, size) for count, size in zip(counts, sizes, strict=True)]
        if not self.error_feedback:
            found = gather_finite_of_each(xs, indices)
            each = zip(xs, found, counts, sizes, strict=True)
            values = [_scaled(read, _run_begins(count, size), x.dtype) for x, read, count, size in each]
            return [Selection(*chosen, {}) for chosen in zip(values, indices, strict=True)]
        taken = take_from_sum_of_each(xs, [state["residual"] for state in states], indices)
        return [
            Selection(each.values, places, {"residual": ops.ensure_shape(each.residual, x.shape)})
            for x, each, places in zip(xs, taken, indices, strict=True)
        ]


def _scaled(values: Array, begins: Array, dtype: DType) -> Array:
    """Returns the entry of each run times its length."""
    wide = ops.widened(values)
    return ops.saturate_cast(ops.multiply(wide, ops.astype(begins[1:] - begins[:-1], wide.dtype)), dtype)


def _run_begins(count: Scalar, size: int) -> Array:
    """Returns where the runs of `ops.draw_indices` begin, and the end of the last. int64 ``[count + 1]``."""
    count = ops.astype(count, "int64")
    return ops.arange(count + 1) * size // ops.maximum(count, 1)
