// Taken entries are marked, a block at a time, for the walk that writes the
// residual.
#include "core/take_from_sum.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "core/base/parallel.h"
#include "core/index_code.h"
#include "core/simd/stream.h"
#include "core/topk/blocks.h"
#include "core/topk/sum_refusal.h"
#include "core/topk/update.h"

namespace fedplug {
namespace {

using topk::kBlock;

// Below this number, waking a second thread takes longer than its work.
constexpr std::int64_t kFewestIndices = 1 << 14;
constexpr std::int64_t kFewestElements = 1 << 19;

}  // namespace

template <typename T>
Status Gather(const T* values, std::int64_t n, const std::int32_t* indices,
              std::int64_t count, Parallel& parallel, T* out) {
  constexpr std::int64_t kAhead = 32;
  if (Status status = CheckIndices(indices, count, n); !status.ok()) {
    return status;
  }
  const int tiles = TileCount(count, kFewestIndices, parallel);
  parallel.Run(tiles, [&](int t) {
    const Range mine = TileOf(count, tiles, t);
    for (std::int64_t j = mine.begin; j < mine.end; ++j) {
      // Elements are far apart and seldom in the cache.
      __builtin_prefetch(values + indices[std::min(j + kAhead, mine.end - 1)]);
      out[j] = values[indices[j]];
    }
  });
  return {};
}

template <typename T>
Status TakeFromSum(const T* delta, const T* residual_in, T* residual_out,
                   std::int64_t n, const std::int32_t* indices,
                   std::int64_t count, Parallel& parallel, T* values,
                   std::int64_t* non_finite) {
  constexpr auto kInfinity = FloatTraits<T>::kInfinity;
  *non_finite = 0;
  if (Status status = CheckIndices(indices, count, n); !status.ok()) {
    return status;
  }
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const bool in_place = residual_in == residual_out;
  if (in_place) {
    Status status =
        RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
    if (!status.ok()) return status;
  }
  const bool streams =
      !in_place && n >= kStreamedBytes / static_cast<std::int64_t>(sizeof(T));
  T mark;  // any that is not 0
  std::memcpy(&mark, &kInfinity, sizeof(mark));
  const auto kernels = topk::BlockKernelsFor<T>(level);
  auto* const take = streams ? kernels.take_streaming : kernels.take;
  // All blocks but the first begin with a cache line of the residual.
  const topk::Update<T> update{{}, residual_in, residual_out, n};
  const std::int64_t past = topk::PastLine(update, 0);
  const std::int64_t blocks = (n + past + kBlock - 1) / kBlock;
  const int tiles = TileCount(n, kFewestElements, parallel);
  std::atomic<bool> finite{true};
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(blocks, tiles, t);
    const auto begin_of = [&](std::int64_t block) {
      return std::clamp<std::int64_t>(block * kBlock - past, 0, n);
    };
    std::int64_t j =
        std::lower_bound(indices, indices + count, begin_of(mine.begin)) -
        indices;
    std::array<T, kBlock> marks{};
    for (std::int64_t block = mine.begin; block < mine.end && finite; ++block) {
      const std::int64_t at = begin_of(block);
      const std::int64_t end = begin_of(block + 1);
      const T* const residual =
          residual_in == nullptr ? topk::PlusZeros<T>() : residual_in + at;
      const std::int64_t first = j;
      while (j < count && indices[j] < end) ++j;
      const auto for_each = [&](const auto& body) {
        for (std::int64_t k = first; k < j; ++k) body(k, indices[k] - at);
      };
      const auto read = [&](std::int64_t k, std::int64_t i) {
        values[k] = static_cast<T>(delta[at + i] + residual[i]);
      };
      const auto set_mark = [&](const T& to) {
        for_each([&](std::int64_t, std::int64_t i) {
          marks[static_cast<std::size_t>(i)] = to;
        });
      };
      set_mark(mark);
      if (in_place) for_each(read);
      if (take(delta + at, residual, residual_out + at, end - at,
               marks.data()) >= kInfinity) {
        finite = false;
        return;
      }
      if (!in_place) for_each(read);  // they are in the cache now
      set_mark(T{});
    }
    FenceStreamedStores();
  });
  if (finite) return {};
  return RefuseNonFinite(delta, residual_in, n, parallel, non_finite);
}

#define FEDPLUG_INSTANTIATE(T)                                                 \
  template Status Gather<T>(const T*, std::int64_t, const std::int32_t*,       \
                            std::int64_t, Parallel&, T*);                      \
  template Status TakeFromSum<T>(const T*, const T*, T*, std::int64_t,         \
                                 const std::int32_t*, std::int64_t, Parallel&, \
                                 T*, std::int64_t*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
