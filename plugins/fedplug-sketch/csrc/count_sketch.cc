// Hashes are computed for a chunk of elements first, by vectors. Each element
// then needs only one addition, or one look into the table.
// A part of the columns takes its elements out of the chunk by vectors, too.
#include "count_sketch.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define FEDPLUG_SKETCH_X86 1
#endif

// A plain loop, compiled for several instruction sets. The loader takes the
// best one that the processor has. The results are equal.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && \
    defined(__GNUC__) && __GNUC__ >= 12
#define FEDPLUG_SKETCH_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FEDPLUG_SKETCH_CLONES
#endif

namespace fedplug_sketch {
namespace {

constexpr std::int64_t kChunk = 1024;
constexpr std::int64_t kLanes = 32;  // elements that are looked up together

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

inline std::uint64_t HashOf(std::uint64_t i, std::uint64_t key) {
  std::uint64_t hash = i + key;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

inline std::int32_t ColumnOf(std::uint64_t hash, std::uint64_t columns) {
  return static_cast<std::int32_t>(((hash >> 32) * columns) >> 32);
}

inline std::uint32_t MinusOf(std::uint64_t hash) {
  return static_cast<std::uint32_t>(hash & 1);
}

template <typename T>
inline T Negated(T x, std::uint32_t minus) {
  BitsOf<T> bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits ^= static_cast<BitsOf<T>>(minus) << (8 * sizeof(T) - 1);
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// Where elements are in one row, and 1 for those that are negated.
FEDPLUG_SKETCH_CLONES void FindPlaces(std::uint64_t first, std::int64_t n,
                                      std::uint64_t key, std::uint64_t columns,
                                      std::int32_t* __restrict column,
                                      std::uint32_t* __restrict minus) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto hash = HashOf(first + static_cast<std::uint64_t>(i), key);
    column[i] = ColumnOf(hash, columns);
    minus[i] = MinusOf(hash);
  }
}

// Place: where elements are in one row, and what is added there.
#define FEDPLUG_SKETCH_LOOPS(T)                                             \
  FEDPLUG_SKETCH_CLONES void Place(                                         \
      const T* __restrict x, std::uint64_t first, std::int64_t n,           \
      std::uint64_t key, std::uint64_t columns,                             \
      std::int32_t* __restrict column, T* __restrict signed_x) {            \
    for (std::int64_t i = 0; i < n; ++i) {                                  \
      const auto hash = HashOf(first + static_cast<std::uint64_t>(i), key); \
      column[i] = ColumnOf(hash, columns);                                  \
      signed_x[i] = Negated(x[i], MinusOf(hash));                           \
    }                                                                       \
  }                                                                         \
  FEDPLUG_SKETCH_CLONES void LookUp(const T* __restrict row,                \
                                    const std::int32_t* __restrict column,  \
                                    const std::uint32_t* __restrict minus,  \
                                    std::int64_t n, T* __restrict found) {  \
    for (std::int64_t i = 0; i < n; ++i) {                                  \
      found[i] = Negated(row[column[i]], minus[i]);                         \
    }                                                                       \
  }
FEDPLUG_SKETCH_LOOPS(float)
FEDPLUG_SKETCH_LOOPS(double)
#undef FEDPLUG_SKETCH_LOOPS

#if FEDPLUG_SKETCH_X86
template <typename T>
bool CanKeep() {
  return sizeof(T) == sizeof(float) && __builtin_cpu_supports("avx512f");
}

// Moves the elements in columns begin ... end to the front, in their order.
// Returns how many they are.
// REQUIRES: CanKeep<T>()
// SHAPE: column[kChunk], signed_x[kChunk], of which n are elements
template <typename T>
__attribute__((target("avx512f"))) std::int64_t Keep(std::int64_t n,
                                                     std::int64_t begin,
                                                     std::int64_t end,
                                                     std::int32_t* column,
                                                     T* signed_x) {
  constexpr std::int64_t kVector = 16;
  static_assert(kChunk % kVector == 0, "the last vector is in the array");
  const __m512i first = _mm512_set1_epi32(static_cast<int>(begin));
  const __m512i width = _mm512_set1_epi32(static_cast<int>(end - begin));
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < n; i += kVector) {
    const auto elements =
        static_cast<__mmask16>(0xffff >> (kVector - std::min(kVector, n - i)));
    const __m512i columns = _mm512_loadu_si512(column + i);
    const __m512i numbers = _mm512_loadu_si512(signed_x + i);
    const __mmask16 mine = _mm512_mask_cmplt_epu32_mask(
        elements, _mm512_sub_epi32(columns, first), width);
    _mm512_storeu_si512(column + kept,
                        _mm512_maskz_compress_epi32(mine, columns));
    _mm512_storeu_si512(signed_x + kept,
                        _mm512_maskz_compress_epi32(mine, numbers));
    kept += __builtin_popcount(mine);
  }
  return kept;
}
#else
template <typename T>
bool CanKeep() {
  return false;
}

template <typename T>
std::int64_t Keep(std::int64_t n, std::int64_t, std::int64_t, std::int32_t*,
                  T*) {
  return n;
}
#endif

// The median of the rows. Equal numbers, such as -0 and 0, stay in the order of
// the rows.
// SHAPE: numbers[rows], whose order is lost
template <typename T>
T Median(std::int64_t rows, T* numbers) {
  for (std::int64_t r = 1; r < rows; ++r) {
    for (std::int64_t i = r; i > 0 && numbers[i] < numbers[i - 1]; --i) {
      std::swap(numbers[i], numbers[i - 1]);
    }
  }
  const T middle = numbers[rows / 2];
  // Halved before they are added, which cannot overflow.
  return rows % 2 != 0 ? middle : numbers[rows / 2 - 1] / 2 + middle / 2;
}

}  // namespace

template <typename T>
int ColumnParts(std::int64_t n, int threads) {
  constexpr int kMostParts = 4;
  constexpr std::int64_t kFewestElements = 1 << 16;
  if (n < kFewestElements || !CanKeep<T>()) return 1;
  return std::clamp(threads, 1, kMostParts);
}

template <typename T>
void SketchColumns(const T* x, std::int64_t n, std::uint64_t key,
                   std::int64_t columns, std::int64_t begin, std::int64_t end,
                   T* row) {
  const bool all = begin == 0 && end == columns;
  std::int32_t column[kChunk];
  T signed_x[kChunk];
  for (std::int64_t first = 0; first < n; first += kChunk) {
    std::int64_t some = std::min(kChunk, n - first);
    Place(x + first, static_cast<std::uint64_t>(first), some, key,
          static_cast<std::uint64_t>(columns), column, signed_x);
    if (!all) some = Keep(some, begin, end, column, signed_x);
    for (std::int64_t i = 0; i < some; ++i) row[column[i]] += signed_x[i];
  }
}

template <typename T>
void EstimateRange(const T* table, const std::uint64_t* keys, std::int64_t rows,
                   std::int64_t columns, std::int64_t begin, std::int64_t end,
                   T* estimates) {
  std::int32_t column[kChunk];
  std::uint32_t minus[kChunk];
  const auto look_up = [&](std::int64_t r, std::int64_t first, std::int64_t n,
                           T* found) {
    FindPlaces(static_cast<std::uint64_t>(first), n, keys[r],
               static_cast<std::uint64_t>(columns), column, minus);
    LookUp(table + r * columns, column, minus, n, found);
  };
  if (rows == 1) {
    for (std::int64_t first = begin; first < end; first += kChunk) {
      look_up(0, first, std::min(kChunk, end - first), estimates + first);
    }
    return;
  }
  std::vector<T> found(static_cast<std::size_t>(rows * kLanes));
  std::vector<T> numbers(static_cast<std::size_t>(rows));
  for (std::int64_t first = begin; first < end; first += kLanes) {
    const std::int64_t some = std::min(kLanes, end - first);
    for (std::int64_t r = 0; r < rows; ++r) {
      look_up(r, first, some, found.data() + r * kLanes);
    }
    for (std::int64_t i = 0; i < some; ++i) {
      for (std::int64_t r = 0; r < rows; ++r) {
        numbers[static_cast<std::size_t>(r)] =
            found[static_cast<std::size_t>(r * kLanes + i)];
      }
      estimates[first + i] = Median(rows, numbers.data());
    }
  }
}

#define FEDPLUG_SKETCH_INSTANTIATE(T)                                        \
  template int ColumnParts<T>(std::int64_t, int);                            \
  template void SketchColumns(const T*, std::int64_t, std::uint64_t,         \
                              std::int64_t, std::int64_t, std::int64_t, T*); \
  template void EstimateRange(const T*, const std::uint64_t*, std::int64_t,  \
                              std::int64_t, std::int64_t, std::int64_t, T*)
FEDPLUG_SKETCH_INSTANTIATE(float);
FEDPLUG_SKETCH_INSTANTIATE(double);
#undef FEDPLUG_SKETCH_INSTANTIATE

}  // namespace fedplug_sketch
