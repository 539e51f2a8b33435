// Encodes and decodes values on a GPU: quantized and packed there, so that only the code crosses the bus.
// Results equal core/value_code.h bit for bit. All work is queued on a stream. Nothing is allocated and
// nothing waits for the GPU.
#ifndef FEDPLUG_CUDA_VALUE_CODE_H_
#define FEDPLUG_CUDA_VALUE_CODE_H_

#include <cstddef>
#include <cstdint>

#include "core/base/floats.h"
#include "core/base/status.h"
#include "core/codes/values/level.h"
#include "core/value_code.h"
#include "cuda/scaled_sum.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// The values of one vector, or with a residual the sums of both. A sum is
// rounded once in the type of arithmetic. It is encoded as the nearest number
// of T, and residual_out takes the sum minus the decoded number.
template <typename T>
struct ValueVector {
  const T* values;
  const value_loops::WideOf<T>* residual_in;  // null for none
  value_loops::WideOf<T>* residual_out;  // null exactly without residual_in
  std::int64_t count;
};

// Refuses as CheckValueCode does, and the forms without a kernel: kCodebook
// and kBounded.
Status CheckDeviceValueCode(const ValueCode& code, std::int64_t count);

// REQUIRES: CheckDeviceValueCode(code, count) is ok; value_bytes is 2, 4 or 8
std::size_t EncodeValuesWorkspaceBytes(const ValueCode& code,
                                       std::int64_t count,
                                       std::int64_t value_bytes);

// Queues the encoding of a vector. If the report, which the host fetches, says
// that a value is not finite, data and residual_out are unspecified.
//
// REQUIRES: `workspace` (aligned to 256 bytes) and `report` (to 4) are device
//           memory and stay until the stream is through, residual_out is
//           residual_in, or overlaps nothing else. A code or count that
//           CheckDeviceValueCode refuses, and a workspace that is too small,
//           are kInvalidArgument, a launch that fails is kDevice. T is float,
//           double, Half or BFloat16.
// SHAPE:    values, residual_in and residual_out[count],
//           data[ValueCodeBytes(code, count, sizeof(T))], report[1]
// THREADS:  the caller's only. The result does not depend on the GPU
// COST:     reads the vector once for the casts, twice for the other forms, and
//           three times for the forms at random; 1 to 7 launches
template <typename T>
Status EncodeValues(const ValueVector<T>& vector, const ValueCode& code,
                    std::uint64_t seed, void* workspace,
                    std::size_t workspace_bytes, std::uint8_t* data,
                    NonFiniteCount* report, CUstream_st* stream);

// The Status that the core would have returned for `count` values.
Status ToStatus(const NonFiniteCount& report, std::int64_t count);

// Decodes values on a GPU, so that only their code crosses the bus. Results
// equal core/value_code.h bit for bit. The kernel is queued on a stream.
// Nothing is allocated and nothing waits for the GPU.

// factor * value, rounded once in Out. 16-bit values are only copied.
template <typename Out, typename T>
FEDPLUG_HOST_DEVICE Out Multiplied(value_loops::WideOf<Out> factor, T value) {
  if constexpr (sizeof(Out) == 2) {
    return value;
  } else {
    return factor * static_cast<Out>(value_loops::Wide(value));
  }
}

// Queues out = factor * values, for values of T. See Multiplied.
//
// REQUIRES: CheckValues of the core accepts the code, it is none that
//           CheckDeviceValueCode refuses (checked). T is float, double, Half or
//           BFloat16, and Out is T or a wider one of float and double
// SHAPE:    data[ValueCodeBytes(code, count, sizeof(T))], out[count]
// THREADS:  the caller's only. The result does not depend on the GPU
// COST:     one launch. Reads the code once, writes every element once
template <typename T, typename Out>
Status DecodeValues(const std::uint8_t* data, std::int64_t count,
                    const ValueCode& code, double factor, Out* out,
                    CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_VALUE_CODE_H_
