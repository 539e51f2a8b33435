"""A contract is short enough to implement: ten members at most, without those of `Component`."""

from __future__ import annotations

import inspect

import pytest

from fedplug.encoders import EncoderAssignment, EntropyCoder, IndexCoder, Quantizer, RateControl, Sparsifier
from fedplug.encoders.base import Encoder
from fedplug.registry.component import Component

CONTRACTS = [Encoder, Sparsifier, Quantizer, EntropyCoder, IndexCoder, EncoderAssignment, RateControl]


def members(contract: type) -> set[str]:
    declared = {name for each in contract.__mro__ for name in (*vars(each), *inspect.get_annotations(each))}
    return {name for name in declared if not name.startswith("_")} - {*dir(Component), "name"}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_contract_has_at_most_ten_members(contract):
    assert len(members(contract)) <= 10, sorted(members(contract))
