"""What `fedplug doctor` looks at: one function a check, each independent of the others.

A check returns what it found and raises when something is broken. Heavy imports stay in the bodies, so that a
broken TensorFlow is a finding and not the end of the command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedplug.errors import FedplugError

__all__ = ["CHECKS", "Finding", "examine"]

_REINSTALL = "`make setup` in a checkout, or `pip install --force-reinstall fedplug`"


@dataclass(frozen=True)
class Finding:
    """The result of one check: what was found, and what to do about it when it is not well."""

    status: Literal["ok", "warn", "fail"]
    detail: str
    fix: str = ""


def examine(check: Callable[[], Finding]) -> Finding:
    """Runs one check; whatever it raises becomes a finding."""
    try:
        return check()
    except FedplugError as error:  # says itself what to do
        return Finding("fail", _one_line(error))
    except Exception as error:
        from fedplug.registry.entry_points import missing_framework

        fix = missing_framework(error) or _REINSTALL
        return Finding("fail", f"{type(error).__name__}: {_one_line(error)}", fix)


def check_python() -> Finding:
    """The Python that TFF 0.87 and this package are made for."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] != (3, 11):
        return Finding("fail", version, "use Python 3.11, the newest that tensorflow-federated 0.87 supports")
    return Finding("ok", version)


def check_numpy() -> Finding:
    """NumPy can be imported and has the ABI TensorFlow 2.14 was built for."""
    import numpy as np

    if int(np.__version__.split(".")[0]) >= 2:
        return Finding("fail", np.__version__, "`pip install 'numpy<2'`; TensorFlow 2.14 needs it")
    return Finding("ok", np.__version__)


def check_tensorflow() -> Finding:
    """TensorFlow can be imported."""
    import tensorflow as tf

    return Finding("ok", str(tf.__version__))


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


def check_op_library() -> Finding:
    """The compiled TensorFlow ops are there, were built for this TensorFlow, and load."""
    from fedplug.ops._tensorflow import loader

    loader.library()  # raises OpLibraryError with the remedy
    return Finding("ok", f"built for TensorFlow {_build_info()['tensorflow']}, loads")


def check_cuda() -> Finding:
    """The ops were built for the devices that TensorFlow sees."""
    import tensorflow as tf

    built = _build_info()["cuda"] == "ON"
    devices = len(tf.config.list_physical_devices("GPU"))
    detail = (
        f"kernels built {'with' if built else 'without'} CUDA, {devices or 'no'} GPU visible to TensorFlow"
    )
    if devices and not built:
        return Finding(
            "warn", f"{detail}: the CPU kernels are used", "install the CUDA toolkit and run `make setup`"
        )
    return Finding("ok", detail)


def check_inprocess_runtime() -> Finding:
    """The compiled op gives the NumPy kernel's bits inside a TFF computation on the in-process runtime."""
    return _check_runtime("inprocess", "fused")


def check_native_runtime() -> Finding:
    """TFF's stock worker starts, and the op's TensorFlow reference gives the NumPy kernel's bits there."""
    return _check_runtime("native", "reference")


def _check_runtime(runtime_name: str, lowering: str) -> Finding:
    import numpy as np
    import tensorflow as tf
    import tensorflow_federated as tff

    from fedplug import kernels, ops, runtime

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
    "TensorFlow": check_tensorflow,
    "TFF": check_tff,
    "plugins": check_plugins,
    "kernels": check_kernels,
    "op library": check_op_library,
    "CUDA": check_cuda,
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


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
