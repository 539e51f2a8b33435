#include "core/topk/momentum_delta.h"

#include <algorithm>

#include "core/simd/loops.h"

namespace fedplug::topk {
namespace {

template <typename T>
FEDPLUG_ALWAYS_INLINE void MoveLoop(const T* gradient, const T* velocity,
                                    std::int64_t n, T momentum,
                                    T* __restrict moved) {
  for (std::int64_t i = 0; i < n; ++i) {
    moved[i] = momentum * velocity[i] + gradient[i];
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void MoveInPlaceLoop(const T* gradient, std::int64_t n,
                                           T momentum, T* __restrict velocity) {
  for (std::int64_t i = 0; i < n; ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
  }
}

}  // namespace

template <typename T>
typename MomentumDelta<T>::Loops MomentumDelta<T>::LoopsFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) {
    return {Avx2<MoveLoop<T>>, Avx2<MoveInPlaceLoop<T>>};
  }
#endif
  static_cast<void>(level);
  return {Baseline<MoveLoop<T>>, Baseline<MoveInPlaceLoop<T>>};
}

template <typename T>
MomentumDelta<T>::MomentumDelta(const T* gradient, T momentum,
                                const T* velocity_in, T* velocity_out,
                                SimdLevel level)
    : gradient_(gradient),
      momentum_(momentum),
      velocity_in_(velocity_in),
      velocity_out_(velocity_out),
      loops_(LoopsFor(level)),
      partition_(BlockKernelsFor<T>(level).partition_moved) {}

template <typename T>
const T* MomentumDelta<T>::Read(std::int64_t begin, std::int64_t count,
                                T* staging) const {
  loops_.elsewhere(gradient_ + begin, velocity_in_ + begin, count, momentum_,
                   staging);
  return staging;
}

template <typename T>
const T* MomentumDelta<T>::Take(std::int64_t begin, std::int64_t count,
                                T* /*staging*/) const {
  T* const out = velocity_out_ + begin;
  if (velocity_in_ != velocity_out_) return Read(begin, count, out);
  loops_.in_place(gradient_ + begin, count, momentum_, out);
  return out;
}

template <typename T>
FloatBitsOf<T> MomentumDelta<T>::TakeAndPartition(
    std::int64_t begin, std::int64_t count, const T* residual_in,
    T* residual_out, const PivotRange<T>& range,
    PartitionCursor<T>* cursor) const {
  return partition_({gradient_ + begin, momentum_, velocity_in_ + begin,
                     velocity_out_ + begin},
                    residual_in, residual_out, count,
                    static_cast<std::int32_t>(begin), range, cursor);
}

// They are far apart, so they are prefetched.
template <typename T>
void MomentumDelta<T>::Clear(const std::int32_t* indices,
                             std::int64_t count) const {
  constexpr std::int64_t kAhead = 32;
  for (std::int64_t j = 0; j < count; ++j) {
    __builtin_prefetch(velocity_out_ + indices[std::min(j + kAhead, count - 1)],
                       1);
    velocity_out_[indices[j]] = T{};
  }
}

template class MomentumDelta<float>;
template class MomentumDelta<double>;

}  // namespace fedplug::topk
