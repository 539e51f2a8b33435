// The reference of the index code "rice".
#include "tests/reference/reference.h"

namespace fedplug::reference {
namespace {

// A string of bits, packed into bytes with the least significant bit first.
std::vector<std::uint8_t> Pack(const std::vector<bool>& bits) {
  std::vector<std::uint8_t> bytes((bits.size() + 7) / 8);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i])
      bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | (1u << (i % 8)));
  }
  return bytes;
}

std::vector<std::uint8_t> EncodeWith(const std::vector<std::int32_t>& indices,
                                     int b, std::size_t* code_bits) {
  std::vector<bool> low;
  std::vector<bool> unary;
  std::int32_t next = 0;
  for (const std::int32_t index : indices) {
    const std::int32_t gap = index - next;
    next = index + 1;
    for (int bit = 0; bit < b; ++bit) low.push_back(((gap >> bit) & 1) != 0);
    unary.insert(unary.end(), static_cast<std::size_t>(gap >> b), false);
    unary.push_back(true);
  }
  *code_bits = low.size() + unary.size();
  std::vector<std::uint8_t> code = {static_cast<std::uint8_t>(b)};
  for (const auto& part : {Pack(low), Pack(unary)})
    code.insert(code.end(), part.begin(), part.end());
  return code;
}

}  // namespace

std::vector<std::uint8_t> EncodeIndices(
    const std::vector<std::int32_t>& indices) {
  if (indices.empty()) return {};
  std::vector<std::uint8_t> best;
  std::size_t fewest = 0;
  for (int b = 0; b <= 30; ++b) {
    std::size_t bits = 0;
    std::vector<std::uint8_t> code = EncodeWith(indices, b, &bits);
    if (b == 0 || bits < fewest) {
      fewest = bits;
      best = std::move(code);
    }
  }
  return best;
}

std::optional<std::vector<std::int32_t>> DecodeIndices(
    const std::vector<std::uint8_t>& code, std::int64_t count,
    std::int64_t size) {
  std::vector<std::int32_t> indices;
  if (count > 0) {
    if (code.empty() || code[0] > 30) return std::nullopt;
    const std::int64_t b = code[0];
    const auto bit_at = [&](std::int64_t position) {
      const auto byte = static_cast<std::size_t>(position / 8);
      return byte < code.size() && ((code[byte] >> (position % 8)) & 1) != 0;
    };
    const auto end = static_cast<std::int64_t>(8 * code.size());
    std::int64_t low = 8;
    std::int64_t unary = 8 * (1 + (count * b + 7) / 8);
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t gap = 0;
      for (std::int64_t bit = 0; bit < b; ++bit)
        gap |= std::int64_t{bit_at(low++)} << bit;
      for (; unary < end && !bit_at(unary); ++unary)
        gap += std::int64_t{1} << b;
      ++unary;
      if (next + gap >= size) return std::nullopt;
      indices.push_back(static_cast<std::int32_t>(next + gap));
      next += gap + 1;
    }
  }
  if (EncodeIndices(indices) != code) return std::nullopt;
  return indices;
}

}  // namespace fedplug::reference
