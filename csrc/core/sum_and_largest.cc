#include "core/sum_and_largest.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/base/float_bits.h"
#include "core/base/float_environment.h"
#include "core/base/tiles.h"
#include "core/matrix/matrix_loops.h"
#include "core/simd/stream.h"

namespace fedplug {
namespace {

constexpr std::int64_t kBlock = 2048;
constexpr std::int64_t kSmallestShare = 1 << 16;

}  // namespace

template <typename T>
Status SumAndLargest(const T* delta, const T* residual, std::int64_t n,
                     Parallel& parallel, T* sum, T* largest) {
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const auto loops = matrix::ElementLoopsFor<T>(level);
  const bool streams =
      sum != residual &&
      n >= kStreamedBytes / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  const int tiles = TileCount(n, kSmallestShare, parallel);
  std::vector<FloatBitsOf<T>> keys(static_cast<std::size_t>(tiles));
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    FloatBitsOf<T> key = 0;
    const Range mine = TileOf(blocks, tiles, t);
    for (std::int64_t b = mine.begin; b < mine.end; ++b) {
      const std::int64_t at = b * kBlock;
      const std::int64_t count = std::min(kBlock, n - at);
      alignas(64) std::array<T, kBlock> block;
      T* const to = streams ? block.data() : sum + at;
      const T found =
          loops.add_and_find_largest(delta + at, residual + at, count, to);
      key = std::max(key, ToBits(found));
      if (streams) StreamCopy(to, count, sum + at);
    }
    FenceStreamedStores();
    keys[static_cast<std::size_t>(t)] = key;
  });
  const auto key = *std::max_element(keys.begin(), keys.end());
  std::memcpy(largest, &key, sizeof(key));
  return {};
}

#define FEDPLUG_INSTANTIATE(T)                                               \
  template Status SumAndLargest(const T*, const T*, std::int64_t, Parallel&, \
                                T*, T*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
