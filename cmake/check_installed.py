"""Ends with 1, and says why, unless the compiled parts that are installed are those of this checkout.

`make setup` asks, and installs again: the package manager does not notice that a file is gone from what it
installed, or that the op library was built for another TensorFlow than the lock file has now.
"""

from __future__ import annotations

import importlib
import sys

from fedplug.errors import FedplugError
from fedplug.registry import build_info, op_libraries

try:
    importlib.import_module("fedplug.kernels")  # refuses a module that is missing, or of other sources
    library = op_libraries.find(op_libraries.folders_of("fedplug.ops"), "_fedplug_ops.so")
    build_info.require_current(str(library), "csrc/tf/*.cc", op_libraries.built_from(library))
    op_libraries.require_built_for(library, str(op_libraries.installed_tensorflow()))
except (FedplugError, FileNotFoundError) as error:
    sys.exit(f"{' '.join(str(error).split())}\ninstalling fedplug again")
