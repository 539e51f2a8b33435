// Recovers a residual from its sum.
#ifndef FEDPLUG_CORE_TOPK_UNDO_NOTES_H_
#define FEDPLUG_CORE_TOPK_UNDO_NOTES_H_

#include <cstdint>
#include <cstring>

#include "core/base/floats.h"

namespace fedplug::topk {

// For a residual r that became a = delta + r: the distance of the bits of r
// from those of a - delta. The subtraction is reproducible, so r follows
// exactly. The distance mostly fits in 16 bits. Otherwise, or if the sum is not
// finite, r itself is noted, for all lanes of a vector.
//
// SHAPE: distances[elements], residuals[elements] of a block
template <typename T>
struct UndoNotes {
  using Bits = FloatBitsOf<T>;

  static constexpr Bits kMiddle = 0x7fff;         // the distance 0
  static constexpr std::uint16_t kNone = 0xffff;  // r itself was noted

  std::uint16_t* distances;
  T* residuals;

  FEDPLUG_HOST_DEVICE UndoNotes From(std::int64_t i) const {
    return {distances + i, residuals + i};
  }

  // The distance, plus kMiddle: it fits where it is below kNone.
  FEDPLUG_HOST_DEVICE static Bits DistanceOf(T a, T delta, T residual) {
    return ToBits(residual) - ToBits<T>(a - delta) + kMiddle;
  }

  // Returns whether the distance fits. Otherwise notes r itself.
  FEDPLUG_HOST_DEVICE bool Note(std::int64_t i, T a, T delta,
                                T residual) const {
    const Bits distance = DistanceOf(a, delta, residual);
    const bool fits = distance < kNone && IsFinite(a);
    distances[i] = fits ? static_cast<std::uint16_t>(distance) : kNone;
    if (!fits) residuals[i] = residual;
    return fits;
  }

  FEDPLUG_HOST_DEVICE static bool IsNone(std::uint16_t distance) {
    return distance == kNone;
  }

  FEDPLUG_HOST_DEVICE bool HasResidual(std::int64_t i) const {
    return IsNone(distances[i]);
  }

  // Returns the old residual.
  FEDPLUG_HOST_DEVICE T Recall(std::int64_t i, T a, T delta) const {
    if (HasResidual(i)) return residuals[i];
    const auto bits =
        static_cast<Bits>(distances[i] - DistanceOf(a, delta, T{}));
    T residual;
    std::memcpy(&residual, &bits, sizeof(residual));
    return residual;
  }
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_UNDO_NOTES_H_
