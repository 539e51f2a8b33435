// The Rice code of gaps. The decoder checks every bound before it uses a
// number.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/codes/indices/bits.h"
#include "core/codes/indices/forms.h"

namespace fedplug::index_codes {
namespace {

constexpr int kMaxParameter = 30;

std::uint32_t GapAt(const std::int32_t* indices, std::int64_t i) {
  const std::int32_t gap =
      i == 0 ? indices[0] : indices[i] - indices[i - 1] - 1;
  return static_cast<std::uint32_t>(gap);
}

std::int64_t UnaryBits(const std::int32_t* indices, std::int64_t count, int b) {
  std::int64_t bits = count + (GapAt(indices, 0) >> b);
  for (std::int64_t i = 1; i < count; ++i) bits += GapAt(indices, i) >> b;
  return bits;
}

std::int64_t CodeBits(const std::int32_t* indices, std::int64_t count, int b) {
  return count * b + UnaryBits(indices, count, b);
}

// The smallest b with the fewest bits. The number of bits is convex in b
// (floor(gap / 2^b) falls by ever less as b grows), so descending from the
// logarithm of the mean gap finds the minimum.
int BestParameter(const std::int32_t* indices, std::int64_t count) {
  const std::int64_t mean = indices[count - 1] / count;
  int b = 0;
  while (b < kMaxParameter && (mean >> (b + 1)) > 0) ++b;
  std::int64_t bits = CodeBits(indices, count, b);
  const auto improve = [&](int step, std::int64_t least_gain) {
    bool moved = false;
    while (b + step >= 0 && b + step <= kMaxParameter) {
      const std::int64_t next = CodeBits(indices, count, b + step);
      if (bits - next < least_gain) break;
      b += step;
      bits = next;
      moved = true;
    }
    return moved;
  };
  if (!improve(-1, 0)) improve(+1, 1);
  return b;
}

Status NotBelow(std::int64_t i, std::int64_t size) {
  return Corrupt("index " + std::to_string(i) + " is not below " +
                 std::to_string(size));
}

}  // namespace

void EncodeRice(const std::int32_t* indices, std::int64_t count,
                std::vector<std::uint8_t>* code) {
  const int b = BestParameter(indices, count);
  const std::int64_t low_bytes = BytesFor(count * b);
  code->resize(static_cast<std::size_t>(
      1 + low_bytes + BytesFor(UnaryBits(indices, count, b))));
  code->front() = static_cast<std::uint8_t>(b);
  NumberWriter low(code->data() + 1);
  std::uint8_t* const unary = code->data() + 1 + low_bytes;
  const std::uint32_t low_bits = (1u << b) - 1;
  std::int64_t position = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t gap = GapAt(indices, i);
    low.Write(gap & low_bits, b);
    position += gap >> b;
    SetBit(unary, position++);
  }
  low.Finish();
}

Status DecodeRice(const std::uint8_t* code, std::int64_t bytes,
                  std::int64_t count, std::int64_t size,
                  std::int32_t* indices) {
  const int b = code[0];
  if (b > kMaxParameter) {
    return Corrupt("its parameter is " + std::to_string(b) +
                   ", and the largest one is " + std::to_string(kMaxParameter));
  }
  const std::int64_t low_bytes = BytesFor(count * b);
  const std::int64_t unary_bytes = bytes - 1 - low_bytes;
  if (unary_bytes < BytesFor(count)) {
    return Corrupt(std::to_string(bytes) + " bytes cannot hold " +
                   std::to_string(count) + " indices");
  }
  const std::uint8_t* const low = code + 1;
  const std::uint8_t* const unary = low + low_bytes;
  if (!IsZeroFrom(low, count * b)) {
    return Corrupt("the padding after the low bits is not zero");
  }

  NumberReader lows(low, low_bytes);
  OnesReader ones(unary, unary_bytes);
  std::int64_t position = 0;
  std::int64_t next = 0;  // the smallest index that can still come
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t one = ones.Next();
    if (one >= 8 * unary_bytes) {
      return Corrupt("it ends after " + std::to_string(i) + " of " +
                     std::to_string(count) + " indices");
    }
    const std::int64_t high = one - position;
    position = one + 1;
    // `high` is compared before it is shifted: it can be as long as the code.
    const std::int64_t room = size - 1 - next;
    if (room < 0 || high > (room >> b)) return NotBelow(i, size);
    const std::int64_t gap =
        (high << b) | static_cast<std::int64_t>(lows.Read(b));
    if (gap > room) return NotBelow(i, size);
    indices[i] = static_cast<std::int32_t>(next + gap);
    next += gap + 1;
  }
  if (BytesFor(position) != unary_bytes) {
    return Corrupt(std::to_string(unary_bytes - BytesFor(position)) +
                   " bytes follow its end");
  }
  if (!IsZeroFrom(unary, position)) {
    return Corrupt("the padding at its end is not zero");
  }
  if (b != BestParameter(indices, count)) {
    return Corrupt("its parameter " + std::to_string(b) +
                   " is not the one that makes it shortest");
  }
  return {};
}

}  // namespace fedplug::index_codes
