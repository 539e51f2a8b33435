"""A pretrained character model learns a play from its roles; plays and models that are none are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fedplug.errors import ConfigError

SHAKESPEARE = Path(__file__).parents[3] / "shared" / "data" / "tinyshakespeare.txt"


@pytest.fixture(scope="module")
def example(load_example):
    return load_example("character_model")


@pytest.mark.slow
def test_a_fine_tuned_model_is_closer_to_the_other_author_plain_and_writes(example, tmp_path) -> None:
    tf.keras.utils.set_random_seed(0)
    pretrained = example.build_model(units=16)
    example.pretrain(pretrained, example.make_speech("plain", 300, np.random.default_rng(0)), epochs=2)
    federation = example.federate(example.make_play(roles=4, sentences=20, seed=0))
    result = example.fine_tune(pretrained, federation, rounds=6, clients_per_round=4)
    assert result.accuracy[-1] > result.accuracy[0] + 0.02
    assert result.up < result.dense / 4
    assert result.down < result.dense
    result.model.save(tmp_path / "model.keras")
    loaded = example.load_model(tmp_path / "model.keras")
    for got, want in zip(loaded.get_weights(), result.model.get_weights(), strict=True):
        np.testing.assert_array_equal(got, want)
    texts = [example.write(result.model, "By heaven", 20, seed=seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert all(text.startswith("By heaven") and len(text) == 29 for text in texts)


def test_the_accuracy_is_over_all_places_of_all_rows(example) -> None:
    y = np.array([[1, 2], [3, 4]], np.int32)
    guesses = np.array([[1, 2], [3, 0]])
    metric = example.FlattenedCategoricalAccuracy()
    metric.update_state(y, np.eye(len(example.CHARACTERS) + 1, dtype=np.float32)[guesses])
    assert float(metric.result()) == 0.75


def test_text_survives_conversion_to_numbers_except_unknown_characters(example) -> None:
    assert example.to_text(example.to_ids("To be,\nor not")) == "To be,\nor not"
    assert example.to_text(example.to_ids("naïve")) == "na?ve"


PLAYS = {
    "name and colon above": "First Citizen:\nSpeak.\n\nAll:\nSpeak, speak.\n\nFirst Citizen:\nYou: all?\n",
    "name and colon before": "First Citizen: Speak.\n\nAll: Speak, speak.\n\nFirst Citizen: You: all?",
    "capitals and full stop": "FIRST CITIZEN.\nSpeak.\n\nALL. Speak, speak.\n\nFIRST CITIZEN. You: all?",
}


@pytest.mark.parametrize("text", PLAYS.values(), ids=PLAYS)
def test_a_play_is_read_role_by_role(example, text) -> None:
    play = {role.lower(): speech for role, speech in example.read_play(text).items()}
    assert play == {"first citizen": "Speak.\nYou: all?\n", "all": "Speak, speak.\n"}


def test_a_paragraph_without_a_name_continues_the_speech(example) -> None:
    assert example.read_play("A Prologue.\n\nALL:\nOne.\n\nTwo.\n") == {"ALL": "One.\nTwo.\n"}


@pytest.mark.parametrize(
    ("text", "message"),
    [(" \n\n ", "the play is empty"), ("Once upon a time.\n\nThe end.", "nobody speaks in the play")],
)
def test_a_text_that_is_no_play_is_refused(example, text, message) -> None:
    with pytest.raises(ConfigError, match=message):
        example.read_play(text)


def test_a_role_that_says_too_little_has_no_client_and_a_play_of_such_is_refused(example) -> None:
    federation = example.federate({"HAMLET": "To be, or not to be. " * 20, "GHOST": "Swear!"})
    assert list(federation.clients) == ["HAMLET"]
    assert len(federation.test) == 1
    with pytest.raises(ConfigError, match="no role of the play says as much as 102 characters"):
        example.federate({"GHOST": "Swear!"})


def test_a_file_that_holds_another_model_or_none_is_refused(example, tmp_path) -> None:
    tf.keras.Sequential([tf.keras.layers.Embedding(5, 3, input_shape=(None,))]).save(tmp_path / "other.keras")
    with pytest.raises(ConfigError, match=r"turns two characters into \(1, 2, 3\); it must predict"):
        example.load_model(tmp_path / "other.keras")
    (tmp_path / "none.h5").write_text("no model")
    for name in ("none.h5", "missing.keras"):
        with pytest.raises(ConfigError, match=f"{name} cannot be read as a Keras model"):
            example.load_model(tmp_path / name)


@pytest.mark.skipif(not SHAKESPEARE.exists(), reason="the text of Shakespeare is not beside this checkout")
def test_the_plays_of_shakespeare_are_split_by_speaking_role(example) -> None:
    play = example.read_play(SHAKESPEARE.read_text(encoding="utf-8"))
    assert len(play) > 250
    assert {"ROMEO", "JULIET", "GLOUCESTER", "First Citizen"} <= set(play)
    assert play["First Citizen"].startswith("Before we proceed any further, hear me speak.")
    assert len(example.federate(play).clients) > 200
