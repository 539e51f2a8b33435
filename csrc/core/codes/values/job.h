// The shared state of coding one tensor, and the walk over its values: units
// for threads, chunks for the cache, runs with one scale.
#ifndef FEDPLUG_CORE_CODES_VALUES_JOB_H_
#define FEDPLUG_CORE_CODES_VALUES_JOB_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/codes/values/layout.h"
#include "core/codes/values/level.h"
#include "core/codes/values/loops.h"
#include "core/philox/words.h"
#include "core/value_code.h"

namespace fedplug {

// State shared by the loops over one tensor.
template <typename T>
struct Job {
  using Wide = value_loops::WideOf<T>;

  Job(const ValueCode& c, std::int64_t n, SimdLevel level)
      : code(c),
        count(n),
        layout(LayoutOf(c, n, sizeof(T))),
        simd(level),
        level_loops(value_loops::LevelLoopsFor<Wide>(level)),
        bit_loops(value_loops::BitLoopsFor(level)),
        noise(philox::WordsLoopFor(level)),
        dither(value_loops::DitherLoopsFor(level)) {
    if constexpr (sizeof(T) == 2) cast = value_loops::CastLoopsFor<T>(level);
  }

  ValueCode code;
  std::int64_t count;
  ValueLayout layout;
  SimdLevel simd;
  value_loops::LevelLoops<Wide> level_loops;
  value_loops::BitLoops bit_loops;
  philox::WordsLoop* noise;
  value_loops::DitherLoops dither;
  value_loops::CastLoops cast{};  // of 16-bit values
};

template <typename T>
using WideChunk = std::array<value_loops::WideOf<T>, value_loops::kChunk>;

template <typename T>
std::int16_t ReadExponent(const Job<T>& job, const std::uint8_t* data,
                          std::int64_t block) {
  std::int16_t exponent;
  std::memcpy(&exponent,
              data + job.layout.header_bytes + block * job.layout.scale_bytes,
              sizeof(exponent));
  return exponent;
}

// A scale, or the step of kBfp.
template <typename T>
value_loops::WideOf<T> ReadScale(const Job<T>& job, const std::uint8_t* data,
                                 std::int64_t block) {
  if (job.code.form == ValueForm::kBfp) {
    return static_cast<value_loops::WideOf<T>>(
        PowerOfTwo(ReadExponent(job, data, block)));
  }
  T scale;
  std::memcpy(&scale,
              data + job.layout.header_bytes + block * job.layout.scale_bytes,
              sizeof(T));
  return value_loops::Wide(scale);
}

// The exponent of the step of kBfp.
template <typename T>
void WriteScale(const Job<T>& job, value_loops::WideOf<T> wide,
                std::int64_t block, std::uint8_t* data) {
  std::uint8_t* const to =
      data + job.layout.header_bytes + block * job.layout.scale_bytes;
  if (job.code.form == ValueForm::kBfp) {
    const auto exponent = static_cast<std::int16_t>(
        StepExponentOf<T>(static_cast<double>(wide), job.code.bits));
    std::memcpy(to, &exponent, sizeof(exponent));
    return;
  }
  const T scale = value_loops::Rounded<T>(wide);
  std::memcpy(to, &scale, sizeof(T));
}

// Number of values below which waking a thread costs more than it saves.
inline constexpr std::int64_t kSmallestShare = 1 << 15;

// Calls unit(first, n) for units of `size` until one fails. Returns whether all
// succeeded.
template <typename Unit>
bool ForEachUnit(std::int64_t count, std::int64_t size, Parallel& parallel,
                 const Unit& unit) {
  const std::int64_t units = (count + size - 1) / size;
  const int tiles = static_cast<int>(
      std::min<std::int64_t>(std::max<std::int64_t>(units, 1),
                             TileCount(count, kSmallestShare, parallel)));
  std::atomic<bool> good{true};
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range mine = TileOf(units, tiles, t);
    for (std::int64_t u = mine.begin; u < mine.end && good; ++u) {
      const std::int64_t first = u * size;
      if (!unit(first, std::min(size, count - first))) good = false;
    }
  });
  return good;
}

// Calls chunk(first, n) for the chunks of a unit until one fails.
template <typename Chunk>
bool ForEachChunk(std::int64_t first, std::int64_t n, const Chunk& chunk) {
  for (std::int64_t at = first; at < first + n; at += value_loops::kChunk) {
    if (!chunk(at, std::min(value_loops::kChunk, first + n - at))) {
      return false;
    }
  }
  return true;
}

// Calls run(i, n, scale) for the runs of a chunk that share a scale; i counts
// from the first value of the chunk.
template <typename T, typename Run>
void ForEachRun(const Job<T>& job, const std::uint8_t* data, std::int64_t first,
                std::int64_t n, const Run& run) {
  const std::int64_t block_size = job.layout.block;
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t block = (first + i) / block_size;
    const std::int64_t end = std::min(n, (block + 1) * block_size - first);
    run(i, end - i, ReadScale(job, data, block));
    i = end;
  }
}

template <typename Wide>
bool IsFiniteKey(FloatBitsOf<Wide> key) {
  return key < FloatTraits<Wide>::kInfinity;
}

template <typename Wide>
Wide FromKey(FloatBitsOf<Wide> key) {
  Wide value;
  std::memcpy(&value, &key, sizeof(value));
  return value;
}

// values[n], n <= kChunk, in the arithmetic's type: themselves, or a copy.
template <typename T>
const value_loops::WideOf<T>* Widened(const Job<T>& job, const T* values,
                                      std::int64_t n, WideChunk<T>* staging) {
  if constexpr (std::is_same_v<T, value_loops::WideOf<T>>) {
    return values;
  } else {
    job.cast.widen(reinterpret_cast<const std::uint8_t*>(values), n,
                   staging->data());
    return staging->data();
  }
}

// The inverse: to nearest, ties to even, and too large a number to the largest.
template <typename T>
void NarrowTo(const Job<T>& job, const value_loops::WideOf<T>* wide,
              std::int64_t n, T* values) {
  if constexpr (std::is_same_v<T, value_loops::WideOf<T>>) {
    std::copy_n(wide, n, values);
  } else {
    job.cast.narrow(wide, n, reinterpret_cast<std::uint8_t*>(values));
  }
}

// The key of the largest magnitude of values[n].
template <typename T>
FloatBitsOf<value_loops::WideOf<T>> LargestKey(const Job<T>& job,
                                               const T* values,
                                               std::int64_t n) {
  WideChunk<T> staging;
  FloatBitsOf<value_loops::WideOf<T>> largest = 0;
  for (std::int64_t at = 0; at < n; at += value_loops::kChunk) {
    const std::int64_t length = std::min(value_loops::kChunk, n - at);
    const auto* const wide = Widened(job, values + at, length, &staging);
    largest = std::max(largest, job.level_loops.largest(wide, length));
  }
  return largest;
}

// The largest of keys that threads find. Wide is float or double.
template <typename Wide>
class LargestOfThreads {
 public:
  // THREADS: any
  void Add(FloatBitsOf<Wide> key) {
    auto seen = largest_.load();
    while (key > seen && !largest_.compare_exchange_weak(seen, key)) {
    }
  }
  FloatBitsOf<Wide> key() const { return largest_; }

 private:
  std::atomic<FloatBitsOf<Wide>> largest_{0};
};

// Where decoded values go: to `values`, or only their largest magnitude.
template <typename T>
struct Decoded {
  using Wide = value_loops::WideOf<T>;

  T* values;
  LargestOfThreads<Wide>* largest;  // where `values` is null

  // REQUIRES: n <= kChunk
  void Put(const Job<T>& job, const Wide* wide, std::int64_t first,
           std::int64_t n) const {
    if (values != nullptr) return NarrowTo(job, wide, n, values + first);
    largest->Add(job.level_loops.largest(wide, n));
  }
};

// The key of the largest magnitude of all values, which threads share.
template <typename T>
FloatBitsOf<value_loops::WideOf<T>> LargestKeyOfAll(const Job<T>& job,
                                                    const T* values,
                                                    Parallel& parallel) {
  LargestOfThreads<value_loops::WideOf<T>> largest;
  ForEachUnit(job.count, kSmallestShare, parallel,
              [&](std::int64_t first, std::int64_t n) {
                largest.Add(LargestKey(job, values + first, n));
                return true;
              });
  return largest.key();
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_VALUES_JOB_H_
