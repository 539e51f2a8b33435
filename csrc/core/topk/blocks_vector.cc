// The loops of blocks.h, written once over a vector V of simd/vector.h, and compiled for each SIMD level. Elements that do not fill a vector take the plain loops.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/simd/vector.h"
#include "core/topk/blocks.h"

#ifdef FEDPLUG_VECTOR

namespace fedplug::topk {
namespace {

template <typename V>
using BitsOf = FloatBitsOf<typename V::Element>;

// Whether whole vectors can be streamed past the caches to this address.
template <typename V>
inline bool IsAligned(const typename V::Element* to) {
  constexpr std::uintptr_t kVector = V::kLanes * sizeof(typename V::Element);
  return reinterpret_cast<std::uintptr_t>(to) % kVector == 0;
}

// The first elements of those vectors of a block that have an entry.
template <typename V>
using Hits = std::int32_t[kBlock / V::kLanes + 1];

template <typename V>
FEDPLUG_TARGET inline BitsOf<V> LargerOf(BitsOf<V> rest,
                                         typename V::Register largest) {
  const BitsOf<V> key = V::Largest(largest);
  return key > rest ? key : rest;
}

template <typename V>
FEDPLUG_TARGET void SumKeys(const typename V::Element* delta,
                            const typename V::Element* residual, std::int64_t n,
                            BitsOf<V>* keys) {
  const auto infinity = V::BoundOf(FloatTraits<typename V::Element>::kInfinity);
  std::int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const auto lanes = V::Keys(V::Sum(delta + i, residual + i));
    V::Store(keys + i, V::KeepBelow(lanes, lanes, infinity));
  }
  SumKeysOfBlock(delta + i, residual + i, n - i, keys + i);
}

template <typename V>
FEDPLUG_TARGET BitsOf<V> CountPass(const typename V::Element* delta,
                                   const typename V::Element* residual,
                                   std::int64_t n,
                                   const PivotRange<typename V::Element>& range,
                                   CountCursor<typename V::Element>* cursor) {
  using T = typename V::Element;
  const auto lo = V::BoundOf(range.lo);
  const auto hi = V::BoundOf(range.hi);
  const auto edge = V::BoundOf(range.edge + 1);
  const bool has_edge = range.edge != PivotRange<T>::kNoEdge;
  CountCursor<T> at = *cursor;
  auto largest = V::Broadcast(0);
  Hits<V> hits;
  std::size_t hit_count = 0;
  std::int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const auto keys = V::Keys(V::Sum(delta + i, residual + i));
    largest = V::Max(largest, keys);
    if (has_edge) at.at_edge += __builtin_popcount(V::Equals(keys, edge));
    const auto above = V::AtLeast(keys, hi);
    at.above += __builtin_popcount(above);
    hits[hit_count] = static_cast<std::int32_t>(i);
    hit_count += V::AtLeast(keys, lo) != above;
  }
  for (std::size_t h = 0; h < hit_count; ++h) {
    const auto keys = V::Keys(V::Sum(delta + hits[h], residual + hits[h]));
    const auto in_range = static_cast<typename V::Mask>(V::AtLeast(keys, lo) ^
                                                        V::AtLeast(keys, hi));
    V::Store(at.range_keys + at.in_range, V::Pack(keys, in_range));
    at.in_range += __builtin_popcount(in_range);
  }
  BitsOf<V> rest = 0;
  if (i < n) rest = CountBlock(delta + i, residual + i, n - i, range, &at);
  *cursor = at;
  return LargerOf<V>(rest, largest);
}

// Appends the lanes at lo and above.
template <typename V>
FEDPLUG_TARGET inline void List(typename V::Register a,
                                typename V::Register keys,
                                typename V::Indices indices,
                                typename V::Register lo,
                                PartitionCursor<typename V::Element>* cursor) {
  const auto listed = V::AtLeast(keys, lo);
  V::Store(cursor->values + cursor->count, V::Pack(a, listed));
  V::StorePacked(cursor->indices + cursor->count, indices, listed);
  cursor->count += __builtin_popcount(listed);
}

// The lanes in front of place `count`.
template <typename V>
FEDPLUG_TARGET inline typename V::Mask FrontLanes(std::int64_t count) {
  return static_cast<typename V::Mask>(
      count >= V::kLanes ? (1u << V::kLanes) - 1u : (1u << count) - 1u);
}

// Collects the keys in the range from the entries listed since `begin`, which
// are fewer than the elements they came from. The last vector reads beyond
// them, into the slack.
template <typename V>
FEDPLUG_TARGET inline void CollectInRange(
    const PivotRange<typename V::Element>& range, std::int64_t begin,
    PartitionCursor<typename V::Element>* cursor) {
  if (range.lo == range.hi) return;
  const auto hi = V::BoundOf(range.hi);
  for (std::int64_t j = begin; j < cursor->count; j += V::kLanes) {
    const auto keys = V::Keys(V::Load(cursor->values + j));
    const auto in_range = static_cast<typename V::Mask>(
        FrontLanes<V>(cursor->count - j) & ~V::AtLeast(keys, hi));
    V::Store(cursor->range_keys + cursor->in_range, V::Pack(keys, in_range));
    cursor->in_range += __builtin_popcount(in_range);
  }
}

// Ends a partition at element i: collects keys in the range from the list, then
// handles the rest of the block.
template <typename V, bool kNoting>
FEDPLUG_TARGET inline BitsOf<V> FinishPartition(
    const typename V::Element* delta, const typename V::Element* residual_in,
    typename V::Element* residual_out, std::int64_t i, std::int64_t n,
    std::int32_t first_index, const PivotRange<typename V::Element>& range,
    typename V::Register largest, PartitionCursor<typename V::Element> at,
    PartitionCursor<typename V::Element>* cursor) {
  CollectInRange<V>(range, cursor->count, &at);
  BitsOf<V> rest = 0;
  if (i < n) {
    if constexpr (kNoting) at.notes = at.notes.From(i);
    rest = PartitionBlock<typename V::Element, kNoting>(
        delta + i, residual_in + i, residual_out + i, n - i,
        first_index + static_cast<std::int32_t>(i), range, &at);
  }
  *cursor = at;
  return LargerOf<V>(rest, largest);
}

// Logs the residuals that the lanes at element i will overwrite.
template <typename V, bool kStreaming>
FEDPLUG_TARGET inline void Note(typename V::Register a,
                                typename V::Register keys, std::int64_t i,
                                const typename V::Element* delta,
                                const typename V::Element* residual,
                                const UndoNotes<typename V::Element>& notes) {
  auto distances = V::Distances(a, delta + i, residual + i);
  if (__builtin_expect(V::AnyNegative(V::TooFar(distances, keys)), 0)) {
    __builtin_memcpy(notes.residuals + i, residual + i,
                     V::kLanes * sizeof(typename V::Element));
    distances = V::Broadcast(notes.kNone);
  }
  if constexpr (kStreaming) {
    V::StreamShorts(notes.distances + i, distances);
  } else {
    V::StoreShorts(notes.distances + i, distances);
  }
}

// How a partition writes: streaming, or with notes.
enum class Writes { kPlain, kStreaming, kNoting, kNotingStreaming };

template <Writes kWrites>
inline constexpr bool kNotes =
    kWrites == Writes::kNoting || kWrites == Writes::kNotingStreaming;

// A bit for each element of a block: set if it is an entry.
inline constexpr std::int64_t kMarksInWord = 64;
using Marks = std::uint64_t[kBlock / kMarksInWord + 1];

// Appends the indices of marked elements in groups of a fixed size, with slack
// beyond them: the branch on more than three per word is predictable.
FEDPLUG_TARGET inline std::int64_t ListMarked(const Marks& marks,
                                              std::int64_t words,
                                              std::int32_t first_index,
                                              std::int32_t* indices) {
  // Without it, which changes nothing else, zero would need a branch.
  constexpr auto kLast = std::uint64_t{1} << (kMarksInWord - 1);
  std::int64_t count = 0;
  for (std::int64_t w = 0; w < words; ++w) {
    std::uint64_t word = marks[w];
    std::int32_t* at = indices + count;
    count += __builtin_popcountll(word);
    do {
      for (int j = 0; j < 3; ++j) {
        *at++ = first_index + __builtin_ctzll(word | kLast);
        word &= word - 1;
      }
    } while (word != 0);
    first_index += static_cast<std::int32_t>(kMarksInWord);
  }
  return count;
}

// One lane of a sum.
template <typename V>
FEDPLUG_TARGET inline typename V::Element SumAt(
    const typename V::Element* delta, const typename V::Element* residual,
    std::int64_t i) {
  typename V::Element lanes[V::kLanes];
  const std::int64_t begin = i / V::kLanes * V::kLanes;
  V::Store(lanes, V::Sum(delta + begin, residual + begin));
  return lanes[i - begin];
}

// Two loops: the first adds and marks the entries, the second lists them,
// because a branch per vector would be mispredicted. Streamed sums are not read
// again: the second loop repeats the additions.
template <typename V, Writes kWrites>
FEDPLUG_TARGET BitsOf<V> PartitionInTwoLoops(
    const typename V::Element* delta, const typename V::Element* residual_in,
    typename V::Element* residual_out, std::int64_t n, std::int32_t first_index,
    const PivotRange<typename V::Element>& range,
    PartitionCursor<typename V::Element>* cursor) {
  using T = typename V::Element;
  constexpr bool kStreaming = kWrites == Writes::kStreaming;
  const auto lo = V::BoundOf(range.lo);
  const auto hi = V::BoundOf(range.hi);
  PartitionCursor<T> at = *cursor;
  auto largest = V::Broadcast(0);
  Marks marks;
  std::int64_t words = 0;
  std::int64_t i = 0;
  const std::int64_t whole = n / V::kLanes * V::kLanes;
  while (i < whole) {
    std::uint64_t word = 0;
    const std::int64_t end =
        whole - i < kMarksInWord ? whole : i + kMarksInWord;
    for (; i < end; i += V::kLanes) {
      const auto a = V::Sum(delta + i, residual_in + i);
      const auto keys = V::Keys(a);
      largest = V::Max(largest, keys);
      if constexpr (kNotes<kWrites>) {
        Note<V, kWrites == Writes::kNotingStreaming>(a, keys, i, delta,
                                                     residual_in, at.notes);
      }
      if constexpr (kStreaming) {
        V::Stream(residual_out + i, V::KeepBelow(a, keys, hi));
      } else {
        V::Store(residual_out + i, a);
      }
      word |= std::uint64_t{V::AtLeast(keys, lo)} << (i % kMarksInWord);
    }
    marks[words++] = word;
  }
  std::int64_t j = at.count;
  at.count += ListMarked(marks, words, first_index, at.indices + at.count);
  for (; j < at.count; ++j) {
    const std::int64_t place = at.indices[j] - first_index;
    if constexpr (kStreaming) {
      at.values[j] = SumAt<V>(delta, residual_in, place);
    } else {
      T* const rest = residual_out + place;
      at.values[j] = *rest;
      // A product, so that compilers emit no branch.
      const auto kept = static_cast<BitsOf<V>>(
          ToBits(*rest) * BitsOf<V>{MagnitudeKey(*rest) < range.hi});
      std::memcpy(rest, &kept, sizeof(kept));
    }
  }
  return FinishPartition<V, kNotes<kWrites>>(delta, residual_in, residual_out,
                                             i, n, first_index, range, largest,
                                             at, cursor);
}

template <typename V>
FEDPLUG_TARGET BitsOf<V> PartitionStreaming(
    const typename V::Element* delta, const typename V::Element* residual_in,
    typename V::Element* residual_out, std::int64_t n, std::int32_t first_index,
    const PivotRange<typename V::Element>& range,
    PartitionCursor<typename V::Element>* cursor) {
  return (IsAligned<V>(residual_out)
              ? PartitionInTwoLoops<V, Writes::kStreaming>
              : PartitionInTwoLoops<V, Writes::kPlain>)(delta, residual_in,
                                                        residual_out, n,
                                                        first_index, range,
                                                        cursor);
}

template <typename V, Writes kWrites>
FEDPLUG_TARGET BitsOf<V> PartitionDense(
    const typename V::Element* delta, const typename V::Element* residual_in,
    typename V::Element* residual_out, std::int64_t n, std::int32_t first_index,
    const PivotRange<typename V::Element>& range,
    PartitionCursor<typename V::Element>* cursor) {
  const auto lo = V::BoundOf(range.lo);
  const auto hi = V::BoundOf(range.hi);
  PartitionCursor<typename V::Element> at = *cursor;
  auto indices = V::Places::Iota(first_index);
  auto largest = V::Broadcast(0);
  std::int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const auto a = V::Sum(delta + i, residual_in + i);
    const auto keys = V::Keys(a);
    largest = V::Max(largest, keys);
    if constexpr (kNotes<kWrites>) {
      Note<V, kWrites == Writes::kNotingStreaming>(a, keys, i, delta,
                                                   residual_in, at.notes);
    }
    V::Store(residual_out + i, V::KeepBelow(a, keys, hi));
    List<V>(a, keys, indices, lo, &at);
    indices += V::kLanes;
  }
  return FinishPartition<V, kNotes<kWrites>>(delta, residual_in, residual_out,
                                             i, n, first_index, range, largest,
                                             at, cursor);
}

template <typename V, bool kSparse>
FEDPLUG_TARGET BitsOf<V> PartitionNoting(
    const typename V::Element* delta, const typename V::Element* residual_in,
    typename V::Element* residual_out, std::int64_t n, std::int32_t first_index,
    const PivotRange<typename V::Element>& range,
    PartitionCursor<typename V::Element>* cursor) {
  constexpr Writes kPast = Writes::kNotingStreaming;
  constexpr std::uintptr_t kShorts = V::kLanes * sizeof(std::uint16_t);
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(cursor->notes.distances) % kShorts == 0;
  auto* const partition =
      kSparse ? (aligned ? PartitionInTwoLoops<V, kPast>
                         : PartitionInTwoLoops<V, Writes::kNoting>)
              : (aligned ? PartitionDense<V, kPast>
                         : PartitionDense<V, Writes::kNoting>);
  return partition(delta, residual_in, residual_out, n, first_index, range,
                   cursor);
}

template <typename V>
FEDPLUG_TARGET void Compact(const typename V::Element* values,
                            const std::int32_t* indices, std::int64_t n,
                            BitsOf<V> from, BitsOf<V> hi,
                            CompactCursor<typename V::Element>* cursor) {
  const auto from_bound = V::BoundOf(from);
  const auto hi_bound = V::BoundOf(hi);
  CompactCursor<typename V::Element> at = *cursor;
  for (std::int64_t j = 0; j < n; j += V::kLanes) {
    const auto a = V::Load(values + j);
    const auto index = V::Places::Load(indices + j);
    const auto keys = V::Keys(a);
    const auto taken = static_cast<typename V::Mask>(
        V::AtLeast(keys, from_bound) & FrontLanes<V>(n - j));
    const auto in_range =
        static_cast<typename V::Mask>(taken & ~V::AtLeast(keys, hi_bound));
    V::Store(at.values + at.count, V::Pack(a, taken));
    V::StorePacked(at.indices + at.count, index, taken);
    V::StorePacked(at.from_range + at.in_range, index, in_range);
    at.count += __builtin_popcount(taken);
    at.in_range += __builtin_popcount(in_range);
  }
  *cursor = at;
}

// Sums with +0 at given places.
template <typename V, bool kStreaming>
FEDPLUG_TARGET BitsOf<V> TakeMarked(const typename V::Element* delta,
                                    const typename V::Element* residual_in,
                                    typename V::Element* residual_out,
                                    std::int64_t n,
                                    const typename V::Element* marks) {
  const auto one = V::BoundOf(1);
  auto largest = V::Broadcast(0);
  std::int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    const auto a = V::Sum(delta + i, residual_in + i);
    largest = V::Max(largest, V::Keys(a));
    const auto rest = V::KeepBelow(a, V::Load(marks + i), one);
    if constexpr (kStreaming) {
      V::Stream(residual_out + i, rest);
    } else {
      V::Store(residual_out + i, rest);
    }
  }
  const BitsOf<V> rest =
      TakeBlock(delta + i, residual_in + i, residual_out + i, n - i, marks + i);
  return LargerOf<V>(rest, largest);
}

template <typename V>
FEDPLUG_TARGET BitsOf<V> TakeStreaming(const typename V::Element* delta,
                                       const typename V::Element* residual_in,
                                       typename V::Element* residual_out,
                                       std::int64_t n,
                                       const typename V::Element* marks) {
  return (IsAligned<V>(residual_out) ? TakeMarked<V, true>
                                     : TakeMarked<V, false>)(delta, residual_in,
                                                             residual_out, n,
                                                             marks);
}

}  // namespace

template <SimdLevel kLevel, typename T>
BlockKernels<T> VectorBlockKernels() {
  using V = FEDPLUG_VECTOR::Vector<T>;
  return {SumKeys<V>,
          CountPass<V>,
          PartitionInTwoLoops<V, Writes::kPlain>,
          PartitionDense<V, Writes::kPlain>,
          PartitionNoting<V, true>,
          PartitionNoting<V, false>,
          PartitionStreaming<V>,
          TakeMarked<V, false>,
          TakeStreaming<V>,
          Compact<V>};
}

template BlockKernels<float> VectorBlockKernels<FEDPLUG_VECTOR_LEVEL, float>();
template BlockKernels<double>
VectorBlockKernels<FEDPLUG_VECTOR_LEVEL, double>();

}  // namespace fedplug::topk

#endif  // FEDPLUG_VECTOR
