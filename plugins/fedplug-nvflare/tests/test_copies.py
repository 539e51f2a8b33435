"""Components can be pickled and copied, as those of NVFlare can."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import fedplug_nvflare
import pytest

ARGUMENTS = {"FedplugEncoder": ("topk(0.1)",)}
# The aggregator has a helper of NVFlare, which has a lock of its own.
NAMES = sorted({*fedplug_nvflare.__all__} - {"FedplugAggregator"})


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("name", NAMES)
def test_a_component_can_be_pickled_and_copied(name: str, way: Callable[[Any], Any]) -> None:
    component = getattr(fedplug_nvflare, name)(*ARGUMENTS.get(name, ()))
    assert type(way(component)) is type(component)
