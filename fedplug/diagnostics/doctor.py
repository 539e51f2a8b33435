"""What `fedplug doctor` looks at: one function a check, each independent of the others.

A check returns what it found and raises when something is broken. Those of TensorFlow and TFF, which nobody
must have, are skipped where these are not installed. Heavy imports stay in the bodies, so that a broken
TensorFlow is a finding and not the end of the command.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedplug.errors import FedplugError, OpLibraryError

__all__ = ["CHECKS", "Finding", "examine"]

_REINSTALL = "`make setup` in a checkout, or `pip install --force-reinstall fedplug`"

_OLDEST_PYTHON = (3, 10)
_OLDEST_NUMPY = (1, 25)
_NUMPY_2 = (2, 0)
_TENSORFLOW_FOR_NUMPY_2 = (2, 18)
"""The first TensorFlow that was built for it."""


@dataclass(frozen=True)
class Finding:
    """The result of one check: what was found, and what to do about it when it is not well.

    "skip" is no fault: what the check is about is not installed.
    """

    status: Literal["ok", "warn", "fail", "skip"]
    detail: str
    fix: str = ""


def examine(check: Callable[[], Finding]) -> Finding:
    """Runs one check; whatever it raises becomes a finding."""
    try:
        return check()
    except FedplugError as error:  # says itself what to do
        return Finding("fail", _one_line(error))
    except Exception as error:
        return Finding("fail", f"{type(error).__name__}: {_one_line(error)}", _REINSTALL)


def _needs(module: str, otherwise: str) -> Callable[[Callable[[], Finding]], Callable[[], Finding]]:
    """Leaves a check out, and says ``otherwise``, where a module is not installed that nobody must have."""

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
    """A Python that this package is made for."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Finding("fail", version, "use Python 3.10 or newer; 3.11 for TFF")
    return Finding("ok", version)


def check_numpy() -> Finding:
    """NumPy can be imported, is new enough, and is one that the installed TensorFlow was built for."""
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
    """TensorFlow can be imported."""
    import tensorflow as tf

    return Finding("ok", str(tf.__version__))


@_needs("tensorflow_federated", _NOT_INSTALLED)
def check_tff() -> Finding:
    """TFF can be imported and is the release whose executor interface the runtime implements."""
    import tensorflow_federated as tff

    version = str(tff.__version__)
    if not version.startswith("0.87."):
        return Finding(
            "warn", f"{version}; fedplug is tested with 0.87.0", "`pip install tensorflow-federated==0.87.0`"
        )
    return Finding("ok", version)


def check_plugins() -> Finding:
    """Every installed plugin could be loaded."""
    from fedplug.registry.resolve import KINDS, catalog

    problems = catalog().problems()
    if problems:
        names = ", ".join(sorted({entry.origin for entry in problems}))
        return Finding("warn", f"problems with {names}", "`fedplug plugins list` shows the reasons")
    plurals = {kind: hook.removeprefix("fedplug_").replace("_", " ") for kind, (hook, _) in KINDS.items()}
    return Finding("ok", ", ".join(f"{len(catalog().names(kind))} {plurals[kind]}" for kind in KINDS))


def check_kernels() -> Finding:
    """The compiled module for NumPy arrays."""
    from fedplug import kernels

    return Finding("ok", f"SIMD {kernels.simd_level()}, {kernels.num_threads()} threads")


def check_codec() -> Finding:
    """What is encoded comes back, and what did not is in the residual; sums add the same up."""
    import numpy as np

    from fedplug.codecs import Sum, codec, decode

    expression, count = "topk(0.05) | qsgd(8) | rans", 10_000
    update = np.random.default_rng(0).standard_normal(count, np.float32)
    payload, state = codec(expression).encode(update)
    received, total = decode(payload), Sum(update.shape, update.dtype)
    total.add(payload, 1.0)
    if not np.allclose(received + state["residual"], update, rtol=0, atol=1e-6):
        return Finding("fail", f"{expression}: what arrives and the residual are not the update", _REINSTALL)
    if not np.array_equal(total.value(), received):
        return Finding("fail", f"{expression}: the sum of one payload is not what it stands for", _REINSTALL)
    return Finding("ok", f"{expression}: {count:,} float32 in {len(payload):,} bytes, and back")


def check_stores() -> Finding:
    """The built-in stores give back what was committed."""
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
                    return Finding("fail", f"{name} does not give back what was committed", _REINSTALL)
    return Finding("ok", f"{', '.join(names)}: committed and read")


@_needs_tensorflow
def check_op_library() -> Finding:
    """The compiled TensorFlow ops are there, were built for this TensorFlow, and load."""
    from fedplug import ops
    from fedplug.ops._tensorflow import loader

    try:
        loader.find_library(ops.__path__)
    except OpLibraryError:
        fix = "`pip install fedplug-tensorflow`, or `make setup` in a checkout"
        return Finding(
            "warn",
            "not installed: TensorFlow gets the references, lowering 'reference', which are slower",
            fix,
        )
    loader.library()  # raises OpLibraryError with the remedy
    return Finding("ok", f"built for TensorFlow {_build_info()['tensorflow']}, loads")


@_needs_tensorflow
def check_cuda() -> Finding:
    """The ops were built for the devices that TensorFlow sees."""
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


@_needs("fedplug_cuda", "needs fedplug-cuda, which is not installed")
def check_device_arrays() -> Finding:
    """The kernels for CUDA arrays load, find a device, and select what the CPU's kernels select."""
    import importlib

    device = importlib.import_module("fedplug_cuda")
    problem = device.problem()
    return Finding("skip", problem) if problem else Finding("ok", device.self_check())


@_needs_tff
def check_inprocess_runtime() -> Finding:
    """The op gives the NumPy kernel's bits inside a TFF computation on the in-process runtime."""
    from fedplug.ops.lowering import available

    return _check_runtime("inprocess", "fused" if available() else "reference")


@_needs_tff
def check_native_runtime() -> Finding:
    """TFF's stock worker starts, and the op's TensorFlow reference gives the NumPy kernel's bits there."""
    return _check_runtime("native", "reference")


def _check_runtime(runtime_name: str, lowering: str) -> Finding:
    import numpy as np
    import tensorflow as tf
    import tensorflow_federated as tff

    from fedplug import kernels, ops
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
"""In the order in which one can break the next."""


def _build_info() -> dict[str, str]:
    import json

    from fedplug import ops
    from fedplug.ops._tensorflow import loader

    record = loader.find_library(ops.__path__).with_name("build_info.json")
    info: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
    return info


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
