// The inner loops of the value codes, over a chunk of a tensor that stays in
// the first-level cache. Plain loops, which the compiler vectorises for every
// SIMD level, with equal results.
#ifndef FEDPLUG_CORE_CODES_VALUES_LOOPS_H_
#define FEDPLUG_CORE_CODES_VALUES_LOOPS_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/codes/values/level.h"
#include "core/simd/level.h"

namespace fedplug::value_loops {

// The most elements in a chunk.
inline constexpr std::int64_t kChunk = 1024;

// Packed levels are written and read eight bytes at a time: their buffers need
// this number of spare bytes.
inline constexpr std::int64_t kPackedSlack = 8;

// T is float or double.
template <typename T>
struct LevelLoops {
  // The largest magnitude as a key (see base/floats.h), which also shows whether
  // all are finite.
  FloatBitsOf<T> (*largest)(const T* x, std::int64_t n);

  // level + `top` for every x / scale, which must be in [-1, 1]: the level
  // `top` stands for the whole scale.
  // REQUIRES: scale > 0, 0 < top <= 127
  void (*nearest)(const T* x, std::int64_t n, T scale, int top,
                  std::uint8_t* levels);
  // level + `top` for every x times per_step, a power of two, which must be
  // below 2^22. Levels beyond `top` become that.
  void (*nearest_multiple)(const T* x, std::int64_t n, T per_step, int top,
                           std::uint8_t* levels);
  // `noise` are words of Philox, of which each is a number in [0, 1).
  void (*at_random)(const T* x, const std::uint32_t* noise, std::int64_t n,
                    T scale, int top, std::uint8_t* levels);
  // 1 where x >= 0, else 0.
  void (*signs)(const T* x, std::int64_t n, std::uint8_t* levels);

  // x = scale * ((level - top) / top)
  void (*times_scale)(const std::uint8_t* levels, std::int64_t n, int top,
                      T scale, T* x);
  // x = (level - top) * step, or the largest number if that is too large
  void (*times_step)(const std::uint8_t* levels, std::int64_t n, int top,
                     T step, T* x);
};

// The loops of a mean. T is float, double, Half or BFloat16.
template <typename T>
struct MeanLoops {
  // terms = |x| * share
  using Shares = void(const T* x, std::int64_t n, double share, double* terms);
  Shares* shares;
  // The same, added to the existing terms.
  Shares* add_shares;
  // Adds four stretches, at 0, near, far and far + near, in one walk: sums =
  // (terms + terms at near) + (terms at far + terms at far + near).
  void (*four_shares)(const T* x, std::int64_t near, std::int64_t far,
                      std::int64_t n, double share, double* sums);
  void (*add)(const double* terms, std::int64_t n, double* sums);
};

struct BitLoops {
  // Bits of every level, eight levels at a time. The first is in the lowest
  // bits. 1 <= bits <= 8.
  // SHAPE: levels[n rounded up to 8], packed[bits bytes for eight of them,
  //        + kPackedSlack]
  void (*pack)(const std::uint8_t* levels, std::int64_t n, int bits,
               std::uint8_t* packed);
  void (*unpack)(const std::uint8_t* packed, std::int64_t n, int bits,
                 std::uint8_t* levels);
};

// REQUIRES: IsSupported(level)
template <typename T>
LevelLoops<T> LevelLoopsFor(SimdLevel level);
template <typename T>
MeanLoops<T> MeanLoopsFor(SimdLevel level);
BitLoops BitLoopsFor(SimdLevel level);

// The inner loops of the casts between float and 16 bits, which also find
// values that are not finite. As in loops.h, each is compiled for every SIMD
// level, with equal results.

// Both return the largest key (see base/floats.h) of the floats. The 16-bit
// numbers are little-endian bytes, which need not be aligned.
struct CastLoops {
  // To nearest, ties to even. Numbers too large become the largest number, and
  // NaN is unspecified.
  // SHAPE: x[n], data[2 * n]
  std::uint32_t (*narrow)(const float* x, std::int64_t n, std::uint8_t* data);
  std::uint32_t (*widen)(const std::uint8_t* data, std::int64_t n, float* x);
};

// Narrow is Half or BFloat16. REQUIRES: IsSupported(level)
template <typename Narrow>
CastLoops CastLoopsFor(SimdLevel level);

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_VALUES_LOOPS_H_
