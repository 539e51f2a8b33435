#include "core/simd/x86_features.h"

#include "core/simd/level.h"

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
