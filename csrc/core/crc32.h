// CRC-32 as in zlib, PNG and Ethernet (reflected polynomial 0xEDB88320), so
// that any language can check a payload.
#ifndef FEDPLUG_CORE_CRC32_H_
#define FEDPLUG_CORE_CRC32_H_

#include <cstdint>

#include "core/base/floats.h"
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

// The arithmetic of CRC-32: polynomials modulo its own, in the mirrored order
// of bits. The coefficient of x^i is bit 31 - i.

namespace fedplug::crc32 {

inline constexpr std::uint32_t kPolynomial = 0xEDB88320u;  // x^32
inline constexpr std::uint32_t kOne = 0x80000000u;

FEDPLUG_HOST_DEVICE constexpr std::uint32_t TimesX(std::uint32_t polynomial) {
  return (polynomial >> 1) ^ ((polynomial & 1) != 0 ? kPolynomial : 0);
}

FEDPLUG_HOST_DEVICE constexpr std::uint32_t Product(std::uint32_t a,
                                                    std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t power = kOne; power != 0; power >>= 1) {
    if ((a & power) != 0) product ^= b;
    b = TimesX(b);
  }
  return product;
}

// Advances a checksum over `bytes` zero bytes.
constexpr std::uint32_t MovedOver(std::int64_t bytes, std::uint32_t crc) {
  std::uint32_t square = kOne >> 8;  // x^8
  for (; bytes > 0; bytes >>= 1) {
    if ((bytes & 1) != 0) crc = Product(square, crc);
    square = Product(square, square);
  }
  return crc;
}

}  // namespace fedplug::crc32

#endif  // FEDPLUG_CORE_CRC32_H_
