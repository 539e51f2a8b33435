"""Sparse ternary compression: a pipeline with a name of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from fedplug.encoders.base import Encoder
from fedplug.encoders.index_coders.kernel_codes import Rice
from fedplug.encoders.pipeline.pipeline import Pipeline
from fedplug.encoders.quantizers.sign import Sign
from fedplug.encoders.sparsifiers.topk import TopK
from fedplug.errors import ConfigError
from fedplug.schedules import Schedule

__all__ = ["STC"]


class STC(Pipeline):
    """Selects the top k entries, and sends their signs and their mean magnitude, with error feedback.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("stc(0.5)").encode(np.float32([1, -5, 2, 4]))
    >>> fedplug.decode(payload)
    array([ 0. , -4.5,  0. ,  4.5], dtype=float32)

    The mean is over the selected entries: over all n it would shrink the update by the sparsity.

    Source: Sattler, Wiedemann, Müller, Samek, "Robust and Communication-Efficient Federated Learning from
    Non-IID Data", IEEE TNNLS 2019 (arXiv 1903.02891), algorithm 1, equations 8 to 10 and the Golomb code of
    algorithm 3.

    The wire form is that of ``topk(fraction) | sign | rice``: about ``log2(n / k) + 2.5`` bits per entry.
    At k/n = 1 % these are 0.011 bytes per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "stc"

    def __init__(
        self,
        fraction: float | Schedule | None = None,
        *,
        count: int | None = None,
        error_feedback: bool = True,
        scope: str = "tensor",
    ) -> None:
        """Makes the encoder. Arguments and errors as for `TopK`."""
        try:
            self._topk = TopK(fraction, count=count, error_feedback=error_feedback, scope=scope)
        except ConfigError as error:
            raise ConfigError(f"stc: {error}") from error
        super().__init__([self._topk, Sign(), Rice()])

    def get_config(self) -> dict[str, Any]:
        return self._topk.get_config()

    def __repr__(self) -> str:
        return Encoder.__repr__(self)
