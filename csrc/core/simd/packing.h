// Permutations that move the chosen lanes of a register to its front, for
// instruction sets without a compressing move.
#ifndef FEDPLUG_CORE_SIMD_PACKING_H_
#define FEDPLUG_CORE_SIMD_PACKING_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace fedplug::simd {

// kPacking<...>[mask]: the places, in units of which a lane has kUnits, of the
// lanes of the mask, in order, then zeros.
template <typename Unit, int kLanes, int kUnits>
constexpr auto MakePacking() {
  std::array<std::array<Unit, kLanes * kUnits>, 1 << kLanes> packing{};
  for (std::size_t mask = 0; mask < packing.size(); ++mask) {
    std::size_t next = 0;
    for (int place = 0; place < kLanes * kUnits; ++place) {
      if (((mask >> (place / kUnits)) & 1) == 0) continue;
      packing[mask][next++] = static_cast<Unit>(place);
    }
  }
  return packing;
}

template <typename Unit, int kLanes, int kUnits>
alignas(32) inline constexpr auto kPacking =
    MakePacking<Unit, kLanes, kUnits>();

}  // namespace fedplug::simd

#endif  // FEDPLUG_CORE_SIMD_PACKING_H_
