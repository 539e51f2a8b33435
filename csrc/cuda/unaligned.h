// Numbers at any address: a device reads and writes them only where they are
// aligned.
#ifndef FEDPLUG_CUDA_UNALIGNED_H_
#define FEDPLUG_CUDA_UNALIGNED_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/host_device.h"

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

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_UNALIGNED_H_
