// First every index is checked, in parallel; then the accumulator is cut into
// tiles that stay in the cache, and whoever takes a tile adds what all payloads
// have in it, payload by payload. So no two threads write the same element, and
// the order of the additions to an element is the order of the payloads
// whatever the number of threads or tiles.
// COST: reads the indices twice and the values once; reads and writes once each
// cache line of the accumulator that is named; finding the tiles inside the
// payloads adds O(tiles * payloads) steps, which are kept below the entries.
// A sum from nothing differs in one thing: whoever takes a tile zeroes it
// first.
#include "core/scatter_decode.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/float_environment.h"
#include "core/tiles.h"

namespace fedplug {
namespace {

constexpr std::int64_t kSmallestShare = 1 << 15;

// Bytes of the accumulator in a tile: it, the next one and what the payloads
// have in them fit a second-level cache of 512 KiB.
constexpr std::int64_t kTileBytes = 1 << 17;
constexpr std::int64_t kLineBytes = 64;

// Fewer entries than this of a payload in a tile do not repay finding them.
constexpr std::int64_t kEntriesPerTile = 64;

Status Invalid(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

Status CheckRowSplits(const std::int64_t* row_splits, std::int64_t payloads,
                      std::int64_t entries) {
  if (payloads < 0) {
    return Invalid(
        "row_splits is empty; it holds one number more than there are "
        "payloads, the first of them 0");
  }
  if (row_splits[0] != 0) {
    return Invalid("row_splits begins with " + std::to_string(row_splits[0]) +
                   " instead of 0");
  }
  for (std::int64_t p = 0; p < payloads; ++p) {
    if (row_splits[p + 1] < row_splits[p]) {
      return Invalid("payload " + std::to_string(p) +
                     ": row_splits falls from " +
                     std::to_string(row_splits[p]) + " to " +
                     std::to_string(row_splits[p + 1]));
    }
  }
  if (row_splits[payloads] != entries) {
    return Invalid("row_splits ends with " +
                   std::to_string(row_splits[payloads]) + ", but there are " +
                   std::to_string(entries) + " entries");
  }
  return {};
}

// Whether the entries [begin, end) of one payload ascend strictly inside
// [0, n). Without an early exit, which lets the compiler compare many at once:
// if each is above the one before it, only the ends can be out of range.
bool AllGood(const std::int32_t* indices, std::int64_t begin, std::int64_t end,
             std::int64_t n) {
  if (begin == end) return true;
  std::int32_t falls = 0;
  for (std::int64_t j = begin + 1; j < end; ++j) {
    falls |= static_cast<std::int32_t>(indices[j] <= indices[j - 1]);
  }
  return falls == 0 && indices[begin] >= 0 && indices[end - 1] < n;
}

// The first entry of [begin, end) whose index is out of range or not above the
// one before it.
// REQUIRES: there is one
std::int64_t FirstBadEntry(const std::int32_t* indices, std::int64_t begin,
                           std::int64_t n) {
  std::int64_t previous = -1;
  std::int64_t j = begin;
  for (; indices[j] > previous && indices[j] < n; ++j) previous = indices[j];
  return j;
}

Status BadEntryStatus(const std::int32_t* indices,
                      const std::int64_t* row_splits, std::int64_t payload,
                      std::int64_t n) {
  const std::int64_t entry = FirstBadEntry(indices, row_splits[payload], n);
  const std::int32_t index = indices[entry];
  const std::int64_t position = entry - row_splits[payload];
  std::string problem;
  if (index < 0 || index >= n) {
    problem = " is not in [0, " + std::to_string(n) + ")";
  } else {
    problem = " is not above the one before it (" +
              std::to_string(indices[entry - 1]) + ")";
  }
  return Invalid("payload " + std::to_string(payload) + ": index " +
                 std::to_string(index) + problem + ", at position " +
                 std::to_string(position) + " of " +
                 std::to_string(row_splits[payload + 1] - row_splits[payload]));
}

Status CheckIndices(const std::int32_t* indices, std::int64_t entries,
                    const std::int64_t* row_splits, std::int64_t payloads,
                    std::int64_t n, Parallel& parallel) {
  const int shares = static_cast<int>(
      std::min<std::int64_t>(TileCount(entries, kSmallestShare, parallel),
                             std::max<std::int64_t>(payloads, 1)));
  std::vector<Status> found(static_cast<std::size_t>(shares));
  parallel.Run(shares, [&](int s) {
    const Range mine = TileOf(payloads, shares, s);
    for (std::int64_t p = mine.begin; p < mine.end; ++p) {
      if (AllGood(indices, row_splits[p], row_splits[p + 1], n)) continue;
      found[static_cast<std::size_t>(s)] =
          BadEntryStatus(indices, row_splits, p, n);
      return;
    }
  });
  for (Status& status : found) {
    if (!status.ok()) return std::move(status);
  }
  return {};
}

// Where the entry that comes next may be: the walk from tile to tile is a
// search from the last place on, in steps that double.
std::int64_t FirstAtOrAbove(const std::int32_t* indices, std::int64_t from,
                            std::int64_t end, std::int64_t bound) {
  std::int64_t step = kEntriesPerTile;
  std::int64_t low = from;
  while (low + step < end && indices[low + step] < bound) {
    low += step;
    step *= 2;
  }
  return std::lower_bound(indices + low, indices + std::min(end, low + step),
                          bound) -
         indices;
}

// The processor foresees a few streams, not two for each of a hundred payloads;
// so each run asks for as many entries behind it as it has itself, which is
// where the payload goes on in the next tile.
template <typename T, bool kWeighted>
void AddEntries(T* accumulator, const T* values, const std::int32_t* indices,
                std::int64_t count, T weight) {
  constexpr std::int64_t kStep = 16;
  const std::int64_t ahead = std::max(count, 4 * kStep);
  for (std::int64_t begin = 0; begin < count; begin += kStep) {
    __builtin_prefetch(values + begin + ahead);
    __builtin_prefetch(indices + begin + ahead);
    const std::int64_t end = std::min(count, begin + kStep);
    for (std::int64_t j = begin; j < end; ++j) {
      T& sum = accumulator[indices[j]];
      if constexpr (kWeighted) {
        sum = sum + weight * values[j];
      } else {
        sum = sum + values[j];
      }
    }
  }
}

// How a tile comes into the cache.
enum class Entrance {
  kByEntry,   // line by line, when an entry comes to it
  kPrefetch,  // asked for while the tile before it is added to
  kZeroed,    // overwritten with zeros
};

struct Tiles {
  std::int64_t size;
  Entrance entrance;
};

enum class Start { kAsItIs, kFromZero };

// As many elements as fit the cache, or more where the payloads are so thin
// that walking from tile to tile would cost more than it saves. Where about
// every cache line is named, they are asked for in order, instead of one by one
// when an entry comes to them.
template <typename T>
Tiles ChooseTiles(Start start, std::int64_t n, std::int64_t entries,
                  std::int64_t payloads) {
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t per_payload =
      entries / std::max<std::int64_t>(payloads, 1);
  const std::int64_t most_tiles =
      std::max<std::int64_t>(1, per_payload / kEntriesPerTile);
  const bool dense = entries >= n * kElement / (2 * kLineBytes);
  return {std::max(kTileBytes / kElement, n / most_tiles + 1),
          start == Start::kFromZero ? Entrance::kZeroed
          : dense                   ? Entrance::kPrefetch
                                    : Entrance::kByEntry};
}

// Asks for the elements [begin, end), which are about to be read and written.
template <typename T>
void PrefetchElements(const T* accumulator, std::int64_t begin,
                      std::int64_t end) {
  constexpr auto kLine = kLineBytes / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t i = begin; i < end; i += kLine) {
    __builtin_prefetch(accumulator + i, 1);
  }
}

// Adds everything that falls into [range.begin, range.end), tile by tile.
template <typename T>
void AddRange(T* accumulator, Range range, Tiles tiles, const T* values,
              const std::int32_t* indices, const std::int64_t* row_splits,
              std::int64_t payloads, const T* weights) {
  std::vector<std::int64_t> next(static_cast<std::size_t>(payloads));
  for (std::int64_t p = 0; p < payloads; ++p) {
    next[static_cast<std::size_t>(p)] =
        std::lower_bound(indices + row_splits[p], indices + row_splits[p + 1],
                         range.begin) -
        indices;
  }
  for (std::int64_t begin = range.begin; begin < range.end;
       begin += tiles.size) {
    const std::int64_t end = std::min(range.end, begin + tiles.size);
    const std::int64_t next_size = std::min(range.end - end, tiles.size);
    if (tiles.entrance == Entrance::kZeroed) {
      std::fill(accumulator + begin, accumulator + end, T{});
    }
    for (std::int64_t p = 0; p < payloads; ++p) {
      if (tiles.entrance == Entrance::kPrefetch) {
        PrefetchElements(accumulator, end + next_size * p / payloads,
                         end + next_size * (p + 1) / payloads);
      }
      std::int64_t& at = next[static_cast<std::size_t>(p)];
      const std::int64_t stop =
          FirstAtOrAbove(indices, at, row_splits[p + 1], end);
      if (weights == nullptr) {
        AddEntries<T, false>(accumulator, values + at, indices + at, stop - at,
                             T{});
      } else {
        AddEntries<T, true>(accumulator, values + at, indices + at, stop - at,
                            weights[p]);
      }
      at = stop;
    }
  }
}

template <typename T>
Status CheckAndAdd(Start start, T* accumulator, std::int64_t n, const T* values,
                   const std::int32_t* indices, std::int64_t entries,
                   const std::int64_t* row_splits, std::int64_t payloads,
                   const T* weights, Parallel& parallel) {
  if (Status status = CheckDenseSize(n); !status.ok()) return status;
  if (Status status = CheckRowSplits(row_splits, payloads, entries);
      !status.ok()) {
    return status;
  }
  if (Status status =
          CheckIndices(indices, entries, row_splits, payloads, n, parallel);
      !status.ok()) {
    return status;
  }
  const Tiles tiles = ChooseTiles<T>(start, n, entries, payloads);
  // To zero a cache line takes about as long as to add an entry.
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t zeroed_lines =
      start == Start::kFromZero ? n * kElement / kLineBytes : 0;
  const int shares =
      TileCount(entries + zeroed_lines, kSmallestShare, parallel);
  parallel.Run(shares, [&](int s) {
    const DefaultFloatEnvironment environment;
    AddRange(accumulator, TileOf(n, shares, s), tiles, values, indices,
             row_splits, payloads, weights);
  });
  return {};
}

}  // namespace

Status CheckDenseSize(std::int64_t n) {
  if (n >= 0 && n <= INT32_MAX) return {};
  return Invalid("n = " + std::to_string(n) + " is not in [0, 2^31)");
}

template <typename T>
Status ScatterDecodeAdd(T* accumulator, std::int64_t n, const T* values,
                        const std::int32_t* indices, std::int64_t entries,
                        const std::int64_t* row_splits, std::int64_t payloads,
                        const T* weights, Parallel& parallel) {
  return CheckAndAdd(Start::kAsItIs, accumulator, n, values, indices, entries,
                     row_splits, payloads, weights, parallel);
}

template <typename T>
Status ScatterDecode(T* sum, std::int64_t n, const T* values,
                     const std::int32_t* indices, std::int64_t entries,
                     const std::int64_t* row_splits, std::int64_t payloads,
                     const T* weights, Parallel& parallel) {
  return CheckAndAdd(Start::kFromZero, sum, n, values, indices, entries,
                     row_splits, payloads, weights, parallel);
}

#define FEDPLUG_INSTANTIATE(T)                                       \
  template Status ScatterDecodeAdd<T>(                               \
      T*, std::int64_t, const T*, const std::int32_t*, std::int64_t, \
      const std::int64_t*, std::int64_t, const T*, Parallel&);       \
  template Status ScatterDecode<T>(                                  \
      T*, std::int64_t, const T*, const std::int32_t*, std::int64_t, \
      const std::int64_t*, std::int64_t, const T*, Parallel&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
