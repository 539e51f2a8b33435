"""Tests the rule of a budget, what it adjusts, and that it is met, on arrays and as well on tensors."""

from __future__ import annotations

import numpy as np
import pytest

import fedplug
from fedplug import wire
from fedplug.encoders import Budget, ModelEncoder, TopK
from fedplug.encoders.containers import container_bytes
from fedplug.errors import CapabilityError, ConfigError
from fedplug.ops.types import ArraySpec
from fedplug.registry.specs import EXECUTIONS
from fedplug.testing import executions, expect
from fedplug.testing.execution import NumPy

FLOAT32 = np.dtype("float32")
SPECS = [ArraySpec((1000,), FLOAT32, "kernel"), ArraySpec((10,), FLOAT32, "bias")]
WIRE_IDS = ["sparse/1", "identity/1"]


def model_of(budget):
    return ModelEncoder(budget, SPECS)


def measured(tensor_bytes, payloads, **reported):
    """The measurements of a round; ``tensor_bytes`` are summed over the payloads, for each tensor."""
    sums = {key: np.float32(value) for key, value in reported.items()}
    return {"tensor_bytes": np.array(tensor_bytes), "payloads": np.int32(payloads), **sums}


def next_rate(budget, fixed, adjustable, payloads, rate=1.0):
    """The rate after a round: the kernel's body is adjustable, all other bytes are fixed."""
    model = model_of(budget)
    container = payloads * container_bytes(model.encoders[0].wire_id, SPECS[0])
    round_ = measured([container + adjustable, fixed - container], payloads)
    return float(model.rate_control.next({"rate": np.float32(rate)}, round_)["rate"])


def update():
    return [np.random.default_rng(0).standard_normal(spec.shape, np.float32) for spec in SPECS]


def lengths(model, rate):
    """The length of each buffer at that rate."""
    control = {"rate": np.float32(rate)}
    return [len(buffer) for buffer in model.encode(update(), model.init_state(), 0, control)[0]]


def sent(model, rate):
    xs = update()
    buffers, _ = model.encode(xs, model.init_state(), 0, {"rate": np.float32(rate)})
    return int(np.count_nonzero(model.decode(buffers)[0]))


def test_the_rate_multiplies_the_entries_of_sparse_encoders():
    for text in ("topk(0.01)", "topk(count=10)", "randomk(0.01)", "stc(0.01)"):
        model = model_of(Budget(text, 1000))
        assert [sent(model, rate) for rate in (0.001, 1.0, 2.5, 1e6)] == [1, 10, 25, 1000], text


def test_the_rate_multiplies_bits_from_two_to_eight():
    model = model_of(Budget("qsgd(4)", 1000))
    assert model.encoders[0].wire_id == "mixed_qsgd/1"
    kernel_bytes = [lengths(model, rate)[0] for rate in (0.01, 0.5, 0.6, 1.0, 1.5, 2.0, 100.0)]
    extra_bits = [0, 0, 0.4, 2, 4, 6, 6]
    for length, extra in zip(kernel_bytes, extra_bits, strict=True):
        assert length - kernel_bytes[0] == pytest.approx(1000 * extra / 8, abs=6)


def test_without_a_control_the_encoders_are_as_configured():
    for text in ("topk(0.01)", "qsgd(4)"):
        model = model_of(Budget(text, 1000))
        (rate,) = model.rate_control.init().values()
        buffers, _ = model.encode(update(), model.init_state(), 0)
        assert [len(buffer) for buffer in buffers] == lengths(model, float(rate))


def test_tensors_that_share_an_encoder_still_share_it_under_a_budget():
    rules = {"name": "rules", "config": {"rules": {"a*": "qsgd(4)", "b*": "qsgd(4)"}}}
    specs = [ArraySpec((100,), FLOAT32, name) for name in ("a1", "a2", "b")]
    first, second, other = ModelEncoder(Budget(rules, 1000), specs).encoders
    assert first is second
    assert first is not other


def test_an_error_that_is_adjusted_by_bits_alone_takes_a_smaller_step():
    def step(text, error):
        found = measured([100, 0], 1, squared_error=error, squared_norm=1.0)
        control = model_of(Budget(text, nmse=0.1)).rate_control
        return float(control.next({"rate": np.float32(1)}, found)["rate"])

    assert step("qsgd(4)", 0.4) == pytest.approx(4 ** (1 / 12))
    assert step("qsgd(4)", 0.025) == pytest.approx(4 ** (-1 / 12))
    assert step("topk(0.1)", 0.4) == pytest.approx(0.9 / 0.6)
    assert step("topk(0.1) | qsgd(4)", 0.4) == pytest.approx(0.9 / 0.6)


def test_a_budget_for_less_than_two_bits_is_refused():
    least = sum(lengths(model_of(Budget("qsgd(4)", 1000)), 0.01))
    assert 250 < least < 400
    for too_little in (250, least):
        with pytest.raises(ConfigError, match=f"the fewest bits of the others take {least} bytes"):
            model_of(Budget("qsgd(4)", too_little))
    model_of(Budget("qsgd(4)", least + 1))


def test_a_budget_below_the_uncompressed_tensors_is_refused():
    least = 40 + sum(container_bytes(wire_id, spec) for wire_id, spec in zip(WIRE_IDS, SPECS, strict=True))
    with pytest.raises(ConfigError, match=f"a budget of {least} bytes leaves nothing .* take {least} bytes"):
        model_of(Budget("topk(0.01)", least))
    model_of(Budget("topk(0.01)", least + 1))


def test_the_next_rate_follows_from_the_variable_bytes():
    budget = Budget("topk(0.01)", 1000)
    assert next_rate(budget, fixed=3 * 400, adjustable=3 * 200, payloads=3) == 3.0
    assert next_rate(budget, fixed=2 * 400, adjustable=2 * 600, payloads=2, rate=5.0) == 5.0


def test_containers_and_uncompressed_tensors_have_a_fixed_size():
    model = model_of(Budget(TopK(count=1), 1000))
    buffers, _ = model.encode(update(), model.init_state(), 0)
    sizes = [len(buffer) for buffer in buffers]
    body = len(wire.unframe(buffers[0]).body)
    assert 1 + 1 + 4 + 1 <= body < 10  # two lengths, value, index code
    control = model_of(Budget(TopK(count=1), sum(sizes) + 2 * body)).rate_control
    assert float(control.next(control.init(), measured(sizes, 1))["rate"]) == 3.0


def test_no_step_is_larger_than_eight_and_without_payloads_there_is_none():
    budget = Budget("topk(0.01)", 1000)
    assert next_rate(budget, fixed=100, adjustable=0, payloads=1) == 8.0
    assert next_rate(budget, fixed=100, adjustable=10**9, payloads=1) == 0.125
    assert next_rate(budget, fixed=2000, adjustable=100, payloads=1) == 0.125
    assert next_rate(budget, fixed=0, adjustable=0, payloads=0, rate=3.0) == 3.0


def test_the_reported_error_is_the_part_that_is_not_sent():
    model, by_bytes = model_of(Budget("topk(0.1)", nmse=0.1)), model_of(Budget("topk(0.1)", 1000))
    xs, states = update(), model.init_state()
    for _ in range(2):
        a = xs[0] + states[0]["residual"]
        buffers, states = model.encode(xs, states, 0)
        received = model.decode(buffers)
        report = model.rate_control.report(xs, received, states)
        assert set(report) == set(model.rate_control.reported)
        lost = a - received[0]
        assert float(report["squared_error"]) == pytest.approx(np.sum(lost**2), rel=1e-5)
        total = np.sum(a**2) + np.sum(xs[1] ** 2)
        assert float(report["squared_norm"]) == pytest.approx(total, rel=1e-5)
    assert by_bytes.rate_control.report(xs, received, states) == {}
    assert by_bytes.rate_control.reported == ()


def test_metrics_have_the_rate_and_the_error_where_it_is_wanted():
    found = measured([100, 0], 2, squared_error=1.0, squared_norm=4.0)
    control = {"rate": np.float32(3)}
    by_bytes = model_of(Budget("topk(0.1)", 1000)).rate_control.metrics(control, found)
    by_error = model_of(Budget("topk(0.1)", nmse=0.1)).rate_control.metrics(control, found)
    assert {key: float(number) for key, number in by_bytes.items()} == {"rate": 3.0}
    assert {key: float(number) for key, number in by_error.items()} == {"rate": 3.0, "nmse": 0.25}


@pytest.mark.parametrize("text", ["bfp(4)", "identity", "qsgd(8) | rans"])
def test_an_encoder_without_a_rate_cannot_keep_a_budget(text):
    with pytest.raises(CapabilityError, match=r"none of these; use qsgd\(8\), or an encoder with a fraction"):
        Budget(text, 1000)
    with pytest.raises(CapabilityError, match="none of these"):
        model_of(Budget({"name": "rules", "config": {"rules": {"*": text}}}, 1000))


def test_rules_are_written_as_for_a_process():
    rules = {"*/bias": "identity", "*": "topk(0.01)"}
    assert Budget(rules, 1000) == Budget(fedplug.encoder("rules", rules=rules), 1000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either bytes_per_client or nmse"),
        ({"bytes_per_client": 10, "nmse": 0.1}, "either bytes_per_client or nmse"),
        ({"bytes_per_client": 0}, "bytes_per_client is 0"),
        ({"bytes_per_client": 1.5}, "bytes_per_client is 1.5"),
        ({"nmse": 1.0}, "nmse is 1.0"),
        ({"nmse": 0}, "nmse is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Budget("topk(0.01)", **arguments)


def test_a_budget_of_a_budget_is_refused():
    with pytest.raises(ConfigError, match="a budget is for an encoder or rules"):
        Budget("budget('topk(0.1)', 100)", 1000)


SHAPES = {"dense/kernel": (200, 50), "dense/bias": (80,), "out/kernel": (50, 40)}
ROUNDS, CLIENTS = 6, 3


def rounds(on, text):
    """Yields the buffers, states, rate and metrics of each round; the clients keep their states."""
    specs = [on.spec(shape, "float32", name) for name, shape in SHAPES.items()]
    model = ModelEncoder(fedplug.encoder(text), specs)
    states = [model.init_state() for _ in range(CLIENTS)]
    control = {key: on.array(value) for key, value in model.rate_control.init().items()}
    for number in range(ROUNDS):
        found, lengths, sums = {}, np.zeros(len(specs), np.int64), {}
        for client in range(CLIENTS):
            xs = [on.tensor("normal", spec, 100 * number + 10 * client + i) for i, spec in enumerate(specs)]
            buffers, states[client] = model.encode(xs, states[client], on.round_num(number), control)
            bodies = [np.frombuffer(b, np.uint8) if isinstance(b, bytes) else on.numpy(b) for b in buffers]
            lengths += [len(body) for body in bodies]
            for key, value in model.rate_control.report(xs, model.decode(buffers), states[client]).items():
                sums[key] = sums.get(key, on.array(np.float32(0))) + value
            found |= {f"buffer {client} {i}": body for i, body in enumerate(bodies)}
            found |= {
                f"state {client} {i} {k}": x for i, s in enumerate(states[client]) for k, x in s.items()
            }
        measured = {"tensor_bytes": on.array(lengths), "payloads": on.array(np.int32(CLIENTS)), **sums}
        metrics = model.rate_control.metrics(control, measured)
        yield lengths.sum() / CLIENTS, metrics, found | control
        control = model.rate_control.next(control, measured)


@pytest.mark.parametrize(
    "encoder",
    [
        "topk(0.001)",
        "topk(0.5, scope='model') | qsgd(8)",
        "qsgd(2)",
        "rules({'*/bias': 'identity', '*': 'topk(0.01)'})",
    ],
)
def test_the_mean_payload_is_within_two_percent_of_the_budget_after_four_rounds(encoder):
    found = [size for size, *_ in rounds(NumPy(), f"budget({encoder!r}, 5000)")]
    assert abs(found[0] - 5000) > 500
    assert found[4:] == pytest.approx([5000] * (ROUNDS - 4), rel=0.02)


def test_the_error_approaches_its_target():
    found = rounds(NumPy(), "budget('topk(0.01)', nmse=0.6)")
    errors = [float(metrics["nmse"]) for _, metrics, _ in found]
    assert abs(errors[0] - 0.6) > 0.2
    assert errors[-1] == pytest.approx(0.6, abs=0.1)


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize(
    "text",
    [
        "budget('topk(0.05, scope=\"model\")', 3000)",
        "budget('qsgd(4, block_size=64)', 5000)",
        pytest.param(
            "budget(\"rules({'*/bias': 'identity', '*': 'stc(0.05)'})\", nmse=0.5)", marks=pytest.mark.slow
        ),
    ],
)
def test_tensors_give_the_bytes_states_and_rates_of_arrays(text):
    of_all = [rounds(on, text) for on in executions.installed(EXECUTIONS)]
    rates = set()
    for number, ((*_, found), (*_, on_tensors)) in enumerate(zip(*of_all, strict=True)):
        expect.same_tensors(f"round {number} of {text}", on_tensors, found)
        rates.add(float(found["rate"]))
    assert len(rates) > 1
