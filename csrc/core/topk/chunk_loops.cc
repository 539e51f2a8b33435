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

}  // namespace

template <typename T>
Decay<T>::Decay(T share, SimdLevel level)
    : share_(share),
      loop_(share == 1 ? nullptr : LoopFor<TimesLoop<T>>(level)) {}

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
  return LoopFor<GroupMaximaLoop<T>>(level);
}

template GroupMaxima<float>* GroupMaximaFor(SimdLevel);
template GroupMaxima<double>* GroupMaximaFor(SimdLevel);

}  // namespace fedplug::topk
