// Lays out the workspace of a selection, and numbers the tiles and elements of
// a list of tensors.
#ifndef FEDPLUG_CUDA_TOPK_LISTS_H_
#define FEDPLUG_CUDA_TOPK_LISTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/floats.h"
#include "cuda/runtime.h"
#include "cuda/topk/job.h"

namespace fedplug::cuda::topk {

enum class Sharing {
  kOneForEach,  // a k for each tensor
  kOneForAll,   // one k, and one array of values and of indices, for all
};

// The request. Under kOneForAll k, values and indices are equal in all tensors.
//
// REQUIRES: for every tensor 0 <= n < 2^31 and k >= 0, under kOneForAll the sum
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
  // Behind the last tensor of the scope that begins with tensor i.
  std::int64_t EndOfScope(std::int64_t i) const {
    return sharing == Sharing::kOneForEach ? i + 1 : count;
  }
};

// The blocks of a grid that select from one scope, and the place of one of them
// in this team.
struct Team {
  unsigned number;
  unsigned blocks;
};

// Tensors with one numbering of their tiles, and of their elements if they are
// a scope.
//
// SHAPE: jobs[tensors]; first_tile and first_element[tensors + 1], which are
//        not read for a single tensor
template <typename T>
struct List {
  const Job<T>* jobs;
  const std::uint32_t* first_tile;
  const std::uint32_t* first_element;
  int tensors;
  std::uint32_t tiles;
  std::uint32_t elements;

  FEDPLUG_HOST_DEVICE std::uint32_t FirstTile(int i) const {
    return tensors == 1 ? (i == 0 ? 0 : tiles) : first_tile[i];
  }

  // The tensor of a tile, or of an element, of this list.
  //
  // COST: O(log(tensors))
  FEDPLUG_HOST_DEVICE int TensorOf(const std::uint32_t* first,
                                   std::uint32_t part) const {
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

  // The sum of element number `i` of the list.
  FEDPLUG_HOST_DEVICE T SumOf(std::uint32_t i) const {
    const int which = TensorOf(first_element, i);
    const TopKTensor<T>& tensor = jobs[which].tensor;
    const std::uint32_t at = which == 0 ? i : i - first_element[which];
    return tensor.delta[at] + tensor.residual_in[at];
  }

  // body(job, tile), of the tile with this number in the list.
  template <typename Body>
  FEDPLUG_HOST_DEVICE void WithTile(std::uint32_t number,
                                    const Body& body) const {
    const int i = TensorOf(first_tile, number);
    const Job<T>& job = jobs[i];
    body(job, Tile::At(number - FirstTile(i), job.tensor.n));
  }

  FEDPLUG_HOST_DEVICE List Only(int i) const {
    const auto n = static_cast<std::uint32_t>(jobs[i].tensor.n);
    return {jobs + i, nullptr, nullptr, 1, FirstTile(i + 1) - FirstTile(i), n};
  }

  // The team for tensor i among `blocks` blocks, whose first is `*first`. Block
  // j stands at tile j * tiles / blocks. The blocks that stand in a tensor are
  // its team, or, where none does, the last one before it.
  //
  // REQUIRES: 0 < blocks <= tiles
  FEDPLUG_HOST_DEVICE unsigned TeamOf(int i, unsigned blocks,
                                      unsigned* first) const {
    const auto first_from = [&](std::uint32_t tile) {
      return static_cast<unsigned>((std::uint64_t{tile} * blocks + tiles - 1) /
                                   tiles);
    };
    *first = first_from(FirstTile(i));
    const unsigned end = first_from(FirstTile(i + 1));
    if (end > *first) return end - *first;
    --*first;
    return 1;
  }
};

// The memory of a call, any_non_finite first. The first `zeroed_bytes` must be
// zero before the first step.
struct Workspace {
  std::uint32_t* any_non_finite;  // [1]
  TensorState* states;            // [tensors]
  ScopeState* scopes;             // [scopes]
  std::uint32_t* histograms;      // [scopes][kHistograms][kBins]
  std::uint32_t* held_back;       // [tiles], or none
  std::size_t zeroed_bytes;
  ChunkState* chunks;          // [blocks of each scope]
  std::uint32_t* shortlisted;  // [tiles]
  std::uint16_t* shortlist;    // [elements]
  std::uint16_t* distances;    // [elements], or none
  std::uint32_t* table;        // of TableOf, or none
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

// The largest number of blocks, on any device, that select from so much.
constexpr std::int64_t MostBlocksOf(const Sizes& sizes) {
  return std::min(sizes.tiles, kMostBlocks);
}

template <typename T>
Sizes SizesOfScope(const Request<T>& request, std::int64_t first) {
  return SizesOf(request, first, request.EndOfScope(first));
}

// The words of the table of a list of `tensors`.
template <typename T>
constexpr std::int64_t TableWords(std::int64_t tensors) {
  return tensors * static_cast<std::int64_t>(sizeof(Job<T>) / 4) +
         2 * (tensors + 1);
}

template <typename T>
Workspace LayOut(const Request<T>& request, void* memory) {
  const Sizes sizes = SizesOf(request, 0, request.count);
  const bool logged = request.Scopes() == 1;
  std::int64_t blocks = 0;
  for (std::int64_t i = 0; i < request.count; i = request.EndOfScope(i)) {
    blocks += MostBlocksOf(SizesOfScope(request, i));
  }
  Cutter cutter(memory);
  Workspace workspace;
  workspace.any_non_finite = cutter.Take<std::uint32_t>(1);
  workspace.states = cutter.Take<TensorState>(request.count);
  workspace.scopes = cutter.Take<ScopeState>(request.Scopes());
  workspace.histograms =
      cutter.Take<std::uint32_t>(request.Scopes() * kHistograms * kBins);
  workspace.held_back = cutter.Take<std::uint32_t>(logged ? sizes.tiles : 0);
  workspace.zeroed_bytes = cutter.bytes();
  workspace.chunks = cutter.Take<ChunkState>(blocks);
  workspace.shortlisted = cutter.Take<std::uint32_t>(sizes.tiles);
  workspace.shortlist = cutter.Take<std::uint16_t>(sizes.elements);
  workspace.distances = cutter.Take<std::uint16_t>(logged ? sizes.elements : 0);
  workspace.table = cutter.Take<std::uint32_t>(
      request.count > 1 ? TableWords<T>(request.count) : 0);
  workspace.bytes = cutter.bytes();
  return workspace;
}

// This number of lines is one element for each thread of 256 blocks.
inline constexpr std::int64_t kMostLines = 8192;

// Fewer than 256 elements are not sampled: the band is then all keys.
inline Sample SampleOf(std::int64_t n, std::int64_t k) {
  using fedplug::topk::kLine;
  const std::int64_t lines = std::min(kMostLines, n / (16 * kLine));
  if (lines == 0) return {0, {0, 1}};
  fedplug::topk::SampleRanks ranks =
      fedplug::topk::RanksInSample(lines * kLine, std::min(k, n), n);
  ranks.upper = std::max<std::int64_t>(ranks.upper, 0);
  return {lines, ranks};
}

// SHAPE: reports[tensors]
template <typename T>
std::vector<Job<T>> JobsOf(const Request<T>& request, Workspace workspace,
                           TopKReport* reports) {
  const bool shared = request.sharing == Sharing::kOneForAll;
  std::vector<Job<T>> jobs;
  Scope scope = {};
  for (std::int64_t i = 0; i < request.count; ++i) {
    const TopKTensor<T>& tensor = request.tensors[i];
    if (!shared || i == 0) {
      const Sizes sizes = SizesOfScope(request, i);
      scope = {workspace.scopes++,
               nullptr,
               workspace.histograms,
               workspace.chunks,
               SampleOf(sizes.elements, tensor.k),
               static_cast<std::uint32_t>(std::min(tensor.k, sizes.elements)),
               shared ? request.row_splits + request.count : nullptr};
      workspace.histograms += kHistograms * kBins;
      workspace.chunks += MostBlocksOf(sizes);
    }
    jobs.push_back({tensor, scope, workspace.states + i, workspace.shortlisted,
                    workspace.shortlist, workspace.held_back,
                    workspace.distances, workspace.any_non_finite, reports + i,
                    shared ? request.row_splits + i : nullptr});
    workspace.shortlisted += TilesOf(tensor.n);
    workspace.shortlist += tensor.n;
    if (request.Scopes() > 1) continue;  // without a log
    workspace.held_back += TilesOf(tensor.n);
    workspace.distances += tensor.n;
  }
  return jobs;
}

// The words that a list reads on the device: its jobs, the first tile of each
// tensor, and the first element.
template <typename T>
std::vector<std::uint32_t> TableOf(const std::vector<Job<T>>& jobs) {
  const auto count = static_cast<std::int64_t>(jobs.size());
  std::vector<std::uint32_t> words(
      static_cast<std::size_t>(TableWords<T>(count)));
  static_assert(sizeof(Job<T>) % sizeof(words[0]) == 0);
  std::memcpy(words.data(), jobs.data(), jobs.size() * sizeof(Job<T>));
  std::uint32_t* const first_tile =
      words.data() + jobs.size() * sizeof(Job<T>) / sizeof(words[0]);
  std::uint32_t* const first_element = first_tile + jobs.size() + 1;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::int64_t n = jobs[i].tensor.n;
    first_tile[i + 1] = first_tile[i] + static_cast<std::uint32_t>(TilesOf(n));
    first_element[i + 1] = first_element[i] + static_cast<std::uint32_t>(n);
  }
  return words;
}

// The list behind a table in device memory.
template <typename T>
List<T> ListAt(std::uint32_t* table, const Request<T>& request) {
  const Sizes sizes = SizesOf(request, 0, request.count);
  const std::uint32_t* const first_tile =
      table + request.count * static_cast<std::int64_t>(sizeof(Job<T>) / 4);
  return {reinterpret_cast<const Job<T>*>(table),
          first_tile,
          first_tile + request.count + 1,
          static_cast<int>(request.count),
          static_cast<std::uint32_t>(sizes.tiles),
          static_cast<std::uint32_t>(sizes.elements)};
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_LISTS_H_
