#include "cuda/abi/c_api.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/floats.h"
#include "core/base/status.h"
#include "core/topk_residual.h"
#include "cuda/entries.h"
#include "cuda/fixed_payload.h"
#include "cuda/runtime.h"
#include "cuda/scaled_sum.h"
#include "cuda/scatter_decode.h"
#include "cuda/topk_residual.h"
#include "cuda/value_code.h"

namespace fedplug::cuda {
namespace {

static_assert(sizeof(FedplugCudaTopKReport) == sizeof(TopKReport));
static_assert(sizeof(FedplugCudaScatterReport) == sizeof(ScatterReport));
static_assert(sizeof(FedplugCudaEntries) == sizeof(Entries));
static_assert(sizeof(FedplugCudaNonFiniteCount) == sizeof(NonFiniteCount));

std::string& LastError() {
  thread_local std::string message;
  return message;
}

std::int32_t Returned(const Status& status) {
  if (!status.ok()) LastError() = status.message();
  return static_cast<std::int32_t>(status.code());
}

// No exception crosses the C ABI: std::bad_alloc becomes a status.
template <typename Work>
std::int32_t Guarded(const Work& work) {
  try {
    return Returned(work());
  } catch (const std::exception& error) {
    return Returned({StatusCode::kDevice,
                     std::string("out of host memory: ") + error.what()});
  }
}

// Sets the current device of this thread for the lifetime of the object.
class ScopedDevice {
 public:
  explicit ScopedDevice(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ != cudaSuccess || before_ == device) return;
    error_ = cudaSetDevice(device);
    changed_ = error_ == cudaSuccess;
  }
  ~ScopedDevice() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

  Status status() const { return ToStatus(error_, "the choice of the device"); }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_;
};

template <typename Work>
std::int32_t OnDevice(std::int32_t device, const Work& work) {
  return Guarded([&]() -> Status {
    const ScopedDevice scoped(device);
    if (Status status = scoped.status(); !status.ok()) return status;
    return work();
  });
}

Status UnknownDtype(std::int32_t dtype) {
  return {StatusCode::kInvalidArgument,
          "dtype " + std::to_string(dtype) + " is not a FedplugCudaDtype"};
}

// body(T{}) with the element type that `dtype` names.
template <typename Body>
Status WithDtype(std::int32_t dtype, const Body& body) {
  switch (dtype) {
    case FEDPLUG_CUDA_FLOAT32:
      return body(float{});
    case FEDPLUG_CUDA_FLOAT64:
      return body(double{});
    case FEDPLUG_CUDA_FLOAT16:
      return body(Half{});
    case FEDPLUG_CUDA_BFLOAT16:
      return body(BFloat16{});
    default:
      return UnknownDtype(dtype);
  }
}

// body(T{}) for the element types of a selection.
template <typename Body>
Status WithSelectedDtype(std::int32_t dtype, const Body& body) {
  switch (dtype) {
    case FEDPLUG_CUDA_FLOAT32:
      return body(float{});
    case FEDPLUG_CUDA_FLOAT64:
      return body(double{});
    default:
      return {StatusCode::kInvalidArgument,
              "a selection takes float32 or float64, not dtype " +
                  std::to_string(dtype)};
  }
}

FixedForm FormOf(const FedplugCudaFixedForm* form) {
  return {form->n, form->k, form->chunk, form->bits,
          static_cast<SentType>(form->dtype)};
}

cudaStream_t StreamOf(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

template <typename T>
ScaledSum<T> SumOf(const FedplugCudaScaledSum& sum) {
  return {static_cast<const T*>(sum.delta), static_cast<const T*>(sum.residual),
          static_cast<T*>(sum.sum), sum.n, static_cast<T>(sum.factor)};
}

NonFiniteCount* CountOf(FedplugCudaNonFiniteCount* count) {
  return reinterpret_cast<NonFiniteCount*>(count);
}

// body(code) with the code, if there is a kernel for it.
template <typename Body>
Status WithCode(const FedplugCudaValueCode& given, std::int64_t count,
                const Body& body) {
  ValueCode code;
  if (!FindValueForm(given.host_form, &code.form)) {
    return {StatusCode::kInvalidArgument,
            std::string("no value code is called '") + given.host_form + "'"};
  }
  code.bits = given.bits;
  code.block_size = given.block_size;
  if (Status status = CheckDeviceValueCode(code, count); !status.ok()) {
    return status;
  }
  return body(code);
}

// body(zero, out_zero) of the dtype of a code and the same or a wider one.
template <typename Body>
Status WithDecodedDtypes(std::int32_t dtype, std::int32_t out_dtype,
                         const Body& body) {
  return WithDtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    return WithDtype(out_dtype, [&](auto out_zero) -> Status {
      using Out = decltype(out_zero);
      if constexpr (std::is_same_v<T, Out> || sizeof(T) < sizeof(Out)) {
        return body(zero, out_zero);
      } else {
        return {StatusCode::kInvalidArgument,
                "values of dtype " + std::to_string(dtype) +
                    " are not decoded to dtype " + std::to_string(out_dtype)};
      }
    });
  });
}

// The tensors of a selection with a k for each. Values and indices are laid out
// one tensor after the other. `ks` and both of these may be null.
template <typename T>
std::vector<TopKTensor<T>> TensorsOf(const FedplugCudaUpdate* updates,
                                     const std::int64_t* ks, std::int64_t count,
                                     T* values, std::int32_t* indices) {
  std::vector<TopKTensor<T>> typed;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t k = ks == nullptr ? 0 : ks[i];
    typed.push_back({static_cast<const T*>(updates[i].delta),
                     static_cast<const T*>(updates[i].residual_in),
                     static_cast<T*>(updates[i].residual_out), updates[i].n, k,
                     values, indices});
    const std::int64_t chosen =
        std::max<std::int64_t>(0, std::min<std::int64_t>(k, updates[i].n));
    if (values != nullptr) values += chosen;
    if (indices != nullptr) indices += chosen;
  }
  return typed;
}

template <typename T>
std::vector<TensorUpdate<T>> UpdatesOf(const FedplugCudaUpdate* updates,
                                       std::int64_t count) {
  std::vector<TensorUpdate<T>> typed;
  for (std::int64_t i = 0; i < count; ++i) {
    typed.push_back({static_cast<const T*>(updates[i].delta),
                     static_cast<const T*>(updates[i].residual_in),
                     static_cast<T*>(updates[i].residual_out), updates[i].n});
  }
  return typed;
}

}  // namespace

extern "C" {

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_abi_version(void) {
  return FEDPLUG_CUDA_ABI_VERSION;
}

FEDPLUG_CUDA_API const char* fedplug_cuda_last_error(void) {
  return LastError().c_str();
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_device_count(std::int32_t* count) {
  return Guarded([&] {
    return ToStatus(cudaGetDeviceCount(count), "the number of devices");
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_topk_workspace_bytes(
    std::int32_t dtype, const FedplugCudaUpdate* updates, std::int64_t count,
    std::int32_t each, std::uint64_t* bytes) {
  return Guarded([&] {
    return WithSelectedDtype(dtype, [&](auto zero) -> Status {
      using T = decltype(zero);
      *bytes = each != 0
                   ? TopKResidualWorkspaceBytes(
                         TensorsOf<T>(updates, nullptr, count, nullptr, nullptr)
                             .data(),
                         count)
                   : GroupedTopKResidualWorkspaceBytes(
                         UpdatesOf<T>(updates, count).data(), count);
      return {};
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_topk_each(
    std::int32_t device, std::int32_t dtype, const FedplugCudaUpdate* updates,
    const std::int64_t* ks, std::int64_t count, void* workspace,
    std::uint64_t workspace_bytes, void* values, std::int32_t* indices,
    FedplugCudaTopKReport* reports, void* stream) {
  return OnDevice(device, [&] {
    return WithSelectedDtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto typed =
          TensorsOf(updates, ks, count, static_cast<T*>(values), indices);
      return TopKResidual(typed.data(), count, workspace, workspace_bytes,
                          reinterpret_cast<TopKReport*>(reports),
                          StreamOf(stream));
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_topk(
    std::int32_t device, std::int32_t dtype, const FedplugCudaUpdate* updates,
    std::int64_t count, std::int64_t k, void* workspace,
    std::uint64_t workspace_bytes, void* values, std::int32_t* indices,
    std::int64_t* row_splits, FedplugCudaTopKReport* reports, void* stream) {
  return OnDevice(device, [&] {
    return WithSelectedDtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto typed = UpdatesOf<T>(updates, count);
      return GroupedTopKResidual(
          typed.data(), count, k, workspace, workspace_bytes,
          static_cast<T*>(values), indices, row_splits,
          reinterpret_cast<TopKReport*>(reports), StreamOf(stream));
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_topk_judge(
    const FedplugCudaTopKReport* host_reports, const FedplugCudaUpdate* updates,
    std::int64_t count) {
  return Guarded([&] {
    std::vector<TopKReport> reports;
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 0; i < count; ++i) {
      reports.push_back(
          {host_reports[i].non_finite, host_reports[i].first_non_finite});
      sizes.push_back(updates[i].n);
    }
    return ToStatus(reports, sizes);
  });
}

FEDPLUG_CUDA_API std::uint64_t fedplug_cuda_scatter_workspace_bytes(void) {
  return ScatterDecodeWorkspaceBytes();
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_scatter_add(
    std::int32_t device, std::int32_t dtype, void* accumulator, std::int64_t n,
    const void* values, const std::int32_t* indices, std::int64_t entries,
    const std::int64_t* row_splits, std::int64_t payloads, const void* weights,
    void* workspace, std::uint64_t workspace_bytes,
    FedplugCudaScatterReport* report, void* stream) {
  return OnDevice(device, [&] {
    return WithDtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      return ScatterDecodeAdd(
          static_cast<T*>(accumulator), n, static_cast<const T*>(values),
          indices, entries, row_splits, payloads,
          static_cast<const T*>(weights), workspace, workspace_bytes,
          reinterpret_cast<ScatterReport*>(report), StreamOf(stream));
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_scatter_judge(
    const FedplugCudaScatterReport* host_report) {
  return Guarded([&] {
    ScatterReport report;
    std::memcpy(&report, host_report, sizeof(report));
    return ToStatus(report);
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_entries(
    std::int32_t device, std::int32_t work, const FedplugCudaEntries* lists,
    std::int64_t count, std::int64_t entries, void* stream) {
  return OnDevice(device, [&] {
    return QueueEntries(static_cast<EntriesWork>(work),
                        reinterpret_cast<const Entries*>(lists), count, entries,
                        StreamOf(stream));
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_scaled_sum(
    std::int32_t device, std::int32_t dtype, const FedplugCudaScaledSum* sum,
    FedplugCudaNonFiniteCount* non_finite, void* stream) {
  return OnDevice(device, [&] {
    return WithSelectedDtype(dtype, [&](auto zero) {
      return QueueScaledSum(SumOf<decltype(zero)>(*sum), CountOf(non_finite),
                            StreamOf(stream));
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_chunked_topk(
    std::int32_t device, std::int32_t dtype, const FedplugCudaScaledSum* sum,
    std::int64_t k, std::int64_t chunk, void* values, std::int32_t* indices,
    FedplugCudaNonFiniteCount* non_finite, void* stream) {
  return OnDevice(device, [&] {
    return WithSelectedDtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      return QueueChunkedTopK(SumOf<T>(*sum), k, chunk, static_cast<T*>(values),
                              indices, CountOf(non_finite), StreamOf(stream));
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_fixed_sizes(
    const FedplugCudaFixedForm* form, std::int64_t payloads,
    std::int64_t* payload_bytes, std::uint64_t* encode_workspace_bytes,
    std::uint64_t* mean_workspace_bytes) {
  return Guarded([&] {
    const FixedForm typed = FormOf(form);
    if (Status status = CheckFixedForm(typed); !status.ok()) return status;
    *payload_bytes = FixedPayloadBytes(typed);
    *encode_workspace_bytes = FixedEncodeWorkspaceBytes(typed);
    *mean_workspace_bytes = FixedMeanWorkspaceBytes(typed, payloads);
    return Status();
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_fixed_encode(
    std::int32_t device, const FedplugCudaFixedForm* form, const float* delta,
    const float* residual_in, float* residual_out, float decay, void* workspace,
    std::uint8_t* payload, FedplugCudaNonFiniteCount* non_finite,
    void* stream) {
  return OnDevice(device, [&] {
    return QueueFixedEncode(FormOf(form), delta, residual_in, residual_out,
                            decay, workspace, payload, CountOf(non_finite),
                            StreamOf(stream));
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_fixed_mean(
    std::int32_t device, const FedplugCudaFixedForm* form,
    const std::uint8_t* data, std::int64_t payloads, void* workspace,
    float* mean, void* stream) {
  return OnDevice(device, [&] {
    return QueueFixedMean(FormOf(form), data, payloads, workspace, mean,
                          StreamOf(stream));
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_value_sizes(
    std::int32_t dtype, const FedplugCudaValueCode* code, std::int64_t count,
    std::uint64_t* code_bytes, std::uint64_t* workspace_bytes) {
  return Guarded([&] {
    return WithDtype(dtype, [&](auto zero) {
      return WithCode(*code, count, [&](const ValueCode& found) -> Status {
        *code_bytes = static_cast<std::uint64_t>(
            ValueCodeBytes(found, count, sizeof(zero)));
        *workspace_bytes =
            EncodeValuesWorkspaceBytes(found, count, sizeof(zero));
        return {};
      });
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_encode_values(
    std::int32_t device, std::int32_t dtype, const FedplugCudaVector* vector,
    const FedplugCudaValueCode* code, std::uint64_t seed, void* workspace,
    std::uint64_t workspace_bytes, std::uint8_t* data,
    FedplugCudaNonFiniteCount* report, void* stream) {
  return OnDevice(device, [&] {
    return WithDtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      using Wide = value_loops::WideOf<T>;
      const ValueVector<T> typed = {
          static_cast<const T*>(vector->values),
          static_cast<const Wide*>(vector->residual_in),
          static_cast<Wide*>(vector->residual_out), vector->count};
      return WithCode(*code, vector->count, [&](const ValueCode& found) {
        return EncodeValues(typed, found, seed, workspace, workspace_bytes,
                            data, CountOf(report), StreamOf(stream));
      });
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_values_judge(
    const FedplugCudaNonFiniteCount* host_report, std::int64_t count) {
  return Guarded([&] {
    return ToStatus(
        NonFiniteCount{host_report->count, host_report->first_from_end}, count);
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_decode_values(
    std::int32_t device, std::int32_t dtype, std::int32_t out_dtype,
    const FedplugCudaValueCode* code, const std::uint8_t* data,
    std::int64_t count, double factor, void* out, void* stream) {
  return OnDevice(device, [&] {
    return WithDecodedDtypes(dtype, out_dtype, [&](auto zero, auto out_zero) {
      return WithCode(*code, count, [&](const ValueCode& found) {
        return DecodeValues<decltype(zero)>(
            data, count, found, factor, static_cast<decltype(out_zero)*>(out),
            StreamOf(stream));
      });
    });
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_fetch(std::int32_t device,
                                                 void* host, const void* memory,
                                                 std::uint64_t bytes,
                                                 void* stream) {
  return OnDevice(device,
                  [&] { return Fetch(host, memory, bytes, StreamOf(stream)); });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_send(std::int32_t device,
                                                void* memory, const void* host,
                                                std::uint64_t bytes,
                                                void* stream) {
  return OnDevice(device, [&] {
    const cudaStream_t on = StreamOf(stream);
    cudaError_t error =
        cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, on);
    if (error == cudaSuccess) error = cudaStreamSynchronize(on);
    return ToStatus(error, "copy to the device");
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_copy(std::int32_t device, void* to,
                                                const void* from,
                                                std::uint64_t bytes,
                                                void* stream) {
  return OnDevice(device,
                  [&] { return QueueCopy(to, from, bytes, StreamOf(stream)); });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_zero(std::int32_t device,
                                                void* memory,
                                                std::uint64_t bytes,
                                                void* stream) {
  return OnDevice(device, [&] {
    return ToStatus(cudaMemsetAsync(memory, 0, bytes, StreamOf(stream)),
                    "zeros on the device");
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_allocate(std::int32_t device,
                                                    void** memory,
                                                    std::uint64_t bytes,
                                                    void* stream) {
  return OnDevice(device, [&] {
    return ToStatus(cudaMallocAsync(memory, bytes, StreamOf(stream)),
                    "memory of the device");
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_release(std::int32_t device,
                                                   void* memory, void* stream) {
  return OnDevice(device, [&] {
    return ToStatus(cudaFreeAsync(memory, StreamOf(stream)),
                    "memory of the device");
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_allocate_host(void** host,
                                                         std::uint64_t bytes) {
  return Guarded([&] {
    return ToStatus(cudaHostAlloc(host, bytes, cudaHostAllocPortable),
                    "pinned host memory");
  });
}

FEDPLUG_CUDA_API std::int32_t fedplug_cuda_release_host(void* host) {
  return Guarded(
      [&] { return ToStatus(cudaFreeHost(host), "pinned host memory"); });
}

}  // extern "C"

}  // namespace fedplug::cuda
