"""Factorizes a rating matrix; the embedding of a user never leaves the user's client.

A rating is predicted as ``mean + item . user + item's bias + user's bias``. The items' part is averaged over
clients. The user's embedding is a local variable, stored by user id between rounds. Four predictions are
compared: the mean of an item, and the model with embeddings that are reset every round, kept, or kept while
the items' updates are compressed.

It reads MovieLens files (ml-100k's u.data, ml-1m's ratings.dat), or generates ratings of known low rank.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tqdm import tqdm

import fedplug
from fedplug.errors import ConfigError

BATCH, HELD_OUT = 8, 0.2


class Ratings(NamedTuple):
    """Ratings, one per row; users and items are numbered from 0.

    Attributes:
        user: User ids, int32[n].
        item: Item ids, int32[n].
        rating: Ratings, float32[n].
        factors: The items' true factors, float32[items, rank]; None if they are unknown.
    """

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    factors: np.ndarray | None = None


class Model(NamedTuple):
    """The learned model: ``items[:, :-1]`` and ``users[:, :-1]`` are embeddings, the last columns biases."""

    mean: float
    items: np.ndarray
    users: np.ndarray

    def predict(self, data: Ratings) -> np.ndarray:
        """Returns the predicted ratings, float32[n]."""
        item, user = self.items[data.item], self.users[data.user]
        return self.mean + (item[:, :-1] * user[:, :-1]).sum(axis=1) + item[:, -1] + user[:, -1]


def read_movielens(path: Path) -> Ratings:
    """Reads ``user item rating timestamp`` rows, separated by tabs (ml-100k) or ``::`` (ml-1m).

    Raises:
        ConfigError: The file is empty, or a row does not have at least a user, an item and a rating.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), start=1):
        fields = line.split("::") if "::" in line else line.split("\t")
        try:
            rows.append((int(fields[0]), int(fields[1]), float(fields[2])))
        except (IndexError, ValueError) as error:
            raise ConfigError(
                f"{path}, line {number}: {line!r} is not user, item, rating, separated by tabs or '::'"
            ) from error
    if not rows:
        raise ConfigError(f"{path} holds no ratings")
    users, items, ratings = zip(*rows, strict=True)
    return Ratings(
        np.unique(users, return_inverse=True)[1].astype(np.int32),
        np.unique(items, return_inverse=True)[1].astype(np.int32),
        np.array(ratings, np.float32),
    )


def make_ratings(users: int, items: int, per_user: int, rank: int, noise: float, seed: int) -> Ratings:
    """Generates ratings 3.5 + item . user + item's bias + noise."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(items, rank)).astype(np.float32)
    tastes = rng.normal(size=(users, rank)).astype(np.float32) / np.float32(np.sqrt(rank))
    user = np.repeat(np.arange(users, dtype=np.int32), per_user)
    item = np.concatenate([rng.choice(items, per_user, replace=False) for _ in range(users)]).astype(np.int32)
    rating = 3.5 + (factors[item] * tastes[user]).sum(axis=1) + rng.normal(0, 0.5, items)[item]
    return Ratings(user, item, (rating + rng.normal(0, noise, len(user))).astype(np.float32), factors)


def split(data: Ratings, seed: int) -> tuple[Ratings, Ratings]:
    """Holds out a random fifth of all ratings for the test."""
    held_out = np.random.default_rng(seed).random(len(data.user)) < HELD_OUT
    return tuple(
        Ratings(data.user[rows], data.item[rows], data.rating[rows], data.factors)
        for rows in (~held_out, held_out)
    )


class UserEmbedding(tf.keras.layers.Layer):
    """The local layer: one vector for the only user of this client."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.vector = self.add_weight("vector", shape=(rank + 1,), initializer="zeros")

    def call(self, item: tf.Tensor) -> tf.Tensor:
        """Maps items, float32[batch, rank + 1], to ratings minus their mean, float32[batch]."""
        return tf.linalg.matvec(item[:, :-1], self.vector[:-1]) + item[:, -1] + self.vector[-1]


def build_process(items: int, rank: int, encoder: str) -> fedplug.tff.process.StatefulClientsProcess:
    """Builds the process: items are global, the user is local, and each has its own optimizer."""

    def model_fn() -> tff.learning.models.ReconstructionModel:
        initializer = tf.keras.initializers.RandomNormal(stddev=0.3, seed=1)
        item, user = tf.keras.layers.Embedding(items, rank + 1, initializer), UserEmbedding(rank)
        number = tf.keras.Input((), dtype=tf.int32)
        return tff.learning.models.ReconstructionModel.from_keras_model_and_layers(
            tf.keras.Model(number, user(item(number))),
            global_layers=[item],
            local_layers=[user],
            input_spec=(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float32)),
        )

    return fedplug.tff.process.build_local_variables_fed_avg(
        model_fn,
        tf.keras.losses.MeanSquaredError,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
        local_optimizer_fn=tff.learning.optimizers.build_sgdm(0.05),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0, 0.9),
        encoder=encoder,
    )


class Result(NamedTuple):
    """RMSE of held-out ratings after half of the rounds and at the end; bytes a client sends in a round.

    ``recovered`` is the share of the true item factors' variance that the learned embeddings explain.
    """

    half: float
    end: float
    bytes_sent: float
    recovered: float | None


class Federation:
    """The users as clients, each with its own ratings, and the held-out ratings."""

    def __init__(self, data: Ratings, rank: int, clients_per_round: int, seed: int) -> None:
        self.train, self.test = split(data, seed)
        self.rank, self.clients_per_round, self.seed = rank, clients_per_round, seed
        self.users, self.items = data.user.max() + 1, data.item.max() + 1
        self.mean = float(self.train.rating.mean())
        by_user = np.argsort(self.train.user, kind="stable")
        cuts = np.searchsorted(self.train.user[by_user], np.arange(1, self.users))
        self.datasets = {
            f"user {number:05d}": tf.data.Dataset.from_tensor_slices(
                (self.train.item[rows], self.train.rating[rows] - np.float32(self.mean))
            ).batch(BATCH)
            for number, rows in enumerate(np.split(by_user, cuts))
        }

    def rmse(self, predicted: np.ndarray) -> float:
        """Returns the RMSE of predictions of the held-out ratings."""
        return float(np.sqrt(np.mean((predicted - self.test.rating) ** 2)))

    def item_means(self) -> float:
        """Returns the RMSE of an item's mean rating, or of the overall mean if the item has no ratings."""
        sums = np.bincount(self.train.item, self.train.rating, self.items)
        counts = np.bincount(self.train.item, minlength=self.items)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), self.mean)
        return self.rmse(means[self.test.item])

    def fit(self, name: str, encoder: str, rounds: int, reset: bool = False) -> Result:
        """Trains; with ``reset`` every client restarts its embedding in each of its rounds."""
        process = build_process(int(self.items), self.rank, encoder)
        trainer = fedplug.Trainer(
            process, self.datasets, clients_per_round=self.clients_per_round, seed=self.seed
        )
        state, bytes_sent, rmse = trainer.initialize(), [], {}
        new_client = process.initialize_client()
        for round_num in tqdm(range(1, rounds + 1), desc=name, unit="round"):
            chosen = trainer.select(round_num)
            if reset:
                output = process.next(state, [c.dataset for c in chosen], [new_client] * len(chosen))
                state, metrics = output["state"], output["metrics"]
            else:
                state, metrics = trainer.next(state, chosen)
            bytes_sent.append(metrics["aggregator"]["uplink_bytes"] / len(chosen))
            if round_num in (rounds // 2, rounds):
                kept = trainer.client_states(list(self.datasets)).values()
                starts = [new_client] * len(self.datasets) if reset else list(kept)
                # Before the prediction, a client trains its embedding for the current items.
                users = process.next(state, list(self.datasets.values()), starts)["client_states"]
                model = Model(
                    self.mean,
                    np.asarray(state.global_model_weights.trainable[0]),
                    np.array([user["local"].trainable[0] for user in users]),
                )
                rmse[round_num] = self.rmse(model.predict(self.test))
        recovered = None if self.train.factors is None else explained(self.train.factors, model.items)
        return Result(rmse[rounds // 2], rmse[rounds], float(np.mean(bytes_sent)), recovered)


def explained(factors: np.ndarray, embeddings: np.ndarray) -> float:
    """Returns the R^2 of the true factors, known up to a linear map, regressed on the learned embeddings."""
    x = embeddings - embeddings.mean(axis=0)
    y = factors - factors.mean(axis=0)
    left = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return float(1 - (left**2).sum() / (y**2).sum())


def compare(federation: Federation, rounds: int) -> dict[str, Result]:
    """Trains on the same clients in the same rounds; only the embedding and the encoder differ."""
    with fedplug.use_runtime("inprocess"):
        return {
            "reset every round": federation.fit("reset every round", "identity", rounds, reset=True),
            "kept": federation.fit("kept", "identity", rounds),
            "kept, top-k 10 %": federation.fit("kept, top-k 10 %", "topk(0.1)", rounds),
        }


def main() -> None:
    """Reads the arguments, trains three ways and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", type=Path, metavar="FILE", help="ml-100k u.data or ml-1m ratings.dat")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.ratings:
        data = read_movielens(arguments.ratings)
    else:
        data = make_ratings(600, 120, 40, arguments.rank, 0.3, arguments.seed)
    federation = Federation(data, arguments.rank, clients_per_round=30, seed=arguments.seed)
    results = compare(federation, arguments.rounds)
    print(f"\n{federation.users} users, {federation.items} items, {len(data.user)} ratings")
    print(f"{'':18}  RMSE at half  at the end  bytes/client/round  factors recovered")
    print(f"{'mean of the item':18}  {'':12}  {federation.item_means():10.3f}")
    for name, (half, end, bytes_sent, recovered) in results.items():
        found = "" if recovered is None else f"{recovered:17.3f}"
        print(f"{name:18}  {half:12.3f}  {end:10.3f}  {bytes_sent:18,.0f}  {found}")


if __name__ == "__main__":
    main()
