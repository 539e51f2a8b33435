// The matrix is computed in blocks in the first-level cache, regardless of
// rows. Blocks of a large matrix are written past the caches.
#include "core/low_rank.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <type_traits>

#include "core/base/float_environment.h"
#include "core/base/scratch.h"
#include "core/base/tiles.h"
#include "core/matrix/matrix_loops.h"
#include "core/simd/stream.h"

namespace fedplug {
namespace {

using value_loops::WideOf;

constexpr std::int64_t kBlock = 2048;
constexpr std::int64_t kSmallestShare = 1 << 15;

// State shared by all blocks.
template <typename T>
class Factors {
 public:
  using Wide = WideOf<T>;

  // `columns_of_q` are columns one after the other.
  Factors(const Wide* p, const Wide* columns_of_q, Wide scale,
          const MatrixShape& shape, SimdLevel level)
      : p_(p),
        q_(columns_of_q),
        scale_(scale),
        shape_(shape),
        loops_(matrix::MatrixLoopsFor<Wide>(level)),
        convert_(value_loops::ConvertLoopsFor<T>(level)) {}

  // Elements begin ... end of the flat matrix.
  // SHAPE: wide[end - begin], narrow[end - begin]; returns one of the two
  const T* Block(std::int64_t begin, std::int64_t end, Wide* wide,
                 T* narrow) const {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t row = at / shape_.columns;
      const std::int64_t stop = std::min(end, (row + 1) * shape_.columns);
      Part(row, at - row * shape_.columns, stop - at, wide + (at - begin));
      at = stop;
    }
    // `narrow` handles numbers too large for 16 bits.
    loops_.times_scale(scale_, std::numeric_limits<Wide>::max(), end - begin,
                       wide);
    if constexpr (std::is_same_v<T, Wide>) {
      return wide;
    } else {
      convert_.narrow(wide, end - begin, narrow);
      return narrow;
    }
  }

 private:
  // Elements column ... column + n of a row.
  void Part(std::int64_t row, std::int64_t column, std::int64_t n,
            Wide* total) const {
    const Wide* const p = p_ + row * shape_.rank;
    for (std::int64_t j = 0; j < shape_.rank; j += matrix::kRanksAtOnce) {
      const auto ranks =
          std::min<std::int64_t>(matrix::kRanksAtOnce, shape_.rank - j);
      const auto& outer = j == 0 ? loops_.outer : loops_.add_outer;
      outer[ranks](p + j, q_ + j * shape_.columns + column, shape_.columns, n,
                   total);
    }
  }

  const Wide* p_;
  const Wide* q_;
  Wide scale_;
  MatrixShape shape_;
  matrix::MatrixLoops<Wide> loops_;
  value_loops::ConvertLoops<T> convert_;
};

Status CheckShape(const MatrixShape& shape) {
  if (shape.rows >= 0 && shape.columns >= 0 && shape.rank >= 1) return {};
  return {StatusCode::kInvalidArgument,
          "the product of " + std::to_string(shape.rank) + " columns of " +
              std::to_string(shape.rows) + " and " +
              std::to_string(shape.columns) +
              " numbers: there must be a column, and no number is negative"};
}

// Calls finish(begin, n, block, past_the_caches) with all blocks.
template <typename T, typename Finish>
Status ForEachBlock(const WideOf<T>* p, const WideOf<T>* q, WideOf<T> scale,
                    const MatrixShape& shape, Parallel& parallel,
                    const Finish& finish) {
  using Wide = WideOf<T>;
  if (Status status = CheckShape(shape); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const ScratchLease scratch;
  auto* const columns =
      scratch->values.Reserve<Wide>(shape.rank * shape.columns);
  for (std::int64_t c = 0; c < shape.columns; ++c) {
    for (std::int64_t j = 0; j < shape.rank; ++j) {
      columns[j * shape.columns + c] = q[c * shape.rank + j];
    }
  }
  const Factors<T> factors(p, columns, scale, shape, level);
  const std::int64_t count = shape.rows * shape.columns;
  const std::int64_t blocks = (count + kBlock - 1) / kBlock;
  const int tiles = TileCount(count, kSmallestShare, parallel);
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    alignas(64) std::array<Wide, kBlock> wide;
    alignas(64) std::array<T, kBlock> narrow;
    const Range mine = TileOf(blocks, tiles, t);
    for (std::int64_t b = mine.begin; b < mine.end; ++b) {
      const std::int64_t begin = b * kBlock;
      const std::int64_t end = std::min(count, begin + kBlock);
      finish(begin, end - begin,
             factors.Block(begin, end, wide.data(), narrow.data()));
    }
    FenceStreamedStores();
  });
  return {};
}

template <typename T>
bool IsLarge(const MatrixShape& shape) {
  return shape.rows * shape.columns >=
         kStreamedBytes / static_cast<std::int64_t>(sizeof(T));
}

}  // namespace

template <typename T>
Status LowRankMatrix(const WideOf<T>* p, const WideOf<T>* q, WideOf<T> scale,
                     const MatrixShape& shape, Parallel& parallel, T* matrix) {
  const bool streams = IsLarge<T>(shape);
  return ForEachBlock<T>(p, q, scale, shape, parallel,
                         [&](std::int64_t at, std::int64_t n, const T* block) {
                           if (streams) {
                             StreamCopy(block, n, matrix + at);
                           } else {
                             std::copy_n(block, n, matrix + at);
                           }
                         });
}

template <typename T>
Status LowRankResidual(const T* a, const T* p, const T* q, T scale,
                       const MatrixShape& shape, Parallel& parallel,
                       T* residual) {
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const bool streams = IsLarge<T>(shape) && residual != a;
  const auto loops = matrix::ElementLoopsFor<T>(level);
  return ForEachBlock<T>(p, q, scale, shape, parallel,
                         [&](std::int64_t at, std::int64_t n, const T* block) {
                           if (!streams) {
                             return loops.subtract(a + at, block, n,
                                                   residual + at);
                           }
                           alignas(64) std::array<T, kBlock> rest;
                           loops.subtract(a + at, block, n, rest.data());
                           StreamCopy(rest.data(), n, residual + at);
                         });
}

#define FEDPLUG_INSTANTIATE(T)                                                 \
  template Status LowRankMatrix(const WideOf<T>*, const WideOf<T>*, WideOf<T>, \
                                const MatrixShape&, Parallel&, T*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

template Status LowRankResidual(const float*, const float*, const float*, float,
                                const MatrixShape&, Parallel&, float*);
template Status LowRankResidual(const double*, const double*, const double*,
                                double, const MatrixShape&, Parallel&, double*);

}  // namespace fedplug
