"""The displayed metric of a row."""

import pytest

from fedplug.tff.experiment.display import in_words, row_keys, shown_of


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["mean_squared_error", "bias"], ("test_mean_squared_error", "test_bias")),
        # The first of the many accuracies is the accuracy, unless two metrics would share a key.
        (["sparse_categorical_accuracy", "top_k_accuracy"], ("test_accuracy", "test_top_k_accuracy")),
        (["sparse_categorical_accuracy", "accuracy"], ("test_sparse_categorical_accuracy", "test_accuracy")),
    ],
)
def test_metrics_are_those_of_the_test_examples(names, keys) -> None:
    assert row_keys(names) == keys


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (["round", "test_loss", "test_accuracy"], "test_accuracy"),
        (["round", "test_loss", "test_bias"], "test_loss"),
        (["round", "uplink_bytes"], None),
    ],
)
def test_the_accuracy_or_else_the_first_metric_is_shown(keys, shown) -> None:
    assert shown_of(keys) == shown


def test_a_key_is_described_in_words() -> None:
    assert in_words("test_mean_absolute_error") == "mean absolute error"
