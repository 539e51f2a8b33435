// The number of bytes that hold `bits` bits.
#ifndef FEDPLUG_CORE_BASE_BYTES_FOR_H_
#define FEDPLUG_CORE_BASE_BYTES_FOR_H_

#include <cstdint>

namespace fedplug {

constexpr std::int64_t BytesFor(std::int64_t bits) { return (bits + 7) / 8; }

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_BYTES_FOR_H_
