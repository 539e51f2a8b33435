"""Arrays of any shape, and NumPy scalars, are refused if they are not finite, and returned if they are."""

from __future__ import annotations

import numpy as np
import pytest

from fedplug import ops
from fedplug.errors import NonFiniteError


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_a_non_finite_array_is_refused_by_name(shape, bad):
    good = np.ones(shape, np.float32)[()]
    assert ops.all_finite(good)
    assert ops.all_finite(np.ones(0, np.float32))
    assert ops.require_finite(good, "the scale") is good
    x = np.full(shape, bad, np.float32)[()]
    assert not ops.all_finite(x)
    with pytest.raises(NonFiniteError, match="the scale holds a NaN or an infinity"):
        ops.require_finite(x, "the scale")
