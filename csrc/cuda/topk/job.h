// The data of the steps: a tensor with its part of the workspace, cut into
// tiles, the tensors that share one k, and the digits of keys.
#ifndef FEDPLUG_CUDA_TOPK_JOB_H_
#define FEDPLUG_CUDA_TOPK_JOB_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/topk/sample.h"
#include "cuda/topk_residual.h"

namespace fedplug::cuda::topk {

inline constexpr int kThreads = 512;
inline constexpr int kItems = 16;  // elements of a tile for each thread
inline constexpr int kTile = kThreads * kItems;
inline constexpr int kDigitBits = 11;
inline constexpr int kBins = 1 << kDigitBits;
inline constexpr int kBinsPerThread = kBins / kThreads;
// In turn (together.h).
inline constexpr int kHistograms = 3;

// A key is cut into digits of 11 bits from the top. The last may be shorter.
template <typename T>
inline constexpr int kRounds = (kKeyBits<T> + kDigitBits - 1) / kDigitBits;

// The number of bits below digit `round`.
template <typename T>
FEDPLUG_HOST_DEVICE constexpr int BitsBelow(int round) {
  const int bits = kKeyBits<T> - kDigitBits * (round + 1);
  return bits > 0 ? bits : 0;
}

template <typename T>
FEDPLUG_HOST_DEVICE constexpr int BitsOfDigit(int round) {
  return kKeyBits<T> - kDigitBits * round - BitsBelow<T>(round);
}

// The digits of a key up to and with number `round`.
template <typename T>
FEDPLUG_HOST_DEVICE FloatBitsOf<T> PrefixOf(T a, int round) {
  return static_cast<FloatBitsOf<T>>(MagnitudeKey(a) >> BitsBelow<T>(round));
}

template <typename T>
FEDPLUG_HOST_DEVICE int DigitOf(T a, int round) {
  const int mask = (1 << BitsOfDigit<T>(round)) - 1;
  return static_cast<int>(PrefixOf(a, round)) & mask;
}

// Selects all entries whose digits so far are above `prefix`, and the `wanted`
// largest of those with these digits.
struct Threshold {
  std::uint64_t prefix;
  std::uint32_t wanted;
};

// No finite number has this prefix in any round, nor its low bits, where keys
// are narrower.
inline constexpr std::uint64_t kAboveAll = ~std::uint64_t{0};

// As wide as the prefixes of T, so that none is widened to be compared.
template <typename T>
FEDPLUG_HOST_DEVICE FloatBitsOf<T> PrefixOfThreshold(
    const Threshold& threshold) {
  return static_cast<FloatBitsOf<T>>(threshold.prefix);
}

struct TensorState {
  std::uint32_t non_finite;
  std::uint32_t first_non_finite_from_end;  // n - its index; 0 for none
};

// Some keys, and the rank of the k-th largest among them, from the top
// (band.h).
struct BandState {
  std::uint64_t base;
  int bits;
  int shift;
  std::uint32_t wanted;
};

// The entries above the k-th key and those equal to it: in some chunk, or
// before it in the scope.
struct ChunkState {
  std::uint32_t above;
  std::uint32_t ties;
};

// The consequences of the counts of a scope.
struct alignas(16) Decisions {
  Threshold threshold;  // the key of the k-th largest, once it is known
  BandState band;
  std::uint32_t lists_again;  // whether the list is wrong
  ChunkState before;  // of a block that walks over the scope with others
};

struct ScopeState {
  std::uint32_t taken;      // tiles, by blocks that take the rest
  std::uint32_t held_back;  // whether any sum is (undo.h)
  std::uint32_t arrived;    // blocks at a barrier of a team (device_block.cuh)
};

// The sample, and the ranks that bracket the k-th largest.
struct Sample {
  std::int64_t lines;
  fedplug::topk::SampleRanks ranks;
};

// The tensors that share one k: a single one, or all of a call.
struct Scope {
  ScopeState* state;
  Decisions* decisions;      // of the block
  std::uint32_t* histogram;  // [kBins]: of the step that is under way
  ChunkState* chunks;        // [blocks]
  Sample sample;
  std::uint32_t chosen;          // min(k, elements)
  std::int64_t* row_splits_end;  // the last of row_splits, or null
};

// A tensor and its part of the workspace. The first step finds the states,
// held_back and the histograms zeroed.
template <typename T>
struct Job {
  TopKTensor<T> tensor;  // values and indices are those of the scope
  Scope scope;
  TensorState* state;
  std::uint32_t* shortlisted;  // [TilesOf(n)]: how many entries of each
  std::uint16_t* shortlist;    // [n]: places within the tile, from its start on
  std::uint32_t* held_back;    // [TilesOf(n)]: how many sums of each (undo.h)
  std::uint16_t* distances;    // [n]: the log of undo.h
  std::uint32_t* any_non_finite;  // shared by all tensors of the call
  TopKReport* report;
  std::int64_t* row_split;  // takes the rank of its first entry; or null
};

// At least one: the first tile of a tensor also does the work of the tensor.
FEDPLUG_HOST_DEVICE constexpr std::int64_t TilesOf(std::int64_t n) {
  return n > 0 ? (n + kTile - 1) / kTile : 1;
}

struct Tile {
  std::int64_t number;
  std::int64_t begin;
  int size;

  FEDPLUG_HOST_DEVICE static Tile At(std::int64_t number, std::int64_t n) {
    const std::int64_t begin = number * kTile;
    const std::int64_t left = n - begin;
    return {number, begin, static_cast<int>(left < kTile ? left : kTile)};
  }
};

inline constexpr int kMostTilesOfChunk = 16;

// Consecutive tiles of a tensor that a block takes together in the walks over
// the shortlist, of which a tile has few entries.
struct Chunk {
  std::int64_t first_tile;
  int tiles;

  FEDPLUG_HOST_DEVICE bool BeginsTensor() const { return first_tile == 0; }
};

// No device runs more blocks for one scope.
inline constexpr std::int64_t kMostBlocks = 1024;

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_JOB_H_
