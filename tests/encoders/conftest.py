"""Which checks of which suites every commit runs."""

from __future__ import annotations

import pytest

TRACED_ANEW = (
    "test_compiled_ops_and_their_references_give_the_same",
    "test_a_graph_encodes_tensors_together_as_eager_execution_does",
)
"""Half of the time of these suites: references of many small ops are traced for every shape and dtype."""

HOSTILE = (
    "test_hostile_bytes_are_refused_or_are_a_valid_payload",
    "test_hostile_bytes_do_not_take_memory",
    "test_hostile_bytes_never_become_nan_or_infinity",
)

ONE_OF_EACH_KIND = (
    "TestTopK",
    "TestQSGD",
    "TestSparseLoCo",
    "TestTopKTernGradRansRice",
    "TestEF21",
    "TestStaleOfAModel",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves to `make test-thorough` what `tests/ops` and `test_executions.py` look at for every op, too.

    An encoder around another has its wire form; one of them is enough for hostile bytes.
    """
    for item in items:
        suite = getattr(item, "cls", None)
        if item.path.parent.name != "encoders" or suite is None or suite.__name__ in ONE_OF_EACH_KIND:
            continue
        around_another = item.path.name == "test_feedback_conformance.py"
        if item.name in TRACED_ANEW or (around_another and item.name in HOSTILE):
            item.add_marker(pytest.mark.slow)
