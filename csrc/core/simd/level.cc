#include "core/simd/level.h"

#include <cstddef>
#include <cstdlib>
#include <string>

#if FEDPLUG_SIMD_X86

#include <cpuid.h>

namespace fedplug::simd {
namespace {

// The registers whose contents the system saves. A bit for each kind.
// REQUIRES: the processor has OSXSAVE
unsigned SavedRegisters() {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool Has(unsigned word, unsigned bits) { return (word & bits) == bits; }

X86Features Ask() {
  constexpr unsigned kYmm = 0x06, kZmm = 0xe6;
  X86Features found;
  unsigned a, b, c1, d, b7, c7;
  if (!__get_cpuid(1, &a, &b, &c1, &d) || !Has(c1, bit_OSXSAVE | bit_AVX) ||
      !__get_cpuid_count(7, 0, &a, &b7, &c7, &d)) {
    return found;
  }
  const unsigned saved = SavedRegisters();
  found.avx2 = Has(saved, kYmm) && Has(c1, bit_F16C | bit_POPCNT) &&
               Has(b7, bit_AVX2 | bit_BMI);
  found.avx512f = Has(saved, kZmm) && Has(b7, bit_AVX512F);
  found.pclmul = Has(c1, bit_PCLMUL);
  found.vpclmulqdq = Has(saved, kYmm) && Has(c7, bit_VPCLMULQDQ);
  return found;
}

}  // namespace

const X86Features& FeaturesOfX86() {
  static const X86Features features = Ask();
  return features;
}

}  // namespace fedplug::simd

#endif  // FEDPLUG_SIMD_X86

namespace fedplug {
namespace {

constexpr SimdLevel kBestFirst[] = {SimdLevel::kAvx512, SimdLevel::kAvx2,
                                    SimdLevel::kNeon, SimdLevel::kBaseline};

struct Choice {
  Status status;
  SimdLevel level = SimdLevel::kBaseline;
};

Choice Refuse(const std::string& wanted, const std::string& problem) {
  std::string known;
  for (const SimdLevel level : kBestFirst) {
    if (!IsSupported(level)) continue;
    known += std::string(known.empty() ? "" : ", ") + NameOf(level);
  }
  return {{StatusCode::kInvalidArgument,
           "FEDPLUG_SIMD is '" + wanted + "', " + problem +
               "; this processor has " + known + " (unset it for the best)"},
          SimdLevel::kBaseline};
}

Choice Choose() {
  const char* const variable = std::getenv("FEDPLUG_SIMD");
  const std::string wanted = variable == nullptr ? "" : variable;
  for (const SimdLevel level : kBestFirst) {
    if (wanted.empty() && IsSupported(level)) return {{}, level};
    if (wanted != NameOf(level)) continue;
    if (IsSupported(level)) return {{}, level};
    return Refuse(wanted, "which this processor or build does not have");
  }
  return Refuse(wanted, "which is no level");
}

}  // namespace

const char* NameOf(SimdLevel level) {
  constexpr const char* kNames[] = {"baseline", "avx2", "avx512", "neon"};
  return kNames[static_cast<std::size_t>(level)];
}

bool IsSupported(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  const simd::X86Features& features = simd::FeaturesOfX86();
  if (level == SimdLevel::kAvx512) return features.avx512f && features.avx2;
  if (level == SimdLevel::kAvx2) return features.avx2;
#elif FEDPLUG_SIMD_NEON
  if (level == SimdLevel::kNeon) return true;
#endif
  return level == SimdLevel::kBaseline;
}

Status FindSimdLevel(SimdLevel* level) {
  static const Choice* const choice = new Choice(Choose());
  *level = choice->level;
  return choice->status;
}

}  // namespace fedplug
