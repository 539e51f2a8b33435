"""A process that cannot connect to a Ray cluster is told the remedy."""

from __future__ import annotations

import pytest
import ray
from fedplug_ray.connection import connect

from fedplug.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "reason", "named"),
    [("192.0.2.7:6379", "no session", "192.0.2.7:6379 .no session"), (None, "", "this machine .no answer")],
)
def test_an_unreachable_cluster_is_an_error_with_advice(monkeypatch, address, reason, named):
    def init(**arguments):
        # Ray's own error, which it raises after minutes.
        raise ConnectionError(reason)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ConfigError, match=rf"{named}.*delete ray_current_cluster"):
        connect(address)
