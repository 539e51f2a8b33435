#include "core/codes/difference/blocks.h"

#include <cstddef>

#if FEDPLUG_SIMD_X86
#include "core/simd/intrinsics.h"
#endif

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

}  // namespace fedplug::differences
