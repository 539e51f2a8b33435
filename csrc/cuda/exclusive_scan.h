// Sums before an element and ones before a bit, for the shared memory of one
// block. Must not know what is counted.
#ifndef FEDPLUG_CUDA_EXCLUSIVE_SCAN_H_
#define FEDPLUG_CUDA_EXCLUSIVE_SCAN_H_

#include <cstdint>

#include "core/base/host_device.h"
#include "cuda/block.h"

namespace fedplug::cuda {

// Before(i) = value[0] + ... + value[i - 1], in two levels: sixteen threads
// walk a sixteenth of the values each, then one thread walks their sums. A tree
// would take fewer steps; this one can be read.
//
// REQUIRES: the values are set, in an Each of the block, before Run; Before and
//           Total are called, in an Each, after it. Sums stay below 2^32
// SHAPE:    value[kCount]
// COST:     kCount / 16 + 16 dependent additions
template <int kCount>
struct ExclusiveScan {
  static constexpr int kParts = 16;
  static constexpr int kPart = kCount / kParts;
  static_assert(kParts * kPart == kCount);

  std::uint32_t value[kCount];  // from Run on: the sum before it in its part
  std::uint32_t part[kParts + 1];

  template <typename Block>
  FEDPLUG_HOST_DEVICE void Run(const Block& block) {
    block.Each([this](int thread) {
      if (thread >= kParts) return;
      std::uint32_t sum = 0;
      for (int i = thread * kPart; i < (thread + 1) * kPart; ++i) {
        const std::uint32_t here = value[i];
        value[i] = sum;
        sum += here;
      }
      part[thread + 1] = sum;
    });
    block.Each([this](int thread) {
      if (thread != 0) return;
      part[0] = 0;
      for (int i = 1; i <= kParts; ++i) part[i] += part[i - 1];
    });
  }

  FEDPLUG_HOST_DEVICE std::uint32_t Before(unsigned i) const {
    return part[i / kPart] + value[i];
  }

  FEDPLUG_HOST_DEVICE std::uint32_t Total() const { return part[kParts]; }
};

// Which of up to kBits positions are marked, and how many marked ones come
// before.
//
// Positions are unsigned, for a shift and a mask instead of a division.
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

  // REQUIRES: 0 <= positions <= kBits; the block has kBits / 32 threads or more
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Run(const Block& block, int positions) {
    block.Each([=](int thread) {
      if (thread >= kBits / kWarp) return;
      scan.value[thread] =
          thread * kWarp < positions ? CountOnes(word[thread]) : 0;
    });
    scan.Run(block);
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
