// Indices in fixed width, the bits of the largest one.
#include <cstdint>
#include <string>

#include "core/codes/indices/bits.h"
#include "core/codes/indices/forms.h"

namespace fedplug::index_codes {

int IndexWidth(std::int64_t size) {
  int width = 0;
  while (width < 31 && (size - 1) >> width > 0) ++width;
  return width;
}

void EncodeBitPack(const std::int32_t* indices, std::int64_t count,
                   std::int64_t size, std::uint8_t* code) {
  NumberWriter numbers(code, IndexWidth(size));
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.Write(static_cast<std::uint32_t>(indices[i]));
  }
  numbers.Finish();
}

Status DecodeBitPack(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, std::int64_t size,
                     std::int32_t* indices) {
  const int width = IndexWidth(size);
  if (!IsZeroFrom(code, count * width)) {
    return Corrupt("the padding at its end is not zero");
  }
  NumberReader numbers(code, bytes, width);
  std::int64_t previous = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = numbers.Read();
    if (index <= previous || index >= size) {
      return Corrupt("index " + std::to_string(index) + " at position " +
                     std::to_string(i) + " is not above the one before it or " +
                     "not below " + std::to_string(size));
    }
    indices[i] = static_cast<std::int32_t>(index);
    previous = index;
  }
  return {};
}

}  // namespace fedplug::index_codes
