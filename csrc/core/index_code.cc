// The layout is in the header. Both directions go through the gaps in one
// sequence; the decoder checks every bound before it uses a byte and never
// allocates.
#include "core/index_code.h"

#include <algorithm>
#include <string>

namespace fedplug {
namespace {

constexpr int kMaxParameter = 30;

Status Corrupt(const std::string& what) {
  return {StatusCode::kDataLoss, "index code: " + what};
}

Status CheckCount(std::int64_t count, std::int64_t size) {
  if (size < 0 || size > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "size = " + std::to_string(size) + " is not in [0, 2^31)"};
  }
  if (count < 0 || count > size) {
    return {StatusCode::kInvalidArgument,
            "count = " + std::to_string(count) + " is not in [0, " +
                std::to_string(size) + "], the number of distinct indices"};
  }
  return {};
}

Status CheckIndices(const std::int32_t* indices, std::int64_t count,
                    std::int64_t size) {
  std::int64_t previous = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[i];
    if (index < 0 || index >= size) {
      return {StatusCode::kInvalidArgument,
              "index " + std::to_string(index) + " at position " +
                  std::to_string(i) + " is not in [0, " + std::to_string(size) +
                  ")"};
    }
    if (index <= previous) {
      return {StatusCode::kInvalidArgument,
              "index " + std::to_string(index) + " at position " +
                  std::to_string(i) + " is not above the one before it (" +
                  std::to_string(previous) + ")"};
    }
    previous = index;
  }
  return {};
}

std::uint32_t GapAt(const std::int32_t* indices, std::int64_t i) {
  const std::int32_t gap =
      i == 0 ? indices[0] : indices[i] - indices[i - 1] - 1;
  return static_cast<std::uint32_t>(gap);
}

std::int64_t BytesFor(std::int64_t bits) { return (bits + 7) / 8; }

std::int64_t UnaryBits(const std::int32_t* indices, std::int64_t count, int b) {
  std::int64_t bits = count;
  for (std::int64_t i = 0; i < count; ++i) bits += GapAt(indices, i) >> b;
  return bits;
}

std::int64_t CodeBits(const std::int32_t* indices, std::int64_t count, int b) {
  return count * b + UnaryBits(indices, count, b);
}

// The smallest b with the fewest bits. The number of bits is convex in b
// (floor(gap / 2^b) falls by ever less as b grows), so a walk downhill ends at
// the minimum; it begins next to it, at the logarithm of the mean gap.
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

// The first `width` bits of a stream that begins at bit `position`, least
// significant bit first. REQUIRES: width <= 30, and the bits lie inside the
// stream
std::uint32_t ReadBits(const std::uint8_t* stream, std::int64_t position,
                       int width) {
  std::uint64_t window = 0;
  const std::int64_t first = position / 8;
  const std::int64_t last = BytesFor(position + width);
  for (std::int64_t byte = first; byte < last; ++byte) {
    window |= std::uint64_t{stream[byte]} << (8 * (byte - first));
  }
  const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
  return static_cast<std::uint32_t>((window >> (position % 8)) & mask);
}

// REQUIRES: as ReadBits; the bits are still zero
void WriteBits(std::uint8_t* stream, std::int64_t position, int width,
               std::uint32_t value) {
  std::uint64_t window = std::uint64_t{value} << (position % 8);
  const std::int64_t last = BytesFor(position + width);
  for (std::int64_t byte = position / 8; byte < last; ++byte) {
    stream[byte] = static_cast<std::uint8_t>(stream[byte] | (window & 0xff));
    window >>= 8;
  }
}

// The position of the first one bit at or after `position`; `bits` when there
// is none. REQUIRES: bits is a multiple of 8
std::int64_t FindOne(const std::uint8_t* stream, std::int64_t position,
                     std::int64_t bits) {
  if (position >= bits) return bits;
  std::int64_t byte = position / 8;
  unsigned window = stream[byte] & (0xffu << (position % 8));
  while (window == 0) {
    if (++byte == bits / 8) return bits;
    window = stream[byte];
  }
  std::int64_t bit = 8 * byte;
  for (; (window & 1) == 0; window >>= 1) ++bit;
  return bit;
}

bool IsZeroFrom(const std::uint8_t* stream, std::int64_t position) {
  return position % 8 == 0 || (stream[position / 8] >> (position % 8)) == 0;
}

}  // namespace

Status EncodeIndices(const std::int32_t* indices, std::int64_t count,
                     std::int64_t size, std::vector<std::uint8_t>* code) {
  if (Status status = CheckCount(count, size); !status.ok()) return status;
  if (Status status = CheckIndices(indices, count, size); !status.ok()) {
    return status;
  }
  code->clear();
  if (count == 0) return {};
  const int b = BestParameter(indices, count);
  const std::int64_t low_bytes = BytesFor(count * b);
  const std::int64_t unary_bytes = BytesFor(UnaryBits(indices, count, b));
  code->resize(static_cast<std::size_t>(1 + low_bytes + unary_bytes));
  (*code)[0] = static_cast<std::uint8_t>(b);
  std::uint8_t* const low = code->data() + 1;
  std::uint8_t* const unary = low + low_bytes;
  std::int64_t position = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t gap = GapAt(indices, i);
    WriteBits(low, i * b, b, gap & ((1u << b) - 1));
    position += gap >> b;
    WriteBits(unary, position++, 1, 1);
  }
  return {};
}

Status DecodeIndices(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, std::int64_t size,
                     std::int32_t* indices) {
  if (Status status = CheckCount(count, size); !status.ok()) return status;
  if (count == 0) {
    return bytes == 0 ? Status()
                      : Corrupt(std::to_string(bytes) +
                                " bytes where no index was announced");
  }
  if (bytes < 1) return Corrupt("it is empty, so its parameter is missing");
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

  std::int64_t position = 0;
  std::int64_t next = 0;  // the smallest index that can still come
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t one = FindOne(unary, position, 8 * unary_bytes);
    if (one == 8 * unary_bytes) {
      return Corrupt("it ends after " + std::to_string(i) + " of " +
                     std::to_string(count) + " indices");
    }
    const std::int64_t high = one - position;
    position = one + 1;
    // `high` is compared before it is shifted: it can be as long as the code.
    const std::int64_t room = size - 1 - next;
    if (room < 0 || high > (room >> b)) {
      return Corrupt("index " + std::to_string(i) + " is not below " +
                     std::to_string(size));
    }
    const std::int64_t gap = (high << b) | ReadBits(low, i * b, b);
    if (gap > room) {
      return Corrupt("index " + std::to_string(i) + " is not below " +
                     std::to_string(size));
    }
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

}  // namespace fedplug
