// The band: the keys that contain the k-th largest, probably or certainly. It
// becomes narrower until it is one key. A sample gives the first band. Counts
// of the keys in it and above it verify it.
#ifndef FEDPLUG_CUDA_TOPK_BAND_H_
#define FEDPLUG_CUDA_TOPK_BAND_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/topk/sample.h"
#include "cuda/topk/histogram.h"
#include "cuda/topk/job.h"

namespace fedplug::cuda::topk {

using fedplug::topk::SampleRanks;

// A band counts the keys in [base, base + 2^bits), 2^shift of them by each bin.
// An open one, with all bits of a key, counts every key at its base or above,
// those beyond the other bins by the last one. It lists every key at its base
// or above.
template <typename T>
struct Band {
  using Bits = FloatBitsOf<T>;

  Bits base;
  int bits;
  int shift;

  // Where a is below, this is beyond every band: keys have a bit less.
  FEDPLUG_HOST_DEVICE Bits AboveBase(T a) const {
    return static_cast<Bits>(MagnitudeKey(a) - base);
  }
  FEDPLUG_HOST_DEVICE bool Counts(T a) const {
    return (AboveBase(a) >> bits) == 0;
  }
  FEDPLUG_HOST_DEVICE int Of(T a) const {
    const auto bin = static_cast<Bits>(AboveBase(a) >> shift);
    return bin < kBins ? static_cast<int>(bin) : kBins - 1;
  }
  FEDPLUG_HOST_DEVICE bool Lists(T a) const { return MagnitudeKey(a) >= base; }
};

// The band of all keys. No finite one is counted by its last bin.
template <typename T>
FEDPLUG_HOST_DEVICE BandState AllKeys(std::uint32_t wanted) {
  return {0, kKeyBits<T>, kKeyBits<T> - kDigitBits, wanted};
}

template <typename T>
FEDPLUG_HOST_DEVICE bool IsOpen(const BandState& band) {
  return band.bits == kKeyBits<T>;
}

template <typename T>
FEDPLUG_HOST_DEVICE Band<T> BandOf(const BandState& band) {
  return {static_cast<FloatBitsOf<T>>(band.base), band.bits, band.shift};
}

FEDPLUG_HOST_DEVICE inline std::uint64_t BeginOfBin(const BandState& band,
                                                    int bin) {
  return band.base + (static_cast<std::uint64_t>(bin) << band.shift);
}

// An open band whose last bin begins at `end` or above.
//
// REQUIRES: begin < end
template <typename T>
FEDPLUG_HOST_DEVICE BandState OpenBand(std::uint64_t begin, std::uint64_t end,
                                       std::uint32_t wanted) {
  int shift = 0;
  while (((end - begin - 1) >> shift) >= kBins - 1) ++shift;
  return {begin, kKeyBits<T>, shift, wanted};
}

// The keys of one bin, of which the `wanted` largest leave.
FEDPLUG_HOST_DEVICE inline BandState BandOfBin(const BandState& band, int bin,
                                               std::uint32_t wanted) {
  const int bits = band.shift;
  return {BeginOfBin(band, bin), bits,
          bits > kDigitBits ? bits - kDigitBits : 0, wanted};
}

// One digit separates few keys of float64, because it is nearly all exponent.
template <typename T>
inline constexpr int kSampleRounds = sizeof(T) == 8 ? 2 : 1;

// Finds the band in a sample, that was counted by all keys, or in a later round
// by the band before: from the bin that has the lower rank to the one that has
// the upper.
//
// REQUIRES: as BinsFromTheTop
template <typename T>
struct FindBand {
  int round;
  SampleRanks ranks;

  struct Shared {
    BinsFromTheTop bins;
    std::uint64_t begin;
    std::uint64_t end;
  };

  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part&, Shared& shared) const {
    const Scope& scope = job.scope;
    const BandState band =
        round == 0 ? AllKeys<T>(scope.chosen) : scope.decisions->band;
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.begin = 0;
      shared.end = FloatTraits<T>::kInfinity;
    });
    const auto upper = static_cast<std::uint32_t>(ranks.upper);
    const auto lower = static_cast<std::uint32_t>(ranks.lower);
    shared.bins.ForEach(block, scope.histogram,
                        [&](int bin, std::uint32_t above, std::uint32_t here) {
                          if (IsInBin(lower, above, here))
                            shared.begin = BeginOfBin(band, bin);
                          if (IsInBin(upper, above, here) && bin < kBins - 1) {
                            shared.end = BeginOfBin(band, bin + 1);
                          }
                        });
    block.Each([&](int thread) {
      if (thread != 0) return;
      scope.decisions->band =
          OpenBand<T>(shared.begin, shared.end, scope.chosen);
      scope.decisions->lists_again = 0;
    });
  }
};

// Finds the bin of the k-th largest among the keys that the band counted, which
// becomes that bin, and in the end one key: the threshold. Where the k-th
// largest is below the band, or beyond it, the band missed: it becomes that of
// all keys, and the entries are to be listed again, and once more when the
// band to list is known.
//
// REQUIRES: as BinsFromTheTop
template <typename T>
struct Narrow {
  struct Shared {
    BinsFromTheTop bins;
    BandState next;
  };

  template <typename Block, typename Part>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Part&, Shared& shared) const {
    const Scope& scope = job.scope;
    Decisions& decisions = *scope.decisions;
    const BandState band = decisions.band;
    const bool open = IsOpen<T>(band);
    // A band of one bin cannot miss, and nothing is found where none is wanted.
    const bool may_miss = open && scope.chosen > 0;
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.next =
          may_miss ? AllKeys<T>(scope.chosen) : BandState{kAboveAll, 0, 0, 0};
    });
    shared.bins.ForEach(block, scope.histogram,
                        [&](int bin, std::uint32_t above, std::uint32_t here) {
                          if (!IsInBin(band.wanted, above, here)) return;
                          if (open && bin == kBins - 1) return;
                          shared.next =
                              BandOfBin(band, bin, band.wanted - above);
                        });
    block.Each([&](int thread) {
      if (thread != 0) return;
      const BandState& next = shared.next;
      const bool missed = IsOpen<T>(next);
      decisions.band = next;
      decisions.lists_again =
          missed || (open && decisions.lists_again != 0) ? 1 : 0;
      if (next.bits == 0) {
        decisions.threshold = {next.base, next.wanted};
      }
    });
  }
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_BAND_H_
