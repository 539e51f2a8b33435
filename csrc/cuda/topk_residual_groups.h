// Lays out the workspace of TopKResidual and cuts a list of tensors into
// groups, small enough each to be the argument of a kernel: so no table of
// pointers has to be copied to the GPU. Must not know the CUDA runtime.
#ifndef FEDPLUG_CUDA_TOPK_RESIDUAL_GROUPS_H_
#define FEDPLUG_CUDA_TOPK_RESIDUAL_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/host_device.h"
#include "cuda/topk_residual_job.h"

namespace fedplug::cuda::topk {

// Kernel arguments may hold 4 KB.
inline constexpr int kGroup = 32;

// Up to kGroup tensors, whose tiles are numbered through.
template <typename T>
struct Group {
  int tensors;
  std::uint32_t first_tile[kGroup + 1];
  Job<T> jobs[kGroup];

  std::uint32_t Tiles() const { return first_tile[tensors]; }

  // The tensor a tile belongs to. COST: O(log(kGroup))
  FEDPLUG_HOST_DEVICE int TensorOf(std::uint32_t tile) const {
    int low = 0;
    int high = tensors - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_tile[middle] <= tile) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};
static_assert(sizeof(Group<double>) <= 4000);

// Cuts arrays off a piece of memory, one after the other; with none, only
// counts.
class Cutter {
 public:
  explicit Cutter(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <typename Element>
  Element* Take(std::int64_t count) {
    constexpr std::size_t kAlignment = 256;
    auto* const taken = memory_ == nullptr
                            ? nullptr
                            : reinterpret_cast<Element*>(memory_ + bytes_);
    const std::size_t wanted =
        static_cast<std::size_t>(count) * sizeof(Element);
    bytes_ += (wanted + kAlignment - 1) / kAlignment * kAlignment;
    return taken;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

// What all tensors of a call share. The first `zeroed_bytes` must be zero
// before the first step.
struct Workspace {
  std::uint32_t* any_non_finite;  // [1]
  TensorState* states;            // [tensors]
  std::uint32_t* histograms;      // [tensors * kBins]
  TileState* tiles;               // [tiles]
  std::uint16_t* shortlist;       // [elements]
  std::size_t zeroed_bytes;
  std::size_t bytes;
};

template <typename T>
Workspace LayOut(const TopKTensor<T>* tensors, std::int64_t count,
                 void* memory) {
  std::int64_t tiles = 0;
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    tiles += TilesOf(tensors[i].n);
    elements += tensors[i].n;
  }
  Cutter cutter(memory);
  Workspace workspace;
  workspace.any_non_finite = cutter.Take<std::uint32_t>(1);
  workspace.states = cutter.Take<TensorState>(count);
  workspace.histograms = cutter.Take<std::uint32_t>(count * kBins);
  workspace.zeroed_bytes = cutter.bytes();
  workspace.tiles = cutter.Take<TileState>(tiles);
  workspace.shortlist = cutter.Take<std::uint16_t>(elements);
  workspace.bytes = cutter.bytes();
  return workspace;
}

// REQUIRES: 0 <= tensors[i].n < 2^31
template <typename T>
std::vector<Group<T>> MakeGroups(const TopKTensor<T>* tensors,
                                 std::int64_t count, Workspace workspace,
                                 TopKReport* reports) {
  std::vector<Group<T>> groups;
  for (std::int64_t i = 0; i < count; ++i) {
    if (groups.empty() || groups.back().tensors == kGroup)
      groups.emplace_back();
    Group<T>& group = groups.back();
    group.jobs[group.tensors] = {
        tensors[i],      workspace.states + i, workspace.histograms + i * kBins,
        workspace.tiles, workspace.shortlist,  workspace.any_non_finite,
        reports + i};
    const std::int64_t tiles = TilesOf(tensors[i].n);
    group.first_tile[group.tensors + 1] =
        group.first_tile[group.tensors] + static_cast<std::uint32_t>(tiles);
    ++group.tensors;
    workspace.tiles += tiles;
    workspace.shortlist += tensors[i].n;
  }
  return groups;
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_RESIDUAL_GROUPS_H_
