#include "core/topk/decay.h"

#include <algorithm>
#include <type_traits>

#include "core/codes/value_loops.h"
#include "core/simd/loops.h"
#include "core/topk/update.h"

namespace fedplug::topk {
namespace {

template <typename T>
FEDPLUG_ALWAYS_INLINE void TimesLoop(const T* x, std::int64_t n, T share,
                                     T* __restrict product) {
  // Asks for what is 6 KiB ahead, as the loops that read what is made here
  // (block_loops.h) would if it were in memory.
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  constexpr std::int64_t kAhead = 96 * kLine;
  std::int64_t i = 0;
  for (; i + kLine <= n; i += kLine) {
    __builtin_prefetch(x + i + kAhead);
    for (std::int64_t j = i; j < i + kLine; ++j) product[j] = share * x[j];
  }
  for (; i < n; ++i) product[i] = share * x[i];
}

// The 16-bit types in float, which rounds to the same product (float16.h).
template <typename T, SimdLevel kLevel, auto kTimes>
void WideTimesLoop(const T* x, std::int64_t n, T share, T* product) {
  const auto convert = value_loops::ConvertLoopsFor<T>(kLevel);
  std::array<float, value_loops::kChunk> wide, wide_product;
  for (std::int64_t at = 0; at < n; at += value_loops::kChunk) {
    const std::int64_t length = std::min(value_loops::kChunk, n - at);
    convert.widen(x + at, length, wide.data());
    kTimes(wide.data(), length, ToFloat(share), wide_product.data());
    convert.narrow(wide_product.data(), length, product + at);
  }
}

template <typename T>
constexpr bool kIsWide = std::is_same_v<T, value_loops::WideOf<T>>;

template <typename T>
auto* LoopFor(SimdLevel level) {
  using Loop = void(const T*, std::int64_t, T, T*);
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) {
    if constexpr (kIsWide<T>) {
      return static_cast<Loop*>(Avx2<TimesLoop<T>>);
    } else {
      return static_cast<Loop*>(
          WideTimesLoop<T, SimdLevel::kAvx2,
                        Avx2<TimesLoop<float>, void, const float*, std::int64_t,
                             float, float*>>);
    }
  }
#endif
  static_cast<void>(level);
  if constexpr (kIsWide<T>) {
    return static_cast<Loop*>(Baseline<TimesLoop<T>>);
  } else {
    return static_cast<Loop*>(
        WideTimesLoop<T, SimdLevel::kBaseline, TimesLoop<float>>);
  }
}

template <typename T>
bool IsOne(T share) {
  if constexpr (kIsWide<T>) {
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
template class Decay<Half>;
template class Decay<BFloat16>;

}  // namespace fedplug::topk
