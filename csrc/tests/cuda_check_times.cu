// Prints the times of the kernels on a GPU beside a copy on the
// device and, if the toolkit has it, cub::DeviceTopK. Not a test of ctest;
// benchmarks/cuda_torch.py has the same sizes in PyTorch.
#include <numeric>

#if __has_include(<cub/device/device_topk.cuh>)
#include <cub/device/device_topk.cuh>
#define FEDPLUG_HAS_DEVICE_TOPK 1
#endif

#include "core/value_code.h"
#include "tests/cuda_check_device.cuh"

namespace fedplug::testing {
namespace {

TEST(CudaTimes, HasADevice) { FindDevice(); }

// Median of some runs, each after `prepare`, by events on the stream.
template <typename Prepare, typename Work>
double MedianMicroseconds(const Prepare& prepare, const Work& work) {
  constexpr int kRepeats = 21;
  cudaEvent_t begin, end;
  Check(cudaEventCreate(&begin));
  Check(cudaEventCreate(&end));
  std::vector<float> milliseconds;
  for (int i = 0; i < kRepeats + 3; ++i) {
    prepare();
    Check(cudaEventRecord(begin));
    work();
    Check(cudaEventRecord(end));
    Check(cudaEventSynchronize(end));
    float once = 0;
    Check(cudaEventElapsedTime(&once, begin, end));
    if (i >= 3) milliseconds.push_back(once);  // the first ones warm up
  }
  Check(cudaEventDestroy(begin));
  Check(cudaEventDestroy(end));
  std::sort(milliseconds.begin(), milliseconds.end());
  return 1000.0 * milliseconds[kRepeats / 2];
}

#ifdef FEDPLUG_HAS_DEVICE_TOPK
// Only the selection of existing keys, without sums, residuals, order or
// defined ties: less work than its row.
double DeviceTopKMicroseconds(const DeviceArray<float>& keys, std::int64_t n,
                              std::int64_t k) {
  const DeviceArray<float> out(static_cast<std::size_t>(k));
  // Written out, because fedplug has a namespace cuda too.
  namespace execution = ::cuda::execution;
  const auto requirements =
      execution::require(execution::determinism::not_guaranteed,
                         execution::output_ordering::unsorted);
  std::size_t bytes = 0;
  Check(cub::DeviceTopK::MaxKeys(nullptr, bytes, keys.data(), out.data(), n, k,
                                 requirements));
  const DeviceArray<std::byte> workspace(bytes);
  return MedianMicroseconds(
      [] {},
      [&] {
        Check(cub::DeviceTopK::MaxKeys(workspace.data(), bytes, keys.data(),
                                       out.data(), n, k, requirements));
      });
}
#else
double DeviceTopKMicroseconds(const DeviceArray<float>&, std::int64_t,
                              std::int64_t) {
  return 0;
}
#endif

// In place, after `restore` has put the old residual back.
template <typename Restore>
double TopKMicroseconds(const DeviceTensor<float>& device,
                        const Restore& restore) {
  const std::size_t bytes = cuda::TopKResidualWorkspaceBytes(&device.tensor, 1);
  const DeviceArray<std::byte> workspace(bytes);
  const DeviceArray<cuda::TopKReport> report(1);
  return MedianMicroseconds(restore, [&] {
    Check(cuda::TopKResidual(&device.tensor, 1, workspace.data(), bytes,
                             report.data(), nullptr));
  });
}

TEST(CudaTimes, TopKResidual) {
  std::puts(
      "topk_residual, us, medians; cub 0 = not in this toolkit\n"
      "         n         k  in place  copy of 4n bytes       cub");
  Random random(9);
  for (const std::int64_t n :
       {100000, 1000000, 3000000, 7000000, 10000000, 50000000}) {
    TopKInput<float> input = RandomInput<float>(n, 0, Fill::kNormal, random);
    input.in_place = true;
    input.shift = 0;
    const DeviceArray<float> fresh(input.residual);
    for (const std::int64_t k : {n / 1000, n / 100, n / 10}) {
      input.k = k;
      const DeviceTensor<float> device(input);
      const auto restore = [&] {
        Check(cudaMemcpyAsync(device.residual_in.data(), fresh.data(),
                              fresh.Bytes(), cudaMemcpyDeviceToDevice));
      };
      std::printf("%10lld %9lld %9.1f  %16.1f %9.1f\n",
                  static_cast<long long>(n), static_cast<long long>(k),
                  TopKMicroseconds(device, restore),
                  MedianMicroseconds([] {}, restore),
                  DeviceTopKMicroseconds(device.delta, n, k));
    }
  }
}

// The weights and biases of four blocks of a transformer, 768 wide.
std::vector<std::int64_t> LayerSizes() {
  constexpr std::int64_t kWidth = 768;
  std::vector<std::int64_t> sizes = {30522 * kWidth, 512 * kWidth};
  for (int block = 0; block < 4; ++block) {
    for (int i = 0; i < 4; ++i) {
      sizes.insert(sizes.end(), {kWidth * kWidth, kWidth});
    }
    sizes.insert(sizes.end(), {4 * kWidth * kWidth, 4 * kWidth,
                               4 * kWidth * kWidth, kWidth});
    sizes.insert(sizes.end(), {kWidth, kWidth, kWidth, kWidth});
  }
  return sizes;
}

// One call for `tensors` with one k, again and again from the same residual.
template <typename Restore>
double GroupedMicroseconds(const std::vector<TensorUpdate<float>>& tensors,
                           std::int64_t k, const Restore& restore,
                           std::vector<float>* selected) {
  const auto count = static_cast<std::int64_t>(tensors.size());
  const DeviceArray<float> values(static_cast<std::size_t>(k));
  const DeviceArray<std::int32_t> indices(static_cast<std::size_t>(k));
  const DeviceArray<std::int64_t> row_splits(tensors.size() + 1);
  const DeviceArray<cuda::TopKReport> reports(tensors.size());
  const DeviceArray<std::byte> workspace(
      cuda::GroupedTopKResidualWorkspaceBytes(tensors.data(), count));
  const double microseconds = MedianMicroseconds(restore, [&] {
    Check(cuda::GroupedTopKResidual(tensors.data(), count, k, workspace.data(),
                                    workspace.Bytes(), values.data(),
                                    indices.data(), row_splits.data(),
                                    reports.data(), nullptr));
  });
  *selected = values.ToVector();
  return microseconds;
}

// The same numbers as a list of layers and as one tensor: equal values in equal
// order.
TEST(CudaTimes, ListWithOneKAgainstOneTensor) {
  const auto sizes = LayerSizes();
  const std::int64_t n =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  Random random(13);
  const TopKInput<float> input =
      RandomInput<float>(n, 0, Fill::kNormal, random);
  const DeviceArray<float> delta(input.delta);
  const DeviceArray<float> fresh(input.residual);
  const DeviceArray<float> residual(input.residual);
  std::vector<TensorUpdate<float>> layers;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    layers.push_back({delta.data() + begin, residual.data() + begin,
                      residual.data() + begin, size});
    begin += size;
  }
  const auto restore = [&] {
    Check(cudaMemcpyAsync(residual.data(), fresh.data(), fresh.Bytes(),
                          cudaMemcpyDeviceToDevice));
  };
  std::printf("one k, us: a list of %zu tensors against one tensor, n = %lld\n",
              sizes.size(), static_cast<long long>(n));
  std::puts("         k      list  one tensor   ratio");
  for (const std::int64_t k : {n / 1000, n / 100, n / 10}) {
    std::vector<float> of_list, of_flat;
    const double list_us = GroupedMicroseconds(layers, k, restore, &of_list);
    const std::vector<float> left = residual.ToVector();
    const double flat_us = GroupedMicroseconds<decltype(restore)>(
        {{delta.data(), residual.data(), residual.data(), n}}, k, restore,
        &of_flat);
    EXPECT_EQ(BitsOf(of_list), BitsOf(of_flat));
    EXPECT_EQ(BitsOf(left), BitsOf(residual.ToVector()));
    std::printf("%10lld %9.1f %11.1f %7.3f\n", static_cast<long long>(k),
                list_us, flat_us, list_us / flat_us);
  }
}

TEST(CudaTimes, PayloadsOfAFixedSize) {
  constexpr std::int64_t kPayloads = 8;
  std::puts("payloads of a fixed size, 64 entries of each 4096 elements, us");
  std::puts("         n  bits    encode  mean of 8  copy of 4n bytes");
  Random random(14);
  for (const std::int64_t n : {10000000, 50000000}) {
    for (const std::int32_t bits : {2, 0}) {
      const cuda::FixedForm form{n, 64, 4096, bits};
      const DeviceArray<float> delta(
          RandomVector<float>(n, Fill::kNormal, random));
      const DeviceArray<float> residual(
          RandomVector<float>(n, Fill::kNormal, random));
      const FixedPayloads payloads(form, kPayloads);
      for (std::size_t i = 0; i < kPayloads; ++i) {
        payloads.Encode(i, delta, residual);
      }
      const double encode = MedianMicroseconds(
          [] {}, [&] { payloads.Encode(0, delta, residual); });
      const double mean = MedianMicroseconds([] {}, [&] { payloads.Mean(); });
      const DeviceArray<float> other(static_cast<std::size_t>(n));
      const double copy = MedianMicroseconds(
          [] {},
          [&] {
            Check(cudaMemcpyAsync(other.data(), delta.data(), delta.Bytes(),
                                  cudaMemcpyDeviceToDevice));
          });
      std::printf("%10lld %5d %9.1f %10.1f %17.1f\n", static_cast<long long>(n),
                  bits, encode, mean, copy);
    }
  }
}

// The code of 8 bits beside a copy of its result.
TEST(CudaTimes, DecodedValues) {
  constexpr std::int64_t kCount = 50000000;
  std::puts("decode_values, qsgd(8), float, us; then a copy of 4n bytes");
  Random random(15);
  const ValueCode code{ValueForm::kQsgd, 8, 512};
  const auto values = RandomVector<float>(kCount, Fill::kNormal, random);
  std::vector<std::uint8_t> data(
      static_cast<std::size_t>(ValueCodeBytes(code, kCount, sizeof(float))));
  Serial serial;
  std::int64_t non_finite = 0;
  Check(EncodeValues(values.data(), kCount, code, 0, serial, data.data(),
                     &non_finite));
  const DeviceArray<std::uint8_t> bytes(data);
  const DeviceArray<float> out(kCount);
  const DeviceArray<float> other(kCount);
  const double decode = MedianMicroseconds(
      [] {},
      [&] {
        Check(cuda::DecodeValues<float>(bytes.data(), kCount, code, 1,
                                        out.data(), nullptr));
      });
  const double copy = MedianMicroseconds(
      [] {},
      [&] {
        Check(cudaMemcpyAsync(other.data(), out.data(), out.Bytes(),
                              cudaMemcpyDeviceToDevice));
      });
  std::printf("%10lld %9.1f %9.1f\n", static_cast<long long>(kCount), decode,
              copy);
}

TEST(CudaTimes, ScatterDecodeAdd) {
  std::puts("         n  payloads      entries  scatter_decode_add us");
  Random random(10);
  const std::int64_t n = 10000000;
  for (const std::int64_t payloads : {10, 100}) {
    const auto input =
        RandomPayloads<float>(n, payloads, n / 50, true, Fill::kNormal, random);
    const DeviceSum<float> sum(input);
    const double ours = MedianMicroseconds(
        [] {}, [&] { Check(sum.Queue(cuda::ScatterDecodeAdd<float>)); });
    Check(cuda::ToStatus(sum.report.ToVector()[0]));
    std::printf("%10lld %9lld %12zu  %21.1f\n", static_cast<long long>(n),
                static_cast<long long>(payloads), input.values.size(), ours);
  }
}

}  // namespace
}  // namespace fedplug::testing
