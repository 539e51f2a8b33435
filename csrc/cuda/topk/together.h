// How the blocks of a selection work together in one launch. All run at a time:
// after each step there is a barrier of all blocks of the scope, and then every
// block computes the consequences of all counts in its own shared memory, so
// that none waits for another. Three histograms take turns, so that one is
// cleared while no block reads it. The blocks also zero the workspace, which
// takes less time than an operation of its own before the launch.
#ifndef FEDPLUG_CUDA_TOPK_TOGETHER_H_
#define FEDPLUG_CUDA_TOPK_TOGETHER_H_

#include <cstddef>
#include <cstdint>

#include "core/base/floats.h"
#include "cuda/topk/job.h"
#include "cuda/topk/lists.h"

namespace fedplug::cuda::topk {

// A step on the part of a block, and another that follows from the counts of
// all blocks of the scope.
template <typename OfBlock, typename OfScope>
struct Then {
  OfBlock of_block;
  OfScope of_scope;
};
template <typename OfBlock, typename OfScope>
Then(OfBlock, OfScope) -> Then<OfBlock, OfScope>;

// The shared memory of a block: the memory of each of its steps, one
// after the other, and the block's conclusions.
class TogetherMemory {
  static constexpr std::int64_t kOfSteps = 10368;

 public:
  static constexpr std::int64_t kBytes = kOfSteps + sizeof(Decisions);

  FEDPLUG_HOST_DEVICE explicit TogetherMemory(std::byte* begin)
      : begin_(begin) {}

  template <typename Step>
  FEDPLUG_HOST_DEVICE typename Step::Shared& Of(const Step&) const {
    static_assert(sizeof(typename Step::Shared) <= kOfSteps);
    return *reinterpret_cast<typename Step::Shared*>(begin_);
  }
  FEDPLUG_HOST_DEVICE Decisions& decisions() const {
    return *reinterpret_cast<Decisions*>(begin_ + kOfSteps);
  }

 private:
  std::byte* begin_;
};
// No device refuses so much.
static_assert(TogetherMemory::kBytes <= 48 * 1024);

// Memory that all blocks zero together: before the first step the part of the
// workspace that must be.
struct ZeroedMemory {
  std::uint32_t* words;
  std::int64_t count;

  static ZeroedMemory Of(const Workspace& workspace) {
    return {workspace.any_non_finite,
            static_cast<std::int64_t>(workspace.zeroed_bytes /
                                      sizeof(std::uint32_t))};
  }

  // The part of one block. A barrier of the grid must follow.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Zero(const Block& block, std::int64_t number,
                                std::int64_t blocks) const {
    block.Each([&](int thread) {
      for (std::int64_t i = number * kThreads + thread; i < count;
           i += blocks * kThreads) {
        words[i] = 0;
      }
    });
  }
};

// The job of a block: that of the launch, with the block's decisions and the
// current histogram.
template <typename T>
class JobOfBlock {
 public:
  FEDPLUG_HOST_DEVICE JobOfBlock(const Job<T>& job, Decisions* decisions)
      : job_(job), histograms_(job.scope.histogram) {
    job_.scope.decisions = decisions;
  }

  FEDPLUG_HOST_DEVICE const Job<T>& job() const { return job_; }

  // Before each step, by all blocks. Clears a part of the histogram of the next
  // one: it is that of two steps ago, which all blocks had read before they
  // came to the last barrier.
  template <typename Block>
  FEDPLUG_HOST_DEVICE void BeginStep(const Block& block, std::int64_t number,
                                     std::int64_t blocks) {
    job_.scope.histogram = Histogram(step_);
    ++step_;
    if (step_ < kHistograms) return;  // they begin as zeros
    ZeroedMemory{Histogram(step_), kBins}.Zero(block, number, blocks);
  }

 private:
  FEDPLUG_HOST_DEVICE std::uint32_t* Histogram(int step) const {
    return histograms_ + step % kHistograms * kBins;
  }

  Job<T> job_;
  std::uint32_t* histograms_;  // [kHistograms][kBins]
  int step_ = 0;
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_TOGETHER_H_
