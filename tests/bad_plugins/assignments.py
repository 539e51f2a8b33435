"""Assignments that each break one promise, which the suite must name.

`BAD` pairs a check with the class that must fail it. Those in `GOOD` pass all checks.
"""

from __future__ import annotations

import itertools
from typing import ClassVar

from fedplug.encoders import EncoderAssignment, Identity, Pipeline, TopK
from fedplug.registry.specs import EXECUTIONS, Capabilities


class Alternating(EncoderAssignment):
    """Encodes every second tensor with loss. Passes all checks."""

    name: ClassVar[str] = "alternating"

    def __init__(self, fraction=0.5):
        self.fraction = fraction

    capabilities = Capabilities(needs_client_state=True, executes_on=EXECUTIONS)

    def get_config(self):
        return {"fraction": self.fraction}

    def assign(self, specs):
        return [Pipeline([TopK(self.fraction)]) if place % 2 else Identity() for place, _ in enumerate(specs)]


class Plain(EncoderAssignment):
    """Sends all tensors uncompressed. Passes all checks."""

    name: ClassVar[str] = "plain"

    capabilities = Capabilities(unbiased=True, commutes_with_sum=True, lossless=True, executes_on=EXECUTIONS)

    def get_config(self):
        return {}

    def assign(self, specs):
        return [Identity()] * len(specs)


class NameWithSpaces(Plain):
    name: ClassVar[str] = "as it is"


class ForgetsItsConfig(Alternating):
    def __init__(self, fraction=0.25):
        super().__init__(fraction)

    def get_config(self):
        return {"fraction": {self.fraction: 1}}


class TooFew(Plain):
    def assign(self, specs):
        return [Identity()] * (len(specs) - 1)


class Expressions(Plain):
    def assign(self, specs):
        return ["identity"] * len(specs)


class AnotherEveryTime(Alternating):
    counter: ClassVar = itertools.count(1)

    def assign(self, specs):
        return [Pipeline([TopK(count=next(self.counter))]) for _ in specs]


class HidesState(Alternating):
    capabilities = Capabilities(executes_on=EXECUTIONS)


class Backwards(Identity):
    """Swaps the payloads of the tensors."""

    def grouped_encode(self, xs, states, round_num):
        return super().grouped_encode(xs, states, round_num)[::-1]


class MixesTensorsUp(Plain):
    def assign(self, specs):
        return [Backwards()] * len(specs)


class SharesByChance(Alternating):
    """Selects the largest entries per tensor or across two tensors, depending on earlier calls."""

    counter: ClassVar = itertools.count()

    def assign(self, specs):
        one, other = (Pipeline([TopK(self.fraction, scope="model")]) for _ in range(2))
        return [one, other if next(self.counter) % 2 else one, *[Identity()] * (len(specs) - 2)]


class ClaimsLossless(Plain):
    def assign(self, specs):
        return [Pipeline([TopK(count=1, error_feedback=False)])] * len(specs)


GOOD = [Alternating, Plain]

BAD = [
    ("test_it_has_a_name_for_the_registry", NameWithSpaces),
    ("test_its_config_survives_json_and_makes_an_equal_component", ForgetsItsConfig),
    ("test_it_assigns_an_encoder_to_every_tensor", TooFew),
    ("test_it_assigns_an_encoder_to_every_tensor", Expressions),
    ("test_equal_ones_assign_equal_encoders", AnotherEveryTime),
    ("test_every_tensor_of_a_model_is_received", MixesTensorsUp),
    ("test_equal_ones_send_equal_bits", SharesByChance),
    ("test_its_encoders_keep_no_state_unless_it_declares_that_it_needs_some", HidesState),
    ("test_lossless_encoders_are_exact", ClaimsLossless),
]
