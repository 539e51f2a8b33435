// The instruction sets of this processor, against the compiler's own list.
#include "core/simd/x86_features.h"

#include "core/simd/level.h"
#include "tests/test.h"

namespace fedplug::testing {
namespace {

#if FEDPLUG_SIMD_X86
TEST(X86Features, AreThoseThatTheCompilersRuntimeFinds) {
  const simd::X86Features& found = simd::FeaturesOfX86();
  // Clang 14 knows no "f16c", which every processor with AVX2 has.
  EXPECT_EQ(found.avx2, __builtin_cpu_supports("avx2") &&
                            __builtin_cpu_supports("popcnt") &&
                            __builtin_cpu_supports("bmi"));
  EXPECT_EQ(found.avx512f, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(found.pclmul, __builtin_cpu_supports("pclmul") != 0);
  EXPECT_EQ(found.vpclmulqdq, __builtin_cpu_supports("vpclmulqdq") != 0);
}
#endif

}  // namespace
}  // namespace fedplug::testing
