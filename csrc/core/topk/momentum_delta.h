// Deltas computed from momentum, a block at a time, while the residual is in
// the cache.
#ifndef FEDPLUG_CORE_TOPK_MOMENTUM_DELTA_H_
#define FEDPLUG_CORE_TOPK_MOMENTUM_DELTA_H_

#include <cstdint>

#include "core/simd/level.h"
#include "core/topk/update.h"

namespace fedplug::topk {

// velocity_out = momentum * velocity_in + gradient, which is the delta too. The
// two may be one array. T is float or double.
template <typename T>
class MomentumDelta final : public DeltaSource<T> {
 public:
  // REQUIRES: IsSupported(level)
  MomentumDelta(const T* gradient, T momentum, const T* velocity_in,
                T* velocity_out, SimdLevel level);

  const T* Read(std::int64_t begin, std::int64_t count,
                T* staging) const override;
  const T* Take(std::int64_t begin, std::int64_t count,
                T* staging) const override;
  FloatBitsOf<T> TakeAndPartition(std::int64_t begin, std::int64_t count,
                                  const T* residual_in, T* residual_out,
                                  const PivotRange<T>& range,
                                  PartitionCursor<T>* cursor) const override;
  bool TakesAndPartitions() const override {
    return velocity_in_ != velocity_out_;
  }
  void Clear(const std::int32_t* indices, std::int64_t count) const override;
  bool Clears() const override { return true; }
  bool TakeWrites() const override { return velocity_in_ == velocity_out_; }
  void Prefetch(std::int64_t begin) const override {
    __builtin_prefetch(gradient_ + begin);
    __builtin_prefetch(velocity_in_ + begin);
  }

 private:
  struct Loops {
    // moved = momentum * velocity + gradient, to where neither is
    void (*elsewhere)(const T* gradient, const T* velocity, std::int64_t n,
                      T momentum, T* moved);
    void (*in_place)(const T* gradient, std::int64_t n, T momentum,
                     T* velocity);
  };
  static Loops LoopsFor(SimdLevel level);

  const T* const gradient_;
  const T momentum_;
  const T* const velocity_in_;
  T* const velocity_out_;
  const Loops loops_;
  typename BlockKernels<T>::PartitionMoved* const partition_;
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_MOMENTUM_DELTA_H_
