// The steps of ScatterDecodeAdd, each as the work of one block of threads:
//   Check  looks at every split and every index, and notes the first that is
//          wrong. The block that is the last to have looked turns the
//          notes into a report
//   Add    unless something is wrong, adds to one tile of the accumulator:
//          payload after payload, a barrier between two of them, the entries of
//          one payload side by side. They have different indices, so that no
//          two threads meet at an element, and the order of the additions to it
//          is the order of the payloads.
// No step depends on the order in which blocks or threads run.
// COST: reads the indices twice and the values once. Reads and writes one
// accumulator element per entry. Every tile of 8192 elements costs two binary
// searches and a barrier per payload. 2 launches.
#ifndef FEDPLUG_CUDA_SCATTER_DECODE_STEPS_H_
#define FEDPLUG_CUDA_SCATTER_DECODE_STEPS_H_

#include <cstdint>

#include "core/base/floats.h"
#include "cuda/block.h"
#include "cuda/scatter_decode.h"

namespace fedplug::cuda::scatter {

inline constexpr int kThreads = 256;
inline constexpr std::int64_t kTile = 8192;       // elements, in Add
inline constexpr std::int64_t kCheckTile = 2048;  // entries, in Check

// The first errors, counted from the end: the largest number is the first
// error, and 0 is none. All are zero before Check.
struct Mistakes {
  // payloads + 2 - i, where i is 0 if row_splits does not begin with 0, 1 + p
  // if it falls at payload p, payloads + 1 if it does not end with `entries`.
  std::uint64_t split_from_end;
  // entries - j, where the index of entry j is wrong. Meant only if no split
  // is.
  std::uint64_t entry_from_end;
  std::uint32_t arrived;  // tiles with which Check is through
};

template <typename T>
struct Call {
  T* accumulator;
  std::int64_t n;
  const T* values;
  const std::int32_t* indices;
  std::int64_t entries;
  const std::int64_t* row_splits;
  std::int64_t payloads;
  const T* weights;
  Mistakes* mistakes;
  ScatterReport* report;
};

// The first position of [begin, end) whose element is not below `bound`. `end`
// if there is none. Stays inside even if the elements do not ascend.
template <typename Element>
FEDPLUG_HOST_DEVICE std::int64_t LowerBound(const Element* elements,
                                            std::int64_t begin,
                                            std::int64_t end,
                                            std::int64_t bound) {
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    if (elements[middle] < bound) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

template <typename T>
struct Check {
  struct Shared {};

  Call<T> call;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const {
    const std::int64_t splits = call.payloads + 1;
    const std::int64_t most = call.entries > splits ? call.entries : splits;
    return (most + kCheckTile - 1) / kCheckTile;
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared&) const {
    block.Each([&](int thread) {
      const std::int64_t end = (tile + 1) * kCheckTile;
      for (std::int64_t i = tile * kCheckTile + thread; i < end;
           i += kThreads) {
        if (i <= call.payloads) CheckSplit(i);
        if (i < call.entries) CheckEntry(i);
      }
    });
    const auto tiles = static_cast<std::uint32_t>(Tiles());
    const bool last = block.Agree(
        [&] { return IsLastToArrive(&call.mistakes->arrived, tiles); });
    if (!last) return;
    block.Each([&](int thread) {
      if (thread == 0) *call.report = Explain();
    });
  }

  FEDPLUG_HOST_DEVICE void CheckSplit(std::int64_t i) const {
    const std::int64_t here = call.row_splits[i];
    const auto from_end = static_cast<std::uint64_t>(call.payloads + 1 - i);
    if (i == 0 && here != 0) {
      AtomicMax(&call.mistakes->split_from_end, from_end + 1);
    }
    const bool wrong = i < call.payloads ? call.row_splits[i + 1] < here
                                         : here != call.entries;
    if (wrong) AtomicMax(&call.mistakes->split_from_end, from_end);
  }

  FEDPLUG_HOST_DEVICE bool IsPayloadStart(std::int64_t entry) const {
    const std::int64_t p =
        LowerBound(call.row_splits, 0, call.payloads + 1, entry);
    return p <= call.payloads && call.row_splits[p] == entry;
  }

  FEDPLUG_HOST_DEVICE void CheckEntry(std::int64_t j) const {
    const std::int32_t index = call.indices[j];
    const bool falls = j > 0 && index <= call.indices[j - 1];
    if (index < 0 || index >= call.n || (falls && !IsPayloadStart(j))) {
      AtomicMax(&call.mistakes->entry_from_end,
                static_cast<std::uint64_t>(call.entries - j));
    }
  }

  // REQUIRES: the block is the last to arrive
  FEDPLUG_HOST_DEVICE ScatterReport Explain() const {
    const auto split =
        static_cast<std::int64_t>(LoadArrived(&call.mistakes->split_from_end));
    const auto entry =
        static_cast<std::int64_t>(LoadArrived(&call.mistakes->entry_from_end));
    if (split != 0) return SplitReport(call.payloads + 2 - split);
    if (entry != 0) return EntryReport(call.entries - entry);
    return {ScatterFlaw::kNone, 0, 0, 0, 0, 0, 0};
  }

  FEDPLUG_HOST_DEVICE ScatterReport SplitReport(std::int64_t mistake) const {
    if (mistake == 0) {
      return {ScatterFlaw::kSplitsBegin, 0, 0, 0, call.row_splits[0], 0, 0};
    }
    const std::int64_t p = mistake - 1;
    const std::int64_t here = call.row_splits[p];
    if (p == call.payloads) {
      return {ScatterFlaw::kSplitsEnd, 0, 0, 0, here, 0, call.entries};
    }
    return {ScatterFlaw::kSplitsFall, p, 0, 0, call.row_splits[p + 1], here, 0};
  }

  // REQUIRES: row_splits is in order
  FEDPLUG_HOST_DEVICE ScatterReport EntryReport(std::int64_t entry) const {
    const std::int64_t payload =
        LowerBound(call.row_splits, 0, call.payloads + 1, entry + 1) - 1;
    const std::int64_t begin = call.row_splits[payload];
    const std::int64_t index = call.indices[entry];
    const bool outside = index < 0 || index >= call.n;
    return {outside ? ScatterFlaw::kOutOfRange : ScatterFlaw::kNotAscending,
            payload,
            entry - begin,
            call.row_splits[payload + 1] - begin,
            index,
            entry > begin ? call.indices[entry - 1] : 0,
            call.n};
  }
};

template <typename T>
struct Add {
  // Where the tile lies in each of the next kThreads payloads.
  struct Shared {
    std::int64_t begin[kThreads];
    std::int64_t end[kThreads];
  };

  Call<T> call;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const {
    return (call.n + kTile - 1) / kTile;
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    if (call.mistakes->split_from_end != 0) return;
    if (call.mistakes->entry_from_end != 0) return;
    for (std::int64_t first = 0; first < call.payloads; first += kThreads) {
      const std::int64_t left = call.payloads - first;
      const int here = static_cast<int>(left < kThreads ? left : kThreads);
      block.Each([&](int thread) {
        if (thread >= here) return;
        const std::int64_t* const split = call.row_splits + first + thread;
        const std::int64_t begin =
            LowerBound(call.indices, split[0], split[1], tile * kTile);
        shared.begin[thread] = begin;
        shared.end[thread] =
            LowerBound(call.indices, begin, split[1], (tile + 1) * kTile);
      });
      for (int p = 0; p < here; ++p) {
        block.Each([&](int thread) {
          for (std::int64_t j = shared.begin[p] + thread; j < shared.end[p];
               j += kThreads) {
            const T value = call.values[j];
            T* const sum = call.accumulator + call.indices[j];
            *sum = *sum + (call.weights == nullptr
                               ? value
                               : call.weights[first + p] * value);
          }
        });
      }
    }
  }
};

}  // namespace fedplug::cuda::scatter

#endif  // FEDPLUG_CUDA_SCATTER_DECODE_STEPS_H_
