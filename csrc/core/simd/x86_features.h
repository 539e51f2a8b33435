// Instruction sets of this x86-64 processor. __builtin_cpu_supports is not
// used: the runtime that Zig links answers no to all of them.
#ifndef FEDPLUG_CORE_SIMD_X86_FEATURES_H_
#define FEDPLUG_CORE_SIMD_X86_FEATURES_H_

namespace fedplug::simd {

struct X86Features {
  bool avx2 = false;  // with f16c, popcnt and bmi
  bool avx512f = false;
  bool pclmul = false;
  bool vpclmulqdq = false;
};

// Only those that the system supports, too. Cached, because the query costs
// microseconds in a virtual machine.
const X86Features& FeaturesOfX86();

}  // namespace fedplug::simd

#endif  // FEDPLUG_CORE_SIMD_X86_FEATURES_H_
