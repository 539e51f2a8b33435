"""Two ways to replace gradients by their mean over ranks, through payloads: for two, and for more."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Mapping

import torch

from fedplug_torch.division import Part, partition
from fedplug_torch.exchange import Exchange
from fedplug_torch.feedback import Feedback
from fedplug_torch.mean import means_of
from fedplug_torch.process_group import OwnGroup

__all__ = ["Gather", "TwoPhase"]


class Gather:
    """Every rank sends its payloads to all ranks, and each adds up all of them."""

    def __init__(self, feedback: Feedback) -> None:
        self._feedback = feedback

    def fit(self, parameters: Mapping[str, torch.Tensor], group: OwnGroup) -> None:
        """Prepares for a model whose parameters are exchanged; only shapes and dtypes matter."""
        self._feedback.fit(parameters)

    def reduce(
        self,
        gradients: Mapping[str, torch.Tensor],
        exchange: Exchange,
        round_num: int,
        problem: Exception | None,
    ) -> None:
        """Replaces gradients by their means. The next residuals are pending until `Feedback.settle`.

        Args:
            gradients: All gradients by name of the parameter.
            exchange: The exchange between the ranks.
            round_num: Number of the round, for schedules and seeds.
            problem: An error of this rank, which is then raised on all ranks.

        Raises:
            RankError, PayloadError: A rank could not encode, or sent invalid bytes. An error is raised on
                every rank, and the gradients are undefined.
        """
        limits = self._feedback.limits
        if limits.keys() != gradients.keys():  # some parameters have no gradient
            limits = {name: limits[name] for name in gradients}
        with exchange.telling(limits):
            if problem is not None:
                raise problem
            payloads = self._feedback.encode(gradients, round_num, _zeros(gradients))
        messages = exchange.all_gather(payloads, limits)
        with exchange.agreed("average gradients"):
            for name, mean in means_of(messages, gradients, self._feedback.wire_ids, empty_is_zero=True):
                gradients[name].copy_(mean)


class TwoPhase:
    """Compresses both halves of an all-reduce: each rank adds up one part of the model for all ranks.

    Payloads go to the rank that owns their part of the model. It adds them up in the order of ranks, and
    sends the mean to all ranks, encoded again with a residual of its own. All ranks, also the owner, decode
    these bytes. A rank sends about two payloads of the model, for any number of ranks.
    """

    def __init__(self, feedback: Feedback, mean_feedback: Feedback) -> None:
        self._feedback, self._mean_feedback = feedback, mean_feedback
        self._parts: list[list[Part]] = []

    def fit(self, parameters: Mapping[str, torch.Tensor], group: OwnGroup) -> None:
        """See `Gather.fit`."""
        shapes = {name: parameter.shape for name, parameter in parameters.items()}
        self._parts = partition(shapes, group.place[1])
        everything = [part for parts in self._parts for part in parts]
        mine = sum(part.of(parameters[part.parameter]).numel() for part in self._parts[group.index])
        share = mine / max(1, sum(map(torch.numel, parameters.values())))
        self._feedback.fit(parameters, everything, everything)
        self._mean_feedback.fit(parameters, everything, self._parts[group.index], share)

    def reduce(
        self,
        gradients: Mapping[str, torch.Tensor],
        exchange: Exchange,
        round_num: int,
        problem: Exception | None,
    ) -> None:
        """See `Gather.reduce`."""
        owned = [[part for part in parts if part.parameter in gradients] for parts in self._parts]
        pieces = {part.name: part.of(gradients[part.parameter]) for parts in owned for part in parts}
        limits = [{part.name: self._feedback.limits[part.name] for part in parts} for parts in owned]
        payloads = dict.fromkeys(pieces, b"")
        try:
            if problem is not None:
                raise problem
            zeros = _zeros(gradients)
            unused = [part.name for parts in owned for part in parts if part.parameter in zeros]
            payloads = self._feedback.encode(pieces, round_num, unused)
        except Exception as error:
            problem = error
        by_owner = [{name: payloads[name] for name in names} for names in limits]
        received = exchange.all_to_all(by_owner, limits[exchange.index], problem)
        with exchange.telling(limits):
            mine = {name: pieces[name] for name in limits[exchange.index]}
            means = dict(means_of(received, mine, self._feedback.wire_ids, empty_is_zero=True))
            unused = [name for name in means if not any(len(theirs[name]) for theirs in received.values())]
            payloads = self._mean_feedback.encode(means, round_num, unused)
        messages, wire_ids = exchange.all_gather(payloads, limits), self._mean_feedback.wire_ids
        with exchange.agreed("average gradients"):
            for owner, encoded in messages.items():
                theirs = {name: pieces[name] for name in encoded}
                for name, mean in means_of({owner: encoded}, theirs, wire_ids, empty_is_zero=True):
                    pieces[name].copy_(mean)


def _zeros(gradients: Mapping[str, torch.Tensor]) -> Collection[str]:
    """Returns the names of gradients that are zero everywhere.

    They send nothing and keep their residuals: DDP does not change a parameter that no rank used
    (``find_unused_parameters``), so anything sent for it would be lost.
    """
    if not gradients:
        return set()
    used, device = [], next(iter(gradients.values())).device
    for gradient in gradients.values():
        used.append(gradient.any().to(device))
    flags = torch.stack(used).tolist()  # a GPU is asked once
    return set(itertools.compress(gradients, map(operator.not_, flags)))
