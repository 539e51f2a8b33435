// Deltas that are not simply there: they are made, a block at a time, while the
// residual that waits for them is in the cache.
#ifndef FEDPLUG_CORE_TOPK_SOURCES_H_
#define FEDPLUG_CORE_TOPK_SOURCES_H_

#include <cstdint>

#include "core/float16.h"
#include "core/topk_update.h"

namespace fedplug::topk {

// 16-bit deltas for a float residual. D is Half or BFloat16.
template <typename D>
class WidenedDelta final : public DeltaSource<float> {
 public:
  explicit WidenedDelta(const D* delta) : delta_(delta) {}

  const float* Read(std::int64_t begin, std::int64_t count,
                    float* staging) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      staging[i] = ToFloat(delta_[begin + i]);
    }
    return staging;
  }
  void Prefetch(std::int64_t begin) const override {
    __builtin_prefetch(delta_ + begin);
  }

 private:
  const D* delta_;
};

// velocity' = momentum * velocity + gradient, which is the delta too.
template <typename T>
class MomentumDelta final : public DeltaSource<T> {
 public:
  MomentumDelta(const T* gradient, T momentum, T* velocity)
      : gradient_(gradient), momentum_(momentum), velocity_(velocity) {}

  const T* Read(std::int64_t begin, std::int64_t count,
                T* staging) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      staging[i] = momentum_ * velocity_[begin + i] + gradient_[begin + i];
    }
    return staging;
  }
  const T* Take(std::int64_t begin, std::int64_t count,
                T* /*staging*/) const override {
    return Read(begin, count, velocity_ + begin);
  }
  void Clear(std::int32_t index) const override { velocity_[index] = T{}; }
  bool TakeWrites() const override { return true; }
  void Prefetch(std::int64_t begin) const override {
    __builtin_prefetch(gradient_ + begin);
    __builtin_prefetch(velocity_ + begin);
  }

 private:
  const T* gradient_;
  const T momentum_;
  T* const velocity_;
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_SOURCES_H_
