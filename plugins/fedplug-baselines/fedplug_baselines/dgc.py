"""Deep gradient compression: top-k with momentum of the unsent part."""

from __future__ import annotations

from typing import ClassVar

from fedplug import ops
from fedplug.encoders import Selection, Sparsifier, Sparsity, State
from fedplug.encoders.arguments import check_number
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.specs import EXECUTIONS, Capabilities
from fedplug.schedules import Schedule

__all__ = ["DGC"]


class DGC(Sparsifier):
    """Accumulates updates with momentum, sends the largest sums, and clears the momentum of the sent part.

    >>> import fedplug, numpy as np
    >>> codec = fedplug.codec("dgc(0.25, momentum=0.5)")
    >>> payload, state = codec.encode(np.float32([1, -5, 2, 4]))
    >>> fedplug.decode(payload), state["momentum"]
    (array([ 0., -5.,  0.,  0.], dtype=float32), array([1., 0., 2., 4.], dtype=float32))

    With the client's ``u`` and ``v``: ``u' = momentum u + x`` and ``v' = v + u'`` (momentum correction). The
    k entries of largest ``|v'|`` are sent, and ``u'`` and ``v'`` are zero there afterwards (momentum factor
    masking). A schedule is the warm-up of the paper: ``dgc(exponential(0.25, 0.001, 4))`` sends 25 % in the
    first round and 0.1 % from the fifth on. The clipping of gradients is left to the client optimizer.

    Source: Lin, Han, Mao, Wang, Dally, "Deep Gradient Compression: Reducing the Communication Bandwidth for
    Distributed Training", ICLR 2018 (arXiv 1712.01887), sections 3.1 to 3.3.

    It has no bytes of its own. The pipeline writes:

    ======================  =====================================================
    bytes                   content
    ======================  =====================================================
    of the sparse form      k, and the k indices by the index coder
    k times the item size   the k values, or their code by the quantizer
    ======================  =====================================================
    """

    name: ClassVar[str] = "dgc"
    sparsity: Sparsity

    def __init__(self, fraction: float | Schedule, *, momentum: float = 0.9) -> None:
        """Makes the sparsifier.

        Args:
            fraction: The share of the elements of each tensor, above 0 and at most 1, or a schedule of such
                numbers; at least one entry is sent.
            momentum: The momentum, 0 to below 1; 0 is top-k.

        Raises:
            ConfigError: An argument is out of range.
        """
        self.sparsity = Sparsity("dgc", fraction, None)
        check_number("dgc momentum", momentum, lambda part: 0 <= part < 1, "of at least 0 and below 1")
        self._momentum = momentum

    @property
    def capabilities(self) -> Capabilities:
        """Biased, and useless without its state."""
        return Capabilities(needs_client_state=True, executes_on=EXECUTIONS)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments."""
        return {**self.sparsity.get_config(), "momentum": self._momentum}

    def init_state(self, spec: Spec) -> State:
        """Returns ``{"momentum": u, "residual": v}``, zeros like the spec."""
        return {"momentum": ops.zeros(spec), "residual": ops.zeros(spec)}

    def select(self, x: Array, state: State, round_num: Scalar) -> Selection:
        """See the class."""
        u = ops.multiply(state["momentum"], ops.asarray(self._momentum, like=x)) + x
        v = ops.add_residual(u, state["residual"])
        n = ops.num_elements(x)
        sent = ops.topk_residual(v, ops.no_residual(v), self.sparsity.of_size(n, round_num))
        u = ops.reshape(u, [-1])
        cleared = ops.scatter_decode(n, ops.take(u, sent.indices), sent.indices)
        next_state = {"momentum": ops.reshape(u - cleared, x.shape), "residual": sent.residual}
        return Selection(sent.values, sent.indices, next_state)
