"""What the tests of the stores share: equality of states, and a small round to commit."""

import numpy as np
import pytest


def _same(found, expected):
    """Equal names, dtypes, shapes and bits."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


@pytest.fixture(scope="session")
def assert_same():
    return _same


@pytest.fixture(scope="session")
def round_of():
    """``round_of(n, clients)``: the arguments of a commit in which every array is filled with ``n``."""

    def arguments(number, clients, size=100):
        state = {"w": np.full(size, number, np.float32)}
        return {
            "client_states": {client: dict(state) for client in clients},
            "server_state": dict(state),
            "metadata": {"round": number},
        }

    return arguments
