"""``source = "synthetic"``: Synthetic(alpha, beta), whose clients differ in inputs and models.

Source: Li et al., "Federated Optimization in Heterogeneous Networks" (FedProx, MLSys 2020, arXiv
1812.06127), which follows Shamir et al., "Communication-Efficient Distributed Optimization using an
Approximate Newton-type Method" (2014).

From the text: 60 features and 10 classes. Client k has a linear model ``y = argmax(softmax(W x + b))`` with
entries from N(u_k, 1), u_k from N(0, alpha). Its inputs are from N(v_k, Sigma), the entries of v_k from
N(B_k, 1), B_k from N(0, beta), Sigma diagonal with Sigma_jj = j^-1.2. From their program, where the text only
says that sizes follow a power law: ``int(lognormal(4, 2)) + 50`` examples per client, with alpha and beta as
standard deviations. They use 30 clients and a tenth of every client's examples for the test. The random
generator differs from theirs, so only distributions are comparable.
"""

from __future__ import annotations

import numpy as np

from fedplug.tff.experiment.data.federated import Examples, Pooled

__all__ = ["load_synthetic"]

_FEATURES = 60
_CLASSES = 10


def load_synthetic(clients: int, alpha: float, beta: float, seed: int) -> Pooled:
    """Draws the examples of all clients.

    Args:
        clients: Number of clients.
        alpha: Standard deviation between the clients' models, at least 0.
        beta: Standard deviation between the clients' inputs, at least 0.
        seed: The seed of the random draw.

    Returns:
        Inputs ``float32[n, 60]``, labels ``int32[n]``, and the client of each example.
    """
    generator = np.random.default_rng(seed)
    sizes = generator.lognormal(4, 2, clients).astype(int) + 50
    models = generator.normal(0, alpha, clients)
    inputs = generator.normal(0, beta, clients)
    scale = np.arange(1, _FEATURES + 1) ** -0.6  # the square root of Sigma's diagonal
    x, y = [], []
    for size, model, mean in zip(sizes, models, inputs, strict=True):
        weights = generator.normal(model, 1, (_FEATURES, _CLASSES))
        bias = generator.normal(model, 1, _CLASSES)
        center = generator.normal(mean, 1, _FEATURES)
        drawn = generator.normal(center, scale, (size, _FEATURES))
        x.append(drawn.astype(np.float32))
        y.append(np.argmax(drawn @ weights + bias, axis=1).astype(np.int32))
    ids = np.repeat([f"client{i:03d}" for i in range(clients)], sizes)
    return Pooled(Examples(np.concatenate(x), np.concatenate(y)), ids)
