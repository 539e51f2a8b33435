// Numbers at any address and of any number of bits: a device reads and writes them only where they are
// aligned.
#ifndef FEDPLUG_CUDA_UNALIGNED_H_
#define FEDPLUG_CUDA_UNALIGNED_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/floats.h"

namespace fedplug::cuda {

template <typename Number>
FEDPLUG_HOST_DEVICE Number LoadNumber(const std::uint8_t* from) {
  std::uint8_t bytes[sizeof(Number)];
  for (std::size_t i = 0; i < sizeof(Number); ++i) bytes[i] = from[i];
  Number number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

template <typename Number>
FEDPLUG_HOST_DEVICE void StoreNumber(Number number, std::uint8_t* to) {
  std::uint8_t bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(number));
  for (std::size_t i = 0; i < sizeof(Number); ++i) to[i] = bytes[i];
}

// Numbers of a few bits, one after the other, the lowest bit first.

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

#endif  // FEDPLUG_CUDA_UNALIGNED_H_
