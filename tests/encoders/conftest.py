"""Selects the checks of the encoder suites that every commit runs."""

from __future__ import annotations

import pytest

COSTLY = (
    # These trace graphs of hundreds of small ops for every shape and dtype.
    "test_compiled_ops_and_their_references_give_the_same",
    "test_a_graph_equals_eager_execution",
    "test_tensors_are_encoded_together_alike_on_all_arrays_and_in_graphs",
    "test_a_tff_process_sends_the_bytes_of_eager_execution",
    # These decode hundreds of payloads.
    "test_hostile_bytes_are_refused_or_are_a_valid_payload",
    "test_hostile_bytes_do_not_take_memory",
    "test_hostile_bytes_that_are_accepted_have_one_meaning",
)
"""Slow checks: two thirds of the time of these suites."""

ONE_OF_EACH_KIND = (
    "topk(0.3)",
    "qsgd(4, block_size=16)",
    "topk(0.3) | qsgd(8, block_size=16) | rice",
    "ef21('topk(0.3)')",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves slow checks to `make test-thorough`, and those on NumPy arrays to `make test-numpy`.

    One encoder of each kind keeps them. `tests/ops` compares every op with its reference, in graphs and on
    hostile bytes.
    """
    for item in items:
        expression = getattr(getattr(item, "cls", None), "expression", None)
        if expression and item.name in COSTLY and expression not in ONE_OF_EACH_KIND:
            item.add_marker(pytest.mark.slow)
