// Plain loops, which the compiler vectorises. binary16 uses the processor's
// instructions.
#include "core/codes/values/loops.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/floats.h"
#include "core/codes/values/level.h"
#include "core/simd/loops.h"

#if FEDPLUG_SIMD_X86
#include <immintrin.h>
#endif

namespace fedplug::value_loops {
namespace {

// As signed integers, which every instruction set can compare: a key has no
// sign bit.
FEDPLUG_ALWAYS_INLINE std::int32_t SignedKey(float x) {
  return static_cast<std::int32_t>(MagnitudeKey(x));
}

template <typename Narrow>
FEDPLUG_ALWAYS_INLINE std::uint32_t NarrowLoop(const float* x, std::int64_t n,
                                               std::uint8_t* data) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t key = SignedKey(x[i]);
    largest = key > largest ? key : largest;
    const std::uint16_t bits = FiniteBits<Narrow>(x[i]);
    std::memcpy(data + 2 * i, &bits, sizeof(bits));
  }
  return static_cast<std::uint32_t>(largest);
}

template <typename Narrow>
FEDPLUG_ALWAYS_INLINE std::uint32_t WidenLoop(const std::uint8_t* data,
                                              std::int64_t n, float* x) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    Narrow narrow;
    std::memcpy(&narrow, data + 2 * i, sizeof(narrow));
    x[i] = ToFloat(narrow);
    const std::int32_t key = SignedKey(x[i]);
    largest = key > largest ? key : largest;
  }
  return static_cast<std::uint32_t>(largest);
}

#if FEDPLUG_SIMD_X86
constexpr std::int64_t kLanes = 8;

FEDPLUG_TARGET_AVX2 inline std::uint32_t LargestOf(__m256i keys) {
  alignas(32) std::uint32_t lanes[kLanes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), keys);
  std::uint32_t largest = 0;
  for (const std::uint32_t key : lanes) largest = key > largest ? key : largest;
  return largest;
}

FEDPLUG_TARGET_AVX2 inline __m256i KeysOf(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x),
                          _mm256_set1_epi32(0x7fffffff));
}

FEDPLUG_TARGET_AVX2 std::uint32_t NarrowToHalfs(const float* x, std::int64_t n,
                                                std::uint8_t* data) {
  const __m128i magnitude = _mm_set1_epi16(0x7fff);
  const __m128i infinity = _mm_set1_epi16(0x7c00);
  __m256i largest = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 values = _mm256_loadu_ps(x + i);
    largest = _mm256_max_epi32(largest, KeysOf(values));
    const __m128i halfs = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
    const __m128i infinite =
        _mm_cmpeq_epi16(_mm_and_si128(halfs, magnitude), infinity);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(data + 2 * i),
                     _mm_add_epi16(halfs, infinite));
  }
  const std::uint32_t rest = NarrowLoop<Half>(x + i, n - i, data + 2 * i);
  return rest > LargestOf(largest) ? rest : LargestOf(largest);
}

FEDPLUG_TARGET_AVX2 std::uint32_t WidenHalfs(const std::uint8_t* data,
                                             std::int64_t n, float* x) {
  __m256i largest = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 values = _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 2 * i)));
    largest = _mm256_max_epi32(largest, KeysOf(values));
    _mm256_storeu_ps(x + i, values);
  }
  const std::uint32_t rest = WidenLoop<Half>(data + 2 * i, n - i, x + i);
  return rest > LargestOf(largest) ? rest : LargestOf(largest);
}
#endif

}  // namespace

template <>
CastLoops CastLoopsFor<Half>([[maybe_unused]] SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level != SimdLevel::kBaseline) return {NarrowToHalfs, WidenHalfs};
#endif
  return {LoopFor<NarrowLoop<Half>>(level), LoopFor<WidenLoop<Half>>(level)};
}

template <>
CastLoops CastLoopsFor<BFloat16>(SimdLevel level) {
  return {LoopFor<NarrowLoop<BFloat16>>(level),
          LoopFor<WidenLoop<BFloat16>>(level)};
}

// Every loop is written once, and inlined into one function for the baseline
// and one for AVX2, which is limited by memory.

namespace {

template <typename T>
using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <typename T>
FEDPLUG_ALWAYS_INLINE FloatBitsOf<T> LargestLoop(const T* x, std::int64_t n) {
  // As signed integers, which every instruction set can compare: a key has no
  // sign bit.
  Integer<T> largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto key = static_cast<Integer<T>>(MagnitudeKey(x[i]));
    largest = key > largest ? key : largest;
  }
  return static_cast<FloatBitsOf<T>>(largest);
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void NearestLoop(const T* x, std::int64_t n, T scale,
                                       int top, std::uint8_t* levels) {
  for (std::int64_t i = 0; i < n; ++i) {
    levels[i] = NearestLevel(x[i], scale, top);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void NearestMultipleLoop(const T* x, std::int64_t n,
                                               T per_step, int top,
                                               std::uint8_t* levels) {
  for (std::int64_t i = 0; i < n; ++i) {
    levels[i] = NearestMultipleLevel(x[i], per_step, top);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void AtRandomLoop(const T* x, const std::uint32_t* noise,
                                        std::int64_t n, T scale, int top,
                                        std::uint8_t* levels) {
  for (std::int64_t i = 0; i < n; ++i) {
    levels[i] = LevelAtRandom(x[i], noise[i], scale, top);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void SignsLoop(const T* x, std::int64_t n,
                                     std::uint8_t* levels) {
  for (std::int64_t i = 0; i < n; ++i) levels[i] = SignLevel(x[i]);
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void TimesScaleLoop(const std::uint8_t* levels,
                                          std::int64_t n, int top, T scale,
                                          T* x) {
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = TimesScale(levels[i], top, scale);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void TimesStepLoop(const std::uint8_t* levels,
                                         std::int64_t n, int top, T step,
                                         T* x) {
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = TimesStep(levels[i], top, step);
  }
}

template <typename T, bool kAdd>
FEDPLUG_ALWAYS_INLINE void SharesLoop(const T* x, std::int64_t n, double share,
                                      double* terms) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double term = Share(x[i], share);
    terms[i] = kAdd ? terms[i] + term : term;
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void FourSharesLoop(const T* x, std::int64_t near,
                                          std::int64_t far, std::int64_t n,
                                          double share, double* sums) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto term = [=](std::int64_t j) { return Share(x[j], share); };
    sums[i] =
        (term(i) + term(i + near)) + (term(i + far) + term(i + far + near));
  }
}

FEDPLUG_ALWAYS_INLINE void AddLoop(const double* terms, std::int64_t n,
                                   double* sums) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += terms[i];
}

FEDPLUG_ALWAYS_INLINE std::uint64_t LowBits(int count) {
  return (std::uint64_t{1} << count) - 1;
}

// The inverse of PushEachTogether.
template <typename Words>
FEDPLUG_ALWAYS_INLINE void PullEachApart(int bits, Words* words) {
  Words x = *words;
  const std::uint64_t four = LowBits(4 * bits);
  x = (x & four) | ((x & (four << 4 * bits)) << (32 - 4 * bits));
  const std::uint64_t two = LowBits(2 * bits) * 0x0000000100000001u;
  x = (x & two) | ((x & (two << 2 * bits)) << (16 - 2 * bits));
  const std::uint64_t one = LowBits(bits) * 0x0001000100010001u;
  *words = (x & one) | ((x & (one << bits)) << (8 - bits));
}

// Four words of eight levels. It is a type, as Clang makes no vectors of a loop
// of words.
using FourWords = std::uint64_t __attribute__((vector_size(32)));

// Packs as many levels as fill Words, and returns their number.
template <typename Words>
FEDPLUG_ALWAYS_INLINE std::int64_t PackWords(const std::uint8_t* levels,
                                             std::int64_t n, int bits,
                                             std::uint8_t* packed) {
  constexpr std::int64_t kLevels = sizeof(Words);
  std::int64_t i = 0;
  for (; i + kLevels <= n; i += kLevels) {
    Words words;
    std::memcpy(&words, levels + i, sizeof(words));
    PushEachTogether(bits, &words);
    std::uint64_t each[sizeof(Words) / 8];
    std::memcpy(each, &words, sizeof(words));
    for (const std::uint64_t word : each) {
      std::memcpy(packed, &word, sizeof(word));
      packed += bits;
    }
  }
  return i;
}

// Unpacks as many levels as fill Words, and returns their number.
template <typename Words>
FEDPLUG_ALWAYS_INLINE std::int64_t UnpackWords(const std::uint8_t* packed,
                                               std::int64_t n, int bits,
                                               std::uint8_t* levels) {
  constexpr std::int64_t kLevels = sizeof(Words);
  std::int64_t i = 0;
  for (; i + kLevels <= n; i += kLevels) {
    std::uint64_t each[sizeof(Words) / 8];
    for (std::uint64_t& word : each) {
      std::memcpy(&word, packed, sizeof(word));
      packed += bits;
    }
    Words words;
    std::memcpy(&words, each, sizeof(words));
    PullEachApart(bits, &words);
    std::memcpy(levels + i, &words, sizeof(words));
  }
  return i;
}

FEDPLUG_ALWAYS_INLINE std::int64_t RoundedUpTo8(std::int64_t n) {
  return (n + 7) / 8 * 8;
}

// Packs or unpacks levels of 8 bits.
FEDPLUG_ALWAYS_INLINE void CopyLevels(const std::uint8_t* from, std::int64_t n,
                                      std::uint8_t* to) {
  std::copy_n(from, RoundedUpTo8(n), to);
}

FEDPLUG_ALWAYS_INLINE void PackLoop(const std::uint8_t* levels, std::int64_t n,
                                    int bits, std::uint8_t* packed) {
  if (bits == 8) return CopyLevels(levels, n, packed);
  if (bits == 1) {
    for (std::int64_t i = 0; i < n; i += 8, ++packed) {
      std::uint64_t word;
      std::memcpy(&word, levels + i, sizeof(word));
      *packed = PushBitsTogether(word);
    }
    return;
  }
  n = RoundedUpTo8(n);
  const std::int64_t done = PackWords<FourWords>(levels, n, bits, packed);
  PackWords<std::uint64_t>(levels + done, n - done, bits,
                           packed + done / 8 * bits);
}

FEDPLUG_ALWAYS_INLINE void UnpackLoop(const std::uint8_t* packed,
                                      std::int64_t n, int bits,
                                      std::uint8_t* levels) {
  if (bits == 8) return CopyLevels(packed, n, levels);
  n = RoundedUpTo8(n);
  const std::int64_t done = UnpackWords<FourWords>(packed, n, bits, levels);
  UnpackWords<std::uint64_t>(packed + done / 8 * bits, n - done, bits,
                             levels + done);
}

}  // namespace

template <typename T>
LevelLoops<T> LevelLoopsFor(SimdLevel level) {
  return {
      LoopFor<LargestLoop<T>>(level),         LoopFor<NearestLoop<T>>(level),
      LoopFor<NearestMultipleLoop<T>>(level), LoopFor<AtRandomLoop<T>>(level),
      LoopFor<SignsLoop<T>>(level),           LoopFor<TimesScaleLoop<T>>(level),
      LoopFor<TimesStepLoop<T>>(level)};
}

template <typename T>
MeanLoops<T> MeanLoopsFor(SimdLevel level) {
  return {LoopFor<SharesLoop<T, false>>(level),
          LoopFor<SharesLoop<T, true>>(level),
          LoopFor<FourSharesLoop<T>>(level), LoopFor<AddLoop>(level)};
}

BitLoops BitLoopsFor(SimdLevel level) {
  return {LoopFor<PackLoop>(level), LoopFor<UnpackLoop>(level)};
}

template MeanLoops<float> MeanLoopsFor(SimdLevel);
template MeanLoops<double> MeanLoopsFor(SimdLevel);
template MeanLoops<Half> MeanLoopsFor(SimdLevel);
template MeanLoops<BFloat16> MeanLoopsFor(SimdLevel);
template LevelLoops<float> LevelLoopsFor(SimdLevel);
template LevelLoops<double> LevelLoopsFor(SimdLevel);

}  // namespace fedplug::value_loops
