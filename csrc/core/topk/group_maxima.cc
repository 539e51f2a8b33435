#include "core/topk/group_maxima.h"

#include <type_traits>

#include "core/simd/loops.h"

namespace fedplug::topk {
namespace {

template <typename T>
FEDPLUG_ALWAYS_INLINE std::int64_t GroupMaximaLoop(const T* x, std::int64_t n,
                                                   std::int64_t rows,
                                                   FloatBitsOf<T>* maxima) {
  // As signed integers, which every instruction set can compare: a key has no
  // sign bit.
  using Key = std::make_signed_t<FloatBitsOf<T>>;
  const std::int64_t sets = n / (rows * kGroupsAbreast);
  for (std::int64_t set = 0; set < sets; ++set) {
    Key largest[kGroupsAbreast] = {};
    for (std::int64_t row = 0; row < rows; ++row, x += kGroupsAbreast) {
      for (std::int64_t group = 0; group < kGroupsAbreast; ++group) {
        const auto key = static_cast<Key>(MagnitudeKey(x[group]));
        largest[group] = key > largest[group] ? key : largest[group];
      }
    }
    for (const Key key : largest) {
      *maxima++ = static_cast<FloatBitsOf<T>>(key);
    }
  }
  return sets * kGroupsAbreast;
}

}  // namespace

template <typename T>
GroupMaxima<T>* GroupMaximaFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) return Avx2<GroupMaximaLoop<T>>;
#endif
  static_cast<void>(level);
  return Baseline<GroupMaximaLoop<T>>;
}

template GroupMaxima<float>* GroupMaximaFor(SimdLevel);
template GroupMaxima<double>* GroupMaximaFor(SimdLevel);

}  // namespace fedplug::topk
