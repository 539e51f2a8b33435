// Lays out the workspace of a selection and cuts its tensors into groups small
// enough for kernel arguments, so that no table of pointers is copied to the
// GPU.
#ifndef FEDPLUG_CUDA_TOPK_GROUPS_H_
#define FEDPLUG_CUDA_TOPK_GROUPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/host_device.h"
#include "cuda/topk/job.h"

namespace fedplug::cuda::topk {

enum class Sharing {
  kOneForEach,  // a k for each tensor
  kOneForAll,   // one k, and one array of values and of indices, for all
};

// The request. Under kOneForAll k, values and indices are equal in all tensors.
//
// REQUIRES: for every tensor 0 <= n < 2^31 and k >= 0; under kOneForAll the sum
//           of n is below 2^31. LayOut looks at the n only
// SHAPE:    tensors[count]; row_splits[count + 1], null under kOneForEach
template <typename T>
struct Request {
  const TopKTensor<T>* tensors;
  std::int64_t count;
  Sharing sharing;
  std::int64_t* row_splits;

  std::int64_t Scopes() const {
    return sharing == Sharing::kOneForEach ? count : 1;
  }
};

// The tensors that fit kernel arguments of 4 KB or, if toolkit and driver
// support it, 32 KB, which launch slightly slower.
inline constexpr int kFew = 22;
inline constexpr int kMany = 180;

// The first tile, chunk or element of each of up to kMost tensors, in one
// numbering.
template <int kMost>
struct Numbering {
  std::uint32_t first[kMost + 1];  // of each tensor, and their number

  // COST: O(log(tensors))
  FEDPLUG_HOST_DEVICE int TensorOf(std::uint32_t part, int tensors) const {
    if constexpr (kMost == 1) return 0;
    int low = 0;
    int high = tensors - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first[middle] <= part) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

// The tensors of one launch.
template <typename T, int kMost>
struct Group {
  int tensors;
  Numbering<kMost> tiles;
  Numbering<kMost> chunks;
  Numbering<kMost> elements;  // where they are a scope: fewer than 2^31
  Job<T> jobs[kMost];

  template <typename Part>
  std::uint32_t Parts() const {
    return Part::NumberedIn(*this).first[tensors];
  }

  // body(job, part), of the part with this number in the group.
  template <typename Part, typename Body>
  FEDPLUG_HOST_DEVICE void With(std::uint32_t number, const Body& body) const {
    const auto& parts = Part::NumberedIn(*this);
    const int i = parts.TensorOf(number, tensors);
    body(jobs[i], Part::Of(jobs[i], number - parts.first[i]));
  }
};
static_assert(sizeof(Group<double, kFew>) <= 4000);
static_assert(sizeof(Group<double, kMany>) <= 32700);

// Allocates arrays from a block of memory, one after the other; without one,
// only counts.
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

// The memory of a call, any_non_finite first. The first `zeroed_bytes` must be
// zero before the first step.
struct Workspace {
  std::uint32_t* any_non_finite;  // [1]
  TensorState* states;            // [tensors]
  ScopeState* scopes;             // [scopes]
  std::uint32_t* histograms;      // [scopes, or kHistograms of the one][kBins]
  int tiles_of_chunk;
  ChunkState* chunks;          // [chunks, or shares where it is more]
  std::uint32_t* shortlisted;  // [tiles]
  std::uint16_t* shortlist;    // [elements]
  // Used by a banded selection; otherwise empty.
  std::uint16_t* distances;  // [elements]
  std::uint32_t* held_back;  // [tiles]
  std::size_t zeroed_bytes;
  std::size_t bytes;
};

// Of some tensors together.
struct Sizes {
  std::int64_t tiles = 0;
  std::int64_t elements = 0;
};

template <typename T>
Sizes SizesOf(const Request<T>& request, std::int64_t begin, std::int64_t end) {
  Sizes sizes;
  for (std::int64_t i = begin; i < end; ++i) {
    sizes.tiles += TilesOf(request.tensors[i].n);
    sizes.elements += request.tensors[i].n;
  }
  return sizes;
}

template <typename T>
std::int64_t ChunksOf(const Request<T>& request, std::int64_t begin,
                      std::int64_t end, int tiles_of_chunk) {
  std::int64_t chunks = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    chunks += ChunksOf(request.tensors[i].n, tiles_of_chunk);
  }
  return chunks;
}

// As many blocks as walk over so much together, on any device. Each has a
// ChunkState.
constexpr std::int64_t MostBlocksOf(const Sizes& sizes) {
  return std::max(MostSharesOf(sizes.elements),
                  std::min(sizes.tiles, kMostShares));
}

template <typename T>
Workspace LayOut(const Request<T>& request, TopKWay way, void* memory) {
  const Sizes sizes = SizesOf(request, 0, request.count);
  const bool together = way != TopKWay::kPasses && request.Scopes() == 1;
  const bool banded = together && way != TopKWay::kResident;
  Cutter cutter(memory);
  Workspace workspace;
  workspace.tiles_of_chunk = TilesOfChunk(sizes.tiles);
  const std::int64_t chunks =
      ChunksOf(request, 0, request.count, workspace.tiles_of_chunk);
  workspace.any_non_finite = cutter.Take<std::uint32_t>(1);
  workspace.states = cutter.Take<TensorState>(request.count);
  workspace.scopes = cutter.Take<ScopeState>(request.Scopes());
  workspace.histograms = cutter.Take<std::uint32_t>(
      kBins * (together ? kHistograms : request.Scopes()));
  workspace.held_back = cutter.Take<std::uint32_t>(banded ? sizes.tiles : 0);
  workspace.zeroed_bytes = cutter.bytes();
  workspace.chunks = cutter.Take<ChunkState>(
      together ? std::max(chunks, MostBlocksOf(sizes)) : chunks);
  workspace.shortlisted = cutter.Take<std::uint32_t>(sizes.tiles);
  workspace.shortlist = cutter.Take<std::uint16_t>(sizes.elements);
  workspace.distances = cutter.Take<std::uint16_t>(banded ? sizes.elements : 0);
  workspace.bytes = cutter.bytes();
  return workspace;
}

// The scope whose first tensor is number i.
//
// REQUIRES: workspace.chunks is where the chunks of that tensor begin
template <typename T>
Scope ScopeFrom(const Request<T>& request, std::int64_t i,
                const Workspace& workspace) {
  const bool shared = request.sharing == Sharing::kOneForAll;
  const std::int64_t k = request.tensors[i].k;
  const std::int64_t end = shared ? request.count : i + 1;
  const Sizes sizes = SizesOf(request, i, end);
  const std::int64_t number = shared ? 0 : i;
  return {workspace.scopes + number,
          &workspace.scopes[number].decisions,
          workspace.histograms + number * kBins,
          workspace.chunks,
          static_cast<std::uint32_t>(
              ChunksOf(request, i, end, workspace.tiles_of_chunk)),
          static_cast<std::uint32_t>(sizes.tiles),
          workspace.tiles_of_chunk,
          static_cast<std::uint32_t>(std::min(k, sizes.elements)),
          shared ? request.row_splits + request.count : nullptr};
}

// SHAPE: reports[tensors]
template <int kMost, typename T>
std::vector<Group<T, kMost>> MakeGroups(const Request<T>& request,
                                        Workspace workspace,
                                        TopKReport* reports) {
  const bool shared = request.sharing == Sharing::kOneForAll;
  std::vector<Group<T, kMost>> groups;
  Scope scope = {};
  for (std::int64_t i = 0; i < request.count; ++i) {
    if (!shared || i == 0) scope = ScopeFrom(request, i, workspace);
    if (groups.empty() || groups.back().tensors == kMost) groups.emplace_back();
    Group<T, kMost>& group = groups.back();
    const TopKTensor<T>& tensor = request.tensors[i];
    group.jobs[group.tensors] = {tensor,
                                 scope,
                                 workspace.states + i,
                                 workspace.chunks,
                                 workspace.shortlisted,
                                 workspace.shortlist,
                                 workspace.any_non_finite,
                                 reports + i,
                                 shared ? request.row_splits + i : nullptr};
    const std::int64_t tiles = TilesOf(tensor.n);
    const std::int64_t chunks = ChunksOf(tensor.n, workspace.tiles_of_chunk);
    group.tiles.first[group.tensors + 1] =
        group.template Parts<Tile>() + static_cast<std::uint32_t>(tiles);
    group.chunks.first[group.tensors + 1] =
        group.template Parts<Chunk>() + static_cast<std::uint32_t>(chunks);
    group.elements.first[group.tensors + 1] =
        group.elements.first[group.tensors] +
        static_cast<std::uint32_t>(tensor.n);
    ++group.tensors;
    workspace.chunks += chunks;
    workspace.shortlisted += tiles;
    workspace.shortlist += tensor.n;
  }
  return groups;
}

// The only tensor of a request.
//
// REQUIRES: request.count == 1
template <typename T>
Job<T> OnlyJob(const Request<T>& request, const Workspace& workspace,
               TopKReport* reports) {
  return MakeGroups<1>(request, workspace, reports)[0].jobs[0];
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_GROUPS_H_
