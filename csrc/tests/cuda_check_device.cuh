// A GPU as a Machine of cuda_check_cases.h, and its memory.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_DEVICE_CUH_
#define FEDPLUG_TESTS_CUDA_CHECK_DEVICE_CUH_

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "cuda/value_code.h"
#include "tests/cuda_check_cases.h"
#include "tests/cuda_check_list_cases.h"
#include "tests/cuda_check_scatter_cases.h"
#include "tests/cuda_check_value_cases.h"

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
  GroupedTopKOutput<T> GroupedTopK(const std::vector<TopKInput<T>>& inputs,
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
    const DeviceArray<T> values(ChosenOfGroup(inputs, k));
    const DeviceArray<std::int32_t> indices(ChosenOfGroup(inputs, k));
    const DeviceArray<std::int64_t> row_splits(inputs.size() + 1);
    const std::size_t bytes =
        cuda::GroupedTopKResidualWorkspaceBytes(tensors.data(), count);
    const DeviceArray<std::byte> workspace(bytes);
    const DeviceArray<cuda::TopKReport> reports(tensors.size());
    Check(cuda::GroupedTopKResidual(tensors.data(), count, k, policy,
                                    workspace.data(), bytes, values.data(),
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
  ScatterOutput<T> Scatter(const ScatterInput<T>& input) {
    return Decode(input, cuda::ScatterDecodeAdd<T>);
  }

  template <typename T>
  ScatterOutput<T> Decode(const ScatterInput<T>& input) {
    return Decode(input, cuda::ScatterDecode<T>);
  }

  template <typename T>
  ValueOutput<T> Encode(const ValueInput<T>& input) {
    using Wide = value_loops::WideOf<T>;
    const DeviceArray<T> values(input.values, input.shift);
    const DeviceArray<Wide> before(input.residual, input.shift);
    const DeviceArray<Wide> after(input.residual.size(), input.shift);
    const bool adds = !input.residual.empty();
    const DeviceArray<std::uint8_t> data(static_cast<std::size_t>(
        ValueCodeBytes(input.code, input.count(), sizeof(T))));
    const std::size_t bytes =
        cuda::EncodeValuesWorkspaceBytes(input.code, input.count(), sizeof(T));
    const DeviceArray<std::byte> workspace(bytes);
    const DeviceArray<cuda::ValueReport> report(1);
    Check(cuda::EncodeValues<T>({values.data(), adds ? before.data() : nullptr,
                                 adds ? after.data() : nullptr, input.count()},
                                input.code, input.seed, workspace.data(), bytes,
                                data.data(), report.data(), nullptr));
    return {data.ToVector(), after.ToVector(),
            cuda::ToStatus(report.ToVector()[0], input.count())};
  }

  template <typename T, typename Out>
  std::vector<Out> DecodeCode(const std::vector<std::uint8_t>& data,
                              std::int64_t count, const ValueCode& code,
                              double factor) {
    const DeviceArray<std::uint8_t> bytes(data, /*shift=*/1);
    const DeviceArray<Out> out(static_cast<std::size_t>(count));
    Check(cuda::DecodeValues<T>(bytes.data(), count, code, factor, out.data(),
                                nullptr));
    return out.ToVector();
  }

 private:
  template <typename T, typename Kernel>
  ScatterOutput<T> Decode(const ScatterInput<T>& input, Kernel kernel) {
    const DeviceArray<T> accumulator(input.accumulator);
    const DeviceArray<T> values(input.values);
    const DeviceArray<std::int32_t> indices(input.indices);
    const DeviceArray<std::int64_t> row_splits(input.row_splits);
    const DeviceArray<T> weights(input.weights);
    const std::size_t bytes = cuda::ScatterDecodeWorkspaceBytes();
    const DeviceArray<std::byte> workspace(bytes);
    const DeviceArray<cuda::ScatterReport> report(1);
    Check(kernel(
        accumulator.data(), static_cast<std::int64_t>(input.accumulator.size()),
        values.data(), indices.data(),
        static_cast<std::int64_t>(input.values.size()), row_splits.data(),
        input.payloads(), input.weights.empty() ? nullptr : weights.data(),
        workspace.data(), bytes, report.data(), nullptr));
    return {accumulator.ToVector(), cuda::ToStatus(report.ToVector()[0])};
  }
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
