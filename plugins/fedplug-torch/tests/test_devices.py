"""CUDA tensors are encoded on their device by fedplug-cuda, with the CPU's payloads."""

import pytest
import safetensors.torch
import torch
from digits import hooked
from fedplug_torch import Codec, FixedSize, OuterStep
from fedplug_torch.mean import means_of
from fedplug_torch.tensors import arrays_like

import fedplug

NO_DEVICE = (
    "no CUDA device, and PyTorch makes CUDA tensors on nothing else; "
    "fedplug-cuda's own tests run the kernels on a fake device"
)
fedplug_cuda = pytest.importorskip("fedplug_cuda", reason=NO_DEVICE)
pytestmark = pytest.mark.skipif(
    fedplug_cuda.problem() is not None or not torch.cuda.is_available(), reason=NO_DEVICE
)


def update(seed, device, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    shapes = {"kernel": (300, 70), "bias": (10,), "out": (70, 3)}
    tensors = {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}
    return {name: tensor.to(device) for name, tensor in {**tensors, "steps": torch.tensor(3)}.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "expression", ["topk(0.05)", "topk(0.05, scope='model') | qsgd(8)", "qsgd(4)", "topk(0.1, chunk=64)"]
)
def test_payloads_and_states_are_those_of_the_cpu(dtype, expression):
    codec, state, expected_state = Codec(expression), None, None
    for round_num in range(3):
        expected, expected_state = codec.encode_model(
            update(round_num, "cpu", dtype), expected_state, round_num
        )
        payloads, state = codec.encode_model(update(round_num, "cuda", dtype), state, round_num)
        assert payloads == expected
    assert state.keys() == expected_state.keys()
    for key, tensor in expected_state.items():
        assert torch.equal(state[key].cpu(), tensor), key


def test_a_nan_is_named_and_nothing_changes():
    codec = Codec("topk(0.05)")
    _, state = codec.encode_model(update(0, "cuda"))
    before = {key: tensor.clone() for key, tensor in state.items()}
    broken = update(1, "cuda")
    broken["out"][3, 1] = float("nan")
    with pytest.raises(fedplug.errors.NonFiniteError, match="array 'out'"):
        codec.encode_model(broken, state, 1, in_place=True)
    assert all(torch.equal(state[key], tensor) for key, tensor in before.items())


FIXED = "topk(count=64, chunk=4096, decay=0.95) | codebook(2) | offsets(4096)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_payloads_of_a_fixed_size_and_their_means_are_those_of_the_cpu(dtype):
    fixed, x = FixedSize(FIXED), torch.randn(3, 5000).to(dtype)
    x[1, 7] = 100
    here, there = fixed.encode(x, fixed.zeros(x)), fixed.encode(x.cuda(), fixed.zeros(x.cuda()))
    for mine, theirs in zip(here, there, strict=True):
        assert torch.equal(mine, theirs.cpu())
    payloads = torch.stack([here.payload, torch.zeros_like(here.payload)])
    assert torch.equal(fixed.mean(payloads, x), fixed.mean(payloads.cuda(), x.cuda()).cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_payloads_of_a_fixed_size_are_recorded_in_a_graph(dtype):
    fixed, x = FixedSize(FIXED), torch.randn(50_000, device="cuda").to(dtype)
    residual = fixed.zeros(x)

    def step():
        sent = fixed.encode(x, residual)
        return sent, fixed.mean(sent.payload[None], x)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sent, mean = step()
    for seed in range(2):
        x.copy_(torch.randn(50_000, generator=torch.Generator().manual_seed(seed)))
        graph.replay()
        expected = fixed.encode(x.cpu(), residual.cpu())
        assert torch.equal(sent.payload.cpu(), expected.payload)
        assert torch.equal(mean.cpu(), fixed.mean(expected.payload[None], x.cpu()))
        residual.copy_(sent.residual)


def test_payloads_of_a_fixed_size_are_compiled():
    fixed, x = FixedSize(FIXED), torch.randn(50_000, device="cuda")
    compiled = torch.compile(fixed.encode, fullgraph=True)
    for mine, theirs in zip(compiled(x, fixed.zeros(x)), fixed.encode(x, fixed.zeros(x)), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("encoder", ["topk(0.05) | qsgd(8)", "topk(0.05, scope='model')", "qsgd(8)"])
@pytest.mark.parametrize("memory", ["device", "bfloat16", "host"])
def test_outer_steps_have_the_bits_of_the_cpu_wherever_their_memory_is(encoder, memory):
    messages, models = {}, {}
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        models[device] = torch.nn.Linear(300, 70).to(device)
        outer = OuterStep(models[device], encoder, inner_steps=1, memory=memory)
        for seed in range(3):
            with torch.no_grad():
                for name, change in update(seed, device).items():
                    if name == "kernel":
                        models[device].weight += change.T
            messages[device, seed] = outer.encode()
            outer.apply({"other": messages["cpu", seed]} if seed == 1 else {"own": messages[device, seed]})
        (kept,) = (x for name, x in outer.state_dict().items() if name.endswith("anchor/weight"))
        assert kept.is_cuda == (device == "cuda" and memory != "host")
        saved = safetensors.torch.load(safetensors.torch.save(outer.state_dict()))
        outer.load_state_dict(saved)
    for seed in range(3):
        assert messages["cuda", seed] == messages["cpu", seed]
    assert torch.equal(models["cuda"].weight.cpu(), models["cpu"].weight)


@pytest.mark.parametrize("expression", ["topk(0.05) | qsgd(8)", "qsgd(8)", "codebook(3)"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_means_are_on_the_device_with_the_bits_of_the_cpu(dtype, expression):
    likes = {name: x for name, x in update(0, "cpu", dtype).items() if x.is_floating_point()}
    codec = fedplug.codec(expression)
    wire_ids = codec.wire_ids(arrays_like(likes))
    messages = {}
    for seed in range(3):  # a number by which a GPU would not divide exactly
        tensors = update(seed, "cpu", dtype)
        del tensors["steps"]
        messages[f"rank {seed}"], _ = Codec(codec).encode_model(tensors)
    messages["rank 1"]["out"] = b""
    expected = dict(means_of(messages, likes, wire_ids, empty_is_zero=True))
    there = {name: like.cuda() for name, like in likes.items()}
    found = dict(means_of(messages, there, wire_ids, empty_is_zero=True))
    for name, mean in expected.items():
        assert found[name].is_cuda
        assert found[name].dtype == dtype
        assert torch.equal(found[name].cpu(), mean)
    messages["rank 2"]["kernel"] = messages["rank 2"]["kernel"][:-1]
    with pytest.raises(fedplug.errors.PayloadError, match="rank 2, tensor 'kernel'"):
        dict(means_of(messages, there, wire_ids, empty_is_zero=True))


@pytest.mark.parametrize("encoder", ["topk(0.05) | qsgd(8)", "topk(0.05, scope='model')", "qsgd(8)"])
def test_the_hook_has_the_bits_of_the_cpu_and_keeps_residuals_on_the_device(encoder, one_rank):
    gradients = {}
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = torch.nn.Linear(300, 70).to(device)
        ddp, state = hooked(encoder, model)
        for seed in range(6):  # DDP's buckets change after the first step
            model.zero_grad()
            # A gradient is one number of x, so it has the same bits on both devices.
            x = torch.zeros(1, 300, device=device)
            x[0, seed::7] = torch.arange(1.0, 301.0, device=device)[seed::7]
            ddp(x).sum().backward()
        gradients[device] = model.weight.grad.cpu()
        if "topk" in encoder:
            assert state.state_dict()["codec/weight/residual"].device.type == device
        state.load_state_dict(safetensors.torch.load(safetensors.torch.save(state.state_dict())))
    assert torch.equal(gradients["cuda"], gradients["cpu"])
