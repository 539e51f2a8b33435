// The shortlist that a partition made, as the entries of a part of the tensor
// (entries.h).
#ifndef FEDPLUG_CUDA_TOPK_SHORTLIST_H_
#define FEDPLUG_CUDA_TOPK_SHORTLIST_H_

#include <cstdint>

#include "core/base/host_device.h"
#include "cuda/topk/entries.h"
#include "cuda/topk/job.h"

namespace fedplug::cuda::topk {

// The entries of some tiles, one behind the other, are numbered through.
struct ListedTiles {
  std::uint32_t begin[kMostTilesOfChunk + 1];  // the last: how many there are

  FEDPLUG_HOST_DEVICE int Total() const {
    return static_cast<int>(begin[kMostTilesOfChunk]);
  }

  // The tile of entry j.
  FEDPLUG_HOST_DEVICE int TileOf(int j) const {
    int tile = 0;
    for (int step = kMostTilesOfChunk / 2; step > 0; step /= 2) {
      if (begin[tile + step] <= static_cast<std::uint32_t>(j)) tile += step;
    }
    return tile;
  }

  // The index in the tensor of entry j, of a tile whose list and elements begin
  // at `start`.
  template <typename T>
  FEDPLUG_HOST_DEVICE std::int64_t IndexOf(const Job<T>& job, int j, int tile,
                                           std::int64_t start) const {
    const std::uint32_t number = static_cast<std::uint32_t>(j) - begin[tile];
    return start + job.shortlist[start + number];
  }
};

// Of a part whose pages are chunks.
struct ChunkEntries {
  ListedTiles tiles;

  template <typename Block, typename T>
  FEDPLUG_HOST_DEVICE void Open(const Block& block, const Job<T>& job,
                                const Chunk& chunk) {
    block.Each([&](int thread) {
      if (thread > kMostTilesOfChunk) return;
      std::uint32_t before = 0;
      for (int t = 0; t < thread && t < chunk.tiles; ++t) {
        before += job.shortlisted[chunk.first_tile + t];
      }
      tiles.begin[thread] = before;
    });
  }

  FEDPLUG_HOST_DEVICE int Total(const Chunk&) const { return tiles.Total(); }

  template <typename T>
  FEDPLUG_HOST_DEVICE Entry<T> At(const Job<T>& job, const Chunk& chunk,
                                  int j) const {
    const int tile = tiles.TileOf(j);
    const std::int64_t index =
        tiles.IndexOf(job, j, tile, (chunk.first_tile + tile) * kTile);
    return {index, job.tensor.residual_out[index]};
  }
};

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_SHORTLIST_H_
