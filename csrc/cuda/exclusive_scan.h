// Prefix sums and prefix counts of bits, in the shared memory of one block.
#ifndef FEDPLUG_CUDA_EXCLUSIVE_SCAN_H_
#define FEDPLUG_CUDA_EXCLUSIVE_SCAN_H_

#include <cstdint>

#include "core/base/floats.h"
#include "cuda/block.h"

namespace fedplug::cuda {

// Before(i) = value[0] + ... + value[i - 1], in two levels: every warp adds up
// 32 values at a time, then one warp the sums of these.
//
// REQUIRES: the values are set, in an Each of the block, before Run; Before and
//           Total are called, in an Each, after it. Sums stay below 2^32. The
//           block has `threads` threads, whole warps
// SHAPE:    value[kCount]
// COST:     for kCount values and as many threads, 12 shuffles one after the
//           other and 2 barriers
template <int kCount>
struct ExclusiveScan {
  static constexpr int kParts = kCount / kWarp;
  static_assert(kParts * kWarp == kCount && kParts <= kWarp);

  std::uint32_t value[kCount];     // from Run on: the sum before it in its part
  std::uint32_t part[kParts + 1];  // from Run on: the sum before the part

  template <typename Block>
  FEDPLUG_HOST_DEVICE void Run(const Block& block, int threads) {
    const int warps = threads / kWarp;
    block.EachWarp([this, warps](const auto& warp, int number) {
      for (int p = number; p < kParts; p += warps) {
        std::uint32_t* const values = value + p * kWarp;
        const std::uint32_t sum = warp.ExclusiveSums(
            [=](int lane) { return values[lane]; },
            [=](int lane, std::uint32_t before) { values[lane] = before; });
        warp.Once([&] { part[p] = sum; });
      }
    });
    block.EachWarp([this](const auto& warp, int number) {
      if (number != 0) return;
      const std::uint32_t total = warp.ExclusiveSums(
          [this](int lane) { return lane < kParts ? part[lane] : 0; },
          [this](int lane, std::uint32_t before) {
            if (lane < kParts) part[lane] = before;
          });
      warp.Once([&] { part[kParts] = total; });
    });
  }

  FEDPLUG_HOST_DEVICE std::uint32_t Before(unsigned i) const {
    return part[i / kWarp] + value[i];
  }

  FEDPLUG_HOST_DEVICE std::uint32_t Total() const { return part[kParts]; }
};

// A set of up to kBits positions, and the number of members before each.
//
// Positions are unsigned, so that divisions are shifts and masks.
//
// REQUIRES: every position is marked or not, in an Each of the block, before
//           Run; the rest is called, in an Each, after it
template <int kBits>
struct RankedBits {
  std::uint32_t word[kBits / kWarp];
  ExclusiveScan<kBits / kWarp> scan;

  // REQUIRES: position % 32 == thread % 32, and a whole warp calls together
  FEDPLUG_HOST_DEVICE void Mark(int thread, unsigned position, bool yes) {
    Vote(thread, yes, &word[position / kWarp]);
  }

  // REQUIRES: 0 <= positions <= kBits; the block has `threads` threads, kBits /
  //           32 or more
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Run(const Block& block, int threads, int positions) {
    block.Each([=](int thread) {
      if (thread >= kBits / kWarp) return;
      scan.value[thread] =
          thread * kWarp < positions ? CountOnes(word[thread]) : 0;
    });
    scan.Run(block, threads);
  }

  FEDPLUG_HOST_DEVICE bool Has(unsigned position) const {
    return ((word[position / kWarp] >> (position % kWarp)) & 1u) != 0;
  }

  FEDPLUG_HOST_DEVICE std::uint32_t Before(unsigned position) const {
    const std::uint32_t lower = (1u << (position % kWarp)) - 1;
    return scan.Before(position / kWarp) +
           CountOnes(word[position / kWarp] & lower);
  }

  FEDPLUG_HOST_DEVICE std::uint32_t Total() const { return scan.Total(); }
};

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_EXCLUSIVE_SCAN_H_
