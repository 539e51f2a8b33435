"""The configuration file of an experiment, with clear errors for everything that is invalid.

The dataclasses document the format: each is a table of the TOML file, and its fields are the keys. This
module does not import TensorFlow, so that mistakes are reported at once.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_type_hints

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.tff.experiment.display import Json

__all__ = [
    "PARTITIONS",
    "SOURCES",
    "DataConfig",
    "ExperimentConfig",
    "ModelConfig",
    "OptimizerConfig",
    "RunConfig",
    "check_clients_per_round",
    "load_config",
    "selected_runs",
]

EncoderChoice = str | dict[str, Json] | list[Json]
"""An expression such as ``"topk(0.01)"``, or rules: a table of expressions by pattern of variable names, or
an array of tables, see `fedplug.encoders.Rules`."""


SOURCES = ("csv", "digits", "npz", "synthetic")
"""Data sources by name. Other sources are functions, ``"package.module:function"``."""

PARTITIONS = ("auto", "classes", "dirichlet", "given", "iid")
"""Methods to divide examples among clients, see `fedplug.tff.experiment.data.load`."""

_DEEPEST = 50
_TOO_DEEP = "{} has values that are nested too deeply"

_KEYS_OF_SOURCES = {
    "label_column": ("csv",),
    "client_column": ("csv",),
    "alpha": ("synthetic",),
    "beta": ("synthetic",),
    "arguments": (),
}
"""The keys that only some sources read; a function may have ``arguments``, but none of the others."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """``[data]``: the examples, and how they are divided among the clients.

    Attributes:
        source: ``"digits"``, ``"npz"``, ``"csv"``, ``"synthetic"`` or ``"package.module:function"``, see
            `fedplug.tff.experiment.data`.
        path: The file, or the argument ``path`` of a function. Relative to the configuration's folder.
        arguments: Further arguments of a function.
        label_column: The column of a CSV file with the labels.
        client_column: The column of a CSV file with the clients' ids. Empty if there is none.
        alpha: The variation of the clients' models in Synthetic(alpha, beta).
        beta: The variation of the clients' inputs in Synthetic(alpha, beta).
        clients: Number of clients, if the data have no client ids.
        partition: The method: ``"dirichlet"``, ``"classes"``, ``"iid"``, or ``"given"`` for the client ids in
            the data. ``"auto"`` uses these ids if there are any, else the Dirichlet distribution of the
            labels, else equal parts.
        dirichlet: Concentration of the label skew. Smaller is more skewed.
        classes_per_client: Number of classes of each client, with the partition ``"classes"``.
        test_fraction: Fraction of examples to hold out for the test, if the data have no test examples.
        batch_size: Batch size of local training.
        epochs: Number of passes over its data that a client makes in a round.
    """

    source: str = "digits"
    path: str = ""
    arguments: dict[str, Json] = field(default_factory=dict)
    label_column: str = "label"
    client_column: str = ""
    alpha: float = 1.0
    beta: float = 1.0
    clients: int = 40
    partition: str = "auto"
    dirichlet: float = 0.3
    classes_per_client: int = 2
    test_fraction: float = 0.2
    batch_size: int = 10
    epochs: int = 1

    def __post_init__(self) -> None:
        if self.source not in SOURCES and ":" not in self.source:
            raise UnknownNameError("data source", self.source, [*SOURCES, "package.module:function"])
        if self.partition not in PARTITIONS:
            raise UnknownNameError("partition", self.partition, PARTITIONS)
        if self.source in ("npz", "csv"):
            _check(
                bool(self.path), "path", self.path, f"the path of a file, because source is {self.source!r}"
            )
        elif not self.from_function:
            _check(not self.path, "path", self.path, f"left out, because source is {self.source!r}")
        for key, sources in _KEYS_OF_SOURCES.items():
            reads = self.source in sources or (key == "arguments" and self.from_function)
            value = getattr(self, key)
            rule = f"left out, because source is {self.source!r}"
            _check(reads or value == _default(self, key), key, value, rule)
        _check(bool(self.label_column), "label_column", self.label_column, "the name of a column")
        _check_least(self, alpha=0, beta=0, clients=1, classes_per_client=1, batch_size=1, epochs=1)
        _check(self.dirichlet > 0, "dirichlet", self.dirichlet, "above 0")
        _check(0 < self.test_fraction < 1, "test_fraction", self.test_fraction, "between 0 and 1")

    @property
    def from_function(self) -> bool:
        """Whether the source is a function of the user."""
        return self.source not in SOURCES


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """``[model]``: a network of `fedplug.tff.experiment.model.builder`, or a model that a function builds.

    Attributes:
        filters: Numbers of filters of the network's 3 x 3 convolutions, in order. Empty for a dense network.
        hidden: Widths of the network's dense hidden layers, in order.
        build: ``"package.module:function"`` that returns a Keras or TFF model. Empty for the network of
            ``filters`` and ``hidden``.
        arguments: Arguments of the function.
        loss: A Keras loss by name, or ``"package.module:function"`` that returns one, chosen by the labels if
            empty.
        metrics: Keras metrics in the same form. The first is shown in the table and the picture.
    """

    filters: tuple[int, ...] = ()
    hidden: tuple[int, ...] = (128, 64)
    build: str = ""
    arguments: dict[str, Json] = field(default_factory=dict)
    loss: str = ""
    metrics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("filters", "hidden"):
            widths = getattr(self, key)
            _check(
                all(isinstance(w, int) and not isinstance(w, bool) and w >= 1 for w in widths),
                key,
                list(widths),
                "whole numbers of at least 1",
            )
            alone = not self.build or widths == _default(self, key)
            _check(alone, key, list(widths), f"left out, because {self.build!r} builds the model")
        _check(bool(self.build) or not self.arguments, "arguments", self.arguments, "left out without build")
        texts = all(isinstance(metric, str) and metric for metric in self.metrics)
        _check(texts, "metrics", list(self.metrics), "names of metrics")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """``[client_optimizer]`` and ``[server_optimizer]``: stochastic gradient descent.

    Attributes:
        learning_rate: Step size.
        momentum: Momentum, at least 0 and below 1; 0 for none.
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
        name: The unique name in the table, the plot and the metrics.
        encoder: An expression such as ``"topk(0.01)"``, or rules such as ``{"*/bias" = "identity", "*" =
            "topk(0.01)"}``.
        broadcast_encoder: The encoder of the broadcast; if empty, the model is sent uncompressed.
        aggregator: An expression such as ``"mean"``.
        min_size: Minimum number of elements. Smaller tensors are sent uncompressed.
        secure_sum: Whether only secure sums leave the clients, for an encoder such as ``"sharedk(0.01,
            clients=10)"``.
        proximal_strength: Strength of FedProx, see `fedplug.tff.process.ProximalOptimizer`; 0 for none.
    """

    name: str
    encoder: EncoderChoice = "identity"
    broadcast_encoder: EncoderChoice = ""
    aggregator: str = "mean"
    min_size: int = 64
    secure_sum: bool = False
    proximal_strength: float = 0.0

    def __post_init__(self) -> None:
        _check(bool(self.name.strip()), "name", self.name, "some text")
        _check_least(self, min_size=0, proximal_strength=0)


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """The top level of the file.

    Attributes:
        name: Name of the results' folder. Letters, digits, ``-`` and ``_``.
        rounds: Number of rounds of every run.
        clients_per_round: Number of clients per round, sampled without replacement.
        seed: Seed of the split, the initial weights, the sampling and the shuffling.
        repeats: Number of repetitions of every run, with the seeds ``seed``, ``seed + 1`` and so on.
        target_accuracy: Accuracy for which the report shows the necessary rounds and bytes; 0 for none.
        tensor_metrics: Whether the metrics include each tensor.
        runtime: ``"inprocess"`` or ``"native"``.
        store: Scheme of the client-state store, for example ``"sqlite"``.
        runs: The runs to compare; at least one.
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
        _check_least(self, rounds=1, seed=0, repeats=1)
        # If the data have their own clients, their number is known only after reading.
        most = self.data.clients if self.data.source in ("digits", "synthetic") else sys.maxsize
        check_clients_per_round(self.clients_per_round, most)
        _check(0 <= self.target_accuracy <= 1, "target_accuracy", self.target_accuracy, "between 0 and 1")
        if not self.runs:
            raise ConfigError("there is no [[runs]]; write one for each run to compare")
        names = [run.name for run in self.runs]
        _check(len(set(names)) == len(names), "[[runs]] name", names, "different for every run")

    @property
    def seeds(self) -> range:
        """The seeds of the repetitions."""
        return range(self.seed, self.seed + self.repeats)

    def as_dict(self) -> dict[str, Json]:
        """Returns all values including defaults as JSON values."""
        values: dict[str, Json] = _plain(dataclasses.asdict(self))
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Json], where: str) -> Self:
        """Creates a configuration from the result of `as_dict`. Missing keys have their defaults.

        Raises:
            ConfigError: A value in ``where`` is invalid. See `load_config`.
        """
        config: Self = _read(cls, values, where)
        return config


def load_config(path: str | Path, settings: Sequence[str] = ()) -> ExperimentConfig:
    """Reads and checks a configuration file.

    Args:
        path: The configuration file.
        settings: Overrides of values in the file, such as ``"rounds=20"`` or ``"data.clients=10"``: a key
            with its tables, and a TOML value. Other text counts as a string.

    Raises:
        ConfigError: The file cannot be read or is not TOML; a key is unknown, missing or of the wrong type,
            or a value is out of range. The message names file, table and key.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8: {error}") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(_TOO_DEEP.format(path)) from error
    for setting in settings:
        _set(table, setting)
    where = f"{path} with --set {' --set '.join(settings)}" if settings else str(path)
    _require_depth(table, where)
    return ExperimentConfig.from_dict(table, where)


def selected_runs(configs: Sequence[ExperimentConfig], only: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the names of the runs of each configuration that match a pattern. All without patterns.

    Raises:
        ConfigError: A pattern matches no run of any configuration.
    """
    names = [[run.name for run in config.runs] for config in configs]
    for pattern in only:
        if not any(fnmatch.fnmatchcase(name, pattern) for each in names for name in each):
            known = ", ".join(repr(name) for each in names for name in each)
            raise ConfigError(f"--only {pattern!r} matches no run; the runs are {known}")
    patterns = only or ["*"]
    return [
        tuple(name for name in each if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
        for each in names
    ]


def _require_depth(table: dict[str, Json], where: str) -> None:
    """Refuses deep values that the parser reads, as of a key a.a.a: later code recurses into them."""
    values: list[Json] = [table]
    for _ in range(_DEEPEST):
        values = [
            inner
            for value in values
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    if values:
        raise ConfigError(_TOO_DEEP.format(where))


def _set(table: dict[str, Json], setting: str) -> None:
    """Stores the value of ``"key=value"`` or ``"table.key=value"`` in the tables of a file."""
    path, equals, text = setting.partition("=")
    *tables, key = (part.strip() for part in path.split("."))
    if not equals or not all([*tables, key]):
        raise ConfigError(f"--set {setting!r} must have the form KEY=VALUE or TABLE.KEY=VALUE")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text.strip()
    for name in tables:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {setting!r} must name a key of a table, but {name} is not a table")
    table[key] = value


def _read(cls: type[Json], table: Mapping[str, Json], where: str) -> Json:
    """Creates a dataclass from a TOML table and checks keys, types and values. Errors name ``where``."""
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


def _convert(expected: Any, key: str, value: Json, where: str) -> Json:
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
    if expected == tuple[str, ...]:
        _must(isinstance(value, list), key, value, where, "a list of names")
        return tuple(value)
    if expected == dict[str, Json]:
        _must(isinstance(value, dict), key, value, where, "a table")
        return value
    if expected is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        _must(number, key, value, where, "a number")
        _must(abs(value) <= sys.float_info.max, key, value, where, "finite")
        return float(value)
    kinds = {bool: "true or false", int: "a whole number", str: "text"}
    right = isinstance(value, expected) and isinstance(value, bool) == (expected is bool)
    _must(right, key, value, where, kinds[expected])
    return value


def check_clients_per_round(sampled: int, clients: int) -> None:
    """Checks that the configured number of clients can be sampled.

    Raises:
        ConfigError: There are too few clients.
    """
    rule = "at least 1" if clients == sys.maxsize else f"between 1 and the number of clients, {clients}"
    _check(1 <= sampled <= clients, "clients_per_round", sampled, rule)


def _default(config: Json, key: str) -> Json:
    spec = type(config).__dataclass_fields__[key]
    return spec.default if spec.default is not dataclasses.MISSING else spec.default_factory()


def _must(condition: bool, key: str, value: object, where: str, rule: str) -> None:
    if not condition:
        raise ConfigError(f"{where}: {key} is {value!r}; it must be {rule}")


def _check(condition: bool, key: str, value: object, rule: str) -> None:
    if not condition:
        raise ConfigError(f"{key} is {value!r}; it must be {rule}")


def _check_least(config: Json, **least: int) -> None:
    for key, number in least.items():
        value = getattr(config, key)
        _check(value >= number, key, value, f"at least {number}")


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    return value
