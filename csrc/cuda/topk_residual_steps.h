// The steps of the selection, each as what one block of threads does: to one
// tile of a tensor, or to one scope, the tensors that share a k. The method is
// the core's:
//   Survey       counts the sums by the leading 11 bits of |a|; writes nothing
//   Split        writes a to residual_out and shortlists, tile by tile, the
//                entries at or above the bin in which the k-th largest lies;
//                counts those in that bin by their next 11 bits
//   Refine       counts by further digits what of the shortlist still is in the
//                bin, until the key of the k-th largest is known
//   CountChosen, ScanTiles, Emit
//                give every chosen entry its place, in the order of the
//                tensors and their indices, and move it out of the residual
// with FindCut after every round of counting. The tensors of a scope share its
// histogram, its cuts and the numbering of its entries; what is done once for a
// tensor, its report and its row split, its first tile does. No step depends on
// the order in which blocks or threads run: the only atomic operations are
// integer additions and maxima, and every place is computed, not drawn. COST:
// reads delta and residual_in twice and writes residual_out once (5 * sizeof(T)
// bytes per element); per shortlisted entry, 2 bytes of scratch and one gather
// from residual_out for each later step. 9 launches for float, 3 + 2
// * rounds in general; those over tiles, 5 of the 9, again for every 32
// tensors, those over scopes for every 32 scopes. Must not know the CUDA
// runtime: tests run these steps on the CPU.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_STEPS_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_STEPS_H_

#include <cstdint>

#include "core/float_bits.h"
#include "core/host_device.h"
#include "cuda/block.h"
#include "cuda/exclusive_scan.h"
#include "cuda/topk_residual.h"
#include "cuda/topk_residual_job.h"

namespace fedplug::cuda::topk {

// Counts digits into shared memory. Equal ones in a row are added at once, so
// that a tensor of zeros does not queue up at one counter.
class DigitCounter {
 public:
  FEDPLUG_HOST_DEVICE explicit DigitCounter(std::uint32_t* histogram)
      : histogram_(histogram) {}

  FEDPLUG_HOST_DEVICE void Count(int digit) {
    if (digit != digit_) {
      Flush();
      digit_ = digit;
    }
    ++seen_;
  }

  FEDPLUG_HOST_DEVICE void Flush() {
    if (seen_ > 0) AtomicAdd(&histogram_[digit_], seen_);
    seen_ = 0;
  }

 private:
  std::uint32_t* histogram_;
  int digit_ = 0;
  std::uint32_t seen_ = 0;
};

template <typename Block>
FEDPLUG_HOST_DEVICE void ClearHistogram(const Block& block,
                                        std::uint32_t* histogram) {
  block.Each([&](int thread) {
    for (int bin = thread; bin < kBins; bin += kThreads) histogram[bin] = 0;
  });
}

template <typename Block>
FEDPLUG_HOST_DEVICE void AddHistogram(const Block& block,
                                      const std::uint32_t* histogram,
                                      std::uint32_t* sum) {
  block.Each([&](int thread) {
    for (int bin = thread; bin < kBins; bin += kThreads) {
      if (histogram[bin] > 0) AtomicAdd(&sum[bin], histogram[bin]);
    }
  });
}

// sums[item] = delta + residual_in at place item * kThreads + thread of the
// tile, zero beyond its end. A loop of its own, so that all loads are under way
// before the first is needed.
template <typename T>
FEDPLUG_HOST_DEVICE void LoadSums(const TopKTensor<T>& tensor, const Tile& tile,
                                  int thread, T (&sums)[kItems]) {
  for (int item = 0; item < kItems; ++item) {
    const int place = item * kThreads + thread;
    const std::int64_t i = tile.begin + place;
    sums[item] =
        place < tile.size ? tensor.delta[i] + tensor.residual_in[i] : T{};
  }
}

template <typename T>
struct Survey {
  struct Shared {
    std::uint32_t histogram[kBins];
    std::uint32_t non_finite;
    std::uint32_t first_non_finite_from_end;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    const std::int64_t n = job.tensor.n;
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      if (thread != 0) return;
      shared.non_finite = 0;
      shared.first_non_finite_from_end = 0;
    });
    block.Each([&](int thread) {
      T sums[kItems];
      LoadSums(job.tensor, tile, thread, sums);
      DigitCounter counter(shared.histogram);
      for (int item = 0; item < kItems; ++item) {
        const int place = item * kThreads + thread;
        if (place >= tile.size) break;
        T a = sums[item];
        if (!IsFinite(a)) {
          AtomicAdd(&shared.non_finite, 1);
          AtomicMax(&shared.first_non_finite_from_end,
                    static_cast<std::uint32_t>(n - (tile.begin + place)));
          a = T{};
        }
        counter.Count(DigitOf(a, 0));
      }
      counter.Flush();
    });
    AddHistogram(block, shared.histogram, job.scope->histogram);
    block.Each([&](int thread) {
      if (thread != 0 || shared.non_finite == 0) return;
      AtomicAdd(&job.state->non_finite, shared.non_finite);
      AtomicMax(&job.state->first_non_finite_from_end,
                shared.first_non_finite_from_end);
      AtomicMax(job.any_non_finite, 1);
    });
  }
};

// Finds the bin of the k-th largest among what was counted, and clears the
// counts for the next round.
template <typename T>
struct FindCut {
  int round;

  struct Shared {
    ExclusiveScan<kThreads> scan;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Scope& scope,
                                      Shared& shared) const {
    std::uint32_t* const histogram = scope.state->histogram;
    const Cut before =
        round == 0 ? Cut{0, scope.chosen} : scope.state->cuts[round - 1];
    Cut* const cut = &scope.state->cuts[round];
    // The bins from the top down, a few in a row to each thread.
    const auto bin_of = [](int thread, int item) {
      return kBins - 1 - (thread * kBinsPerThread + item);
    };
    block.Each([&](int thread) {
      if (thread == 0) *cut = {kAboveAll, 0};  // holds if none is wanted
      std::uint32_t sum = 0;
      for (int item = 0; item < kBinsPerThread; ++item) {
        sum += histogram[bin_of(thread, item)];
      }
      shared.scan.value[thread] = sum;
    });
    shared.scan.Run(block);
    block.Each([&](int thread) {
      std::uint32_t above = shared.scan.Before(thread);
      for (int item = 0; item < kBinsPerThread; ++item) {
        const int bin = bin_of(thread, item);
        const std::uint32_t here = histogram[bin];
        if (above < before.wanted && before.wanted <= above + here) {
          *cut = {(before.prefix << BitsOfDigit<T>(round)) |
                      static_cast<std::uint64_t>(bin),
                  before.wanted - above};
        }
        above += here;
        histogram[bin] = 0;
      }
    });
  }
};

template <typename T>
struct Split {
  NonFinitePolicy policy;

  struct Shared {
    std::uint32_t histogram[kBins];
    RankedBits<kTile> shortlisted;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    if (tile.number == 0) Report(block, job);
    if (policy == NonFinitePolicy::kError && *job.any_non_finite != 0) {
      Refuse(block, job, tile);
      return;
    }
    const std::uint64_t cut = job.scope->cuts[0].prefix;
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      T sums[kItems];
      LoadSums(job.tensor, tile, thread, sums);
      DigitCounter counter(shared.histogram);
      for (int item = 0; item < kItems; ++item) {
        const int place = item * kThreads + thread;
        const bool inside = place < tile.size;
        const T a = IsFinite(sums[item]) ? sums[item] : T{};
        const std::uint64_t prefix = PrefixOf(a, 0);
        if (inside) job.tensor.residual_out[tile.begin + place] = a;
        if (inside && prefix == cut) counter.Count(DigitOf(a, 1));
        shared.shortlisted.Mark(thread, place, inside && prefix >= cut);
      }
      counter.Flush();
    });
    shared.shortlisted.Run(block);
    block.Each([&](int thread) {
      for (int place = thread; place < tile.size; place += kThreads) {
        if (shared.shortlisted.Has(place)) {
          job.shortlist[tile.begin + shared.shortlisted.Before(place)] =
              static_cast<std::uint16_t>(place);
        }
      }
      if (thread == 0) {
        job.tiles[tile.number].shortlisted = shared.shortlisted.Total();
      }
    });
    AddHistogram(block, shared.histogram, job.scope->histogram);
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void Report(const Block& block, const Job<T>& job) const {
    block.Each([&](int thread) {
      if (thread != 0) return;
      const TensorState& state = *job.state;
      job.report->non_finite = state.non_finite;
      job.report->first_non_finite =
          state.non_finite > 0 ? job.tensor.n - state.first_non_finite_from_end
                               : -1;
    });
  }

  // Nothing is selected, and the residual is what it was.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Refuse(const Block& block, const Job<T>& job,
                                  const Tile& tile) const {
    block.Each([&](int thread) {
      if (thread == 0) job.tiles[tile.number].shortlisted = 0;
      if (job.tensor.residual_out == job.tensor.residual_in) return;
      for (int place = thread; place < tile.size; place += kThreads) {
        const std::int64_t i = tile.begin + place;
        job.tensor.residual_out[i] = job.tensor.residual_in[i];
      }
    });
  }
};

// The tile's shortlisted entries, one after the other, for one thread.
// body(position in the shortlist, index in the tensor)
template <typename T, typename Body>
FEDPLUG_HOST_DEVICE void ForShortlisted(const Job<T>& job, const Tile& tile,
                                        int thread, const Body& body) {
  const int shortlisted = static_cast<int>(job.tiles[tile.number].shortlisted);
  for (int j = thread; j < shortlisted; j += kThreads) {
    body(j, tile.begin + job.shortlist[tile.begin + j]);
  }
}

template <typename T>
struct Refine {
  int round;

  struct Shared {
    std::uint32_t histogram[kBins];
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    const std::uint64_t cut = job.scope->cuts[round - 1].prefix;
    ClearHistogram(block, shared.histogram);
    block.Each([&](int thread) {
      DigitCounter counter(shared.histogram);
      ForShortlisted(job, tile, thread, [&](int, std::int64_t i) {
        const T a = job.tensor.residual_out[i];
        if (PrefixOf(a, round - 1) == cut) counter.Count(DigitOf(a, round));
      });
      counter.Flush();
    });
    AddHistogram(block, shared.histogram, job.scope->histogram);
  }
};

// The key of the k-th largest, and how many of the entries that have it leave.
template <typename T>
FEDPLUG_HOST_DEVICE Cut Threshold(const Job<T>& job) {
  return job.scope->cuts[kRounds<T> - 1];
}

template <typename T>
struct CountChosen {
  struct Shared {
    std::uint32_t above;
    std::uint32_t ties;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    const std::uint64_t threshold = Threshold(job).prefix;
    block.Each([&](int thread) {
      if (thread == 0) shared.above = shared.ties = 0;
    });
    block.Each([&](int thread) {
      std::uint32_t above = 0;
      std::uint32_t ties = 0;
      ForShortlisted(job, tile, thread, [&](int, std::int64_t i) {
        const std::uint64_t key = MagnitudeKey(job.tensor.residual_out[i]);
        above += key > threshold ? 1 : 0;
        ties += key == threshold ? 1 : 0;
      });
      if (above > 0) AtomicAdd(&shared.above, above);
      if (ties > 0) AtomicAdd(&shared.ties, ties);
    });
    block.Each([&](int thread) {
      if (thread != 0) return;
      job.tiles[tile.number].above = shared.above;
      job.tiles[tile.number].ties = shared.ties;
    });
  }
};

struct ScanTiles {
  struct Shared {
    ExclusiveScan<kThreads> above;
    ExclusiveScan<kThreads> ties;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Scope& scope,
                                      Shared& shared) const {
    const std::int64_t tiles = scope.tile_count;
    const std::int64_t share = (tiles + kThreads - 1) / kThreads;
    const auto end_of = [=](int thread) {
      const std::int64_t end = (thread + 1) * share;
      return end < tiles ? end : tiles;
    };
    block.Each([&](int thread) {
      std::uint32_t above = 0;
      std::uint32_t ties = 0;
      for (std::int64_t t = thread * share; t < end_of(thread); ++t) {
        above += scope.tiles[t].above;
        ties += scope.tiles[t].ties;
      }
      shared.above.value[thread] = above;
      shared.ties.value[thread] = ties;
    });
    shared.above.Run(block);
    shared.ties.Run(block);
    block.Each([&](int thread) {
      std::uint32_t above = shared.above.Before(thread);
      std::uint32_t ties = shared.ties.Before(thread);
      for (std::int64_t t = thread * share; t < end_of(thread); ++t) {
        const TileState here = scope.tiles[t];
        scope.tiles[t].above = above;
        scope.tiles[t].ties = ties;
        above += here.above;
        ties += here.ties;
      }
      if (thread == 0 && scope.row_splits_end != nullptr) {
        *scope.row_splits_end = scope.chosen;
      }
    });
  }
};

template <typename T>
struct Emit {
  struct Shared {
    RankedBits<kTile> above;
    RankedBits<kTile> ties;
  };

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, const Job<T>& job,
                                      const Tile& tile, Shared& shared) const {
    const Cut threshold = Threshold(job);
    const TileState before = job.tiles[tile.number];
    // Ties leave in the order of their positions, so that those which leave of
    // all before an entry are the first `wanted` of them.
    const auto leaving = [&](std::uint32_t ties) {
      return ties < threshold.wanted ? ties : threshold.wanted;
    };
    block.Each([&](int thread) {
      if (thread == 0 && tile.number == 0 && job.row_split != nullptr) {
        *job.row_split = std::int64_t{before.above} + leaving(before.ties);
      }
      for (int item = 0; item < kItems; ++item) {
        const int j = item * kThreads + thread;
        std::uint64_t key = 0;
        const bool listed = j < static_cast<int>(before.shortlisted);
        if (listed) {
          const int place = job.shortlist[tile.begin + j];
          key = MagnitudeKey(job.tensor.residual_out[tile.begin + place]);
        }
        shared.above.Mark(thread, j, listed && key > threshold.prefix);
        shared.ties.Mark(thread, j, listed && key == threshold.prefix);
      }
    });
    shared.above.Run(block);
    shared.ties.Run(block);
    block.Each([&](int thread) {
      ForShortlisted(job, tile, thread, [&](int j, std::int64_t i) {
        const bool above = shared.above.Has(j);
        const bool tie = shared.ties.Has(j);
        const std::uint32_t ties = before.ties + shared.ties.Before(j);
        if (!above && !(tie && ties < threshold.wanted)) return;
        const std::int64_t rank =
            std::int64_t{before.above} + shared.above.Before(j) + leaving(ties);
        job.tensor.values[rank] = job.tensor.residual_out[i];
        job.tensor.indices[rank] = static_cast<std::int32_t>(i);
        job.tensor.residual_out[i] = T{};
      });
    });
  }
};

// The order of the steps. Launcher has EachTile(step) and EachScope(step),
// which run a step on every tile, or scope, of the call, after all that was
// asked for before.
template <typename T, typename Launcher>
void RunSteps(NonFinitePolicy policy, Launcher& launcher) {
  launcher.EachTile(Survey<T>{});
  launcher.EachScope(FindCut<T>{0});
  launcher.EachTile(Split<T>{policy});
  launcher.EachScope(FindCut<T>{1});
  for (int round = 2; round < kRounds<T>; ++round) {
    launcher.EachTile(Refine<T>{round});
    launcher.EachScope(FindCut<T>{round});
  }
  launcher.EachTile(CountChosen<T>{});
  launcher.EachScope(ScanTiles{});
  launcher.EachTile(Emit<T>{});
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_STEPS_H_
