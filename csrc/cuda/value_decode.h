// Decodes values on a GPU, so that only their code crosses the bus. Results
// equal core/value_code.h bit for bit. The kernel is queued on a stream.
// Nothing is allocated and nothing waits for the GPU.
#ifndef FEDPLUG_CUDA_VALUE_DECODE_H_
#define FEDPLUG_CUDA_VALUE_DECODE_H_

#include <cstdint>

#include "core/base/host_device.h"
#include "core/base/status.h"
#include "core/codes/values/level.h"
#include "core/value_code.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

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

#endif  // FEDPLUG_CUDA_VALUE_DECODE_H_
