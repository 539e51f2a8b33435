#include "core/simd/level.h"

#include <cstdlib>
#include <string>

#if FEDPLUG_SIMD_X86
#include <cpuid.h>
#endif

namespace fedplug {
namespace {

constexpr SimdLevel kBestFirst[] = {SimdLevel::kAvx512, SimdLevel::kAvx2,
                                    SimdLevel::kNeon, SimdLevel::kBaseline};

#if FEDPLUG_SIMD_X86
// Clang 14 lacks __builtin_cpu_supports("f16c"). Cached, because the query
// costs microseconds in a virtual machine.
// REQUIRES: the processor has AVX2, so that its registers are in use
bool HasF16c() {
  static const bool has = [] {
    unsigned a, b, features = 0, d;
    return __get_cpuid(1, &a, &b, &features, &d) != 0 &&
           (features & bit_F16C) != 0;
  }();
  return has;
}
#endif

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
  switch (level) {
    case SimdLevel::kBaseline:
      return "baseline";
    case SimdLevel::kAvx2:
      return "avx2";
    case SimdLevel::kAvx512:
      return "avx512";
    case SimdLevel::kNeon:
      return "neon";
  }
  return "";
}

bool IsSupported(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level == SimdLevel::kAvx512) {
    return __builtin_cpu_supports("avx512f") && IsSupported(SimdLevel::kAvx2);
  }
  if (level == SimdLevel::kAvx2) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") &&
           __builtin_cpu_supports("bmi") && HasF16c();
  }
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
