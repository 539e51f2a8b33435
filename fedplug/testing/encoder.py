"""The suite for encoders, which combines all checks. They run from the last base to the first."""

from __future__ import annotations

from fedplug.testing.encoder_capabilities import CapabilityChecks
from fedplug.testing.encoder_contract import ContractChecks
from fedplug.testing.encoder_declarations import DeclarationChecks
from fedplug.testing.encoder_executions import ExecutionChecks
from fedplug.testing.encoder_graphs import GraphChecks
from fedplug.testing.encoder_hostile import HostileChecks
from fedplug.testing.encoder_time import TimeChecks
from fedplug.testing.encoder_together import TogetherChecks

__all__ = ["EncoderSuite"]


class EncoderSuite(
    TogetherChecks,
    TimeChecks,
    GraphChecks,
    ExecutionChecks,
    HostileChecks,
    DeclarationChecks,
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
