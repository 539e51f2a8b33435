"""Arrays of PyTorch, CuPy and JAX on a GPU, each on its own stream, give the CPU's bits."""

import fedplug_cuda
import numpy as np
import pytest
from fedplug_cuda import DeviceError, grouped_topk_residual, scatter_decode_add

import fedplug
from fedplug import kernels
from fedplug.errors import ArgumentError

pytestmark = pytest.mark.skipif(
    fedplug_cuda.problem() is not None, reason=f"no CUDA device: {fedplug_cuda.problem()}"
)


def expected(deltas, residuals, k):
    rest = [residual.copy() for residual in residuals]
    return kernels.grouped_topk_residual(deltas, rest, k), rest


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in [(1000, 70), (3,), (129,)]]


@pytest.fixture(scope="module")
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch sees no CUDA device")
    return module


def test_torch_works_on_its_current_stream(torch):
    deltas, residuals = arrays(0), arrays(1)
    (values, indices, _), rest = expected(deltas, residuals, 700)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        xs = [torch.from_numpy(x).cuda(non_blocking=True) for x in deltas]
        for _ in range(20):  # work that the selection must wait for
            xs[0] = xs[0] * 1.0
        found = grouped_topk_residual(xs, [torch.from_numpy(x).cuda() for x in residuals], 700)
    assert found.values.tobytes() == values.tobytes()
    np.testing.assert_array_equal(found.indices, indices)
    for mine, other in zip(found.residuals, rest, strict=True):
        assert mine.shape == other.shape
        assert mine.cpu().numpy().tobytes() == other.tobytes()


def test_torch_refuses_tensors_it_cannot_read(torch):
    x = torch.randn(64, 3, device="cuda")
    with pytest.raises(ArgumentError, match="not C-contiguous"):
        grouped_topk_residual([x.T], None, 5)
    with pytest.raises(ArgumentError, match="requires a gradient"):
        grouped_topk_residual([x.clone().requires_grad_()], None, 5)
    with pytest.raises(ArgumentError, match="int64 has no CUDA kernel"):
        grouped_topk_residual([x.long()], None, 5)
    with pytest.raises(ArgumentError, match="is on cpu"):
        grouped_topk_residual([x.cpu()], None, 5)


def test_torch_without_memory_keeps_the_residual(torch):
    x, residual = (torch.randn(1 << 24, device="cuda") for _ in range(2))
    before = residual.clone()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1e-6)
    try:
        with pytest.raises(DeviceError, match="device memory"):
            grouped_topk_residual([x], [residual], 1000)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert torch.equal(residual, before)


def test_torch_sums(torch):
    values, indices = np.array([1.5, -2], np.float32), np.array([3, 4000], np.int32)
    total = torch.ones(5000, device="cuda")
    scatter_decode_add(total, values, indices, weights=np.array([2], np.float32))
    assert total.cpu().numpy()[[0, 3, 4000]].tolist() == [1.0, 4.0, -3.0]


def test_cupy():
    cupy = pytest.importorskip("cupy")
    deltas, residuals = arrays(0), arrays(1)
    (values, indices, _), rest = expected(deltas, residuals, 700)
    with cupy.cuda.Stream(non_blocking=True):
        found = grouped_topk_residual(
            [cupy.asarray(x) for x in deltas], [cupy.asarray(x) for x in residuals], 700
        )
        assert found.values.tobytes() == values.tobytes()
        np.testing.assert_array_equal(found.indices, indices)
        for mine, other in zip(found.residuals, rest, strict=True):
            assert cupy.asnumpy(mine).tobytes() == other.tobytes()


def test_jax():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX sees no CUDA device")
    deltas, residuals = arrays(0), arrays(1)
    (values, indices, _), rest = expected(deltas, residuals, 700)
    xs, olds = [jax.device_put(x) for x in deltas], [jax.device_put(x) for x in residuals]
    found = grouped_topk_residual(xs, olds, 700)
    assert found.values.tobytes() == values.tobytes()
    np.testing.assert_array_equal(found.indices, indices)
    for old, residual in zip(olds, residuals, strict=True):  # JAX arrays never change
        assert np.asarray(old).tobytes() == residual.tobytes()
    again = grouped_topk_residual(xs, found.residuals, 700)  # what it returned is taken again
    (values, _, _), rest = expected(deltas, rest, 700)
    assert again.values.tobytes() == values.tobytes()


@pytest.mark.parametrize("framework", ["cupy", "jax"])
def test_arrays_go_through_the_codec(framework):
    module = pytest.importorskip(framework)
    if framework == "jax" and module.default_backend() != "gpu":
        pytest.skip("this JAX sees no CUDA device")
    put = module.asarray if framework == "cupy" else module.device_put
    codec, state, expected_state = fedplug.codec("topk(0.05, scope='model') | qsgd(8)"), None, None
    for seed in range(3):
        model = {f"array {number}": x for number, x in enumerate(arrays(seed))}
        expected, expected_state = codec.encode_model(model, expected_state, seed)
        held = {name: fedplug_cuda.as_device_array(put(x)) for name, x in model.items()}
        payloads, state = codec.encode_model(held, state, seed)
        assert payloads == expected
