#include "core/simd/level.h"

#include <cstdlib>
#include <string>

#include "core/simd/x86_features.h"

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
