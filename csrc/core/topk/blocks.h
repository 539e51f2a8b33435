// The two inner loops of the selection, over one block of a tensor: `CountPass`
// reads, `Partition` writes. They compare keys (the bits of |a|) with bounds,
// at every SIMD level with equal results.
#ifndef FEDPLUG_CORE_TOPK_BLOCKS_H_
#define FEDPLUG_CORE_TOPK_BLOCKS_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/simd/level.h"
#include "core/topk/undo_notes.h"

namespace fedplug::topk {

// Elements per block: data staged for a block stay in the first-level cache.
inline constexpr std::int64_t kBlock = 2048;

// The vector loops store whole vectors: every array written through a cursor
// needs this number of spare elements.
inline constexpr std::int64_t kSlack = 16;

// Keys in [lo, hi) are in the range: it is not known yet whether they are
// selected. Keys at hi and above are selected. If `edge` is lo - 1, keys equal
// to it are counted instead of collected, because there are many. Otherwise it
// is kNoEdge.
template <typename T>
struct PivotRange {
  static constexpr auto kNoEdge = static_cast<FloatBitsOf<T>>(-1);

  FloatBitsOf<T> lo;
  FloatBitsOf<T> hi;
  FloatBitsOf<T> edge = kNoEdge;
};

// The output of a count, which grows block by block.
template <typename T>
struct CountCursor {
  FloatBitsOf<T>* range_keys;  // in the order of the elements
  std::int64_t in_range = 0;
  std::int64_t above = 0;
  std::int64_t at_edge = 0;
};

// The output of a partition, which grows block by block: the entries at lo and
// above, and the keys of those in the range.
template <typename T>
struct PartitionCursor {
  T* values;
  std::int32_t* indices;
  FloatBitsOf<T>* range_keys;
  std::int64_t count = 0;
  std::int64_t in_range = 0;
  UndoNotes<T> notes{};  // of the block that comes next
};

// The output of a compaction: the selected entries, and the indices of those
// that were in the range.
template <typename T>
struct CompactCursor {
  T* values;
  std::int32_t* indices;
  std::int32_t* from_range;
  std::int64_t count = 0;
  std::int64_t in_range = 0;
};

// If a sum is NaN, its key is a number above infinity, and its value a NaN.
template <typename T>
struct BlockKernels {
  // The keys of delta + residual. Zero where a sum is not finite.
  // SHAPE:    delta[n], residual[n], keys[n]
  void (*sum_keys)(const T* delta, const T* residual, std::int64_t n,
                   FloatBitsOf<T>* keys);

  // Classifies a = delta + residual. Writes nothing but the cursor. Returns the
  // largest key.
  // SHAPE:    delta[n], residual[n]
  // COST:     reads 2 * sizeof(T) bytes per element
  FloatBitsOf<T> (*count_pass)(const T* delta, const T* residual,
                               std::int64_t n, const PivotRange<T>& range,
                               CountCursor<T>* cursor);

  // residual_out = a, but +0 where the key is hi or above. The entries at lo
  // and above go to the cursor, with indices counted from `first_index`.
  // Returns the largest key.
  // SHAPE:    delta[n], residual_in[n], residual_out[n]
  // COST:     reads 2 * sizeof(T) bytes per element and writes sizeof(T)
  using Partition = FloatBitsOf<T>(const T* delta, const T* residual_in,
                                   T* residual_out, std::int64_t n,
                                   std::int32_t first_index,
                                   const PivotRange<T>& range,
                                   PartitionCursor<T>* cursor);
  Partition* partition_sparse;  // faster where few vectors have an entry
  Partition* partition_dense;   // faster where most have; with equal results

  // The same two, in place: overwritten residuals go to the notes of the
  // cursor, streamed if these begin with a quarter of a line.
  Partition* partition_noting_sparse;
  Partition* partition_noting_dense;

  // As partition_sparse, but streams if residual_out begins with a cache line:
  // a large residual does not fit the caches, and a cached store would read the
  // line first.
  // REQUIRES: residual_in and residual_out do not overlap
  // THREADS:  others may read residual_out after a FenceStreamedStores
  Partition* partition_streaming;

  // residual_out = a, but +0 where a mark is not 0. Returns the largest key.
  // `take_streaming` goes past the caches where residual_out begins with a
  // cache line, and then REQUIRES the same as partition_streaming.
  // SHAPE:    delta[n], residual_in[n], residual_out[n], marks[n]
  using Take = FloatBitsOf<T>(const T* delta, const T* residual_in,
                              T* residual_out, std::int64_t n, const T* marks);
  Take* take;
  Take* take_streaming;

  // Takes the entries of a partition with keys at `from` and above. Those below
  // `hi` were in the range.
  // REQUIRES: kSlack elements behind values and indices may be read
  // SHAPE:    values[n], indices[n]
  void (*compact)(const T* values, const std::int32_t* indices, std::int64_t n,
                  FloatBitsOf<T> from, FloatBitsOf<T> hi,
                  CompactCursor<T>* cursor);
};

// The loops in plain C++, for every T and every processor.
template <typename T>
void SumKeysOfBlock(const T* delta, const T* residual, std::int64_t n,
                    FloatBitsOf<T>* keys) {
  for (std::int64_t i = 0; i < n; ++i) {
    const FloatBitsOf<T> key = MagnitudeKey(delta[i] + residual[i]);
    keys[i] = key < FloatTraits<T>::kInfinity ? key : FloatBitsOf<T>{0};
  }
}

template <typename T>
FloatBitsOf<T> CountBlock(const T* delta, const T* residual, std::int64_t n,
                          const PivotRange<T>& range, CountCursor<T>* cursor) {
  FloatBitsOf<T> largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const FloatBitsOf<T> key = MagnitudeKey(delta[i] + residual[i]);
    largest = key > largest ? key : largest;
    cursor->range_keys[cursor->in_range] = key;
    cursor->in_range += key >= range.lo && key < range.hi;
    cursor->above += key >= range.hi;
    cursor->at_edge += key == range.edge;
  }
  return largest;
}

template <typename T, bool kNoting = false>
FloatBitsOf<T> PartitionBlock(const T* delta, const T* residual_in,
                              T* residual_out, std::int64_t n,
                              std::int32_t first_index,
                              const PivotRange<T>& range,
                              PartitionCursor<T>* cursor) {
  FloatBitsOf<T> largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T a = delta[i] + residual_in[i];
    const FloatBitsOf<T> key = MagnitudeKey(a);
    largest = key > largest ? key : largest;
    if constexpr (kNoting) cursor->notes.Note(i, a, delta[i], residual_in[i]);
    residual_out[i] = key >= range.hi ? T{} : a;
    cursor->values[cursor->count] = a;
    cursor->indices[cursor->count] = first_index + static_cast<std::int32_t>(i);
    cursor->range_keys[cursor->in_range] = key;
    cursor->in_range += key >= range.lo && key < range.hi;
    cursor->count += key >= range.lo;
  }
  return largest;
}

template <typename T>
FloatBitsOf<T> TakeBlock(const T* delta, const T* residual_in, T* residual_out,
                         std::int64_t n, const T* marks) {
  FloatBitsOf<T> largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const T a = delta[i] + residual_in[i];
    const FloatBitsOf<T> key = MagnitudeKey(a);
    largest = key > largest ? key : largest;
    residual_out[i] = MagnitudeKey(marks[i]) != 0 ? T{} : a;
  }
  return largest;
}

template <typename T>
void CompactBlock(const T* values, const std::int32_t* indices, std::int64_t n,
                  FloatBitsOf<T> from, FloatBitsOf<T> hi,
                  CompactCursor<T>* cursor) {
  for (std::int64_t j = 0; j < n; ++j) {
    const FloatBitsOf<T> key = MagnitudeKey(values[j]);
    cursor->values[cursor->count] = values[j];
    cursor->indices[cursor->count] = indices[j];
    cursor->from_range[cursor->in_range] = indices[j];
    cursor->in_range += key >= from && key < hi;
    cursor->count += key >= from;
  }
}

// For every floating type. REQUIRES: IsSupported(level)
template <typename T>
BlockKernels<T> BlockKernelsFor(SimdLevel level);

// Those of a level above the baseline, which blocks_vector.cc defines.
template <SimdLevel kLevel, typename T>
BlockKernels<T> VectorBlockKernels();

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_BLOCKS_H_
