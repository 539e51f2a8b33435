"""Fine-tunes a pretrained character model on a play, with a client per role and compression both ways.

Plain Keras trains a GRU on the text of one author, or a file provides the model. The example then fine-tunes
it on another author: every speaking role of a play is a client that keeps its lines, and only compressed
updates are sent. The result is a plain Keras model, which can be saved and writes a few lines before and
after.

It reads any play in which a speech begins with the name of its role, such as "HAMLET:" or "HAMLET.". Without
a file it generates texts of two authors, one plain and one with archaic words.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tqdm import tqdm

import fedplug
from fedplug.errors import ConfigError

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  # a model's characters; 0 is any other
LENGTH, BATCH = 50, 16

ROLE = re.compile(r"(?P<role>[A-Z][\w' ]{0,39}:|[A-Z][A-Z' ]{1,39}\.)[ \t]*(?=\S|\n)")


# Text ------------------------------------------------------------------------------------------------------


def read_play(text: str) -> dict[str, str]:
    """Returns the text of each role by name.

    A speech begins with a paragraph that begins with a name: "Name:" or "NAME.", with or without more text on
    the line. Other paragraphs continue the previous speech.

    Raises:
        ConfigError: The text is empty, or has no speeches.
    """
    if not text.strip():
        raise ConfigError("the play is empty")
    speeches: dict[str, list[str]] = {}
    role = ""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        begin = ROLE.match(paragraph)
        if begin:
            role = begin["role"][:-1].strip()
            paragraph = paragraph[begin.end() :].strip()
        if role and paragraph:
            speeches.setdefault(role, []).append(paragraph)
    if not speeches:
        raise ConfigError(
            "nobody speaks in the play; each speech must begin with a name, such as 'HAMLET:' or 'HAMLET.', "
            "after an empty line"
        )
    return {role: "\n".join(lines) + "\n" for role, lines in speeches.items()}


AUTHORS = {
    "plain": {
        "open": ["Well", "Look", "Listen", "I see", "No", "Yes"],
        "who": ["you", "we", "they", "all of you", "my friends"],
        "do": ["want", "need", "have", "know", "keep", "lose", "find"],
        "what": ["a house", "the money", "your car", "some time", "the answer", "a new job", "our train"],
        "end": ["today", "in the morning", "and that is all", "as I told you", "before lunch"],
    },
    "old": {
        "open": ["O sweet", "Hark", "Fie upon it", "Alas", "Good my lord", "By heaven", "What ho"],
        "who": ["thou", "thine enemy", "the gentle queen", "my noble lord", "thy father's ghost"],
        "do": ["hath", "dost seek", "shalt forswear", "wouldst betray", "doth guard", "may yet win"],
        "what": ["thy crown", "his bloody sword", "the kingdom", "mine honour", "this mortal grief"],
        "end": ["ere the morrow", "upon thy life", "and there's an end", "in sooth", "till doomsday"],
    },
}


def make_speech(author: str, sentences: int, rng: np.random.Generator) -> str:
    """Generates sentences without much sense, in the words of one of `AUTHORS`."""
    words = AUTHORS[author]
    lines = []
    for _ in range(sentences):
        first, who, do, what, end = (rng.choice(words[part]) for part in ("open", "who", "do", "what", "end"))
        lines.append(f"{first}, {who} {do} {what}\n{end}{rng.choice(list('.!?'))}")
    return "\n".join(lines) + "\n"


def make_play(roles: int, sentences: int, seed: int) -> dict[str, str]:
    """Generates a play by the archaic author."""
    rng = np.random.default_rng(seed)
    return {f"LORD {number}": make_speech("old", sentences, rng) for number in range(roles)}


def to_ids(text: str) -> np.ndarray:
    """Returns the character ids, int32[len(text)]."""
    number = {character: position for position, character in enumerate(CHARACTERS, start=1)}
    return np.array([number.get(character, 0) for character in text], np.int32)


def to_text(ids: np.ndarray) -> str:
    """Inverts `to_ids`; 0 becomes a question mark."""
    return "".join("?" if i == 0 else CHARACTERS[i - 1] for i in ids)


def windows(text: str) -> np.ndarray:
    """Splits the text into rows, int32[n, LENGTH + 1]; drops the last row if it is shorter."""
    ids = to_ids(text)
    return ids[: len(ids) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)


def dataset(rows: np.ndarray) -> tf.data.Dataset:
    """Returns batches of characters, each labeled with the next character."""
    return tf.data.Dataset.from_tensor_slices((rows[:, :-1], rows[:, 1:])).batch(BATCH)


class Federation(NamedTuple):
    """The datasets by client, and the test rows: the last tenth of each role's text, at least one row."""

    clients: dict[str, tf.data.Dataset]
    test: np.ndarray


def federate(play: dict[str, str]) -> Federation:
    """Makes a client for each role with at least two rows: one to train on and one to test on.

    Raises:
        ConfigError: No role has two rows.
    """
    rows = {role: windows(text) for role, text in play.items()}
    rows = {role: r for role, r in rows.items() if len(r) >= 2}
    if not rows:
        raise ConfigError(
            f"no role of the play says as much as {2 * (LENGTH + 1)} characters; there is nothing to learn"
        )
    held_out = {role: max(1, len(r) // 10) for role, r in rows.items()}
    return Federation(
        {role: dataset(r[: -held_out[role]]) for role, r in rows.items()},
        np.concatenate([r[-held_out[role] :] for role, r in rows.items()]),
    )


# Model -----------------------------------------------------------------------------------------------------

LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
INPUT_SPEC = (tf.TensorSpec([None, LENGTH], tf.int32), tf.TensorSpec([None, LENGTH], tf.int32))


class FlattenedCategoricalAccuracy(tf.keras.metrics.SparseCategoricalAccuracy):
    """The share of characters predicted correctly, over all positions of all rows."""

    def __init__(self, name: str = "accuracy", dtype: object = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: object = None) -> tf.Tensor:
        """Takes int32[batch, LENGTH] and float32[batch, LENGTH, characters]."""
        flat = tf.reshape(y_pred, [-1, len(CHARACTERS) + 1])
        return super().update_state(tf.reshape(y_true, [-1, 1]), flat, sample_weight)


def build_model(units: int) -> tf.keras.Model:
    """Returns a model: an embedding, a GRU over the preceding characters, and the logits of the next one."""
    count = len(CHARACTERS) + 1
    return tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(count, 32, input_shape=(None,)),
            tf.keras.layers.GRU(units, return_sequences=True),
            tf.keras.layers.Dense(count),
        ]
    )


def load_model(path: Path) -> tf.keras.Model:
    """Reads a .keras or .h5 file.

    Raises:
        ConfigError: There is no file, or no model of these characters in it.
    """
    try:
        model = tf.keras.models.load_model(path, compile=False)
        shape = model(np.zeros((1, 2), np.int32)).shape
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as a Keras model: {error}") from error
    if tuple(shape) != (1, 2, len(CHARACTERS) + 1):
        raise ConfigError(
            f"the model in {path} turns two characters into {tuple(shape)}; it must predict the next of "
            f"{len(CHARACTERS) + 1} characters at each of them, (1, 2, {len(CHARACTERS) + 1})"
        )
    return model


def pretrain(model: tf.keras.Model, text: str, epochs: int) -> None:
    """Trains the model with plain Keras."""
    model.compile("adam", LOSS)
    data = dataset(windows(text)).shuffle(10_000, seed=0)
    for _ in tqdm(range(epochs), desc="pretraining", unit="epoch"):
        model.fit(data, verbose=0)


def accuracy(model: tf.keras.Model, rows: np.ndarray) -> float:
    """Returns the accuracy over the characters of all rows."""
    metric = FlattenedCategoricalAccuracy()
    for x, y in dataset(rows).unbatch().batch(256):
        metric.update_state(y, model(x))
    return float(metric.result())


def write(model: tf.keras.Model, beginning: str, length: int, temperature: float = 0.5, seed: int = 0) -> str:
    """Continues a text; each character is sampled from the model's distribution."""
    rng = np.random.default_rng(seed)
    ids = list(to_ids(beginning))
    forward = tf.function(model, input_signature=[tf.TensorSpec([1, LENGTH], tf.int32)])
    for _ in range(length):
        last = np.array(ids[-LENGTH:], np.int32)
        logits = (
            forward(np.pad(last, (0, LENGTH - len(last)))[np.newaxis])[0, len(last) - 1].numpy() / temperature
        )
        chances = np.exp(logits[1:] - logits[1:].max())
        ids.append(1 + rng.choice(len(chances), p=chances / chances.sum()))
    return to_text(ids)


# Federated fine-tuning -------------------------------------------------------------------------------------


class Result(NamedTuple):
    """The fine-tuned model, the accuracy before and after every round, and the bytes of a client in a round.

    ``up`` and ``down`` are the mean bytes sent by and to a client; ``dense`` are those of the whole model.
    """

    model: tf.keras.Model
    accuracy: list[float]
    up: float
    down: float
    dense: int


def fine_tune(
    model: tf.keras.Model, federation: Federation, rounds: int, clients_per_round: int, seed: int = 0
) -> Result:
    """Fine-tunes a copy of the model on the clients of the federation."""
    clients_per_round = min(clients_per_round, len(federation.clients))
    accuracies, up, down = [accuracy(model, federation.test)], [], []
    with fedplug.use_runtime("inprocess"):
        process = fedplug.tff.process.build_weighted_fed_avg(
            fedplug.tff.process.from_keras(model, LOSS, INPUT_SPEC),
            client_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
            encoder="topk(0.05) | float16 | rice",
            broadcast_encoder="bfp(5) | rans",
        )
        trainer = fedplug.Trainer(process, federation.clients, clients_per_round=clients_per_round, seed=seed)
        with tqdm(total=rounds, desc="fine-tuning", unit="round") as progress:

            def on_round(round_num: int, state: object, metrics: dict) -> None:
                trained = fedplug.tff.process.to_keras(model, state.global_model_weights)
                accuracies.append(accuracy(trained, federation.test))
                up.append(metrics["aggregator"]["uplink_bytes"] / clients_per_round)
                down.append(metrics["distributor"]["downlink_bytes"] / clients_per_round)
                progress.set_postfix(accuracy=f"{accuracies[-1]:.3f}")
                progress.update()

            state = trainer.run(rounds, on_round)
    trained = fedplug.tff.process.to_keras(model, state.global_model_weights)
    return Result(trained, accuracies, float(np.mean(up)), float(np.mean(down)), process.dense_bytes)


def main() -> None:
    """Reads the arguments, pretrains or loads, fine-tunes, and prints a table and some text."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--play", type=Path, metavar="FILE", help="what to fine-tune on; default: one made up"
    )
    parser.add_argument("--pretrain", type=Path, metavar="FILE", help="text to pretrain on; default: made up")
    parser.add_argument("--model", type=Path, metavar="FILE", help="a pretrained model, .keras or .h5")
    parser.add_argument("--save", type=Path, metavar="FILE", help="where the model goes, .keras or .h5")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tf.keras.utils.set_random_seed(arguments.seed)
    play = (
        read_play(arguments.play.read_text(encoding="utf-8"))
        if arguments.play
        else make_play(30, 60, arguments.seed)
    )
    federation = federate(play)
    if arguments.model:
        model = load_model(arguments.model)
    else:
        model = build_model(units=128)
        rng = np.random.default_rng(arguments.seed)
        plain = (
            arguments.pretrain.read_text(encoding="utf-8")
            if arguments.pretrain
            else make_speech("plain", 3000, rng)
        )
        pretrain(model, plain, epochs=4)
    result = fine_tune(model, federation, arguments.rounds, clients_per_round=10, seed=arguments.seed)
    print(f"\n{len(federation.clients)} roles, {len(federation.test) * LENGTH:,} characters to guess")
    print(f"accuracy {result.accuracy[0]:.3f} before, {result.accuracy[-1]:.3f} after")
    print(
        f"bytes per client and round: {result.up:,.0f} up, {result.down:,.0f} down; "
        f"uncompressed {result.dense:,}"
    )
    beginning = next(iter(play.values()))[:LENGTH]
    for when, writer in (("before", model), ("after", result.model)):
        print(f"\n--- {when} " + "-" * 60 + f"\n{write(writer, beginning, 200)}")
    if arguments.save:
        result.model.save(arguments.save)


if __name__ == "__main__":
    main()
