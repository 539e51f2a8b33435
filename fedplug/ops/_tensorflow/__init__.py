"""The ops on TensorFlow's tensors: each calls the compiled op or its reference.

A module has the functions of the module of the same name in `fedplug.ops`, which documents them. Each module
is imported on first use: importing this package loads no TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.ops.lazy import imported_on_first_use

if TYPE_CHECKING:
    from fedplug.ops._tensorflow import (
        arrays as arrays,
    )
    from fedplug.ops._tensorflow import (
        block_scaling as block_scaling,
    )
    from fedplug.ops._tensorflow import (
        checks as checks,
    )
    from fedplug.ops._tensorflow import (
        checksum as checksum,
    )
    from fedplug.ops._tensorflow import (
        chunked_topk as chunked_topk,
    )
    from fedplug.ops._tensorflow import (
        container as container,
    )
    from fedplug.ops._tensorflow import (
        finite as finite,
    )
    from fedplug.ops._tensorflow import (
        floats as floats,
    )
    from fedplug.ops._tensorflow import (
        gather_sum as gather_sum,
    )
    from fedplug.ops._tensorflow import (
        index_code as index_code,
    )
    from fedplug.ops._tensorflow import (
        low_rank as low_rank,
    )
    from fedplug.ops._tensorflow import (
        mean_magnitude as mean_magnitude,
    )
    from fedplug.ops._tensorflow import (
        packing as packing,
    )
    from fedplug.ops._tensorflow import (
        prng as prng,
    )
    from fedplug.ops._tensorflow import (
        random_indices as random_indices,
    )
    from fedplug.ops._tensorflow import (
        rotated_code as rotated_code,
    )
    from fedplug.ops._tensorflow import (
        scatter as scatter,
    )
    from fedplug.ops._tensorflow import (
        serialization as serialization,
    )
    from fedplug.ops._tensorflow import (
        sparse_form as sparse_form,
    )
    from fedplug.ops._tensorflow import (
        spec as spec,
    )
    from fedplug.ops._tensorflow import (
        statistics as statistics,
    )
    from fedplug.ops._tensorflow import (
        symbol_code as symbol_code,
    )
    from fedplug.ops._tensorflow import (
        threshold as threshold,
    )
    from fedplug.ops._tensorflow import (
        topk as topk,
    )
    from fedplug.ops._tensorflow import (
        topk_momentum as topk_momentum,
    )
    from fedplug.ops._tensorflow import (
        topk_update as topk_update,
    )
    from fedplug.ops._tensorflow import (
        value_code as value_code,
    )

__getattr__ = imported_on_first_use(__name__)
