// Threads take whole blocks, which stay in the caches. The codes of a block are
// packed when all of them are known.
#include "core/rotated_code.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "core/base/bytes_for.h"
#include "core/base/float_bits.h"
#include "core/base/float_environment.h"
#include "core/base/scratch.h"
#include "core/base/tiles.h"
#include "core/codes/rotated/block.h"
#include "core/codes/rotated/levels.h"
#include "core/codes/values/level.h"
#include "core/codes/values/loops.h"
#include "core/random_numbers.h"

namespace fedplug {
namespace {

using value_loops::kChunk;
using value_loops::WideOf;

constexpr std::int64_t kSmallestShare = 1 << 14;  // elements
constexpr std::int64_t kBitsOfWord = 32;
constexpr std::int64_t kMostLevels = hadamard_loops::Levels<float>::kMost;

Status Refused(const std::string& what) {
  return {StatusCode::kInvalidArgument, "rotated code: " + what};
}

bool IsPowerOfTwo(std::int64_t number) {
  return number > 0 && (number & (number - 1)) == 0;
}

std::int64_t ScaleBytes(std::int64_t value_bytes) {
  return value_bytes == 8 ? 8 : 4;
}

// State shared by all blocks of a vector.
template <typename T>
struct RotatedJob {
  using Wide = WideOf<T>;

  RotatedJob(const RotatedCode& code, std::int64_t n, SimdLevel level)
      : size(code.block_size),
        count(n),
        blocks(BlocksOf(code, n)),
        bits(BitsOf(code)),
        levels(LevelsOf<Wide>(code)),
        loops(hadamard_loops::HadamardLoopsFor<Wide>(level)),
        convert(value_loops::ConvertLoopsFor<T>(level)),
        level_loops(value_loops::LevelLoopsFor<Wide>(level)),
        bit_loops(value_loops::BitLoopsFor(level)) {}

  std::int64_t size;
  std::int64_t count;
  std::int64_t blocks;
  int bits;
  hadamard_loops::Levels<Wide> levels;
  hadamard_loops::HadamardLoops<Wide> loops;
  value_loops::ConvertLoops<T> convert;
  value_loops::LevelLoops<Wide> level_loops;
  value_loops::BitLoops bit_loops;

  // The offset of the codes of all blocks.
  std::int64_t CodesAt() const {
    return blocks * static_cast<std::int64_t>(sizeof(Wide));
  }
};

// Calls block(b, RotatedBlock, codes, words) for all blocks. All memory is
// allocated first.
template <typename T, typename Block>
void ForEachBlock(const RotatedJob<T>& job, const RotatedCode& code,
                  Parallel& parallel, const Block& block) {
  using Wide = WideOf<T>;
  const KeepAwake awake(parallel);
  const int tiles = static_cast<int>(std::clamp<std::int64_t>(
      job.blocks, 1, TileCount(job.count, kSmallestShare, parallel)));
  const std::int64_t memory = RotatedBlock<Wide>::Memory(job.size);
  const std::int64_t word_count =
      (job.blocks * job.size + kBitsOfWord - 1) / kBitsOfWord;
  const ScratchLease scratch;
  auto* const numbers = scratch->values.Reserve<Wide>(tiles * memory);
  auto* const codes = scratch->keys.Reserve<std::uint8_t>(tiles * job.size);
  auto* const words = scratch->indices.Reserve<std::uint32_t>(word_count);
  DrawNumbers(static_cast<std::uint64_t>(code.first_seed),
              static_cast<std::uint64_t>(code.second_seed), word_count,
              parallel, words);
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    RotatedBlock<Wide> rotated(job.loops, job.size, numbers + t * memory);
    const Range mine = TileOf(job.blocks, tiles, t);
    for (std::int64_t b = mine.begin; b < mine.end; ++b) {
      block(b, rotated, codes + t * job.size, words);
    }
  });
}

// x[n] from values[first], first + 1 ... and zeros after the last of them.
template <typename T>
void Widen(const RotatedJob<T>& job, const T* values, std::int64_t first,
           std::int64_t n, WideOf<T>* x) {
  const std::int64_t there = std::clamp<std::int64_t>(job.count - first, 0, n);
  job.convert.widen(values + std::min(first, job.count), there, x);
  std::fill(x + there, x + n, WideOf<T>{0});
}

// The largest magnitude of a block, as a key.
template <typename T>
FloatBitsOf<WideOf<T>> LargestKey(const RotatedJob<T>& job, const T* values,
                                  std::int64_t first) {
  const std::int64_t end = std::min(job.count, first + job.size);
  if constexpr (std::is_same_v<T, WideOf<T>>) {
    return job.level_loops.largest(values + first, end - first);
  } else {
    FloatBitsOf<WideOf<T>> largest = 0;
    std::array<WideOf<T>, kChunk> wide;
    for (; first < end; first += kChunk) {
      const std::int64_t n = std::min(kChunk, end - first);
      job.convert.widen(values + first, n, wide.data());
      largest = std::max(largest, job.level_loops.largest(wide.data(), n));
    }
    return largest;
  }
}

// The codes of elements first, first + 1 ..., of which there are whole bytes
// unless all are in one block.
template <typename T>
void Pack(const RotatedJob<T>& job, const std::uint8_t* codes,
          std::int64_t first, std::uint8_t* data) {
  std::array<std::uint8_t, kChunk> some{};
  std::array<std::uint8_t, kChunk + value_loops::kPackedSlack> packed;
  std::uint8_t* to = data + job.CodesAt() + first * job.bits / 8;
  for (std::int64_t done = 0; done < job.size; done += kChunk) {
    const std::int64_t n = std::min(kChunk, job.size - done);
    const std::int64_t bytes = BytesFor(n * job.bits);
    std::copy_n(codes + done, n, some.data());
    job.bit_loops.pack(some.data(), n, job.bits, packed.data());
    to = std::copy_n(packed.data(), bytes, to);
  }
}

template <typename T>
void EncodeBlock(const RotatedJob<T>& job, const T* values, std::int64_t b,
                 RotatedBlock<WideOf<T>>& rotated, std::uint8_t* codes,
                 const std::uint32_t* words, std::uint8_t* data) {
  using Wide = WideOf<T>;
  const std::int64_t first = b * job.size;
  const auto key = LargestKey(job, values, first);
  Wide scale = std::numeric_limits<Wide>::quiet_NaN();
  if (key >= FloatTraits<Wide>::kInfinity) {
    std::fill_n(codes, job.size,
                static_cast<std::uint8_t>((1 << (job.bits - 1)) - 1));
  } else {
    Wide peak;
    std::memcpy(&peak, &key, sizeof(peak));
    const Wide squares =
        rotated.Rotate(peak == 0 ? Wide{1} : peak, words, first,
                       [&](std::int64_t begin, std::int64_t n, Wide* x) {
                         Widen(job, values, first + begin, n, x);
                       });
    const Wide norm = std::sqrt(squares);
    const Wide products = rotated.Quantize(norm == 0 ? Wide{1} : norm, job.bits,
                                           job.levels, codes);
    scale = products == 0 ? Wide{0} : squares / products * peak;
    scale = std::min(scale, std::numeric_limits<Wide>::max());
  }
  std::memcpy(data + b * static_cast<std::int64_t>(sizeof(scale)), &scale,
              sizeof(scale));
  Pack(job, codes, first, data);
}

template <typename W>
W ScaleAt(const std::uint8_t* data, std::int64_t block) {
  W scale;
  std::memcpy(&scale, data + block * static_cast<std::int64_t>(sizeof(scale)),
              sizeof(scale));
  return scale;
}

template <typename T>
void DecodeBlock(const RotatedJob<T>& job, const std::uint8_t* data,
                 const WideOf<T>* table, std::int64_t b,
                 RotatedBlock<WideOf<T>>& rotated, const std::uint32_t* words,
                 T* values) {
  using Wide = WideOf<T>;
  const std::int64_t first = b * job.size;
  const auto look_up = [&](std::int64_t begin, std::int64_t n, Wide* x) {
    std::array<std::uint8_t, kChunk> codes;
    std::array<std::uint8_t, kChunk + value_loops::kPackedSlack> packed;
    for (std::int64_t done = 0; done < n; done += kChunk) {
      const std::int64_t length = std::min(kChunk, n - done);
      const std::int64_t at = (first + begin + done) * job.bits / 8;
      std::copy_n(data + job.CodesAt() + at, BytesFor(length * job.bits),
                  packed.data());
      job.bit_loops.unpack(packed.data(), length, job.bits, codes.data());
      job.loops.look_up(codes.data(), length, table, x + done);
    }
  };
  rotated.RotateBack(ScaleAt<Wide>(data, b), words, first, look_up,
                     [&](std::int64_t begin, std::int64_t n, const Wide* x) {
                       const std::int64_t at = first + begin;
                       if (at >= job.count) return;
                       job.convert.narrow(x, std::min(n, job.count - at),
                                          values + at);
                     });
}

// Shorter blocks would begin within a byte.
bool AreWholeBytes(const RotatedCode& code, std::int64_t count) {
  return code.block_size % 8 == 0 || count <= code.block_size;
}

}  // namespace

Status CheckRotatedCode(const RotatedCode& code, std::int64_t count) {
  if (count < 0 || count > INT32_MAX) {
    return Refused("count = " + std::to_string(count) + " is not in [0, 2^31)");
  }
  if (!IsPowerOfTwo(code.block_size) ||
      code.block_size > kLargestRotatedBlock) {
    return Refused("block_size = " + std::to_string(code.block_size) +
                   " is not a power of two up to 2^20");
  }
  if (!AreWholeBytes(code, count)) {
    return Refused("block_size = " + std::to_string(code.block_size) +
                   " is less than 8, and count = " + std::to_string(count) +
                   " more than that");
  }
  const auto levels = static_cast<std::int64_t>(code.levels.size());
  if (!IsPowerOfTwo(levels) || levels > kMostLevels) {
    return Refused("there are " + std::to_string(levels) +
                   " positive levels, not a power of two up to 128");
  }
  double previous = 0;
  for (const double level : code.levels) {
    if (!(level > previous) || level > 1e6) {
      return Refused("the positive levels do not ascend from 0 to 1e6");
    }
    previous = level;
  }
  return {};
}

std::int64_t RotatedCodeBytes(const RotatedCode& code, std::int64_t count,
                              std::int64_t value_bytes) {
  const std::int64_t blocks = BlocksOf(code, count);
  return blocks * ScaleBytes(value_bytes) +
         BytesFor(blocks * code.block_size * BitsOf(code));
}

Status CheckRotatedBytes(std::int64_t bytes, std::int64_t count,
                         const RotatedCode& code, std::int64_t value_bytes) {
  if (Status status = CheckRotatedCode(code, count); !status.ok()) {
    return status;
  }
  const std::int64_t expected = RotatedCodeBytes(code, count, value_bytes);
  if (bytes == expected) return {};
  return {StatusCode::kDataLoss, "rotated code: there are " +
                                     std::to_string(bytes) + " bytes, not " +
                                     std::to_string(expected) + " as for " +
                                     std::to_string(count) + " values"};
}

template <typename T>
Status EncodeRotated(const T* values, std::int64_t count,
                     const RotatedCode& code, Parallel& parallel,
                     std::uint8_t* data) {
  if (Status status = CheckRotatedCode(code, count); !status.ok()) {
    return status;
  }
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const RotatedJob<T> job(code, count, level);
  ForEachBlock(job, code, parallel,
               [&](std::int64_t b, RotatedBlock<WideOf<T>>& rotated,
                   std::uint8_t* codes, const std::uint32_t* words) {
                 EncodeBlock(job, values, b, rotated, codes, words, data);
               });
  return {};
}

template <typename T>
Status CheckRotated(const std::uint8_t* data, std::int64_t bytes,
                    std::int64_t count, const RotatedCode& code,
                    double* bound) {
  using Wide = WideOf<T>;
  if (Status status = CheckRotatedBytes(bytes, count, code, sizeof(T));
      !status.ok()) {
    return status;
  }
  const std::int64_t blocks = BlocksOf(code, count);
  const std::int64_t used = blocks * code.block_size * BitsOf(code) % 8;
  if (used != 0 && data[bytes - 1] >> used != 0) {
    return {StatusCode::kDataLoss, "rotated code: unused bits are set"};
  }
  double largest = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const Wide scale = ScaleAt<Wide>(data, b);
    if (ToBits(scale) >= FloatTraits<Wide>::kInfinity) {
      return {StatusCode::kDataLoss, "rotated code: a scale is not valid"};
    }
    largest = std::max(largest, static_cast<double>(scale));
  }
  // An element is a sum of B levels; the roundings of its log2 B stages are
  // much less than the last factor.
  const double sum =
      static_cast<double>(code.block_size) * code.levels.back() * 1.001;
  // Rounding keeps the order.
  *bound = value_loops::Wide(value_loops::Rounded<T>(largest * sum));
  return {};
}

template <typename T>
Status DecodeRotated(const std::uint8_t* data, std::int64_t bytes,
                     std::int64_t count, const RotatedCode& code,
                     Parallel& parallel, T* values) {
  double bound;
  if (Status status = CheckRotated<T>(data, bytes, count, code, &bound);
      !status.ok()) {
    return status;
  }
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const RotatedJob<T> job(code, count, level);
  const auto table = TableOf(job.levels, job.bits);
  ForEachBlock(job, code, parallel,
               [&](std::int64_t b, RotatedBlock<WideOf<T>>& rotated,
                   std::uint8_t*, const std::uint32_t* words) {
                 DecodeBlock(job, data, table.data(), b, rotated, words,
                             values);
               });
  return {};
}

#define FEDPLUG_INSTANTIATE(T)                                                \
  template Status EncodeRotated(const T*, std::int64_t, const RotatedCode&,   \
                                Parallel&, std::uint8_t*);                    \
  template Status CheckRotated<T>(const std::uint8_t*, std::int64_t,          \
                                  std::int64_t, const RotatedCode&, double*); \
  template Status DecodeRotated(const std::uint8_t*, std::int64_t,            \
                                std::int64_t, const RotatedCode&, Parallel&,  \
                                T*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
