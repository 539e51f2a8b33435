"""The checks of `fedplug doctor`: one function per check, each independent of the others.

A check returns its finding, and raises an error if something is broken. Checks of optional packages are
skipped if these are not installed. Heavy imports are in the functions, so that a broken TensorFlow is a
finding rather than the end of the command.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fedplug.errors import FedplugError, MissingDependencyError, OpLibraryError, PluginError

__all__ = ["CHECKS", "Finding", "examine"]

_REINSTALL = "`make setup` in a checkout, or `pip install --force-reinstall fedplug`"

_OLDEST_PYTHON = (3, 10)
_OLDEST_NUMPY = (1, 25)
_NUMPY_2 = (2, 0)
_TENSORFLOW_FOR_NUMPY_2 = (2, 18)
"""The first TensorFlow release built for NumPy 2."""


@dataclass(frozen=True)
class Finding:
    """The result of one check, and the remedy for a problem.

    The status "skip" means that an optional package is not installed.
    """

    status: Literal["ok", "warn", "fail", "skip"]
    detail: str
    fix: str = ""


def examine(check: Callable[[], Finding]) -> Finding:
    """Runs one check and turns any error into a finding."""
    try:
        return check()
    except FedplugError as error:  # its message has a remedy
        return Finding("fail", _one_line(error))
    except Exception as error:
        return Finding("fail", f"{type(error).__name__}: {_one_line(error)}", _REINSTALL)


def _needs(module: str, otherwise: str) -> Callable[[Callable[[], Finding]], Callable[[], Finding]]:
    """Skips a check with the message ``otherwise`` if an optional module is not installed."""

    def decorate(check: Callable[[], Finding]) -> Callable[[], Finding]:
        @functools.wraps(check)
        def where_it_is_installed() -> Finding:
            return check() if importlib.util.find_spec(module) else Finding("skip", otherwise)

        return where_it_is_installed

    return decorate


_NOT_INSTALLED = "not installed (pip install 'fedplug[tff]' on Python 3.11)"
_needs_tensorflow = _needs("tensorflow", "needs TensorFlow, which is not installed")
_needs_tff = _needs("tensorflow_federated", "needs TFF, which is not installed")


def check_python() -> Finding:
    """Checks that this version of Python is supported."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Finding("fail", version, "use Python 3.10 or newer; 3.11 for TFF")
    return Finding("ok", version)


def check_numpy() -> Finding:
    """Checks that NumPy can be imported, is new enough, and fits the installed TensorFlow."""
    import numpy as np

    from fedplug.registry.op_libraries import installed_tensorflow

    version, tensorflow = np.__version__, installed_tensorflow()
    if _release(version) < _OLDEST_NUMPY:
        return Finding("fail", version, "`pip install --upgrade numpy`; fedplug needs 1.25 or newer")
    if tensorflow and _release(tensorflow) < _TENSORFLOW_FOR_NUMPY_2 and _release(version) >= _NUMPY_2:
        return Finding("fail", version, f"`pip install 'numpy<2'`; TensorFlow {tensorflow} needs it")
    return Finding("ok", version)


@_needs("tensorflow", _NOT_INSTALLED)
def check_tensorflow() -> Finding:
    """Checks that TensorFlow can be imported."""
    import tensorflow as tf

    return Finding("ok", str(tf.__version__))


@_needs("tensorflow_federated", _NOT_INSTALLED)
def check_tff() -> Finding:
    """Checks that TFF can be imported and is the release whose executor interface the runtime implements."""
    import tensorflow_federated as tff

    version = str(tff.__version__)
    if not version.startswith("0.87."):
        return Finding(
            "warn", f"{version}; fedplug is tested with 0.87.0", "`pip install tensorflow-federated==0.87.0`"
        )
    return Finding("ok", version)


def check_plugins() -> Finding:
    """Checks that every installed plugin can be loaded."""
    from fedplug.registry.resolve import KINDS, catalog

    problems = catalog().problems()
    if problems:
        names = ", ".join(sorted({entry.origin for entry in problems}))
        return Finding("warn", f"problems with {names}", "`fedplug plugins list` shows the reasons")
    plurals = {kind: hook.removeprefix("fedplug_").replace("_", " ") for kind, (hook, _) in KINDS.items()}
    return Finding("ok", ", ".join(f"{len(catalog().names(kind))} {plurals[kind]}" for kind in KINDS))


def check_kernels() -> Finding:
    """Checks that the compiled module for NumPy arrays can be imported."""
    import fedplug.kernels as kernels

    return Finding("ok", f"SIMD {kernels.simd_level()}, {kernels.num_threads()} threads")


def check_codec() -> Finding:
    """Checks that encoding and decoding loses only the residual, and that sums of payloads are exact."""
    import numpy as np

    from fedplug.codecs import Sum, codec, decode

    expression, count = "topk(0.05) | qsgd(8) | rans", 10_000
    update = np.random.default_rng(0).standard_normal(count, np.float32)
    payload, state = codec(expression).encode(update)
    received, total = decode(payload), Sum(update.shape, update.dtype)
    total.add(payload, 1.0)
    if not np.allclose(received + state["residual"], update, rtol=0, atol=1e-6):
        return Finding("fail", f"{expression}: decoded values plus residual are not the update", _REINSTALL)
    if not np.array_equal(total.value(), received):
        return Finding("fail", f"{expression}: the sum of one payload is not its decoded value", _REINSTALL)
    return Finding("ok", f"{expression}: {count:,} float32 in {len(payload):,} bytes, and back")


def check_stores() -> Finding:
    """Checks that the built-in stores return what was committed."""
    import tempfile

    import numpy as np

    from fedplug.stores import open_store

    names, state = ("memory", "sqlite"), {"residual": np.arange(3, dtype=np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            with open_store("memory://" if name == "memory" else f"sqlite:///{folder}/store") as store:
                process = store.open_process("doctor", {})
                process.commit(1, client_states={"client": state}, server_state=state)
                kept = [process.read_clients(["client"])["client"], process.read_server() or {}]
                if not all(np.array_equal(found.get("residual", ()), state["residual"]) for found in kept):
                    return Finding("fail", f"{name} does not return what was committed", _REINSTALL)
    return Finding("ok", f"{', '.join(names)}: committed and read")


@_needs_tensorflow
def check_op_library() -> Finding:
    """Checks that the compiled TensorFlow ops are installed, fit this TensorFlow, and load."""
    import fedplug.ops as ops
    from fedplug.ops._tensorflow import loader

    try:
        loader.find_library(ops.__path__)
    except OpLibraryError:
        fix = "`pip install fedplug-tensorflow`, or `make setup` in a checkout"
        return Finding(
            "warn",
            "not installed: TensorFlow uses the references (lowering 'reference'), which are slower",
            fix,
        )
    loader.library()  # its OpLibraryError has a remedy
    return Finding("ok", f"built for TensorFlow {_build_info()['tensorflow']}, loads")


@_needs_tensorflow
def check_cuda() -> Finding:
    """Checks that the ops were built for the devices that TensorFlow sees."""
    import tensorflow as tf

    try:
        built = _build_info()["cuda"] == "ON"
    except OpLibraryError:
        return Finding("skip", "needs the op library, which is not installed")
    devices = len(tf.config.list_physical_devices("GPU"))
    detail = (
        f"kernels built {'with' if built else 'without'} CUDA, {devices or 'no'} GPU visible to TensorFlow"
    )
    if devices and not built:
        return Finding(
            "warn", f"{detail}: the CPU kernels are used", "install the CUDA toolkit and run `make setup`"
        )
    return Finding("ok", detail)


def check_device_arrays() -> Finding:
    """Checks that the kernels for CUDA arrays load, find a device, and agree with the CPU's kernels."""
    from fedplug.registry import resolve

    try:
        device: Any = resolve.resolve("device", "cuda")
    except MissingDependencyError:
        return Finding("skip", "needs fedplug-cuda, which is not installed")
    except PluginError as error:
        if any(entry.name == "cuda" and entry.status == "disabled" for entry in resolve.catalog().entries):
            return Finding("skip", str(error))
        raise
    problem = device.problem()
    return Finding("skip", problem) if problem else Finding("ok", device.self_check())


@_needs_tff
def check_inprocess_runtime() -> Finding:
    """Checks that the op equals the NumPy kernel bit for bit on TFF's in-process runtime."""
    from fedplug.ops.lowering import available

    return _check_runtime("inprocess", "fused" if available() else "reference")


@_needs_tff
def check_native_runtime() -> Finding:
    """Checks that TFF's stock worker starts, and that the op's reference equals the NumPy kernel there."""
    return _check_runtime("native", "reference")


def _check_runtime(runtime_name: str, lowering: str) -> Finding:
    import numpy as np
    import tensorflow as tf
    import tensorflow_federated as tff

    import fedplug.kernels as kernels
    import fedplug.ops as ops
    from fedplug.tff import runtime

    clients, size, k = 3, 1000, 10
    deltas = np.random.default_rng(0).standard_normal((clients, size)).astype(np.float32)
    update = tff.TensorType(np.float32, [size])

    @tff.tensorflow.computation(update)  # type: ignore[misc]
    def encode(delta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        chosen = ops.topk_residual(delta, tf.zeros_like(delta), k, lowering=lowering)
        return chosen.values, chosen.indices, chosen.residual

    @tff.federated_computation(tff.FederatedType(update, tff.CLIENTS))  # type: ignore[misc]
    def encode_on_clients(values: object) -> object:
        return tff.federated_map(encode, values)

    with runtime.use_runtime(runtime_name):
        results = encode_on_clients(list(deltas))
    for delta, result in zip(deltas, results, strict=True):
        residual = np.zeros_like(delta)
        expected = (*kernels.topk_residual(delta, residual, k), residual)
        if not all(np.array_equal(got, want) for got, want in zip(result, expected, strict=True)):
            return Finding("fail", "the op inside TFF and the NumPy kernel differ", _REINSTALL)
    what = "topk_residual" if lowering == "fused" else "the TensorFlow reference of topk_residual"
    return Finding("ok", f"{what} on {clients} clients equals the NumPy kernel bit for bit")


CHECKS: dict[str, Callable[[], Finding]] = {
    "Python": check_python,
    "NumPy": check_numpy,
    "kernels": check_kernels,
    "plugins": check_plugins,
    "codec": check_codec,
    "stores": check_stores,
    "TensorFlow": check_tensorflow,
    "op library": check_op_library,
    "CUDA": check_cuda,
    "CUDA arrays": check_device_arrays,
    "TFF": check_tff,
    "inprocess": check_inprocess_runtime,
    "native": check_native_runtime,
}
"""The checks, ordered so that each comes after those on which it depends."""


def _build_info() -> dict[str, str]:
    import json

    import fedplug.ops as ops
    from fedplug.ops._tensorflow import loader

    record = loader.find_library(ops.__path__).with_name("build_info.json")
    info: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
    return info


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
