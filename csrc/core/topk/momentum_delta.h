// Deltas that are not simply there: they are made, a block at a time, while the
// residual that waits for them is in the cache.
#ifndef FEDPLUG_CORE_TOPK_MOMENTUM_DELTA_H_
#define FEDPLUG_CORE_TOPK_MOMENTUM_DELTA_H_

#include <cstdint>

#include "core/topk/update.h"

namespace fedplug::topk {

// velocity_out = momentum * velocity_in + gradient, which is the delta too. The
// two may be one array.
template <typename T>
class MomentumDelta final : public DeltaSource<T> {
 public:
  MomentumDelta(const T* gradient, T momentum, const T* velocity_in,
                T* velocity_out)
      : gradient_(gradient),
        momentum_(momentum),
        velocity_in_(velocity_in),
        velocity_out_(velocity_out) {}

  const T* Read(std::int64_t begin, std::int64_t count,
                T* staging) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      staging[i] = momentum_ * velocity_in_[begin + i] + gradient_[begin + i];
    }
    return staging;
  }
  const T* Take(std::int64_t begin, std::int64_t count,
                T* /*staging*/) const override {
    return Read(begin, count, velocity_out_ + begin);
  }
  void Clear(std::int32_t index) const override { velocity_out_[index] = T{}; }
  bool Clears() const override { return true; }
  bool TakeWrites() const override { return velocity_in_ == velocity_out_; }
  void Prefetch(std::int64_t begin) const override {
    __builtin_prefetch(gradient_ + begin);
    __builtin_prefetch(velocity_in_ + begin);
  }

 private:
  const T* gradient_;
  const T momentum_;
  const T* const velocity_in_;
  T* const velocity_out_;
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_MOMENTUM_DELTA_H_
