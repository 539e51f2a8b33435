// The input of a selection: one or more tensors, each with its residual and its
// delta, as one sequence cut into chunks.
#ifndef FEDPLUG_CORE_TOPK_UPDATE_H_
#define FEDPLUG_CORE_TOPK_UPDATE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/topk/blocks.h"

namespace fedplug::topk {

// -0, which changes nothing when added, not even the sign of -0.
template <typename T>
const T* MinusZeros() {
  static const auto* const zeros = [] {
    auto* const block = new std::array<T, kBlock>;
    constexpr auto kBits =
        static_cast<FloatBitsOf<T>>(FloatBitsOf<T>{1} << kKeyBits<T>);
    for (T& zero : *block) std::memcpy(&zero, &kBits, sizeof(T));
    return block;
  }();
  return zeros->data();
}

// An array of +0.
template <typename T>
const T* PlusZeros() {
  static constexpr std::array<T, kBlock> kZeros{};
  return kZeros.data();
}

// The deltas of a tensor, as they lie in memory, or a block that stands for
// all of them.
template <typename T>
struct Deltas {
  const T* data;
  std::int64_t step = 1;  // 0: `data` is such a block

  // The deltas from `begin` on, at most kBlock.
  const T* From(std::int64_t begin) const { return data + step * begin; }
};

template <typename T>
class UndoLog;

template <typename T>
struct Update {
  Deltas<T> delta;
  const T* residual_in;
  T* residual_out;
  std::int64_t n;
  UndoLog<T>* log = nullptr;  // of sums that are overwritten too early
};

// Elements [begin, end) of one tensor.
struct Chunk {
  std::size_t tensor;
  std::int64_t begin;
  std::int64_t end;
};

// The number of elements from the begin of a cache line of the residual to
// `index`. All chunks and blocks but the first begin with a line, because
// vectors across two lines cost up to 15 % and large arrays of NumPy begin 16
// bytes into a line.
template <typename T>
std::int64_t PastLine(const Update<T>& update, std::int64_t index) {
  constexpr std::int64_t kLineBytes = 64;
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  const auto address = reinterpret_cast<std::uintptr_t>(update.residual_out);
  const auto bytes = static_cast<std::int64_t>(address % kLineBytes);
  return (bytes / kBytes + index) % (kLineBytes / kBytes);
}

// Not a power of two, so that the data of chunks do not compete for the same
// sets of a cache.
inline constexpr std::int64_t kChunk = 27 * kBlock;

template <typename T>
std::vector<Chunk> CutIntoChunks(const std::vector<Update<T>>& updates) {
  std::vector<Chunk> chunks;
  for (std::size_t tensor = 0; tensor < updates.size(); ++tensor) {
    const Update<T>& update = updates[tensor];
    for (std::int64_t begin = 0, end = 0; begin < update.n; begin = end) {
      end = std::min(begin + kChunk - PastLine(update, begin), update.n);
      chunks.push_back({tensor, begin, end});
    }
  }
  return chunks;
}

// Calls body(begin, count) for the blocks of [begin, end), a part of a tensor.
template <typename T, typename Body>
void ForEachBlock(const Update<T>& update, std::int64_t begin, std::int64_t end,
                  const Body& body) {
  for (std::int64_t count = 0; begin < end; begin += count) {
    count = std::min(kBlock - PastLine(update, begin), end - begin);
    body(begin, count);
  }
}

// Calls body(begin, count, keys) for the blocks of a chunk, with the keys of
// their sums. Those of sums that are not finite are zero.
template <typename T, typename Body>
void ForEachBlockOfKeys(const Update<T>& update, const Chunk& chunk,
                        const BlockKernels<T>& kernels, const Body& body) {
  std::array<FloatBitsOf<T>, kBlock> keys;
  ForEachBlock(update, chunk.begin, chunk.end,
               [&](std::int64_t begin, std::int64_t count) {
                 kernels.sum_keys(update.delta.From(begin),
                                  update.residual_in + begin, count,
                                  keys.data());
                 body(begin, count, keys.data());
               });
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_UPDATE_H_
