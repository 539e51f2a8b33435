// Holds a GPU to the cases of cuda_check_cases.h, then prints how long the
// kernels take next to a copy on the device and, where the toolkit has it,
// cub::DeviceTopK. Needs no TensorFlow. Without a GPU it says so and exits with
// 77, which ctest counts as skipped.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#if __has_include(<cub/device/device_topk.cuh>)
#include <cub/device/device_topk.cuh>
#define FEDPLUG_HAS_DEVICE_TOPK 1
#endif

#include "tests/cuda_check_cases.h"

namespace fedplug::testing {
namespace {

void Check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// Device memory that begins as garbage.
template <typename Element>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    Check(cudaMalloc(&data_, Bytes() + 1));
    Check(cudaMemset(data_, 0xa5, Bytes() + 1));
  }
  explicit DeviceArray(const std::vector<Element>& values)
      : DeviceArray(values.size()) {
    if (Bytes() > 0) {
      Check(cudaMemcpy(data_, values.data(), Bytes(), cudaMemcpyHostToDevice));
    }
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray&& other) noexcept
      : size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  Element* data() const { return data_; }
  std::size_t Bytes() const { return size_ * sizeof(Element); }

  // Waits for all that was queued.
  std::vector<Element> ToVector() const {
    std::vector<Element> values(size_);
    Check(cudaDeviceSynchronize());
    if (Bytes() > 0) {
      Check(cudaMemcpy(values.data(), data_, Bytes(), cudaMemcpyDeviceToHost));
    }
    return values;
  }

 private:
  std::size_t size_;
  Element* data_ = nullptr;
};

// The buffers of one tensor on the device.
template <typename T>
struct DeviceTensor {
  explicit DeviceTensor(const TopKInput<T>& input)
      : delta(input.delta),
        residual_in(input.residual),
        residual_out(input.residual.size()),
        values(input.chosen()),
        indices(input.chosen()),
        tensor{delta.data(),
               residual_in.data(),
               input.in_place ? residual_in.data() : residual_out.data(),
               input.n(),
               input.k,
               values.data(),
               indices.data()} {}

  std::vector<T> Residual(const TopKInput<T>& input) const {
    return (input.in_place ? residual_in : residual_out).ToVector();
  }

  DeviceArray<T> delta;
  DeviceArray<T> residual_in;
  DeviceArray<T> residual_out;
  DeviceArray<T> values;
  DeviceArray<std::int32_t> indices;
  cuda::TopKTensor<T> tensor;
};

class Gpu {
 public:
  template <typename T>
  std::vector<TopKOutput<T>> TopK(const std::vector<TopKInput<T>>& inputs,
                                  NonFinitePolicy policy) {
    std::vector<DeviceTensor<T>> on_device;
    std::vector<cuda::TopKTensor<T>> tensors;
    for (const TopKInput<T>& input : inputs) {
      on_device.emplace_back(input);
      tensors.push_back(on_device.back().tensor);
    }
    const auto count = static_cast<std::int64_t>(tensors.size());
    const std::size_t bytes =
        cuda::TopKResidualWorkspaceBytes(tensors.data(), count);
    const DeviceArray<std::byte> workspace(bytes);
    const DeviceArray<cuda::TopKReport> reports(tensors.size());
    Check(cuda::TopKResidual(tensors.data(), count, policy, workspace.data(),
                             bytes, reports.data(), nullptr));
    const auto found = reports.ToVector();
    std::vector<TopKOutput<T>> outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const DeviceTensor<T>& tensor = on_device[i];
      outputs.push_back({tensor.values.ToVector(), tensor.indices.ToVector(),
                         tensor.Residual(inputs[i]), found[i]});
    }
    return outputs;
  }

  template <typename T>
  TopKOfAllOutput<T> TopKOfAll(const std::vector<TopKInput<T>>& inputs,
                               std::int64_t k, NonFinitePolicy policy) {
    std::vector<DeviceTensor<T>> on_device;
    std::vector<TensorUpdate<T>> tensors;
    for (const TopKInput<T>& input : inputs) {
      on_device.emplace_back(input);
      const cuda::TopKTensor<T>& tensor = on_device.back().tensor;
      tensors.push_back(
          {tensor.delta, tensor.residual_in, tensor.residual_out, tensor.n});
    }
    const auto count = static_cast<std::int64_t>(tensors.size());
    const DeviceArray<T> values(ChosenOfAll(inputs, k));
    const DeviceArray<std::int32_t> indices(ChosenOfAll(inputs, k));
    const DeviceArray<std::int64_t> row_splits(inputs.size() + 1);
    const std::size_t bytes =
        cuda::TopKResidualOfAllWorkspaceBytes(tensors.data(), count);
    const DeviceArray<std::byte> workspace(bytes);
    const DeviceArray<cuda::TopKReport> reports(tensors.size());
    Check(cuda::TopKResidualOfAll(tensors.data(), count, k, policy,
                                  workspace.data(), bytes, values.data(),
                                  indices.data(), row_splits.data(),
                                  reports.data(), nullptr));
    TopKOfAllOutput<T> output = {values.ToVector(),
                                 indices.ToVector(),
                                 row_splits.ToVector(),
                                 {},
                                 reports.ToVector()};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      output.residuals.push_back(on_device[i].Residual(inputs[i]));
    }
    return output;
  }

  template <typename T>
  ScatterOutput<T> Scatter(const ScatterInput<T>& input) {
    const DeviceArray<T> accumulator(input.accumulator);
    const DeviceArray<T> values(input.values);
    const DeviceArray<std::int32_t> indices(input.indices);
    const DeviceArray<std::int64_t> row_splits(input.row_splits);
    const DeviceArray<T> weights(input.weights);
    const std::size_t bytes = cuda::ScatterDecodeAddWorkspaceBytes();
    const DeviceArray<std::byte> workspace(bytes);
    const DeviceArray<cuda::ScatterReport> report(1);
    Check(cuda::ScatterDecodeAdd(
        accumulator.data(), static_cast<std::int64_t>(input.accumulator.size()),
        values.data(), indices.data(),
        static_cast<std::int64_t>(input.values.size()), row_splits.data(),
        input.payloads(), input.weights.empty() ? nullptr : weights.data(),
        workspace.data(), bytes, report.data(), nullptr));
    return {accumulator.ToVector(), cuda::ToStatus(report.ToVector()[0])};
  }
};

// The first test of this file: the others need what it finds.
TEST(Cuda, HasADevice) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: no CUDA device");
    std::exit(77);
  }
  cudaDeviceProp properties;
  int driver = 0;
  Check(cudaGetDeviceProperties(&properties, 0));
  Check(cudaDriverGetVersion(&driver));
  std::printf("device %s, sm_%d%d, driver for CUDA %d.%d\n", properties.name,
              properties.major, properties.minor, driver / 1000,
              driver % 1000 / 10);
}

TEST(Cuda, TopKEqualsTheReference) {
  Gpu gpu;
  ForEachDtype([&](auto zero) { TopKEqualsTheReference<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKSeparatesKeysByEveryDigit) {
  Gpu gpu;
  ForEachDtype(
      [&](auto zero) { TopKSeparatesKeysByEveryDigit<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKTakesALongListOfTensors) {
  Gpu gpu;
  ForEachDtype(
      [&](auto zero) { TopKTakesALongListOfTensors<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKRefusesTheWholeListAndChangesNothing) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    TopKRefusesTheWholeListAndChangesNothing<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesALongTensor) {
  Gpu gpu;
  TopKTakesALongTensor(gpu);
}

TEST(Cuda, TopKOfAllEqualsTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) { TopKOfAllEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKOfAllTakesALongListOfTensors) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    TopKOfAllTakesALongListOfTensors<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKOfAllRefusesInTheWordsOfTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    TopKOfAllRefusesInTheWordsOfTheCore<decltype(zero)>(gpu);
  });
}

TEST(Cuda, ScatterEqualsTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) { ScatterEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, ScatterRefusesInTheWordsOfTheCore) {
  Gpu gpu;
  ScatterRefusesInTheWordsOfTheCore(gpu);
}

// Median of `repeats` runs, each after `prepare`, by events on the stream.
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
// Only the selection, of keys that are already there: no sum, no residual, no
// order, ties as they come. So it does less than the row it stands next to.
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

TEST(Cuda, TopKTimes) {
  std::puts("us, medians; cub 0 = not in this toolkit");
  std::puts("         n         k  topk_residual  copy of 4n bytes       cub");
  Random random(9);
  for (const std::int64_t n : {100000, 1000000, 10000000, 50000000}) {
    TopKInput<float> input = RandomInput<float>(n, 0, Fill::kNormal, random);
    input.in_place = true;
    const DeviceArray<float> fresh(input.residual);
    for (const std::int64_t k : {n / 1000, n / 100, n / 10}) {
      input.k = k;
      const DeviceTensor<float> device(input);
      const std::size_t bytes =
          cuda::TopKResidualWorkspaceBytes(&device.tensor, 1);
      const DeviceArray<std::byte> workspace(bytes);
      const DeviceArray<cuda::TopKReport> report(1);
      const auto restore = [&] {
        Check(cudaMemcpyAsync(device.residual_in.data(), fresh.data(),
                              fresh.Bytes(), cudaMemcpyDeviceToDevice));
      };
      const double ours = MedianMicroseconds(restore, [&] {
        Check(cuda::TopKResidual(&device.tensor, 1, NonFinitePolicy::kError,
                                 workspace.data(), bytes, report.data(),
                                 nullptr));
      });
      ExpectReference(input,
                      {device.values.ToVector(), device.indices.ToVector(),
                       device.residual_in.ToVector(), report.ToVector()[0]});
      const double copy = MedianMicroseconds([] {}, restore);
      std::printf("%10lld %9lld  %13.1f  %16.1f  %8.1f\n",
                  static_cast<long long>(n), static_cast<long long>(k), ours,
                  copy, DeviceTopKMicroseconds(device.delta, n, k));
    }
  }
}

TEST(Cuda, ScatterTimes) {
  std::puts("         n  payloads      entries  scatter_decode_add us");
  Random random(10);
  const std::int64_t n = 10000000;
  for (const std::int64_t payloads : {10, 100}) {
    const auto input =
        RandomPayloads<float>(n, payloads, n / 50, true, Fill::kNormal, random);
    const DeviceArray<float> accumulator(input.accumulator);
    const DeviceArray<float> values(input.values);
    const DeviceArray<std::int32_t> indices(input.indices);
    const DeviceArray<std::int64_t> row_splits(input.row_splits);
    const DeviceArray<float> weights(input.weights);
    const DeviceArray<std::byte> workspace(
        cuda::ScatterDecodeAddWorkspaceBytes());
    const DeviceArray<cuda::ScatterReport> report(1);
    const double ours = MedianMicroseconds(
        [] {},
        [&] {
          Check(cuda::ScatterDecodeAdd(
              accumulator.data(), n, values.data(), indices.data(),
              static_cast<std::int64_t>(input.values.size()), row_splits.data(),
              payloads, weights.data(), workspace.data(), workspace.Bytes(),
              report.data(), nullptr));
        });
    Check(cuda::ToStatus(report.ToVector()[0]));
    Gpu gpu;
    ExpectSameAsCore(input, gpu);
    std::printf("%10lld %9lld %12zu  %21.1f\n", static_cast<long long>(n),
                static_cast<long long>(payloads), input.values.size(), ours);
  }
}

}  // namespace
}  // namespace fedplug::testing
