// The steps of the rotated code (rotated_code.h). A block of values is a matrix
// whose rows fit into shared memory. A tile is a row, or for the stages across
// rows a strip of a few columns; sums over a block end in a step of their own.
#ifndef FEDPLUG_CUDA_ROTATED_CODE_STEPS_H_
#define FEDPLUG_CUDA_ROTATED_CODE_STEPS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/base/float_bits.h"
#include "core/base/host_device.h"
#include "core/base/philox.h"
#include "core/codes/rotated/hadamard_loops.h"
#include "core/codes/rotated/levels.h"
#include "core/codes/values/level.h"
#include "core/codes/values/pack_group.h"
#include "core/rotated_code.h"
#include "cuda/hadamard.h"
#include "cuda/packed_bits.h"
#include "cuda/unaligned.h"
#include "cuda/value_code_steps.h"
#include "cuda/value_decode.h"

namespace fedplug::cuda::rotated {

using hadamard::kThreads;
using value_loops::Wide;
using value_loops::WideOf;

inline constexpr int kLog2Row = 12;
inline constexpr int kLog2Word = 5;
inline constexpr int kMostSigns = 256;  // words of a tile

// Elements of a strip of W.
template <typename W>
inline constexpr int kLog2Strip = sizeof(W) == 8 ? 12 : 13;

// A part of a block that one block of threads transforms: `rows` times `width`
// elements, of which element (r, c) is number first + r * stride + c.
struct Part {
  std::int64_t first;
  int log2_stride;
  int log2_width;
  int rows;

  FEDPLUG_HOST_DEVICE int width() const { return 1 << log2_width; }
  FEDPLUG_HOST_DEVICE int size() const { return rows << log2_width; }

  // The number of element i of rows * width.
  FEDPLUG_HOST_DEVICE std::int64_t At(int i) const {
    const std::int64_t row = i >> log2_width;
    return first + (row << log2_stride) + (i & (width() - 1));
  }
};

// The matrix of every block, by the logarithms of its sizes.
struct Shape {
  std::int64_t blocks;
  int log2_block;
  int log2_columns;
  int log2_width;  // of a strip

  FEDPLUG_HOST_DEVICE int columns() const { return 1 << log2_columns; }
  FEDPLUG_HOST_DEVICE std::int64_t Rows() const {
    return blocks << (log2_block - log2_columns);
  }
  FEDPLUG_HOST_DEVICE std::int64_t Strips() const {
    return blocks << (log2_columns - log2_width);
  }
  FEDPLUG_HOST_DEVICE std::int64_t BlockOf(std::int64_t element) const {
    return element >> log2_block;
  }
  FEDPLUG_HOST_DEVICE Part Row(std::int64_t row) const {
    return {row << log2_columns, 0, log2_columns, 1};
  }
  FEDPLUG_HOST_DEVICE Part Strip(std::int64_t strip) const {
    const int log2_strips = log2_columns - log2_width;
    const std::int64_t block = strip >> log2_strips;
    const std::int64_t column = (strip - (block << log2_strips)) << log2_width;
    return {(block << log2_block) + column, log2_columns, log2_width,
            1 << (log2_block - log2_columns)};
  }
  // The place of the sum of column c of a strip among those of all blocks.
  FEDPLUG_HOST_DEVICE std::int64_t SumOf(const Part& strip, int c) const {
    const std::int64_t block = BlockOf(strip.first);
    return (block << log2_columns) + strip.first - (block << log2_block) + c;
  }
};

template <typename W>
Shape ShapeOf(const RotatedCode& code, std::int64_t count) {
  Shape shape{BlocksOf(code, count), 0, 0, 0};
  while (std::int64_t{1} << shape.log2_block < code.block_size) {
    ++shape.log2_block;
  }
  const auto smaller = [](int a, int b) { return a < b ? a : b; };
  shape.log2_columns = smaller(shape.log2_block, kLog2Row);
  shape.log2_width =
      smaller(shape.log2_columns,
              kLog2Strip<W> - (shape.log2_block - shape.log2_columns));
  return shape;
}

// The words of signs of a part; a row of it has at least one.
struct Signs {
  std::uint32_t words[kMostSigns];

  FEDPLUG_HOST_DEVICE static int Log2WordsOfRow(const Part& part) {
    return part.log2_width > kLog2Word ? part.log2_width - kLog2Word : 0;
  }

  FEDPLUG_HOST_DEVICE void Draw(int thread, const Philox& random,
                                const Part& part) {
    const int log2_words = Log2WordsOfRow(part);
    for (int i = thread; i < part.rows << log2_words; i += kThreads) {
      const int row = i >> log2_words;
      const int word = i - (row << log2_words);
      const std::int64_t at =
          (part.At(row << part.log2_width) >> kLog2Word) + word;
      words[i] = random.WordsOf(static_cast<std::uint64_t>(
          at / Philox::kWords))[static_cast<std::size_t>(at % Philox::kWords)];
    }
  }

  // x, with the sign of element i of the part changed if its bit is set.
  template <typename W>
  FEDPLUG_HOST_DEVICE W Applied(const Part& part, int i, W x) const {
    const int row = i >> part.log2_width;
    const int column = i - (row << part.log2_width);
    const std::uint32_t word =
        words[(row << Log2WordsOfRow(part)) + (column >> kLog2Word)];
    return ((word >> (part.At(i) & 31)) & 1) != 0 ? -x : x;
  }
};

// What the steps of an encoding share.
template <typename T>
struct Call {
  using W = WideOf<T>;

  const T* values;
  std::int64_t count;
  Shape shape;
  const values::KeyOf<T>* largest;  // magnitude of every block
  const Philox* random;
  W* rotated;  // all blocks, after the stages within rows
  W* sums;     // over every column, of squares and then of products
  W* squares;  // their sum in every block

  // The largest magnitude of a block; 0 for a block that is not finite.
  FEDPLUG_HOST_DEVICE W PeakOf(std::int64_t block) const {
    const auto key = static_cast<FloatBitsOf<T>>(largest[block]);
    if (key >= FloatTraits<T>::kInfinity) return 0;
    T peak;
    std::memcpy(&peak, &key, sizeof(peak));
    return Wide(peak);
  }

  FEDPLUG_HOST_DEVICE bool IsFinite(std::int64_t block) const {
    return largest[block] < FloatTraits<T>::kInfinity;
  }

  // Writes the elements of a part over their peak, or zeros.
  template <typename Write>
  FEDPLUG_HOST_DEVICE void Divided(int thread, const Part& part,
                                   const Write& write) const {
    const W peak = PeakOf(shape.BlockOf(part.first));
    for (int i = thread; i < part.size(); i += kThreads) {
      const std::int64_t at = part.At(i);
      write(i, peak == 0 || at >= count ? W{0} : Wide(values[at]) / peak);
    }
  }
};

// The sums of squares of every column.
template <typename T>
struct Squares {
  struct Shared {
    WideOf<T> x[1 << kLog2Strip<WideOf<T>>];
  };

  Call<T> call;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const { return call.shape.Strips(); }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    const Part strip = call.shape.Strip(tile);
    block.Each([&](int thread) {
      call.Divided(thread, strip,
                   [&](int i, WideOf<T> x) { shared.x[i] = x * x; });
    });
    hadamard::Fold(block, shared.x, strip.size(), strip.width());
    block.Each([&](int thread) {
      for (int c = thread; c < strip.width(); c += kThreads) {
        call.sums[call.shape.SumOf(strip, c)] = shared.x[c];
      }
    });
  }
};

// The sum over the columns of every block.
template <typename T>
struct BlockSum {
  struct Shared {
    WideOf<T> x[1 << kLog2Row];
  };

  Call<T> call;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const { return call.shape.blocks; }

  // Leaves the sum in shared.x[0].
  template <typename Block>
  FEDPLUG_HOST_DEVICE void Add(const Block& block, std::int64_t tile,
                               Shared& shared) const {
    const int columns = call.shape.columns();
    block.Each([&](int thread) {
      for (int c = thread; c < columns; c += kThreads) {
        shared.x[c] = call.sums[(tile << call.shape.log2_columns) + c];
      }
    });
    hadamard::Fold(block, shared.x, columns, 1);
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    Add(block, tile, shared);
    block.Each([&](int thread) {
      if (thread == 0) call.squares[tile] = shared.x[0];
    });
  }
};

// The signs and the stages within every row.
template <typename T>
struct RotateRow {
  struct Shared {
    WideOf<T> x[1 << kLog2Row];
    Signs signs;
  };

  Call<T> call;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const { return call.shape.Rows(); }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    const Part row = call.shape.Row(tile);
    block.Each([&](int thread) {
      const Philox random = *call.random;
      shared.signs.Draw(thread, random, row);
    });
    block.Each([&](int thread) {
      call.Divided(thread, row, [&](int i, WideOf<T> x) {
        shared.x[i] = shared.signs.Applied(row, i, x);
      });
    });
    hadamard::Butterflies(block, shared.x, row.size(), 1);
    block.Each([&](int thread) {
      for (int i = thread; i < row.size(); i += kThreads) {
        call.rotated[row.first + i] = shared.x[i];
      }
    });
  }
};

// The stages across rows, the codes, and the sums of products of every column.
template <typename T>
struct Quantize {
  using W = WideOf<T>;
  using Levels = hadamard_loops::Levels<W>;

  struct Shared {
    W x[1 << kLog2Strip<W>];
    W positive[Levels::kMost];
    W borders[Levels::kMost];
    alignas(8) std::uint8_t codes[1 << kLog2Strip<W>];
  };

  Call<T> call;
  int bits;
  Levels levels;
  std::uint8_t* codes;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const { return call.shape.Strips(); }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    const Part strip = call.shape.Strip(tile);
    const int size = strip.size();
    block.Each([&](int thread) {
      // The last border is not one, and is never compared.
      for (int i = thread; i < 1 << (bits - 1); i += kThreads) {
        const auto at = static_cast<std::size_t>(i);
        shared.positive[i] = levels.positive[at];
        shared.borders[i] = levels.borders[at];
      }
      for (int i = thread; i < size; i += kThreads) {
        shared.x[i] = call.rotated[strip.At(i)];
      }
    });
    hadamard::Butterflies(block, shared.x, size, strip.width());
    block.Each([&](int thread) {
      const W root = std::sqrt(call.squares[call.shape.BlockOf(strip.first)]);
      const W norm = root == 0 ? W{1} : root;
      for (int i = thread; i < size; i += kThreads) {
        W* const x = shared.x + i;
        shared.codes[i] = CodeOf(*x / norm, shared, x);
      }
      for (int i = size + thread; i < 8; i += kThreads) shared.codes[i] = 0;
    });
    block.Each([&](int thread) {
      for (int i = 8 * thread; i < size; i += 8 * kThreads) {
        Pack(shared.codes + i, size, strip.At(i));
      }
    });
    hadamard::Fold(block, shared.x, size, strip.width());
    block.Each([&](int thread) {
      for (int c = thread; c < strip.width(); c += kThreads) {
        call.sums[call.shape.SumOf(strip, c)] = shared.x[c];
      }
    });
  }

  // The number of the level nearest to a quotient, by which *x is multiplied;
  // of two as near, the lower one (core/codes/rotated/hadamard_loops.cc).
  FEDPLUG_HOST_DEVICE std::uint8_t CodeOf(W quotient, const Shared& shared,
                                          W* x) const {
    const bool negative = !(quotient > 0);
    const W magnitude = negative ? -quotient : quotient;
    int below = 0;
    for (int step = 1 << (bits - 1) >> 1; step > 0; step /= 2) {
      const W border = shared.borders[below + step - 1];
      if (magnitude > border || (negative && magnitude == border)) {
        below += step;
      }
    }
    const W level = shared.positive[below];
    *x *= negative ? -level : level;
    const int middle = 1 << (bits - 1);
    return static_cast<std::uint8_t>(negative ? middle - 1 - below
                                              : middle + below);
  }

  // The codes of eight elements from `element` on, or of all of a block.
  FEDPLUG_HOST_DEVICE void Pack(const std::uint8_t* from, int size,
                                std::int64_t element) const {
    std::uint64_t word;
    std::memcpy(&word, from, sizeof(word));
    word = bits == 1 ? value_loops::PushBitsTogether(word)
                     : value_loops::PushTogether(word, bits);
    const int bytes = size < 8 ? (size * bits + 7) / 8 : bits;
    std::uint8_t* const to = codes + element / 8 * bits;
    for (int i = 0; i < bytes; ++i) {
      to[i] = static_cast<std::uint8_t>(word >> (8 * i));
    }
  }
};

// The scale of every block.
template <typename T>
struct WriteScale {
  using Shared = typename BlockSum<T>::Shared;

  BlockSum<T> products;
  std::uint8_t* scales;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const { return products.Tiles(); }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    using W = WideOf<T>;
    products.Add(block, tile, shared);
    block.Each([&](int thread) {
      if (thread != 0) return;
      constexpr W kLargest = std::numeric_limits<W>::max();
      const Call<T>& call = products.call;
      W scale = std::numeric_limits<W>::quiet_NaN();
      if (call.IsFinite(tile)) {
        const W product = shared.x[0];
        scale = product == 0 ? W{0}
                             : call.squares[tile] / product * call.PeakOf(tile);
        scale = scale > kLargest ? kLargest : scale;
      }
      StoreNumber(scale, scales + tile * static_cast<std::int64_t>(sizeof(W)));
    });
  }
};

// The levels of the codes, after the stages within every row. W is float or
// double.
template <typename W>
struct LookUpRow {
  struct Shared {
    W x[1 << kLog2Row];
    LevelTable<W> table;
  };

  Shape shape;
  const std::uint8_t* codes;
  int bits;
  LevelTable<W> table;
  W* rotated;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const { return shape.Rows(); }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    const Part row = shape.Row(tile);
    block.Each([&](int thread) {
      for (int i = thread; i < 1 << bits; i += kThreads) {
        const auto at = static_cast<std::size_t>(i);
        shared.table[at] = table[at];
      }
    });
    block.Each([&](int thread) {
      for (int i = thread; i < row.size(); i += kThreads) {
        shared.x[i] = shared.table[Unpacked(codes, row.first + i, bits)];
      }
    });
    hadamard::Butterflies(block, shared.x, row.size(), 1);
    block.Each([&](int thread) {
      for (int i = thread; i < row.size(); i += kThreads) {
        rotated[row.first + i] = shared.x[i];
      }
    });
  }
};

// The stages across rows, the scale and the signs; times a factor.
template <typename T, typename Out>
struct RotateBack {
  using W = WideOf<T>;

  struct Shared {
    W x[1 << kLog2Strip<W>];
    Signs signs;
  };

  Shape shape;
  Philox random;
  const W* rotated;
  const std::uint8_t* scales;
  std::int64_t count;
  WideOf<Out> factor;
  Out* out;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const { return shape.Strips(); }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    const Part strip = shape.Strip(tile);
    block.Each([&](int thread) {
      shared.signs.Draw(thread, random, strip);
      for (int i = thread; i < strip.size(); i += kThreads) {
        shared.x[i] = rotated[strip.At(i)];
      }
    });
    hadamard::Butterflies(block, shared.x, strip.size(), strip.width());
    block.Each([&](int thread) {
      const std::int64_t number = shape.BlockOf(strip.first);
      const W scale =
          LoadNumber<W>(scales + number * static_cast<std::int64_t>(sizeof(W)));
      for (int i = thread; i < strip.size(); i += kThreads) {
        const std::int64_t at = strip.At(i);
        if (at >= count) continue;
        const W x = Bounded(shared.x[i] * scale);
        out[at] = Multiplied<Out>(
            factor, value_loops::Rounded<T>(shared.signs.Applied(strip, i, x)));
      }
    });
  }

  FEDPLUG_HOST_DEVICE static W Bounded(W x) {
    constexpr W kLargest = std::numeric_limits<W>::max();
    x = x > kLargest ? kLargest : x;
    return x < -kLargest ? -kLargest : x;
  }
};

}  // namespace fedplug::cuda::rotated

#endif  // FEDPLUG_CUDA_ROTATED_CODE_STEPS_H_
