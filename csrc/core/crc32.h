// CRC-32 as in zlib, PNG and Ethernet (reflected polynomial 0xEDB88320), so
// that any language can check a payload.
#ifndef FEDPLUG_CORE_CRC32_H_
#define FEDPLUG_CORE_CRC32_H_

#include <cstdint>

#include "core/base/parallel.h"

namespace fedplug {

// REQUIRES: bytes >= 0
// SHAPE:    data[bytes]
// THREADS:  the caller's only
// COST:     reads each byte once
std::uint32_t Crc32(const std::uint8_t* data, std::int64_t bytes);

// The same checksum.
//
// THREADS: those of `parallel`, for bytes that are worth it
std::uint32_t Crc32(const std::uint8_t* data, std::int64_t bytes,
                    Parallel& parallel);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CRC32_H_
