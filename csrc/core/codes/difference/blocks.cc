#include "core/codes/difference/blocks.h"

#include <algorithm>
#include <cstddef>

#include "core/simd/vector.h"

namespace fedplug::differences {
namespace {

// The exponents of a block that are `bound` or more.
std::uint64_t AtLeast(const std::uint8_t* exponents, std::uint8_t bound) {
  std::array<std::uint8_t, kBlock> flags;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    flags[i] = exponents[i] >= bound ? 1 : 0;
  }
  return GatheredFlags(flags.data());
}

void FindClassesBaseline(const std::uint8_t* exponents,
                         const ClassBounds& bounds, std::uint64_t valid,
                         BlockClasses* classes) {
  std::uint64_t rest = valid;
  const auto last = static_cast<std::size_t>(bounds.classes - 1);
  for (std::size_t c = 0; c <= last; ++c) {
    const std::uint64_t above =
        c == last ? 0 : AtLeast(exponents, bounds.first[c + 1]) & valid;
    classes->members[c] = rest & ~above;
    classes->counts[c] = CountBits(rest & ~above);
    rest = above;
  }
}

#if FEDPLUG_SIMD_X86
// Bit i is set where exponent i is `bound` or more.
FEDPLUG_TARGET_AVX2 inline std::uint64_t HalfAtLeast(__m256i exponents,
                                                     std::uint8_t bound) {
  const __m256i bounds = _mm256_set1_epi8(static_cast<char>(bound));
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(
      _mm256_cmpeq_epi8(_mm256_max_epu8(exponents, bounds), exponents)));
}

FEDPLUG_TARGET_AVX2 void FindClassesAvx2(const std::uint8_t* exponents,
                                         const ClassBounds& bounds,
                                         std::uint64_t valid,
                                         BlockClasses* classes) {
  const auto* const halves = reinterpret_cast<const __m256i*>(exponents);
  const __m256i low = _mm256_loadu_si256(halves);
  const __m256i high = _mm256_loadu_si256(halves + 1);
  std::uint64_t rest = valid;
  const auto last = static_cast<std::size_t>(bounds.classes - 1);
  for (std::size_t c = 0; c <= last; ++c) {
    const std::uint64_t above =
        c == last ? 0
                  : (HalfAtLeast(low, bounds.first[c + 1]) |
                     HalfAtLeast(high, bounds.first[c + 1]) << 32) &
                        valid;
    classes->members[c] = rest & ~above;
    classes->counts[c] = __builtin_popcountll(rest & ~above);
    rest = above;
  }
}
#endif

}  // namespace

ClassLoop* ClassLoopFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) return FindClassesAvx2;
#endif
  static_cast<void>(level);
  return FindClassesBaseline;
}

namespace {

// The bits of the counts, tables and states of a class. Measured.
constexpr double kClassBits = 200;

// log2(x) within 0.02 %, in operations that round alike everywhere.
// REQUIRES: x >= 1
double Log2(double x) {
  double whole = 0;
  for (; x >= 65536; x /= 65536) whole += 16;
  for (; x >= 2; x /= 2) whole += 1;
  const double f = x - 1;
  return whole + f * (1.4425 + f * (-0.7161 +
                                    f * (0.4396 + f * (-0.2251 + f * 0.0592))));
}

// The bits of `part` choices with the probability part / all each.
double Bits(double part, double all) {
  return part > 0 ? part * Log2(std::max(1.0, all / part)) : 0;
}

double Cost(const Group& group) {
  const double members = std::max(group.members, group.changed);
  double bits = kClassBits + Bits(group.changed, members) +
                Bits(members - group.changed, members);
  for (const double count : group.symbols) bits += Bits(count, group.changed);
  return bits;
}

Group Merged(const Group& a, const Group& b) {
  Group both = a;
  both.exponents += b.exponents;
  both.members += b.members;
  both.changed += b.changed;
  for (std::size_t i = 0; i < both.symbols.size(); ++i) {
    both.symbols[i] += b.symbols[i];
  }
  return both;
}

// How many bits a merger saves.
double Saved(const Group& a, const Group& b) {
  return Cost(a) + Cost(b) - Cost(Merged(a, b));
}

}  // namespace

std::vector<Group> MergedGroups(const std::vector<Group>& groups) {
  std::vector<Group> left;
  for (const Group& group : groups) {
    // Exponents that no element has join their neighbour.
    if (!left.empty() && (group.members + group.changed == 0 ||
                          left.back().members + left.back().changed == 0)) {
      left.back() = Merged(left.back(), group);
    } else {
      left.push_back(group);
    }
  }
  std::vector<double> saved;  // by merging a group with the next one
  for (std::size_t i = 0; i + 1 < left.size(); ++i) {
    saved.push_back(Saved(left[i], left[i + 1]));
  }
  while (!saved.empty()) {
    const auto best = std::max_element(saved.begin(), saved.end());
    if (*best <= 0 && left.size() <= kMostClasses) break;
    const auto i = best - saved.begin();
    const auto at = static_cast<std::size_t>(i);
    left[at] = Merged(left[at], left[at + 1]);
    left.erase(left.begin() + i + 1);
    saved.erase(best);
    if (at > 0) saved[at - 1] = Saved(left[at - 1], left[at]);
    if (at < saved.size()) saved[at] = Saved(left[at], left[at + 1]);
  }
  return left;
}

}  // namespace fedplug::differences
