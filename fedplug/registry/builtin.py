"""The components that fedplug ships, declared through the same hooks as those of plugins."""

from __future__ import annotations

from functools import partial

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import (
    EXECUTIONS,
    EXECUTIONS_AND_CUDA,
    AggregatorSpec,
    EncoderSpec,
    RuntimeSpec,
    ScheduleSpec,
    StoreSpec,
)

__all__ = [
    "fedplug_aggregators",
    "fedplug_encoders",
    "fedplug_runtimes",
    "fedplug_schedules",
    "fedplug_stores",
]

_in_graphs = partial(EncoderSpec, executes_on=EXECUTIONS)
_on_devices = partial(EncoderSpec, executes_on=EXECUTIONS_AND_CUDA)


@hookimpl
def fedplug_encoders() -> list[EncoderSpec]:
    """Returns the built-in encoders."""
    return [
        _in_graphs(
            name="identity",
            target="fedplug.encoders.quantizers:Identity",
            summary="the uncompressed tensor, lossless",
            wire_id="identity/1",
        ),
        EncoderSpec(
            name="planes",
            target="fedplug.encoders.standalone.planes:Planes",
            summary="every element exactly, the bytes of floats entropy-coded by planes",
            wire_id="planes/1",
            executes_on=("numpy",),
        ),
        _on_devices(
            name="topk",
            target="fedplug.encoders.sparsifiers:TopK",
            summary="the k entries of largest magnitude, with error feedback",
            examples=(
                "topk(0.3)",
                "topk(count=5)",
                "topk(0.3, error_feedback=False)",
                "topk(linear(0.3, 0.1, 2), scope='model')",
                "topk(0.3, decay=0.5)",
            ),
        ),
        _on_devices(
            name="randomk",
            target="fedplug.encoders.sparsifiers:RandomK",
            summary="k random entries, without sending which ones",
            examples=(
                "randomk(0.3)",
                "randomk(0.3, error_feedback=True)",
            ),
        ),
        _on_devices(
            name="stc",
            target="fedplug.encoders.pipeline.pipeline:STC",
            summary="signs and mean magnitude of the k largest entries, with error feedback",
            examples=("stc(0.3)",),
        ),
        _in_graphs(
            name="ef21",
            target="fedplug.encoders.standalone.ef21:EF21",
            summary="the difference from the client's last message, for the aggregator memory_mean",
            examples=("ef21('topk(0.3)')",),
        ),
        _on_devices(
            name="qsgd",
            target="fedplug.encoders.quantizers:QSGD",
            summary="2 to 8 bits per element, rounded at random or to nearest",
            wire_id="qsgd/1",
        ),
        _on_devices(
            name="bfp",
            target="fedplug.encoders.quantizers:BlockFloatingPoint",
            summary="2 to 8 bits per element, with one power of two per block",
            wire_id="bfp/1",
        ),
        _in_graphs(
            name="mixed_qsgd",
            target="fedplug.encoders.quantizers:MixedQSGD",
            summary="qsgd with a mean bit width; tensors that need more bits get more",
            examples=("mixed_qsgd(4.5)",),
            wire_id="mixed_qsgd/1",
        ),
        _in_graphs(
            name="sharedk",
            target="fedplug.encoders.standalone.sharedk:SharedK",
            summary="integers on a support that all clients share, for secure aggregation",
            examples=("sharedk(0.3, clients=4)",),
            wire_id="sharedk/1",
        ),
        _on_devices(
            name="sign",
            target="fedplug.encoders.quantizers:Sign",
            summary="one bit per element and a scale, with error feedback",
            wire_id="sign/1",
        ),
        _in_graphs(
            name="codebook",
            target="fedplug.encoders.quantizers:Codebook",
            summary="1 to 8 bits per element, as indices into a table of mean values",
            examples=("codebook(2)", "topk(0.3) | codebook(2) | rans | rice"),
            wire_id="codebook/1",
        ),
        _in_graphs(
            name="bounded",
            target="fedplug.encoders.quantizers:Bounded",
            summary="every element within a given share of the tensor's range",
            examples=("bounded(0.01) | rans", "topk(0.3) | bounded(0.01) | rans | rice"),
            wire_id="bounded/1",
        ),
        _on_devices(
            name="float16",
            target="fedplug.encoders.quantizers:Float16",
            summary="two bytes per element: IEEE half precision",
            wire_id="float16/1",
        ),
        _on_devices(
            name="bfloat16",
            target="fedplug.encoders.quantizers:BFloat16",
            summary="two bytes per element: the upper half of a float32",
            wire_id="bfloat16/1",
        ),
        _in_graphs(
            name="rans",
            target="fedplug.encoders.coders:Rans",
            summary="entropy coding of a quantizer's symbols, a stage after it",
            examples=("topk(0.3) | qsgd(8) | rans | rice", "qsgd(4) | rans"),
            wire_id="rans/1",
        ),
        _in_graphs(
            name="rice",
            target="fedplug.encoders.coders:Rice",
            summary="indices as Rice-coded gaps, the last stage of a pipeline",
            examples=("topk(0.3) | rice",),
            wire_id="rice/1",
        ),
        _in_graphs(
            name="gaps",
            target="fedplug.encoders.coders:Gaps",
            summary="indices as gaps in an adaptive code, the last stage of a pipeline",
            examples=("topk(0.3) | gaps",),
            wire_id="gaps/1",
        ),
        EncoderSpec(
            name="offsets",
            target="fedplug.encoders.coders:Offsets",
            summary="indices within chunks in a fixed number of bits, the last stage of a pipeline",
            examples=("topk(count=2, chunk=8) | codebook(2) | offsets(8)",),
            wire_id="offsets/1",
            executes_on=("numpy",),
        ),
        _in_graphs(
            name="seeded",
            target="fedplug.encoders.coders:Seeded",
            summary="the seed of randomk instead of its indices, the last stage of its pipelines",
            examples=("randomk(0.3) | seeded",),
            wire_id="seeded/1",
        ),
        _in_graphs(
            name="auto",
            target="fedplug.encoders.assignments.auto:Auto",
            summary="a good default, chosen by the size of the model",
            examples=("auto", "auto(error_feedback=False)"),
        ),
        _in_graphs(
            name="rules",
            target="fedplug.encoders.assignments.rules:Rules",
            summary="different encoders for a model's tensors, by name, size and dtype",
            examples=("rules({'*': 'topk(0.3)'})",),
        ),
        _in_graphs(
            name="budget",
            target="fedplug.encoders.assignments.budget:Budget",
            summary="an encoder adjusted to a number of bytes per client and round",
            examples=("budget('topk(0.3)', 2000)",),
        ),
        _in_graphs(
            name="pipeline",
            target="fedplug.encoders.pipeline.pipeline:Pipeline",
            summary="sparsifier | quantizer | entropy coder | index coder, written with bars",
            examples=("topk(0.3) | qsgd(8) | rice",),
        ),
    ]


@hookimpl
def fedplug_aggregators() -> list[AggregatorSpec]:
    """Returns the built-in aggregators."""
    return [
        AggregatorSpec(
            name="mean",
            target="fedplug.tff.aggregators.sums:Mean",
            summary="the weighted mean of the clients' updates",
        ),
        AggregatorSpec(
            name="memory_mean",
            target="fedplug.tff.aggregators.sums:MemoryMean",
            summary="the mean of all clients' last messages, for encoders of differences",
            examples=("memory_mean(5)",),
        ),
    ]


@hookimpl
def fedplug_schedules() -> list[ScheduleSpec]:
    """Returns the built-in schedules."""
    return [
        ScheduleSpec(
            name="constant",
            target="fedplug.schedules.steps:Constant",
            summary="the same value in every round",
            examples=("constant(0.01)",),
        ),
        ScheduleSpec(
            name="step",
            target="fedplug.schedules.steps:Step",
            summary="a sequence of values, each for some rounds",
            examples=("step([0.1, 0.03, 0.01], [10, 20])",),
        ),
        ScheduleSpec(
            name="linear",
            target="fedplug.schedules.ramps:Linear",
            summary="from one value to another by the same amount in every round",
            examples=("linear(0.1, 0.01, 20)",),
        ),
        ScheduleSpec(
            name="exponential",
            target="fedplug.schedules.ramps:Exponential",
            summary="from one value to another by the same factor in every round",
            examples=("exponential(0.25, 0.001, 4)",),
        ),
        ScheduleSpec(
            name="cosine",
            target="fedplug.schedules.ramps:Cosine",
            summary="from one value to another along half a cosine",
            examples=("cosine(0.1, 0.01, 20)",),
        ),
    ]


@hookimpl
def fedplug_stores() -> list[StoreSpec]:
    """Returns the built-in client-state stores."""
    return [
        StoreSpec(
            name="memory",
            target="fedplug.stores.memory:MemoryStore",
            summary="in this process; lost when it ends",
        ),
        StoreSpec(
            name="sqlite",
            target="fedplug.stores.sqlite:SqliteStore",
            summary="a folder on disk that survives restarts, with checksums",
            examples=("sqlite:///{folder}",),
        ),
    ]


@hookimpl
def fedplug_runtimes() -> list[RuntimeSpec]:
    """The built-in runtimes."""
    return [
        RuntimeSpec(
            name="inprocess",
            target="fedplug.tff.runtime.inprocess.context:create_sync_execution_context",
            summary="this process, with its TensorFlow; custom ops work",
        ),
        RuntimeSpec(
            name="native",
            target="fedplug.tff.runtime.native.context:create_native_execution_context",
            summary="TFF's stock worker process; no custom ops",
        ),
    ]
