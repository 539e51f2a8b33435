"""The peers of `fedplug bench`, where their packages are installed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fedplug.diagnostics import bench
from fedplug.diagnostics.peers import PEERS, PeerExecution, installed_peers
from fedplug.diagnostics.updates import Update
from fedplug.errors import ConfigError, MissingDependencyError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_encodes_and_decodes_every_dtype(name, dtype):
    if name not in installed_peers():
        pytest.skip(f"{PEERS[name][0]} is not installed")
    arrays = {"kernel": RNG.normal(size=(40, 50)).astype(dtype), "scale": np.ones((), dtype)}
    run = PeerExecution(name, arrays)
    payloads, _ = run.encode(None, 0)
    decoded = run.decode(payloads)
    assert {key: (x.dtype, x.shape) for key, x in decoded.items()} == {
        key: (x.dtype, x.shape) for key, x in arrays.items()
    }
    figures = bench.measure(name, Update("x", arrays), execution=PeerExecution)
    assert figures.nmse == 0 if name in ("zstd", "blosc2") else 0 < figures.nmse < 1


def test_a_peer_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(PEERS, "absent", ("no_such_package", None))
    assert "absent" not in installed_peers()
    with pytest.raises(MissingDependencyError, match="the row absent needs no_such_package"):
        PeerExecution("absent", {})
    with pytest.raises(ConfigError, match="'lz4' is no peer; the peers are zstd, blosc2"):
        PeerExecution("lz4", {})
