// Which exponents share a class: neighbours whose statistics cost more than
// they save.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_BLOCKS_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_BLOCKS_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/simd/level.h"

namespace fedplug::differences {

inline constexpr int kMostClasses = 64;

// The statistics of the elements with some old exponents.
struct Group {
  static constexpr int kSymbols = 16;  // the last one is for all above it

  std::int64_t exponents = 0;
  double members = 0;  // an estimate suffices
  double changed = 0;
  std::array<double, kSymbols> symbols{};
};

// Merges neighbouring groups until no merger makes the code shorter and at most
// kMostClasses are left. The result has every exponent of `groups`, in order.
//
// THREADS: any, and the result does not depend on the C library's logarithm
// COST:    O(groups^2), with few operations
std::vector<Group> MergedGroups(const std::vector<Group>& groups);

// Which elements of a block of 64 are of which class, as bits.

inline constexpr int kBlock = 64;

// Class c has the exponents from first[c] on, up to those of the next class.
struct ClassBounds {
  std::array<std::uint8_t, kMostClasses> first{};
  int classes = 0;
};

struct BlockClasses {
  std::array<std::uint64_t, kMostClasses> members;  // a bit each
  std::array<int, kMostClasses> counts;             // of these bits
};

// REQUIRES: first[0] is 0, and the others ascend strictly
// SHAPE:    exponents[kBlock], of which those in `valid` count
// COST:     a comparison of each exponent with each bound, in registers
using ClassLoop = void(const std::uint8_t* exponents, const ClassBounds& bounds,
                       std::uint64_t valid, BlockClasses* classes);

ClassLoop* ClassLoopFor(SimdLevel level);

// Bit i of the result is the lowest bit of flags[i].
//
// SHAPE: flags[kBlock], each 0 or 1
inline std::uint64_t GatheredFlags(const std::uint8_t* flags) {
  std::uint64_t bits = 0;
  for (int i = 0; i < kBlock; i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, flags + i, sizeof(eight));
    // The product has the lowest bits of all eight bytes in its highest byte.
    bits |= (eight * 0x0102040810204080u >> 56) << i;
  }
  return bits;
}

inline constexpr std::uint64_t kOnes = 0x0101010101010101u;

// In every byte, the number of bits set in it and in the lower bytes.
inline std::uint64_t CountBitsUpTo(std::uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  return ((bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0fu) * kOnes;
}

// Also where the processor may have no instruction for it.
inline int CountBits(std::uint64_t bits) {
  return static_cast<int>(CountBitsUpTo(bits) >> 56);
}

// The place of the bit that has `rank` set bits below it.
//
// REQUIRES: more than `rank` bits are set
// Source: Vigna, "Broadword implementation of rank/select queries", 2008
inline int SelectBit(std::uint64_t bits, int rank) {
  const std::uint64_t up_to = CountBitsUpTo(bits);
  const auto wanted = static_cast<std::uint64_t>(rank) * kOnes;
  // The highest bit of every byte up to which there are `rank` bits or fewer.
  const std::uint64_t low = ((wanted | 0x80 * kOnes) - up_to) & 0x80 * kOnes;
  const int byte = static_cast<int>((low >> 7) * kOnes >> 56);
  const int before = static_cast<int>((up_to << 8) >> (8 * byte) & 0xff);
  auto left = static_cast<unsigned>(bits >> (8 * byte) & 0xff);
  for (int i = before; i < rank; ++i) left &= left - 1;
  return 8 * byte + __builtin_ctz(left);
}

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_BLOCKS_H_
