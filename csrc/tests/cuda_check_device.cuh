// Calls of the CUDA kernels: device memory that begins as garbage, random inputs, and functions that return the
// results of a kernel. The cases are in cuda_check_cases.h, the times in cuda_check_times.cu.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_DEVICE_CUH_
#define FEDPLUG_TESTS_CUDA_CHECK_DEVICE_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/fixed_payload.h"
#include "cuda/scatter_decode.h"
#include "cuda/topk_residual.h"
#include "cuda/value_code.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {

inline void Check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

inline void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// Device memory filled with garbage. The elements begin `shift` elements after
// an allocation.
template <typename Element>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size, std::size_t shift = 0)
      : size_(size), shift_(shift) {
    const std::size_t bytes = Bytes() + (shift + 1) * sizeof(Element);
    Check(cudaMalloc(&memory_, bytes));
    Check(cudaMemset(memory_, 0xa5, bytes));
  }
  explicit DeviceArray(const std::vector<Element>& values,
                       std::size_t shift = 0)
      : DeviceArray(values.size(), shift) {
    if (Bytes() > 0) {
      Check(cudaMemcpy(data(), values.data(), Bytes(), cudaMemcpyHostToDevice));
    }
  }
  ~DeviceArray() { cudaFree(memory_); }
  DeviceArray(DeviceArray&& other) noexcept
      : size_(other.size_),
        shift_(other.shift_),
        memory_(std::exchange(other.memory_, nullptr)) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  Element* data() const { return memory_ + shift_; }
  std::size_t Bytes() const { return size_ * sizeof(Element); }

  // Waits for all that was queued.
  std::vector<Element> ToVector() const {
    std::vector<Element> values(size_);
    Check(cudaDeviceSynchronize());
    if (Bytes() > 0) {
      Check(cudaMemcpy(values.data(), data(), Bytes(), cudaMemcpyDeviceToHost));
    }
    return values;
  }

 private:
  std::size_t size_;
  std::size_t shift_;
  Element* memory_ = nullptr;
};

template <typename T>
struct TopKInput {
  std::vector<T> delta;
  std::vector<T> residual;
  std::int64_t k = 0;
  bool in_place = true;
  // Elements before the first in every buffer, because a part of a larger
  // tensor is only aligned to its dtype.
  std::size_t shift = 0;

  std::int64_t n() const { return static_cast<std::int64_t>(delta.size()); }
  std::size_t chosen() const {
    return static_cast<std::size_t>(std::min(k, n()));
  }
};

template <typename T>
struct TopKOutput {
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<T> residual;
  cuda::TopKReport report = {-7, -7};
};

template <typename T>
TopKInput<T> RandomInput(std::int64_t n, std::int64_t k, Fill fill,
                         Random& random) {
  return {RandomVector<T>(n, fill, random), RandomVector<T>(n, fill, random), k,
          Below(random, 2) == 0, static_cast<std::size_t>(Below(random, 4))};
}

// The buffers of one tensor on the device.
template <typename T>
struct DeviceTensor {
  explicit DeviceTensor(const TopKInput<T>& input)
      : delta(input.delta, input.shift),
        residual_in(input.residual, input.shift),
        residual_out(input.residual.size(), input.shift),
        values(input.chosen(), input.shift),
        indices(input.chosen(), input.shift),
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

template <typename T>
std::vector<cuda::TopKTensor<T>> TensorsOf(
    const std::vector<DeviceTensor<T>>& on_device) {
  std::vector<cuda::TopKTensor<T>> tensors;
  for (const DeviceTensor<T>& each : on_device) tensors.push_back(each.tensor);
  return tensors;
}

// The buffers of one call for all tensors, with a k for each.
template <typename T>
struct DeviceSelection {
  explicit DeviceSelection(const std::vector<TopKInput<T>>& inputs)
      : on_device(inputs.begin(), inputs.end()),
        tensors(TensorsOf(on_device)),
        count(static_cast<std::int64_t>(tensors.size())),
        workspace(cuda::TopKResidualWorkspaceBytes(tensors.data(), count)),
        reports(tensors.size()) {}

  Status Queue() const {
    return cuda::TopKResidual(tensors.data(), count, workspace.data(),
                              workspace.Bytes(), reports.data(), nullptr);
  }

  std::vector<DeviceTensor<T>> on_device;
  std::vector<cuda::TopKTensor<T>> tensors;
  std::int64_t count;
  DeviceArray<std::byte> workspace;
  DeviceArray<cuda::TopKReport> reports;
};

template <typename T>
std::vector<TopKOutput<T>> TopK(const std::vector<TopKInput<T>>& inputs) {
  const DeviceSelection<T> selection(inputs);
  Check(selection.Queue());
  const auto found = selection.reports.ToVector();
  std::vector<TopKOutput<T>> outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DeviceTensor<T>& tensor = selection.on_device[i];
    outputs.push_back({tensor.values.ToVector(), tensor.indices.ToVector(),
                       tensor.Residual(inputs[i]), found[i]});
  }
  return outputs;
}

// Of a list with one k for all.
template <typename T>
struct GroupedTopKOutput {
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> row_splits;
  std::vector<std::vector<T>> residuals;
  std::vector<cuda::TopKReport> reports;
};

// min(k, sum of n)
template <typename T>
std::size_t ChosenOfGroup(const std::vector<TopKInput<T>>& inputs,
                          std::int64_t k) {
  std::int64_t n = 0;
  for (const TopKInput<T>& input : inputs) n += input.n();
  return static_cast<std::size_t>(std::min(k, n));
}

// No input's own k counts.
template <typename T>
GroupedTopKOutput<T> GroupedTopK(const std::vector<TopKInput<T>>& inputs,
                                 std::int64_t k) {
  std::vector<DeviceTensor<T>> on_device;
  std::vector<TensorUpdate<T>> tensors;
  for (const TopKInput<T>& input : inputs) {
    on_device.emplace_back(input);
    const cuda::TopKTensor<T>& tensor = on_device.back().tensor;
    tensors.push_back(
        {tensor.delta, tensor.residual_in, tensor.residual_out, tensor.n});
  }
  const auto count = static_cast<std::int64_t>(tensors.size());
  const DeviceArray<T> values(ChosenOfGroup(inputs, k));
  const DeviceArray<std::int32_t> indices(ChosenOfGroup(inputs, k));
  const DeviceArray<std::int64_t> row_splits(inputs.size() + 1);
  const DeviceArray<std::byte> workspace(
      cuda::GroupedTopKResidualWorkspaceBytes(tensors.data(), count));
  const DeviceArray<cuda::TopKReport> reports(tensors.size());
  Check(cuda::GroupedTopKResidual(tensors.data(), count, k, workspace.data(),
                                  workspace.Bytes(), values.data(),
                                  indices.data(), row_splits.data(),
                                  reports.data(), nullptr));
  GroupedTopKOutput<T> output = {values.ToVector(),
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
struct ScatterInput {
  std::vector<T> accumulator;
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> row_splits;
  std::vector<T> weights;  // empty for none

  std::int64_t n() const {
    return static_cast<std::int64_t>(accumulator.size());
  }
  std::int64_t entries() const {
    return static_cast<std::int64_t>(values.size());
  }
  std::int64_t payloads() const {
    return static_cast<std::int64_t>(row_splits.size()) - 1;
  }
};

template <typename T>
ScatterInput<T> RandomPayloads(std::int64_t n, std::int64_t payloads,
                               std::int64_t largest_k, bool weighted, Fill fill,
                               Random& random) {
  ScatterInput<T> input;
  input.accumulator = RandomVector<T>(n, fill, random);
  input.row_splits = {0};
  for (std::int64_t p = 0; p < payloads; ++p) {
    const auto indices =
        RandomIndices(std::min(n, Below(random, largest_k + 1)), n, random);
    const auto values = RandomVector<T>(
        static_cast<std::int64_t>(indices.size()), fill, random);
    input.indices.insert(input.indices.end(), indices.begin(), indices.end());
    input.values.insert(input.values.end(), values.begin(), values.end());
    input.row_splits.push_back(input.entries());
  }
  if (weighted)
    input.weights = RandomVector<T>(payloads, Fill::kNormal, random);
  return input;
}

// The buffers of a sum of payloads on the device.
template <typename T>
struct DeviceSum {
  explicit DeviceSum(const ScatterInput<T>& given)
      : input(given),
        accumulator(given.accumulator),
        values(given.values),
        indices(given.indices),
        row_splits(given.row_splits),
        weights(given.weights),
        workspace(cuda::ScatterDecodeWorkspaceBytes()),
        report(1) {}

  // `kernel` is ScatterDecodeAdd or ScatterDecode.
  template <typename Kernel>
  Status Queue(Kernel kernel) const {
    return kernel(accumulator.data(), input.n(), values.data(), indices.data(),
                  input.entries(), row_splits.data(), input.payloads(),
                  input.weights.empty() ? nullptr : weights.data(),
                  workspace.data(), workspace.Bytes(), report.data(), nullptr);
  }

  const ScatterInput<T>& input;
  DeviceArray<T> accumulator;
  DeviceArray<T> values;
  DeviceArray<std::int32_t> indices;
  DeviceArray<std::int64_t> row_splits;
  DeviceArray<T> weights;
  DeviceArray<std::byte> workspace;
  DeviceArray<cuda::ScatterReport> report;
};

// Encodes tensors to payloads of a fixed size, one behind the other.
class FixedPayloads {
 public:
  FixedPayloads(const cuda::FixedForm& form, std::int64_t payloads)
      : form_(form),
        payloads_(payloads),
        bytes_(static_cast<std::size_t>(cuda::FixedPayloadBytes(form))),
        after_(static_cast<std::size_t>(form.n)),
        data_(bytes_ * static_cast<std::size_t>(payloads)),
        non_finite_(1),
        workspace_(std::max(cuda::FixedEncodeWorkspaceBytes(form),
                            cuda::FixedMeanWorkspaceBytes(form, payloads))) {}

  void Encode(std::size_t place, const DeviceArray<float>& delta,
              const DeviceArray<float>& residual) const {
    Check(cuda::QueueFixedEncode(form_, delta.data(), residual.data(),
                                 after_.data(), 0.9f, workspace_.data(),
                                 data_.data() + place * bytes_,
                                 non_finite_.data(), nullptr));
  }
  // The mean overwrites the last residual.
  void Mean() const {
    Check(cuda::QueueFixedMean(form_, data_.data(), payloads_,
                               workspace_.data(), after_.data(), nullptr));
  }
  std::uint64_t Refused() const { return non_finite_.ToVector()[0].count; }

 private:
  cuda::FixedForm form_;
  std::int64_t payloads_;
  std::size_t bytes_;
  DeviceArray<float> after_;
  DeviceArray<std::uint8_t> data_;
  DeviceArray<cuda::NonFiniteCount> non_finite_;
  DeviceArray<std::byte> workspace_;
};

// Prints the device; without one, ends the process with 77. The first test of a
// program.
inline void FindDevice() {
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

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_DEVICE_CUH_
