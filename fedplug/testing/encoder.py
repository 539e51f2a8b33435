"""The suite for encoders, which combines all checks. They run from the last base to the first."""

from __future__ import annotations

import time

from fedplug.encoders.base import Encoder
from fedplug.testing import expect
from fedplug.testing.encoder_capabilities import CapabilityChecks
from fedplug.testing.encoder_contract import ContractChecks
from fedplug.testing.encoder_executions import ExecutionChecks
from fedplug.testing.encoder_subject import EncoderSubject, round_trip
from fedplug.testing.encoder_together import TogetherChecks
from fedplug.testing.encoder_wire import WireChecks
from fedplug.testing.suite import after

__all__ = ["EncoderSuite"]

_SMALL, _LARGE = 2**13, 2**16
_REPEATS = {_SMALL: 5, _LARGE: 2}
_FACTOR = 3.0 * _LARGE / _SMALL  # the square is 8 times the size, and other programs disturb the caches
_NEGLIGIBLE = 0.05


class _TimeChecks(EncoderSubject):
    """Compares processor time, which does not depend on how busy the machine is."""

    @after("test_sent_values_are_received")
    def test_time_does_not_grow_with_the_square_of_the_size(self) -> None:
        encoder = self.make_encoder()
        small, large = (self._seconds(encoder, size) for size in (_SMALL, _LARGE))
        expect.that(
            large <= max(_FACTOR * small, _NEGLIGIBLE),
            f"encoding and decoding {_LARGE} elements takes {large:.2f} s of processor time, "
            f"{large / small:.0f} times as long as {_SMALL}; about {_LARGE // _SMALL} times are needed",
        )

    def _seconds(self, encoder: Encoder, size: int) -> float:
        """Returns the processor time of a round trip of a vector, the least of several."""
        spec = self.on.spec((size,), self.tried_dtypes()[0])
        x, state = self.on.tensor("normal", spec), encoder.init_state(spec)
        least = float("inf")
        for number in range(_REPEATS[size]):
            begin = time.process_time()
            round_trip(self.on, encoder, x, state, self.on.round_num(number), spec)
            least = min(least, time.process_time() - begin)
        return least


class EncoderSuite(
    TogetherChecks,
    _TimeChecks,
    ExecutionChecks,
    WireChecks,
    CapabilityChecks,
    ContractChecks,
):
    """Checks the promises of `fedplug.encoders.base.Encoder`.

    An author writes, in a test module::

        class TestSignSGD(fedplug.testing.EncoderSuite):
            def make_encoder(self):
                return SignSGD()

    and overrides the attributes that the encoder's documentation justifies: `shapes`, `dtypes`,
    `conservation_tolerance`, `decay`, `linear_tolerance`, `trials`, `golden`,
    `hostile_allowance`, `check_tff`.
    """
