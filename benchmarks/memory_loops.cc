// What memory alone costs: loops that read and write as many arrays as an
// encoder does, and do nothing else but add. Compiled by encoder_floor.py.
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
using Vector = __m512;
inline Vector Load(const float* from) { return _mm512_loadu_ps(from); }
inline void Store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
inline void Stream(float* to, Vector x) { _mm512_stream_ps(to, x); }
#elif defined(__AVX__)
using Vector = __m256;
inline Vector Load(const float* from) { return _mm256_loadu_ps(from); }
inline void Store(float* to, Vector x) { _mm256_storeu_ps(to, x); }
inline void Stream(float* to, Vector x) { _mm256_stream_ps(to, x); }
#else
struct Vector {
  float x;
};
inline Vector operator+(Vector a, Vector b) { return {a.x + b.x}; }
inline Vector Load(const float* from) { return {*from}; }
inline void Store(float* to, Vector x) { *to = x.x; }
inline void Stream(float* to, Vector x) { *to = x.x; }
#endif

constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float);

template <int kReads, int kWrites, bool kStreams>
void Walk(float* const* from, float* const* to, std::int64_t n) {
#pragma omp parallel
  {
    Vector sum = {};
#pragma omp for schedule(static)
    for (std::int64_t v = 0; v < n / kLanes; ++v) {
      const std::int64_t i = v * kLanes;
      Vector x = Load(from[0] + i);
      for (int r = 1; r < kReads; ++r) x = x + Load(from[r] + i);
      for (int w = 0; w < kWrites; ++w) {
        if constexpr (kStreams) {
          Stream(to[w] + i, x);
        } else {
          Store(to[w] + i, x);
        }
      }
      if constexpr (kWrites == 0) sum = sum + x;
    }
    asm volatile("" : : "m"(sum) : "memory");  // somebody might want it
#if defined(__x86_64__)
    _mm_sfence();
#endif
  }
}

template <int kReads, int kWrites>
void Either(float* const* from, float* const* to, std::int64_t n,
            bool streams) {
  (streams ? Walk<kReads, kWrites, true> : Walk<kReads, kWrites, false>)(from,
                                                                         to, n);
}

}  // namespace

// to[w][i] = from[0][i] + from[1][i] ..., past the caches or not. False where
// there is no such loop.
// SHAPE: from[reads][n], to[writes][n], each beginning with a cache line
extern "C" bool walk(float* const* from, int reads, float* const* to,
                     int writes, std::int64_t n, bool streams) {
  switch (10 * reads + writes) {
    case 10:
      return Either<1, 0>(from, to, n, streams), true;
    case 11:
      return Either<1, 1>(from, to, n, streams), true;
    case 20:
      return Either<2, 0>(from, to, n, streams), true;
    case 21:
      return Either<2, 1>(from, to, n, streams), true;
    case 32:
      return Either<3, 2>(from, to, n, streams), true;
    default:
      return false;
  }
}

// table[place[i]] += x[i], for i ascending: the places of each of `parts` parts
// lie one after the other, part p from splits[p] on, and no two have the same.
extern "C" void add_at(const float* x, const std::int32_t* place,
                       const std::int64_t* splits, int parts, float* table) {
#pragma omp parallel for schedule(static, 1)
  for (int p = 0; p < parts; ++p) {
    for (std::int64_t i = splits[p]; i < splits[p + 1]; ++i) {
      table[place[i]] += x[i];
    }
  }
}
