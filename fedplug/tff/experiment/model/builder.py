"""The model of an experiment: built from a seed, passed to TFF, and checked against the data first.

Keras losses and metrics have names as in a configuration, or come from a function. A name is that of a class,
``"MeanSquaredError"``, in any spelling of Keras: ``"mean_squared_error"``, ``"mse"``. Cross-entropies and
metrics with a threshold are configured for logits, unless the model ends in probabilities.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError, FedplugError, UnknownNameError
from fedplug.tff.experiment import imports
from fedplug.tff.experiment.config import ModelConfig
from fedplug.tff.experiment.data import FederatedData
from fedplug.tff.experiment.data.federated import Examples
from fedplug.tff.experiment.model.client_datasets import of_client
from fedplug.tff.structures import Structure

__all__ = ["ModelBuilder", "element_spec"]

_FEW = 32

_OF_TFF = tff.learning.models.VariableModel | tff.learning.models.FunctionalModel

_SHORT = {"mse": "mean_squared_error", "mae": "mean_absolute_error", "msle": "mean_squared_logarithmic_error"}
_BINARY = ("binary_accuracy", "binary_io_u")


def element_spec(data: FederatedData) -> Structure:
    """Returns the type of a batch of the clients' data: a pair for arrays, the dataset's own type otherwise.

    Raises:
        ConfigError: The first client's data are of an unsupported type.
    """
    first = of_client(data.clients, next(iter(data.clients)), 1)
    if isinstance(first, tf.data.Dataset):
        return first.element_spec
    return tuple(tf.TensorSpec([None, *array.shape[1:]], array.dtype) for array in first)


class ModelBuilder:
    """Builds the model of a configuration for the data of an experiment.

    Attributes:
        spec: The type of a batch.
    """

    def __init__(self, config: ModelConfig, data: FederatedData, folder: Path = Path()) -> None:
        """Builds the model once to check that it accepts the data.

        Args:
            config: The configuration of the model.
            data: The data of any seed. All have examples of the same type.
            folder: The folder of the configuration file, where functions are searched first.

        Raises:
            ConfigError: A function cannot be found or returns no model, or the model rejects the data.
        """
        self._config = config
        self._folder = folder
        self._model_fns: dict[int, Structure] = {}
        self._where = f"[model] build {config.build!r}" if config.build else "[model]"
        self.spec = element_spec(data)
        self._labels, self._outputs = _targets(data, self.spec)
        self._function = imports.function(config.build, "[model] build", folder) if config.build else None
        if self._function is None and self._outputs is None:
            raise ConfigError(
                "[model] has no build; it must name a function, because these data do not show the number of "
                "classes"
            )
        model = self.build(0)
        if isinstance(model, tf.keras.Model):
            self._check_keras(model, data)
        elif config.loss or config.metrics:
            raise ConfigError(
                f"{self._where} returned a model of TFF, which has its own loss and metrics: leave these out"
            )
        else:
            self._check_tff(model)

    def build(self, seed: int) -> Structure:
        """Builds a Keras model, or a `VariableModel` or `FunctionalModel` of `tff.learning.models`.

        Raises:
            ConfigError: The function fails, or returns something else.
        """
        if self._function is None:
            assert self._outputs is not None
            x = self.spec[0]
            return build_network(self._config, tf.TensorSpec(x.shape[1:], x.dtype), self._outputs, seed)
        tf.keras.utils.set_random_seed(seed)  # for functions that do not use the seed themselves
        offered = {"seed": seed, "element_spec": self.spec}
        model = imports.call(self._function, self._where, self._config.arguments, offered)
        if not isinstance(model, tf.keras.Model | _OF_TFF):
            raise ConfigError(
                f"{self._where} returned a {type(model).__name__}; it must be a Keras model, or a "
                "VariableModel or FunctionalModel of tff.learning.models"
            )
        if isinstance(model, tf.keras.Model):
            if model._is_compiled:
                raise ConfigError(
                    f"{self._where} returned a compiled model; write loss and metrics into [model]"
                )
            if not model.built:
                raise ConfigError(
                    f"{self._where} returned a model without weights; give its first layer an input shape"
                )
        return model

    def model_fn(self, seed: int) -> Callable[[], Structure] | Structure:
        """Returns TFF's model argument: a function or a `FunctionalModel`, always the same per seed."""
        if seed not in self._model_fns:
            self._model_fns[seed] = self._model_fn(seed)
        return self._model_fns[seed]

    def _model_fn(self, seed: int) -> Callable[[], Structure] | Structure:
        if isinstance(model := self.build(seed), tff.learning.models.FunctionalModel):
            return model

        def build() -> Structure:
            model = self.build(seed)
            if not isinstance(model, tf.keras.Model):
                return model
            return tff.learning.models.from_keras_model(
                model, loss=self.loss(model), input_spec=self.spec, metrics=self.metrics(model)
            )

        return build

    def initial_weights(self, seed: int) -> Structure:
        """Returns the initial `tff.learning.models.ModelWeights` of a training with this seed."""
        model = self.build(seed)
        if isinstance(model, tff.learning.models.FunctionalModel):
            return tff.learning.models.ModelWeights(*model.initial_weights)
        return tff.learning.models.ModelWeights.from_model(model)

    def loss(self, model: tf.keras.Model) -> tf.keras.losses.Loss:
        """Returns the configured loss, or the default for the labels."""
        name = self._config.loss or _defaults(self._labels, model)[0]
        return _made(name, "loss", tf.keras.losses, tf.keras.losses.Loss, model, self._folder)

    def metrics(self, model: tf.keras.Model) -> list[tf.keras.metrics.Metric]:
        """Returns new instances of the configured metrics, or the default for the labels."""
        names = self._config.metrics or _defaults(self._labels, model)[1:]
        module, base = tf.keras.metrics, tf.keras.metrics.Metric
        return [_made(name, "metric", module, base, model, self._folder) for name in names]

    def _check_keras(self, model: tf.keras.Model, data: FederatedData) -> None:
        names = [metric.name for metric in self.metrics(model)]
        if len(set(names)) != len(names):
            raise ConfigError(f"[model] metrics are called {names}; their names must be different")
        loss = self.loss(model)
        x, y = _few_examples(data.test)
        found, wanted = (tf.nest.map_structure(_typed, each) for each in ((x, y), self.spec))
        if found != wanted:
            raise ConfigError(f"test examples are {found}; they must be {wanted}, like those of the clients")
        try:
            predictions = model(x, training=False)
            self._check_outputs(loss, predictions)
            value = loss(y, predictions)
            for metric in self.metrics(model):
                metric.update_state(y, predictions)
        except FedplugError:
            raise
        except Exception as error:
            text = next(iter(str(error).strip().splitlines()), "")
            raise ConfigError(
                f"{self._where}: the model, with its loss and metrics, rejects examples {found}: "
                f"{type(error).__name__}: {text}"
            ) from error
        if value.shape.rank != 0:
            raise ConfigError(f"[model] loss has the shape {value.shape}; it must be one number per batch")

    def _check_outputs(self, loss: Structure, predictions: Structure) -> None:
        sparse = isinstance(loss, tf.keras.losses.SparseCategoricalCrossentropy)
        if sparse and self._outputs is not None and predictions.shape[-1] < self._outputs:
            raise ConfigError(
                f"y has labels up to {self._outputs - 1}, but {self._where} has {predictions.shape[-1]} "
                f"outputs; there must be at least {self._outputs}"
            )

    def _check_tff(self, model: Structure) -> None:
        found, wanted = (
            tff.types.tensorflow_to_type(self.spec),
            tff.types.tensorflow_to_type(model.input_spec),
        )
        if not wanted.is_assignable_from(found):
            raise ConfigError(
                f"{self._where} returned a model of {wanted}; it must accept the clients' data, {found}"
            )


def _few_examples(test: Structure) -> Structure:
    """Returns some test examples as one batch."""
    if isinstance(test, tf.data.Dataset):
        return next(iter(test))
    return tf.nest.map_structure(lambda array: tf.constant(array[:_FEW]), tuple(test))


def _targets(data: FederatedData, spec: Structure) -> tuple[bool, int | None]:
    """Returns whether the targets are labels, and the output width. None if the data do not show it."""
    pair = isinstance(spec, tuple | list) and len(spec) == 2
    target = spec[1] if pair else spec.get("y") if isinstance(spec, Mapping) else None
    if not isinstance(target, tf.TensorSpec):
        return False, None
    if not target.dtype.is_integer:
        return False, int(target.shape[1:].num_elements() or 1)
    everywhere = [*data.clients.values(), data.test] if isinstance(data.clients, dict) else [None]
    if target.shape.rank != 1 or not all(isinstance(each, Examples) for each in everywhere):
        return True, None
    return True, 1 + max(int(each.y.max()) for each in everywhere)


def _typed(value: Structure) -> str:
    return f"{value.dtype.name}{[None, *value.shape[1:]]}".replace("None", "batch")


def build_network(config: ModelConfig, inputs: tf.TensorSpec, outputs: int, seed: int) -> tf.keras.Model:
    """Builds a Keras model without a final activation. Equal seeds give equal weights.

    Args:
        config: The widths of its layers.
        inputs: The type of one example. Whole numbers are converted to floating-point numbers.
        outputs: Width of the last layer.
        seed: The seed of the initial weights.

    Raises:
        ConfigError: There are convolutions, but the inputs are not images ``[height, width, channels]``.
    """
    if config.filters and len(inputs.shape) != 3:
        raise ConfigError(
            f"[model] filters is {list(config.filters)}; it must be left out, because inputs of shape "
            f"{list(inputs.shape)} are not images [height, width, channels]"
        )
    initializers = map(tf.keras.initializers.GlorotUniform, itertools.count(seed))
    layers: list[Structure] = [tf.keras.layers.InputLayer(tuple(inputs.shape), dtype=inputs.dtype)]
    if not inputs.dtype.is_floating:
        layers.append(tf.keras.layers.Rescaling(1.0))
    layers += [
        tf.keras.layers.Conv2D(n, 3, padding="same", activation="relu", kernel_initializer=next(initializers))
        for n in config.filters
    ]
    layers.append(tf.keras.layers.Flatten())
    layers += [
        tf.keras.layers.Dense(n, activation="relu", kernel_initializer=next(initializers))
        for n in config.hidden
    ]
    layers.append(tf.keras.layers.Dense(outputs, kernel_initializer=next(initializers)))
    return tf.keras.Sequential(layers)


def _defaults(labels: bool, model: tf.keras.Model) -> tuple[str, str]:
    """Returns the names of the loss and the metric: for labels cross-entropy and accuracy, else errors."""
    if not labels:
        return "mean_squared_error", "mean_absolute_error"
    if model.output_shape[-1] == 1:
        return "binary_crossentropy", "binary_accuracy"
    return "sparse_categorical_crossentropy", "sparse_categorical_accuracy"


def ends_in_probabilities(model: tf.keras.Model) -> bool:
    """Returns whether the last layer of a Keras model is, or has as activation, a softmax or a sigmoid."""
    last = model.layers[-1] if model.layers else None
    if isinstance(last, tf.keras.layers.Softmax):
        return True
    activation = getattr(last, "activation", None)
    return activation in (tf.keras.activations.softmax, tf.keras.activations.sigmoid)


def _made(
    name: str, kind: str, module: Structure, base: type, model: tf.keras.Model, folder: Path
) -> Structure:
    """Returns the loss or metric, ``kind``, with a name of the module of Keras or of a user's function."""
    key = "[model] loss" if kind == "loss" else "[model] metrics"
    if ":" in name:
        made = imports.call(imports.function(name, key, folder), f"{key} {name!r}", {}, {})
        if not isinstance(made, base):
            raise ConfigError(f"{key} {name!r} returned a {type(made).__name__}; it must be a Keras {kind}")
        return made
    classes = {
        _snake(each): cls
        for each, cls in vars(module).items()
        if inspect.isclass(cls) and issubclass(cls, base) and cls is not base
    }
    snake = _SHORT.get(name.lower(), _snake(name))
    if snake not in classes:
        raise UnknownNameError(f"Keras {kind}", name, classes, where=key)
    probabilities = ends_in_probabilities(model)
    options: dict[str, Structure] = {}
    parameters = inspect.signature(classes[snake].__init__).parameters
    if "from_logits" in parameters:
        options["from_logits"] = not probabilities
    elif snake in _BINARY and not probabilities:
        options["threshold"] = 0.0
    try:
        return classes[snake](**options)
    except TypeError as error:
        raise ConfigError(
            f"{key} {name!r} needs arguments ({error}); name a function that creates it"
        ) from error


def _snake(name: str) -> str:
    """Converts ``MeanSquaredError`` to ``mean_squared_error``. Other spellings stay unchanged."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
