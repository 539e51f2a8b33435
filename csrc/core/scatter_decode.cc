// First every index is checked, in parallel, then the accumulator is cut into
// tiles that stay in the cache, and a thread adds to its tile the entries of
// each payload in turn. So no two threads write the same element, and the order
// of the additions to an element is the order of the payloads, for any number
// of threads and tiles.
// COST: reads the indices twice and the values once. Reads and writes once each
// cache line of the accumulator that is named. Finding the tiles inside the
// payloads adds O(tiles * payloads) steps, which are kept below the entries. A
// sum from zeros differs in one point: a thread zeroes its tile first.
#include "core/scatter_decode.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"

namespace fedplug {
namespace {

// Number of entries below which another thread does not pay.
constexpr std::int64_t kSmallestShare = 1 << 15;

// Concatenated sparse payloads: payload p owns the entries row_splits[p] up to
// row_splits[p + 1].
// SHAPE: values[entries], indices[entries], row_splits[count + 1],
//        weights[count] or null
template <typename T>
struct Payloads {
  const T* values;
  const std::int32_t* indices;
  const std::int64_t* row_splits;
  std::int64_t count;
  const T* weights;
};

Status Invalid(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
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

// Refuses row splits that are not those of `entries` entries.
// SHAPE: row_splits[payloads + 1], not read when `payloads` is negative
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

// Refuses indices that do not ascend strictly inside [0, n) within each
// payload, and names the first such payload, whatever the number of threads.
// REQUIRES: CheckRowSplits passed
// COST:     reads the indices once
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

// Bytes of the accumulator in a tile: it, the next one and the entries of
// the payloads in them fit a second-level cache of 256 KiB.
constexpr std::int64_t kTileBytes = 1 << 16;
constexpr std::int64_t kLineBytes = 64;

// An accumulator larger than this is not in the caches when a call begins.
constexpr std::int64_t kCachedBytes = 1 << 24;

// Number of entries of a payload in a tile below which searching them does not
// pay.
constexpr std::int64_t kEntriesPerTile = 64;

// Entries added between two prefetches.
constexpr std::int64_t kStep = 16;

// Finds the next entry: a search from the last place in doubling steps.
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

// The prefetching of lines of the accumulator.
enum class PrefetchMode {
  kNone,        // when an entry comes to them: they are near anyway
  kByEntry,     // asked for some entries ahead
  kSequential,  // asked for one after the other, a tile ahead
  kZeroed,      // overwritten with zeros
};

struct Tiles {
  std::int64_t size;
  PrefetchMode prefetch;
  std::int64_t per_step;  // elements to ask for in order for kStep entries
};

enum class Start { kAsItIs, kFromZero };

template <typename T>
PrefetchMode ChoosePrefetchMode(Start start, std::int64_t n,
                                std::int64_t entries) {
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
  if (start == Start::kFromZero) return PrefetchMode::kZeroed;
  // About every line is named.
  if (entries >= n * kElement / (2 * kLineBytes))
    return PrefetchMode::kSequential;
  return n * kElement > kCachedBytes ? PrefetchMode::kByEntry
                                     : PrefetchMode::kNone;
}

// As many elements as fit the cache, or more where the payloads are so thin
// that walking from tile to tile would cost more than it saves.
template <typename T>
Tiles ChooseTiles(Start start, std::int64_t n, std::int64_t entries,
                  std::int64_t payloads) {
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kLine = kLineBytes / kElement;
  const std::int64_t per_payload =
      entries / std::max<std::int64_t>(payloads, 1);
  const std::int64_t most_tiles =
      std::max<std::int64_t>(1, per_payload / kEntriesPerTile);
  const std::int64_t lines_per_step =
      kStep * n / kLine / std::max<std::int64_t>(entries, 1) + 1;
  return {std::max(kTileBytes / kElement, n / most_tiles + 1),
          ChoosePrefetchMode<T>(start, n, entries), lines_per_step * kLine};
}

// Prefetches a range of elements, a few lines per step of additions, because
// many prefetches at once would stall.
template <typename T>
class SequentialPrefetcher {
 public:
  SequentialPrefetcher(const T* accumulator, Range range, std::int64_t per_step)
      : accumulator_(accumulator), range_(range), per_step_(per_step) {}

  void AheadOf(std::int64_t /*begin*/, std::int64_t /*end*/) {
    AskUpTo(std::min(range_.end, range_.begin + per_step_));
  }
  void Drain() { AskUpTo(range_.end); }

 private:
  void AskUpTo(std::int64_t end) {
    constexpr auto kLine = kLineBytes / static_cast<std::int64_t>(sizeof(T));
    for (; range_.begin < end; range_.begin += kLine) {
      __builtin_prefetch(accumulator_ + range_.begin, 1);
    }
  }

  const T* accumulator_;
  Range range_;
  std::int64_t per_step_;
};

// Prefetches the elements of later entries of the same payload.
// SHAPE: indices[count]
template <typename T>
class EntryPrefetcher {
 public:
  EntryPrefetcher(const T* accumulator, const std::int32_t* indices,
                  std::int64_t count)
      : accumulator_(accumulator), indices_(indices), count_(count) {}

  void AheadOf(std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kAhead = 128;  // entries
    const std::int64_t last = std::min(count_, end + kAhead);
    for (std::int64_t j = begin + kAhead; j < last; ++j) {
      __builtin_prefetch(accumulator_ + indices_[j], 1);
    }
  }

 private:
  const T* accumulator_;
  const std::int32_t* indices_;
  std::int64_t count_;
};

// Adds `count` entries, and returns `asking`, which is called before each step.
// Hardware prefetches a few streams, not two for each of a hundred payloads.
// Each run therefore prefetches as many entries beyond it as it has, for the
// next tile.
template <typename T, bool kWeighted, typename Asking>
Asking AddEntries(T* accumulator, const T* values, const std::int32_t* indices,
                  std::int64_t count, T weight, Asking asking) {
  const std::int64_t ahead = std::max(count, 4 * kStep);
  for (std::int64_t begin = 0; begin < count; begin += kStep) {
    __builtin_prefetch(values + begin + ahead);
    __builtin_prefetch(indices + begin + ahead);
    const std::int64_t end = std::min(count, begin + kStep);
    asking.AheadOf(begin, end);
    for (std::int64_t j = begin; j < end; ++j) {
      T& sum = accumulator[indices[j]];
      if constexpr (kWeighted) {
        sum = sum + weight * values[j];
      } else {
        sum = sum + values[j];
      }
    }
  }
  return asking;
}

// Adds the entries [begin, end), which are some of payload p.
template <typename T, typename Asking>
Asking AddRun(T* accumulator, const Payloads<T>& payloads, std::int64_t p,
              std::int64_t begin, std::int64_t end, const Asking& asking) {
  const T* const values = payloads.values + begin;
  const std::int32_t* const indices = payloads.indices + begin;
  const std::int64_t count = end - begin;
  if (payloads.weights == nullptr) {
    return AddEntries<T, false>(accumulator, values, indices, count, T{},
                                asking);
  }
  return AddEntries<T, true>(accumulator, values, indices, count,
                             payloads.weights[p], asking);
}

// Adds everything that falls into [range.begin, range.end), tile by tile.
// Allocates nothing, because earlier additions could not be undone.
// SHAPE: next[payloads.count], where each payload goes on
template <typename T>
void AddRange(T* accumulator, Range range, Tiles tiles,
              const Payloads<T>& payloads, std::int64_t* next) {
  for (std::int64_t p = 0; p < payloads.count; ++p) {
    next[p] = std::lower_bound(payloads.indices + payloads.row_splits[p],
                               payloads.indices + payloads.row_splits[p + 1],
                               range.begin) -
              payloads.indices;
  }
  for (std::int64_t begin = range.begin; begin < range.end;
       begin += tiles.size) {
    const std::int64_t end = std::min(range.end, begin + tiles.size);
    const bool sequential = tiles.prefetch == PrefetchMode::kSequential;
    SequentialPrefetcher<T> next_tile(
        accumulator,
        {end, sequential ? std::min(range.end, end + tiles.size) : end},
        tiles.per_step);
    if (tiles.prefetch == PrefetchMode::kZeroed) {
      std::fill(accumulator + begin, accumulator + end, T{});
    }
    for (std::int64_t p = 0; p < payloads.count; ++p) {
      std::int64_t& at = next[p];
      const std::int64_t stop =
          FirstAtOrAbove(payloads.indices, at, payloads.row_splits[p + 1], end);
      if (tiles.prefetch == PrefetchMode::kByEntry) {
        AddRun(accumulator, payloads, p, at, stop,
               EntryPrefetcher<T>(accumulator, payloads.indices + at,
                                  payloads.row_splits[p + 1] - at));
      } else {
        next_tile = AddRun(accumulator, payloads, p, at, stop, next_tile);
      }
      at = stop;
    }
    next_tile.Drain();
  }
}

template <typename T>
Status CheckAndAdd(Start start, T* accumulator, std::int64_t n,
                   std::int64_t entries, const Payloads<T>& payloads,
                   Parallel& parallel) {
  if (Status status = CheckDenseSize(n); !status.ok()) return status;
  if (Status status =
          CheckRowSplits(payloads.row_splits, payloads.count, entries);
      !status.ok()) {
    return status;
  }
  // To zero a cache line takes about as long as to add an entry.
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t zeroed_lines =
      start == Start::kFromZero ? n * kElement / kLineBytes : 0;
  const int shares =
      TileCount(entries + zeroed_lines, kSmallestShare, parallel);
  const KeepAwake awake(parallel);
  if (Status status =
          CheckIndices(payloads.indices, entries, payloads.row_splits,
                       payloads.count, n, parallel);
      !status.ok()) {
    return status;
  }
  const Tiles tiles = ChooseTiles<T>(start, n, entries, payloads.count);
  // At least a cache line apart, to avoid false sharing.
  const std::int64_t room = payloads.count + kLineBytes / 8;
  std::vector<std::int64_t> next(static_cast<std::size_t>(shares * room));
  parallel.Run(shares, [&](int s) {
    const DefaultFloatEnvironment environment;
    AddRange(accumulator, TileOf(n, shares, s), tiles, payloads,
             next.data() + s * room);
  });
  return {};
}

}  // namespace

Status CheckDenseSize(std::int64_t n) { return CheckInt32("n", n); }

template <typename T>
Status ScatterDecodeAdd(T* accumulator, std::int64_t n, const T* values,
                        const std::int32_t* indices, std::int64_t entries,
                        const std::int64_t* row_splits, std::int64_t payloads,
                        const T* weights, Parallel& parallel) {
  return CheckAndAdd<T>(Start::kAsItIs, accumulator, n, entries,
                        {values, indices, row_splits, payloads, weights},
                        parallel);
}

template <typename T>
Status ScatterDecode(T* sum, std::int64_t n, const T* values,
                     const std::int32_t* indices, std::int64_t entries,
                     const std::int64_t* row_splits, std::int64_t payloads,
                     const T* weights, Parallel& parallel) {
  return CheckAndAdd<T>(Start::kFromZero, sum, n, entries,
                        {values, indices, row_splits, payloads, weights},
                        parallel);
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
