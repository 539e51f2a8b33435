// Residuals that are written over before all sums were seen: how a block notes
// them, and how a refused call gets them back. It is the log of
// core/topk/undo_notes.h, without room for residuals: an element whose distance
// does not fit is held back, so that residual_out has its residual until all
// sums were seen, and its sum after that.
#ifndef FEDPLUG_CUDA_TOPK_UNDO_H_
#define FEDPLUG_CUDA_TOPK_UNDO_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/topk/undo_notes.h"
#include "cuda/block.h"
#include "cuda/topk/job.h"
#include "cuda/topk/sums.h"

namespace fedplug::cuda::topk {

using fedplug::topk::UndoNotes;

// Whether residuals would be lost if the sums are written before all were seen.
template <typename T>
FEDPLUG_HOST_DEVICE bool IsInPlace(const TopKTensor<T>& tensor) {
  return tensor.residual_out == tensor.residual_in;
}

template <typename T>
FEDPLUG_HOST_DEVICE UndoNotes<T> NotesOf(const Job<T>& job) {
  return {job.distances, job.tensor.residual_out};
}

// Notes that elements of a tile are held back.
//
// THREADS:  any
template <typename T>
FEDPLUG_HOST_DEVICE void HoldBack(const Job<T>& job, const Tile& tile,
                                  std::uint32_t elements) {
  AtomicAdd(&job.held_back[tile.number], elements);
  AtomicMax(&job.scope.state->held_back, 1u);
}

// Writes the sums of a chunk that were held back.
//
// REQUIRES: all sums are finite
// COST:     where none of the tensor is, next to nothing. Otherwise reads 4
//           bytes a tile, and 2 bytes an element of those that have some
template <typename Block, typename T>
FEDPLUG_HOST_DEVICE void WriteHeldBack(const Block& block, const Job<T>& job,
                                       const Chunk& chunk) {
  if (job.scope.state->held_back == 0) return;
  std::uint32_t which = 0;
  static_assert(kMostTilesOfChunk <= 32);
  for (int t = 0; t < chunk.tiles; ++t) {
    if (job.held_back[chunk.first_tile + t] > 0) which |= 1u << t;
  }
  const TopKTensor<T>& tensor = job.tensor;
  for (; which != 0; which &= which - 1) {
    const std::uint32_t t = CountOnes(~which & (which - 1));
    const Tile tile = Tile::At(chunk.first_tile + t, tensor.n);
    block.Each([&](int thread) {
      const int left = tile.size - thread;
      const std::int64_t begin = tile.begin + thread;
      std::uint16_t distances[kItems];
      LoadItems(job.distances, begin, left, distances);
      ForItems(left, [&](int item) {
        if (!UndoNotes<T>::IsNone(distances[item])) return;
        const std::int64_t i = begin + item * kThreads;
        tensor.residual_out[i] = tensor.delta[i] + tensor.residual_out[i];
      });
    });
  }
}

// Restores every residual of the tile.
//
// COST: reads 2 + 2 * sizeof(T) bytes an element and writes sizeof(T)
template <typename Block, typename T>
FEDPLUG_HOST_DEVICE void Undo(const Block& block, const Job<T>& job,
                              const Tile& tile) {
  const TopKTensor<T>& tensor = job.tensor;
  const UndoNotes<T> notes = NotesOf(job);
  block.Each([&](int thread) {
    for (int place = thread; place < tile.size; place += kThreads) {
      const std::int64_t i = tile.begin + place;
      tensor.residual_out[i] =
          notes.Recall(i, tensor.residual_out[i], tensor.delta[i]);
    }
  });
}

}  // namespace fedplug::cuda::topk

#endif  // FEDPLUG_CUDA_TOPK_UNDO_H_
