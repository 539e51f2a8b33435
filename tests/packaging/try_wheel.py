"""Uses an installed fedplug a little; run by wheels.py in a fresh environment, from outside the checkout."""

from __future__ import annotations

import importlib.util
import platform
import sys
from pathlib import Path

import numpy as np

import fedplug
from fedplug import kernels
from fedplug.cli import main
from fedplug.tff.experiment import report

assert Path(fedplug.__file__).is_relative_to(sys.prefix), fedplug.__file__
update, residual = np.random.default_rng(0).normal(size=(2, 100_000)).astype(np.float32)
total = update + residual
values, indices = kernels.topk_residual(update, residual, k=1000)
code = kernels.encode_indices(indices, update.size)
assert np.array_equal(kernels.decode_indices(code, indices.size, update.size), indices)
assert np.array_equal(total[indices], values)
assert not residual[indices].any()
assert main(["plugins", "show", "memory"]) == 0
assert all(Path(report.__file__).with_name(f"page.{part}").is_file() for part in ("html", "css"))

if importlib.util.find_spec("fedplug_tensorflow"):
    import tensorflow as tf

    data = np.arange(100, dtype=np.uint8)
    crc = int(fedplug.ops.crc32(tf.constant(data), lowering="fused"))
    assert crc == kernels.crc32(data)
    print(f"ops loaded into TensorFlow {tf.__version__}")

version = f"Python {platform.python_version()}, NumPy {np.__version__}, SIMD {kernels.simd_level()}"
print(f"{version}: the wheel works")
