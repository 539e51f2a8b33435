// Three stages of butterflies share a walk, because eight numbers fit into
// registers and a walk is limited by loads and stores.
#include "core/codes/rotated/hadamard_loops.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/base/float_bits.h"
#include "core/simd/loops.h"

#if FEDPLUG_SIMD_X86
#include "core/codes/rotated/hadamard_avx2.h"
#endif

namespace fedplug::hadamard_loops {
namespace {

template <typename T>
FEDPLUG_ALWAYS_INLINE void DivideLoop(std::int64_t n, T divisor, T* x,
                                      T* squares) {
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] /= divisor;
    squares[i] = x[i] * x[i];
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void AddLoop(const T* x, std::int64_t n, T* sums) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += x[i];
}

// x, with the sign changed if the lowest bit is set.
template <typename T>
FEDPLUG_ALWAYS_INLINE T Flipped(T x, std::uint32_t bit) {
  using Bits = FloatBitsOf<T>;
  Bits bits;
  std::memcpy(&bits, &x, sizeof(x));
  bits ^= Bits{bit} << (8 * sizeof(T) - 1);
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void FlipLoop(const std::uint32_t* words,
                                    std::int64_t first, std::int64_t n, T* x) {
  constexpr int kBits = 32;
  words += first / kBits;
  if (first % kBits != 0 || n % kBits != 0) {  // blocks of a few elements
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t place = first % kBits + i;
      x[i] = Flipped(x[i], words[place / kBits] >> (place % kBits));
    }
    return;
  }
  for (std::int64_t i = 0; i < n; i += kBits, ++words) {
    for (int bit = 0; bit < kBits; ++bit) {
      x[i + bit] = Flipped(x[i + bit], *words >> bit);
    }
  }
}

// y = sums and differences of x[kGroup], `kHalf` apart: a difference is made as
// a sum, with which it shares its bits.
template <int kHalf, typename T>
FEDPLUG_ALWAYS_INLINE void WithinGroup(const T* x, T* y) {
  for (int i = 0; i < kGroup; ++i) {
    y[i] = x[i ^ kHalf] + ((i & kHalf) != 0 ? -x[i] : x[i]);
  }
}

// Four stages among neighbours.
template <typename T>
FEDPLUG_ALWAYS_INLINE void WithinGroups(T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kGroup) {
    T even[kGroup];
    T odd[kGroup];
    WithinGroup<1>(x + i, odd);
    WithinGroup<2>(odd, even);
    WithinGroup<4>(even, odd);
    WithinGroup<8>(odd, x + i);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void OneStage(T* __restrict x0, T* __restrict x1,
                                    std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T left = x0[i];
    const T right = x1[i];
    x0[i] = left + right;
    x1[i] = left - right;
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void TwoStages(T* __restrict x0, T* __restrict x1,
                                     T* __restrict x2, T* __restrict x3,
                                     std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T y0 = x0[i] + x1[i];
    const T y1 = x0[i] - x1[i];
    const T y2 = x2[i] + x3[i];
    const T y3 = x2[i] - x3[i];
    x0[i] = y0 + y2;
    x1[i] = y1 + y3;
    x2[i] = y0 - y2;
    x3[i] = y1 - y3;
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void ThreeStages(T* __restrict x0, T* __restrict x1,
                                       T* __restrict x2, T* __restrict x3,
                                       T* __restrict x4, T* __restrict x5,
                                       T* __restrict x6, T* __restrict x7,
                                       std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T y0 = x0[i] + x1[i];
    const T y1 = x0[i] - x1[i];
    const T y2 = x2[i] + x3[i];
    const T y3 = x2[i] - x3[i];
    const T y4 = x4[i] + x5[i];
    const T y5 = x4[i] - x5[i];
    const T y6 = x6[i] + x7[i];
    const T y7 = x6[i] - x7[i];
    const T z0 = y0 + y2;
    const T z1 = y1 + y3;
    const T z2 = y0 - y2;
    const T z3 = y1 - y3;
    const T z4 = y4 + y6;
    const T z5 = y5 + y7;
    const T z6 = y4 - y6;
    const T z7 = y5 - y7;
    x0[i] = z0 + z4;
    x1[i] = z1 + z5;
    x2[i] = z2 + z6;
    x3[i] = z3 + z7;
    x4[i] = z0 - z4;
    x5[i] = z1 - z5;
    x6[i] = z2 - z6;
    x7[i] = z3 - z7;
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void AcrossGroups(T* x, std::int64_t n,
                                        std::int64_t half) {
  for (; 8 * half <= n; half *= 8) {
    for (T* at = x; at < x + n; at += 8 * half) {
      ThreeStages(at, at + half, at + 2 * half, at + 3 * half, at + 4 * half,
                  at + 5 * half, at + 6 * half, at + 7 * half, half);
    }
  }
  if (4 * half <= n) {
    for (T* at = x; at < x + n; at += 4 * half) {
      TwoStages(at, at + half, at + 2 * half, at + 3 * half, half);
    }
    half *= 4;
  }
  if (2 * half <= n) OneStage(x, x + half, half);
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void ButterfliesLoop(T* x, std::int64_t n,
                                           std::int64_t half) {
  if (half > 1 || n < kGroup) return AcrossGroups(x, n, half);
  WithinGroups(x, n);
  AcrossGroups(x, n, kGroup);
}

#if FEDPLUG_SIMD_X86
FEDPLUG_TARGET_AVX2 void ButterfliesAvx2(float* x, std::int64_t n,
                                         std::int64_t half) {
  if (half > 1 || n < kGroup) return AcrossGroups(x, n, half);
  avx2::WithinGroups(x, n);
  AcrossGroups(x, n, std::int64_t{kGroup});
}

FEDPLUG_TARGET_AVX2 void ButterfliesAvx2(double* x, std::int64_t n,
                                         std::int64_t half) {
  ButterfliesLoop(x, n, half);
}
#endif

template <typename T>
FEDPLUG_ALWAYS_INLINE void FoldLoop(T* x, std::int64_t n, std::int64_t left) {
  while (n > left) {
    n /= 2;
    for (std::int64_t i = 0; i < n; ++i) x[i] += x[n + i];
  }
}

// Counts the borders below a quotient by magnitude, as integers, which have the
// same order. For a quotient not above 0, a border at its magnitude counts too:
// those below the next number. Compilers emit no branch.
template <int kCount, typename T>
FEDPLUG_ALWAYS_INLINE void QuantizeLoop(T* __restrict x, std::int64_t n,
                                        T divisor, const Levels<T>& given,
                                        std::uint8_t* __restrict codes) {
  using Integer = std::make_signed_t<FloatBitsOf<T>>;
  constexpr Integer kSign = std::numeric_limits<Integer>::min();
  Integer levels[kCount];
  Integer borders[kCount];
  std::memcpy(levels, given.positive.data(), sizeof(levels));
  std::memcpy(borders, given.borders.data(), sizeof(borders));
  for (std::int64_t i = 0; i < n; ++i) {
    const T quotient = x[i] / divisor;
    Integer bits;
    std::memcpy(&bits, &quotient, sizeof(bits));
    const Integer negative = -static_cast<Integer>(bits <= 0);
    const Integer magnitude = (bits & ~kSign) - negative;
    Integer below = 0;
    Integer level = levels[0];
    for (int b = 0; b + 1 < kCount; ++b) {
      const Integer above = -static_cast<Integer>(magnitude > borders[b]);
      below -= above;
      level ^= above & (levels[b] ^ levels[b + 1]);
    }
    level ^= negative & kSign;
    T signed_level;
    std::memcpy(&signed_level, &level, sizeof(level));
    x[i] *= signed_level;
    codes[i] = static_cast<std::uint8_t>(kCount + (below ^ negative));
  }
}

#if FEDPLUG_SIMD_X86
FEDPLUG_TARGET_AVX2 void QuantizeEightAvx2(float* x, std::int64_t n,
                                           float divisor,
                                           const Levels<float>& levels,
                                           std::uint8_t* codes) {
  const std::int64_t whole = n / avx2::kLanes * avx2::kLanes;
  avx2::QuantizeEight(x, whole, divisor, levels, codes);
  QuantizeLoop<8>(x + whole, n - whole, divisor, levels, codes + whole);
}

FEDPLUG_TARGET_AVX2 void QuantizeEightAvx2(double* x, std::int64_t n,
                                           double divisor,
                                           const Levels<double>& levels,
                                           std::uint8_t* codes) {
  QuantizeLoop<8>(x, n, divisor, levels, codes);
}
#endif

template <typename T>
FEDPLUG_ALWAYS_INLINE void LookUpLoop(const std::uint8_t* __restrict codes,
                                      std::int64_t n, const T* __restrict table,
                                      T* __restrict x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = table[codes[i]];
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void ScaleLoop(std::int64_t n, T scale, T* x) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  for (std::int64_t i = 0; i < n; ++i) {
    const T product = x[i] * scale;
    const T not_above = product > kLargest ? kLargest : product;
    x[i] = not_above < -kLargest ? -kLargest : not_above;
  }
}

}  // namespace

template <typename T>
HadamardLoops<T> HadamardLoopsFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) {
    return {Avx2<DivideLoop<T>>,
            Avx2<AddLoop<T>>,
            Avx2<FlipLoop<T>>,
            ButterfliesAvx2,
            Avx2<FoldLoop<T>>,
            {Avx2<QuantizeLoop<1, T>>, Avx2<QuantizeLoop<2, T>>,
             Avx2<QuantizeLoop<4, T>>, QuantizeEightAvx2,
             Avx2<QuantizeLoop<16, T>>, Avx2<QuantizeLoop<32, T>>,
             Avx2<QuantizeLoop<64, T>>, Avx2<QuantizeLoop<128, T>>},
            Avx2<LookUpLoop<T>>,
            Avx2<ScaleLoop<T>>};
  }
#endif
  static_cast<void>(level);
  return {Baseline<DivideLoop<T>>,
          Baseline<AddLoop<T>>,
          Baseline<FlipLoop<T>>,
          Baseline<ButterfliesLoop<T>>,
          Baseline<FoldLoop<T>>,
          {Baseline<QuantizeLoop<1, T>>, Baseline<QuantizeLoop<2, T>>,
           Baseline<QuantizeLoop<4, T>>, Baseline<QuantizeLoop<8, T>>,
           Baseline<QuantizeLoop<16, T>>, Baseline<QuantizeLoop<32, T>>,
           Baseline<QuantizeLoop<64, T>>, Baseline<QuantizeLoop<128, T>>},
          Baseline<LookUpLoop<T>>,
          Baseline<ScaleLoop<T>>};
}

template HadamardLoops<float> HadamardLoopsFor(SimdLevel);
template HadamardLoops<double> HadamardLoopsFor(SimdLevel);

}  // namespace fedplug::hadamard_loops
