"""The displayed metric of a row."""

from fedplug.experiment.metric import in_words, row_keys, shown_of


def test_metrics_are_those_of_the_test_examples() -> None:
    assert row_keys(["mean_squared_error", "bias"]) == ("test_mean_squared_error", "test_bias")


def test_the_first_of_the_many_accuracies_is_the_accuracy() -> None:
    names = ["sparse_categorical_accuracy", "top_k_accuracy"]
    assert row_keys(names) == ("test_accuracy", "test_top_k_accuracy")


def test_two_metrics_never_share_a_key() -> None:
    names = ["sparse_categorical_accuracy", "accuracy"]
    assert row_keys(names) == ("test_sparse_categorical_accuracy", "test_accuracy")


def test_the_accuracy_is_shown_wherever_it_stands() -> None:
    assert shown_of(["round", "test_loss", "test_accuracy"]) == "test_accuracy"


def test_without_an_accuracy_the_first_that_was_measured_is_shown() -> None:
    assert shown_of(["round", "test_loss", "test_bias"]) == "test_loss"


def test_nothing_is_shown_where_nothing_was_measured() -> None:
    assert shown_of(["round", "uplink_bytes"]) is None


def test_a_key_is_told_in_words() -> None:
    assert in_words("test_mean_absolute_error") == "mean absolute error"
