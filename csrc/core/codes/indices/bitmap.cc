// A bit for every element; the indices are the places of the ones.
#include <cstdint>
#include <string>

#include "core/codes/indices/bits.h"
#include "core/codes/indices/forms.h"

namespace fedplug::index_codes {

void EncodeBitmap(const std::int32_t* indices, std::int64_t count,
                  std::uint8_t* code) {
  for (std::int64_t i = 0; i < count; ++i) SetBit(code, indices[i]);
}

Status DecodeBitmap(const std::uint8_t* code, std::int64_t bytes,
                    std::int64_t count, std::int64_t size,
                    std::int32_t* indices) {
  OnesReader ones(code, bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = ones.Next();
    if (index >= size) {
      return Corrupt("it has " + std::to_string(i) + " bits set below " +
                     std::to_string(size) + ", not " + std::to_string(count));
    }
    indices[i] = static_cast<std::int32_t>(index);
  }
  if (ones.Next() < 8 * bytes) {
    return Corrupt("it has more than " + std::to_string(count) + " bits set");
  }
  return {};
}

}  // namespace fedplug::index_codes
