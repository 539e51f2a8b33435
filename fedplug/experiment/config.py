"""The configuration file of an experiment: what may be in it, and clear errors for everything else.

The dataclasses are the documentation of the format: a table of the TOML file each, their fields its keys.
Must not import TensorFlow, so that a mistake is reported at once.
"""

from __future__ import annotations

import dataclasses
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_type_hints

from fedplug.errors import ConfigError, UnknownNameError

__all__ = ["DataConfig", "ExperimentConfig", "ModelConfig", "OptimizerConfig", "RunConfig", "load_config"]

EncoderChoice = str | dict[str, Any] | list[Any]
"""An expression such as ``"topk(0.01)"``, or rules: a table of expressions by pattern of variable names, or
an array of tables, see `fedplug.encoders.Rules`."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """``[data]``: which images, and how they are spread over the clients.

    Attributes:
        source: ``"digits"``, scikit-learn's 1,797 handwritten digits of 8 x 8 pixels.
        clients: Number of clients.
        dirichlet: Concentration of the label skew; smaller is more skewed.
        test_fraction: Of the images, held out for the test accuracy.
        batch_size: Of local training.
        epochs: Passes over its data that a client makes in a round.
    """

    source: str = "digits"
    clients: int = 40
    dirichlet: float = 0.3
    test_fraction: float = 0.2
    batch_size: int = 10
    epochs: int = 1

    def __post_init__(self) -> None:
        if self.source != "digits":
            raise UnknownNameError("data source", self.source, ["digits"])
        _check(self.clients >= 1, "clients", self.clients, "at least 1")
        _check(self.dirichlet > 0, "dirichlet", self.dirichlet, "above 0")
        _check(0 < self.test_fraction < 1, "test_fraction", self.test_fraction, "between 0 and 1")
        _check(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")
        _check(self.epochs >= 1, "epochs", self.epochs, "at least 1")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """``[model]``: a Keras classifier.

    Attributes:
        filters: Of its 3 x 3 convolutions, in order; none for a dense network.
        hidden: Widths of its dense hidden layers, in order.
    """

    filters: tuple[int, ...] = ()
    hidden: tuple[int, ...] = (128, 64)

    def __post_init__(self) -> None:
        for key in ("filters", "hidden"):
            widths = getattr(self, key)
            _check(
                all(isinstance(w, int) and not isinstance(w, bool) and w >= 1 for w in widths),
                key,
                list(widths),
                "whole numbers of at least 1",
            )


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """``[client_optimizer]`` and ``[server_optimizer]``: SGD.

    Attributes:
        learning_rate: Step size.
        momentum: Below 1; 0 for none.
    """

    learning_rate: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check(self.learning_rate > 0, "learning_rate", self.learning_rate, "above 0")
        _check(0 <= self.momentum < 1, "momentum", self.momentum, "at least 0 and below 1")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """``[[runs]]``: one of the runs to compare.

    Attributes:
        name: In the table, the plot and the metrics; unique.
        encoder: An expression such as ``"topk(0.01)"``, or rules such as ``{"*/bias" = "identity", "*" =
            "topk(0.01)"}``.
        broadcast_encoder: The same for the downlink; empty: the model is sent uncompressed.
        aggregator: An expression such as ``"mean"``.
        min_size: Tensors with fewer elements are sent uncompressed.
        proximal_strength: Above 0 it is FedProx, see `fedplug.process.ProximalOptimizer`.
    """

    name: str
    encoder: EncoderChoice = "identity"
    broadcast_encoder: EncoderChoice = ""
    aggregator: str = "mean"
    min_size: int = 64
    proximal_strength: float = 0.0

    def __post_init__(self) -> None:
        _check(bool(self.name.strip()), "name", self.name, "some text")
        _check(self.min_size >= 0, "min_size", self.min_size, "at least 0")
        _check(self.proximal_strength >= 0, "proximal_strength", self.proximal_strength, "at least 0")


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """The top level of the file.

    Attributes:
        name: Of the folder the results go to; letters, digits, ``-`` and ``_``.
        rounds: Of every run.
        clients_per_round: Sampled without replacement.
        seed: Of everything: split, initial weights, sampling, shuffling.
        repeats: How often every run is made, with the seeds ``seed``, ``seed + 1`` and so on.
        target_accuracy: The report has the rounds and the bytes that every run needs to reach it; 0 for none.
        tensor_metrics: Whether the rows of the metrics also have what became of each tensor.
        runtime: ``"inprocess"`` or ``"native"``.
        store: Scheme of the client-state store, for instance ``"sqlite"``.
        runs: At least one.
    """

    name: str
    rounds: int
    clients_per_round: int = 10
    seed: int = 0
    repeats: int = 1
    target_accuracy: float = 0.0
    tensor_metrics: bool = False
    runtime: str = "inprocess"
    store: str = "sqlite"
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    client_optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(learning_rate=0.05))
    server_optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    runs: tuple[RunConfig, ...] = ()

    def __post_init__(self) -> None:
        plain = self.name.replace("-", "").replace("_", "")
        _check(plain.isascii() and plain.isalnum(), "name", self.name, "letters, digits, '-' and '_'")
        _check(self.rounds >= 1, "rounds", self.rounds, "at least 1")
        _check(
            1 <= self.clients_per_round <= self.data.clients,
            "clients_per_round",
            self.clients_per_round,
            f"between 1 and the number of clients, {self.data.clients}",
        )
        _check(self.seed >= 0, "seed", self.seed, "at least 0")
        _check(self.repeats >= 1, "repeats", self.repeats, "at least 1")
        _check(0 <= self.target_accuracy <= 1, "target_accuracy", self.target_accuracy, "between 0 and 1")
        if not self.runs:
            raise ConfigError("there is no [[runs]]; write one for each run to compare")
        names = [run.name for run in self.runs]
        _check(len(set(names)) == len(names), "[[runs]] name", names, "different for every run")

    @property
    def seeds(self) -> range:
        """Of the repetitions."""
        return range(self.seed, self.seed + self.repeats)

    def as_dict(self) -> dict[str, Any]:
        """All values, defaults too, as JSON values."""
        values: dict[str, Any] = _plain(dataclasses.asdict(self))
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> Self:
        """The inverse of `as_dict`; a key from after it was written has its default, as it then had.

        Raises:
            ConfigError: As `load_config`, of the values in ``where``.
        """
        config: Self = _read(cls, values, where)
        return config


def load_config(path: str | Path) -> ExperimentConfig:
    """Reads and checks a configuration file.

    Raises:
        ConfigError: The file cannot be read or is not TOML; a key is unknown, missing or of the wrong type; a
            value is out of range. The message names file, table and key.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8: {error}") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    return ExperimentConfig.from_dict(table, str(path))


def _read(cls: Any, table: Mapping[str, Any], where: str) -> Any:
    """Makes a dataclass from a TOML table, checking keys, types and values; errors say ``where`` it is."""
    types = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for key in table:
        if key not in fields:
            raise UnknownNameError("key", key, fields, where)
    values = {}
    for name, spec in fields.items():
        if name in table:
            values[name] = _convert(types[name], name, table[name], where)
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where} lacks the key {name!r}")
    try:
        return cls(**values)
    except UnknownNameError as error:
        raise UnknownNameError(error.kind, error.name, error.known, where) from error
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _convert(expected: Any, key: str, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(expected):
        _must(isinstance(value, dict), key, value, where, "a table")
        return _read(expected, value, f"[{key}] of {where}")
    if expected == tuple[RunConfig, ...]:
        tables = isinstance(value, list) and all(isinstance(item, dict) for item in value)
        _must(tables, key, value, where, "an array of tables, [[runs]]")
        return tuple(
            _read(RunConfig, item, f"[[runs]] number {i} of {where}") for i, item in enumerate(value, start=1)
        )
    if expected == EncoderChoice:
        _must(isinstance(value, str | dict | list), key, value, where, "an expression or rules")
        return value
    if expected == tuple[int, ...]:
        _must(isinstance(value, list), key, value, where, "a list of whole numbers")
        return tuple(value)
    if expected is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        _must(number, key, value, where, "a number")
        _must(abs(value) <= sys.float_info.max, key, value, where, "finite")
        return float(value)
    kinds = {bool: "true or false", int: "a whole number", str: "text"}
    right = isinstance(value, expected) and isinstance(value, bool) == (expected is bool)
    _must(right, key, value, where, kinds[expected])
    return value


def _must(condition: bool, key: str, value: object, where: str, rule: str) -> None:
    if not condition:
        raise ConfigError(f"{where}: {key} is {value!r}; it must be {rule}")


def _check(condition: bool, key: str, value: object, rule: str) -> None:
    if not condition:
        raise ConfigError(f"{key} is {value!r}; it must be {rule}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    return value
