// The inner loops of the rotated code, over stretches that stay in the
// first-level cache. Plain loops, which the compiler vectorises for every SIMD
// level, with equal results.
#ifndef FEDPLUG_CORE_CODES_ROTATED_HADAMARD_LOOPS_H_
#define FEDPLUG_CORE_CODES_ROTATED_HADAMARD_LOOPS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/simd/level.h"

namespace fedplug::hadamard_loops {

inline constexpr int kMostBits = 8;

// Neighbours that are transformed together, where there are as many.
inline constexpr int kGroup = 16;

// Levels symmetric about 0, by magnitude, and the numbers in the middle between
// two neighbours of them; T is float or double.
template <typename T>
struct Levels {
  static constexpr std::size_t kMost = 1 << (kMostBits - 1);

  std::array<T, kMost> positive{};
  std::array<T, kMost> borders{};  // between the positive ones
};

// T is float or double. Numbers of elements are powers of two unless said
// otherwise.
template <typename T>
struct HadamardLoops {
  // x /= divisor, squares = x * x; any n
  void (*divide)(std::int64_t n, T divisor, T* x, T* squares);
  // sums += x
  void (*add)(const T* x, std::int64_t n, T* sums);
  // Changes the sign of x[i] if bit (first + i) of the words is set.
  void (*flip)(const std::uint32_t* words, std::int64_t first, std::int64_t n,
               T* x);
  // Sums and differences of elements `half`, 2 half ... n / 2 apart, in this
  // order.
  void (*butterflies)(T* x, std::int64_t n, std::int64_t half);
  // Adds the right half to the left half, until `left` elements are left.
  void (*fold)(T* x, std::int64_t n, std::int64_t left);
  // By the bits of a code, less one: the codes of the levels nearest to
  // x / divisor (of two as near, the lower one); x becomes x times its level.
  void (*quantize[kMostBits])(T* x, std::int64_t n, T divisor,
                              const Levels<T>& levels, std::uint8_t* codes);
  // x = table[codes]; any n
  void (*look_up)(const std::uint8_t* codes, std::int64_t n, const T* table,
                  T* x);
  // x *= scale; numbers too large become the largest number.
  void (*scale)(std::int64_t n, T scale, T* x);
};

// REQUIRES: IsSupported(level)
template <typename T>
HadamardLoops<T> HadamardLoopsFor(SimdLevel level);

}  // namespace fedplug::hadamard_loops

#endif  // FEDPLUG_CORE_CODES_ROTATED_HADAMARD_LOOPS_H_
