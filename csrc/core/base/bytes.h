// Bits as bytes, and numbers as bytes: LEB128.
#ifndef FEDPLUG_CORE_BASE_BYTES_H_
#define FEDPLUG_CORE_BASE_BYTES_H_

#include <algorithm>
#include <cstdint>

namespace fedplug {

constexpr std::int64_t BytesFor(std::int64_t bits) { return (bits + 7) / 8; }

// Numbers in LEB128: seven bits a byte, the lowest first, the high bit set on
// all bytes but the last. A number has the fewest bytes that hold it.

// REQUIRES: number >= 0
inline std::int64_t Leb128Bytes(std::int64_t number) {
  std::int64_t bytes = 1;
  while ((number >>= 7) > 0) ++bytes;
  return bytes;
}

// Returns where the next byte goes. REQUIRES: number >= 0
inline std::uint8_t* PutLeb128(std::int64_t number, std::uint8_t* at) {
  for (; number >= 128; number >>= 7) {
    *at++ = static_cast<std::uint8_t>(number | 128);
  }
  *at++ = static_cast<std::uint8_t>(number);
  return at;
}

// Reads the number below `limit` that begins at data[*at], and moves on to the
// byte after it. False if there is no such number in its fewest bytes.
//
// REQUIRES: limit <= 2^56
inline bool GetLeb128(const std::uint8_t* data, std::int64_t bytes,
                      std::int64_t limit, std::int64_t* at,
                      std::int64_t* number) {
  constexpr std::int64_t kLongest = 8;
  const std::int64_t begin = *at;
  const std::int64_t end = std::min(bytes, begin + kLongest);
  *number = 0;
  std::uint8_t byte = 128;
  for (; byte >= 128; ++*at) {
    if (*at == end) return false;
    byte = data[*at];
    *number |= std::int64_t{byte & 127} << (7 * (*at - begin));
  }
  return (byte != 0 || *at - begin == 1) && *number < limit;
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_BYTES_H_
