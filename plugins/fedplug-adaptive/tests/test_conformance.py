"""The plugin meets fedplug's expectations of every plugin, and of every aggregator."""

from __future__ import annotations

import pytest
from fedplug_adaptive.layer_weights import DivergenceSoftmax

import fedplug
from fedplug.errors import ConfigError
from fedplug.testing import AggregatorSuite, PluginPackageSuite

LAYERS = [0, 0]  # the suite's model has three tensors, and takes the last for a report about one layer


class TestPackage(PluginPackageSuite):
    distribution = "fedplug-adaptive"


class TestDivergenceSoftmax(AggregatorSuite):
    def make_aggregator(self):
        return DivergenceSoftmax(LAYERS, temperature=0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("divergence_softmax([])", "give the number of the layer of each tensor"),
        ("divergence_softmax([0, 2])", "none left out"),
        ("divergence_softmax([0], temperature=0)", "temperature is 0; it must be a number above 0"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        fedplug.aggregator(text)
