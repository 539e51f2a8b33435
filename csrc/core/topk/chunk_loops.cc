#include "core/topk/chunk_loops.h"

#include <type_traits>

#include "core/simd/loops.h"
#include "core/topk/update.h"

namespace fedplug::topk {
namespace {

template <typename T>
FEDPLUG_ALWAYS_INLINE void TimesLoop(const T* x, std::int64_t n, T share,
                                     T* __restrict product) {
  // Prefetches 6 KiB ahead, because hardware prefetchers restart with each
  // block.
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  constexpr std::int64_t kAhead = 96 * kLine;
  std::int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    __builtin_prefetch(x + i + kAhead);
    for (std::int64_t j = i; j < i + kLine; ++j) product[j] = share * x[j];
  }
  for (; i < n; ++i) product[i] = share * x[i];
}

template <typename T>
auto* LoopFor(SimdLevel level) {
  using Loop = void(const T*, std::int64_t, T, T*);
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) {
    return static_cast<Loop*>(Avx2<TimesLoop<T>>);
  }
#endif
  static_cast<void>(level);
  return static_cast<Loop*>(Baseline<TimesLoop<T>>);
}

template <typename T>
bool IsOne(T share) {
  if constexpr (std::is_floating_point_v<T>) {
    return share == 1;
  } else {
    return ToFloat(share) == 1;
  }
}

}  // namespace

template <typename T>
Decay<T>::Decay(T share, SimdLevel level)
    : share_(share), loop_(IsOne(share) ? nullptr : LoopFor<T>(level)) {}

template <typename T>
const T* Decay<T>::Of(const T* residual, std::int64_t n,
                      DecayedBlock<T>* block) const {
  if (residual == nullptr) return PlusZeros<T>();
  if (loop_ == nullptr) return residual;
  loop_(residual, n, share_, block->data());
  return block->data();
}

template class Decay<float>;
template class Decay<double>;

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
