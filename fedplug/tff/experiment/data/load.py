"""Loads the data of a configuration from any source, and divides them among clients.

A partition gives each client disjoint positions, together all examples.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedplug.errors import ConfigError
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data.federated import Array, Examples, FederatedData, Pooled, load_npz
from fedplug.tff.experiment.data.sources import load_csv, load_digits, load_function, load_synthetic

__all__ = ["by_classes", "by_dirichlet", "given", "hold_out", "iid", "load_data", "spread"]

_MIN_EXAMPLES = 5
_ATTEMPTS = 1000


def load_data(config: DataConfig, seed: int, folder: Path = Path()) -> FederatedData:
    """Loads the data of a configuration, with the split of a seed.

    Args:
        config: The data source and the division among clients.
        seed: The seed of the test split and the partition.
        folder: The folder of the configuration file, to which paths are relative.

    Raises:
        ConfigError: The source cannot be read, has invalid contents, or cannot be divided as configured.
        MissingDependencyError: The source needs a package that is not installed.
    """
    path = folder / Path(config.path).expanduser() if config.path else folder
    found: FederatedData | Pooled
    if config.source == "digits":
        found = load_digits(config, seed)
    elif config.source == "npz":
        found = load_npz(path)
    elif config.source == "csv":
        found = load_csv(path, config.label_column, config.client_column)
    elif config.source == "synthetic":
        found = load_synthetic(config.clients, config.alpha, config.beta, seed)
    else:
        found = load_function(config, path, seed, folder)
    return found if isinstance(found, FederatedData) else spread(found, config, seed)


def spread(pooled: Pooled, config: DataConfig, seed: int) -> FederatedData:
    """Holds out test examples if the source has none, and divides the others among the clients.

    Raises:
        ConfigError: The examples cannot be divided as configured.
    """
    (x, y), client, test = pooled
    labelled = y.ndim == 1 and y.dtype.kind == "i"
    kind = _partition(config.partition, client is not None, labelled)
    if test is None:
        groups = (
            client if kind == "given" and client is not None else y if labelled else np.zeros(len(y), int)
        )
        train, held_out = hold_out(groups, config.test_fraction, seed)
        if not len(held_out):
            raise ConfigError(
                f"test_fraction {config.test_fraction} of {len(y)} examples leaves no test example; use a "
                "larger fraction, or x_test and y_test"
            )
        test = Examples(x[held_out], y[held_out])
        x, y, client = x[train], y[train], None if client is None else client[train]
    positions = _positions(kind, config, y, client, seed)
    return FederatedData({name: Examples(x[at], y[at]) for name, at in positions.items()}, test)


def _partition(wanted: str, has_clients: bool, labelled: bool) -> str:
    if wanted == "auto":
        return "given" if has_clients else "dirichlet" if labelled else "iid"
    if wanted == "given" and not has_clients:
        raise ConfigError("partition is 'given', which needs client ids, but the data have none")
    if wanted in ("dirichlet", "classes") and not labelled:
        raise ConfigError(
            f"partition is {wanted!r}, but the labels are not classes; it must be 'iid' or 'given'"
        )
    return wanted


def _positions(kind: str, config: DataConfig, y: Array, client: Array | None, seed: int) -> dict[str, Array]:
    if kind == "given":
        assert client is not None
        return given(client)
    if kind == "iid":
        parts = iid(len(y), config.clients, seed)
    elif kind == "classes":
        parts = by_classes(y, config.clients, config.classes_per_client, seed)
    else:
        parts = by_dirichlet(y, config.clients, config.dirichlet, seed)
    return {f"client{i:03d}": part for i, part in enumerate(parts)}


def by_dirichlet(labels: Array, clients: int, concentration: float, seed: int) -> list[Array]:
    """Divides every class among the clients in Dirichlet-distributed shares.

    Source: Hsu, Qi & Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019 (arXiv 1909.06335). The draw is repeated until every client has at least 5 examples.

    Args:
        labels: Labels ``int32[n]``.
        clients: Number of clients.
        concentration: Concentration of the symmetric Dirichlet distribution.
        seed: The seed of the random draw.

    Returns:
        Positions in ``labels``: a disjoint ``int64`` vector per client, together all positions.

    Raises:
        ConfigError: No draw gave every client enough examples.
    """
    generator = np.random.default_rng(seed)
    for _ in range(_ATTEMPTS):
        parts: list[list[Array]] = [[] for _ in range(clients)]
        for label in np.unique(labels):
            members = generator.permutation(np.flatnonzero(labels == label))
            shares = generator.dirichlet(np.full(clients, concentration))
            cuts = (np.cumsum(shares)[:-1] * len(members)).astype(int)
            for part, piece in zip(parts, np.split(members, cuts), strict=True):
                part.append(piece)
        joined = [np.concatenate(part) for part in parts]
        if min(len(part) for part in joined) >= _MIN_EXAMPLES:
            return joined
    raise ConfigError(
        f"could not give each of {clients} clients {_MIN_EXAMPLES} of {len(labels)} examples with dirichlet "
        f"{concentration}; use fewer clients or a larger dirichlet"
    )


def by_classes(labels: Array, clients: int, classes_per_client: int, seed: int) -> list[Array]:
    """Gives every client the same number of shards of examples that are sorted by label.

    Most clients therefore have examples of at most ``classes_per_client`` classes. Source: McMahan et al.,
    "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017), section 3: 200 shards,
    2 per client.

    Args:
        labels: Labels ``int32[n]``.
        clients: Number of clients.
        classes_per_client: Number of shards per client.
        seed: The seed of the random draw.

    Raises:
        ConfigError: There are fewer examples than shards.
    """
    shards = clients * classes_per_client
    if shards > len(labels):
        raise ConfigError(
            f"there are {len(labels)} examples for {clients} clients with classes_per_client "
            f"{classes_per_client}, which are {shards} shards; use fewer of either"
        )
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(len(labels))
    by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
    pieces = np.array_split(by_label, shards)
    dealt = generator.permutation(shards).reshape(clients, classes_per_client)
    return [np.concatenate([pieces[shard] for shard in mine]) for mine in dealt]


def iid(examples: int, clients: int, seed: int) -> list[Array]:
    """Divides examples evenly and at random.

    Raises:
        ConfigError: There are fewer examples than clients.
    """
    if clients > examples:
        raise ConfigError(f"clients is {clients}; it must be at most the number of examples, {examples}")
    return list(np.array_split(np.random.default_rng(seed).permutation(examples), clients))


def given(client: Array) -> dict[str, Array]:
    """Returns the positions of every client's examples, by its id as text, sorted."""
    names = client.astype(str)
    ids, owners = np.unique(names, return_inverse=True)
    order = np.argsort(owners, kind="stable")
    pieces = np.split(order, np.cumsum(np.bincount(owners))[:-1])
    return {str(name): piece for name, piece in zip(ids, pieces, strict=True)}


def hold_out(groups: Array, fraction: float, seed: int) -> tuple[Array, Array]:
    """Splits positions into training and test, with the same fraction of every group.

    Args:
        groups: The group of every example, ``[n]``, for example its label or its client.
        fraction: Fraction of a group to hold out, rounded; at least one example stays for training.
        seed: The seed of the random choice.

    Returns:
        The positions for training and those for the test, each ascending.
    """
    generator = np.random.default_rng(seed)
    chosen = np.zeros(len(groups), bool)
    for group in np.unique(groups):
        members = generator.permutation(np.flatnonzero(groups == group))
        chosen[members[: min(round(fraction * len(members)), len(members) - 1)]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
