// The matrix is computed in blocks in the first-level cache, regardless of
// rows. Blocks of a large matrix are written past the caches.
#include "core/low_rank.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "core/base/parallel.h"
#include "core/base/scratch.h"
#include "core/matrix/matrix_loops.h"
#include "core/simd/stream.h"

namespace fedplug {
namespace {

constexpr std::int64_t kBlock = 2048;
constexpr std::int64_t kSmallestShare = 1 << 15;

Status CheckShape(const MatrixShape& shape) {
  if (shape.rows >= 0 && shape.columns >= 0 && shape.rank >= 1) return {};
  return {StatusCode::kInvalidArgument,
          "the product of " + std::to_string(shape.rank) + " columns of " +
              std::to_string(shape.rows) + " and " +
              std::to_string(shape.columns) +
              " numbers: there must be a column, and no number is negative"};
}

}  // namespace

template <typename T>
Status LowRankMatrix(const T* p, const T* q, const MatrixShape& shape,
                     Parallel& parallel, T* matrix) {
  if (Status status = CheckShape(shape); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const ScratchLease scratch;
  auto* const columns = scratch->values.Reserve<T>(shape.rank * shape.columns);
  for (std::int64_t c = 0; c < shape.columns; ++c) {
    for (std::int64_t j = 0; j < shape.rank; ++j) {
      columns[j * shape.columns + c] = q[c * shape.rank + j];
    }
  }
  const auto loops = matrix::MatrixLoopsFor<T>(level);
  // Elements begin ... end of the flat matrix.
  const auto compute = [&](std::int64_t begin, std::int64_t end, T* block) {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t row = at / shape.columns;
      const std::int64_t stop = std::min(end, (row + 1) * shape.columns);
      const T* const vectors = columns + (at - row * shape.columns);
      for (std::int64_t j = 0; j < shape.rank; j += matrix::kRanksAtOnce) {
        const auto ranks =
            std::min<std::int64_t>(matrix::kRanksAtOnce, shape.rank - j);
        const auto& outer = j == 0 ? loops.outer : loops.add_outer;
        outer[ranks](p + row * shape.rank + j, vectors + j * shape.columns,
                     shape.columns, stop - at, block + (at - begin));
      }
      at = stop;
    }
    loops.limit(std::numeric_limits<T>::max(), end - begin, block);
  };
  const std::int64_t count = shape.rows * shape.columns;
  const std::int64_t blocks = (count + kBlock - 1) / kBlock;
  const bool streams =
      count >= kStreamedBytes / static_cast<std::int64_t>(sizeof(T));
  const int tiles = TileCount(count, kSmallestShare, parallel);
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    alignas(64) std::array<T, kBlock> block;
    const Range mine = TileOf(blocks, tiles, t);
    for (std::int64_t b = mine.begin; b < mine.end; ++b) {
      const std::int64_t begin = b * kBlock;
      const std::int64_t end = std::min(count, begin + kBlock);
      compute(begin, end, streams ? block.data() : matrix + begin);
      if (streams) StreamCopy(block.data(), end - begin, matrix + begin);
    }
    FenceStreamedStores();
  });
  return {};
}

#define FEDPLUG_INSTANTIATE(T)                                          \
  template Status LowRankMatrix(const T*, const T*, const MatrixShape&, \
                                Parallel&, T*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
