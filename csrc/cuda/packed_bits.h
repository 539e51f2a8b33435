// Numbers of a few bits, one after the other, the lowest bit first.
#ifndef FEDPLUG_CUDA_PACKED_BITS_H_
#define FEDPLUG_CUDA_PACKED_BITS_H_

#include <cstdint>

#include "core/base/host_device.h"

namespace fedplug::cuda {

// Number `i` of numbers of `bits` bits, 1 to 32. Reads only its own bytes.
FEDPLUG_HOST_DEVICE inline std::uint32_t Unpacked(const std::uint8_t* packed,
                                                  std::int64_t i, int bits) {
  const std::int64_t first = i * bits;
  std::uint64_t word = 0;
  for (std::int64_t at = first / 8; at <= (first + bits - 1) / 8; ++at) {
    word |= std::uint64_t{packed[at]} << (8 * (at - first / 8));
  }
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  return static_cast<std::uint32_t>((word >> (first % 8)) & mask);
}

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_PACKED_BITS_H_
