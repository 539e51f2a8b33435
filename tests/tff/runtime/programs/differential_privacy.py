"""Clips, zeroes and averages with TFF's aggregators; the noise is zero, so that results can be compared."""

import numpy as np
import tensorflow_federated as tff

VALUE = tff.to_type([(np.float32, [4]), (np.float32, [2, 2])])


def values(round_num):
    rng = np.random.default_rng(round_num)
    return [
        [rng.normal(size=4).astype(np.float32) * scale, rng.normal(size=(2, 2)).astype(np.float32) * scale]
        for scale in (1.0, 3.0, 100.0)
    ]


def main(folder):
    private = tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
        noise_multiplier=0.0, clients_per_round=3.0, clip=2.0
    )
    adaptive = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
        initial_estimate=1.0, target_quantile=0.5, learning_rate=0.2
    )
    robust = tff.aggregators.zeroing_factory(
        50.0, tff.aggregators.clipping_factory(adaptive, tff.aggregators.SumFactory())
    )
    results = []
    for factory in (private, tff.aggregators.UnweightedMeanFactory(robust)):
        process = factory.create(VALUE)
        state = process.initialize()
        for round_num in range(3):
            output = process.next(state, values(round_num))
            state = output.state
            results.append((output.result, output.measurements))
    return results
