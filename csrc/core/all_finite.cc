// The key of a value that is not finite is at least that of infinity. Adding
// the distance from infinity to the sign bit sets that bit in these values
// only, so a loop without comparisons checks a block.
#include "core/all_finite.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/simd/loops.h"

namespace fedplug {
namespace {

constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kSmallestTileBytes = std::int64_t{1} << 19;

template <typename T>
FEDPLUG_ALWAYS_INLINE bool BlockLoop(const T* values, std::int64_t n) {
  using Bits = FloatBitsOf<T>;
  constexpr auto kSign = static_cast<Bits>(Bits{1} << kKeyBits<T>);
  constexpr auto kLack = static_cast<Bits>(kSign - FloatTraits<T>::kInfinity);
  Bits seen = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    seen = static_cast<Bits>(
        seen | static_cast<Bits>(MagnitudeKey(values[i]) + kLack));
  }
  return (seen & kSign) == 0;
}

// `block_at(begin, elements)` returns a block.
template <typename T, typename BlockAt>
bool AllFiniteBlocks(std::int64_t n, Parallel& parallel,
                     const BlockAt& block_at) {
  SimdLevel level;
  // A refused FEDPLUG_SIMD leaves the baseline, and the answer is the same.
  static_cast<void>(FindSimdLevel(&level));
  auto* const block = LoopFor<BlockLoop<T>>(level);
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
  const int tiles = TileCount(n, kSmallestTileBytes / kElement, parallel);
  std::atomic<bool> finite{true};
  parallel.Run(tiles, [&](int t) {
    const Range mine = TileOf(n, tiles, t);
    for (std::int64_t at = mine.begin; at < mine.end; at += kBlock) {
      if (!finite.load(std::memory_order_relaxed)) return;
      const std::int64_t elements = std::min(kBlock, mine.end - at);
      if (!block(block_at(at, elements), elements)) finite = false;
    }
  });
  return finite;
}

}  // namespace

template <typename T>
bool AllFinite(const T* values, std::int64_t n, Parallel& parallel) {
  return AllFiniteBlocks<T>(n, parallel, [&](std::int64_t begin, std::int64_t) {
    return values + begin;
  });
}

template <typename T>
bool CopyFinite(const std::uint8_t* bytes, std::int64_t n, T* values,
                Parallel& parallel) {
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
  return AllFiniteBlocks<T>(
      n, parallel, [&](std::int64_t begin, std::int64_t elements) {
        std::memcpy(values + begin, bytes + begin * kElement,
                    static_cast<std::size_t>(elements * kElement));
        return values + begin;
      });
}

#define FEDPLUG_INSTANTIATE(T)                                   \
  template bool AllFinite<T>(const T*, std::int64_t, Parallel&); \
  template bool CopyFinite<T>(const std::uint8_t*, std::int64_t, T*, Parallel&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
