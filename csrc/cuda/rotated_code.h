// The rotated code on a GPU, so that only codes cross the bus. Results equal
// core/rotated_code.h bit for bit. All work is queued on a stream; nothing is
// allocated and nothing waits for the GPU.
#ifndef FEDPLUG_CUDA_ROTATED_CODE_H_
#define FEDPLUG_CUDA_ROTATED_CODE_H_

#include <cstddef>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/base/status.h"
#include "core/codes/values/level.h"
#include "core/rotated_code.h"

struct CUstream_st;  // cudaStream_t is a pointer to one

namespace fedplug::cuda {

// REQUIRES: CheckRotatedCode(code, count) is ok; value_bytes is 2, 4 or 8
std::size_t EncodeRotatedWorkspaceBytes(const RotatedCode& code,
                                        std::int64_t count,
                                        std::int64_t value_bytes);
std::size_t DecodeRotatedWorkspaceBytes(const RotatedCode& code,
                                        std::int64_t count,
                                        std::int64_t value_bytes);

// Queues the encoding of a vector. *checksum becomes the CRC-32 of the bytes of
// the values, and the first seed is RotatedSeed(code.first_seed, *checksum).
//
// REQUIRES: `workspace` (aligned to 256 bytes) and `checksum` (to 4) are device
//           memory and stay until the stream is through. A code or count that
//           CheckRotatedCode refuses, and a workspace that is too small, are
//           kInvalidArgument, a launch that fails is kDevice. T is float,
//           double, Half or BFloat16.
// SHAPE:    values[count], data[RotatedCodeBytes(code, count, sizeof(T))],
//           checksum[1]
// THREADS:  the caller's only; the result does not depend on the GPU
// COST:     reads the vector four times, writes it to the workspace and reads
//           that; 7 launches
template <typename T>
Status EncodeRotated(const T* values, std::int64_t count,
                     const RotatedCode& code, void* workspace,
                     std::size_t workspace_bytes, std::uint8_t* data,
                     std::uint32_t* checksum, CUstream_st* stream);

// A seed of 32 bits, with sign, whose bits are flipped where the checksum has
// ones.
FEDPLUG_HOST_DEVICE constexpr std::int64_t RotatedSeed(std::int64_t first_seed,
                                                       std::uint32_t checksum) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(first_seed) ^
                                   checksum);
}

// Queues out = factor * values, for values of T (value_decode.h, Multiplied).
//
// REQUIRES: CheckRotated of the core accepts the code; the rest as
//           EncodeRotated. Out is T or a wider one of float and double
// SHAPE:    data[RotatedCodeBytes(code, count, sizeof(T))], out[count]
// THREADS:  the caller's only; the result does not depend on the GPU
// COST:     reads the code once, writes the vector twice and reads it once; 2
//           launches
template <typename T, typename Out>
Status DecodeRotated(const std::uint8_t* data, std::int64_t count,
                     const RotatedCode& code, double factor, void* workspace,
                     std::size_t workspace_bytes, Out* out,
                     CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_ROTATED_CODE_H_
