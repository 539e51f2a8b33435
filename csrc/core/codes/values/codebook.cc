// Results are reproducible: doubles are summed in a fixed order, and bins in
// integers. Values are scaled by a power of two to a largest magnitude in [1,
// 4), so that squares neither overflow nor underflow.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/codes/values/bins.h"
#include "core/codes/values/forms.h"
#include "core/codes/values/layout.h"
#include "core/codes/values/level.h"
#include "core/codes/values/loops.h"
#include "core/simd/level.h"
#include "core/simd/loops.h"

// The inner loops of the codebook quantizer, over a chunk of values. As in
// values/loops.h, each is compiled for every SIMD level, with equal results.

namespace fedplug::value_loops {

// T is float or double.
template <typename T>
struct CodebookLoops {
  // terms = scale * x
  void (*scaled)(const T* x, std::int64_t n, double scale, double* terms);
  // terms = (scale * x - mean)^2
  void (*squares)(const T* x, std::int64_t n, double scale, double mean,
                  double* terms);
  // The upper half of kChunk terms is added to the lower half, until one is
  // left. The terms are lost.
  double (*halved)(double* terms);
  // |(scale * x - mean) * per_bin| < 2^51
  void (*bins)(const T* x, std::int64_t n, const Bins& bins,
               std::uint8_t* symbols);
};

namespace {

template <typename T>
FEDPLUG_ALWAYS_INLINE void ScaledLoop(const T* x, std::int64_t n, double scale,
                                      double* terms) {
  for (std::int64_t i = 0; i < n; ++i) {
    terms[i] = scale * static_cast<double>(x[i]);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void SquaresLoop(const T* x, std::int64_t n, double scale,
                                       double mean, double* terms) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double centred = scale * static_cast<double>(x[i]) - mean;
    terms[i] = centred * centred;
  }
}

FEDPLUG_ALWAYS_INLINE double HalvedLoop(double* terms) {
  for (std::int64_t half = kChunk / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) terms[i] += terms[half + i];
  }
  return terms[0];
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void BinsLoop(const T* x, std::int64_t n,
                                    const Bins& bins, std::uint8_t* symbols) {
  for (std::int64_t i = 0; i < n; ++i) {
    symbols[i] = static_cast<std::uint8_t>(bins.Of(static_cast<double>(x[i])));
  }
}

// REQUIRES: IsSupported(level)
template <typename T>
CodebookLoops<T> CodebookLoopsFor(SimdLevel level) {
  return {LoopFor<ScaledLoop<T>>(level), LoopFor<SquaresLoop<T>>(level),
          LoopFor<HalvedLoop>(level), LoopFor<BinsLoop<T>>(level)};
}

}  // namespace
}  // namespace fedplug::value_loops

namespace fedplug {
namespace {

using value_loops::CodebookLoops;
using value_loops::kChunk;
using value_loops::WideOf;

// The sums of whole chunks of terms. The last is filled with +0.
// `terms_of(first, n, terms)` writes n of them.
template <typename Terms>
std::vector<double> SumsOfChunks(std::int64_t count, Parallel& parallel,
                                 double (*halved)(double*),
                                 const Terms& terms_of) {
  std::vector<double> sums(
      static_cast<std::size_t>((count + kChunk - 1) / kChunk));
  ForEachUnit(count, kChunk, parallel, [&](std::int64_t first, std::int64_t n) {
    std::array<double, kChunk> terms;
    terms_of(first, n, terms.data());
    std::fill(terms.begin() + n, terms.end(), 0.0);
    sums[static_cast<std::size_t>(first / kChunk)] = halved(terms.data());
    return true;
  });
  return sums;
}

// Adds up chunks of terms, then their sums, until one is left.
template <typename Terms>
double Sum(std::int64_t count, Parallel& parallel, double (*halved)(double*),
           const Terms& terms_of) {
  auto sums = SumsOfChunks(count, parallel, halved, terms_of);
  while (sums.size() > 1) {
    sums =
        SumsOfChunks(static_cast<std::int64_t>(sums.size()), parallel, halved,
                     [&](std::int64_t first, std::int64_t n, double* terms) {
                       std::copy_n(sums.begin() + first, n, terms);
                     });
  }
  return sums.empty() ? 0.0 : sums[0];
}

template <typename T>
Bins FindBins(const Job<T>& job, const T* values, WideOf<T> largest,
              const CodebookLoops<WideOf<T>>& loops, Parallel& parallel) {
  Bins bins{};
  bins.middle = 1 << (job.code.bits - 1);
  bins.last = 2 * bins.middle - 1;
  bins.scale = ScaleOf(static_cast<double>(largest));
  const auto sum_of = [&](const auto& fill) {
    return Sum(job.count, parallel, loops.halved,
               [&](std::int64_t first, std::int64_t n, double* terms) {
                 WideChunk<T> staging;
                 fill(Widened(job, values + first, n, &staging), n, terms);
               });
  };
  const auto count = static_cast<double>(job.count);
  const double sum =
      sum_of([&](const WideOf<T>* x, std::int64_t n, double* terms) {
        loops.scaled(x, n, bins.scale, terms);
      });
  bins.mean = sum * (1 / std::max(count, 1.0));
  const double squares =
      sum_of([&](const WideOf<T>* x, std::int64_t n, double* terms) {
        loops.squares(x, n, bins.scale, bins.mean, terms);
      });
  bins.SetWidth(squares, job.count);
  return bins;
}

// The sum of the values of each bin, in units of 1 / (scale * 2^fraction):
// integers below 2^62.
struct BinSums {
  std::array<std::int64_t, 256> sum{};
  std::array<std::int64_t, 256> count{};
};

struct SharedBinSums {
  std::array<std::atomic<std::int64_t>, 256> sum{};
  std::array<std::atomic<std::int64_t>, 256> count{};

  void Add(const BinSums& part, int last) {
    for (std::size_t b = 0; b <= static_cast<std::size_t>(last); ++b) {
      if (part.count[b] == 0) continue;
      sum[b] += part.sum[b];
      count[b] += part.count[b];
    }
  }
};

}  // namespace

template <typename T>
bool EncodeCodebook(const Job<T>& job, const T* values, Parallel& parallel,
                    std::uint8_t* data) {
  using Wide = WideOf<T>;
  const KeepAwake awake(parallel);
  const auto key = LargestKeyOfAll(job, values, parallel);
  if (!IsFiniteKey<Wide>(key)) return false;
  const auto loops = value_loops::CodebookLoopsFor<Wide>(job.simd);
  const Bins bins = FindBins(job, values, FromKey<Wide>(key), loops, parallel);
  const int fraction = BinFractionBits(job.count);
  const double to_whole = PowerOfTwo(fraction);

  SharedBinSums all;
  constexpr std::int64_t kUnit = 16 * kChunk;
  ForEachUnit(
      job.count, kUnit, parallel, [&](std::int64_t begin, std::int64_t size) {
        BinSums mine;
        const auto encode_chunk = [&](std::int64_t first, std::int64_t n) {
          WideChunk<T> staging;
          const Wide* const wide = Widened(job, values + first, n, &staging);
          LevelChunk symbols;
          loops.bins(wide, n, bins, symbols.data());
          for (std::int64_t i = 0; i < n; ++i) {
            const auto index = static_cast<std::size_t>(i);
            const std::uint8_t symbol = symbols[index];
            mine.sum[symbol] += static_cast<std::int64_t>(
                bins.scale * static_cast<double>(wide[i]) * to_whole);
            ++mine.count[symbol];
          }
          PackLevels(job.layout, job.bit_loops, first, n, &symbols, data);
          return true;
        };
        ForEachChunk(begin, size, encode_chunk);
        all.Add(mine, bins.last);
        return true;
      });
  data[0] = job.layout.header[0];
  for (std::size_t b = 0; b <= static_cast<std::size_t>(bins.last); ++b) {
    const double mean = BinMean(all.sum[b], all.count[b], bins.scale, fraction);
    WriteScale(job, static_cast<Wide>(mean), static_cast<std::int64_t>(b),
               data);
  }
  return true;
}

template <typename T>
bool DecodeCodebook(const Job<T>& job, const std::uint8_t* data,
                    Parallel& parallel, T* values) {
  std::array<T, 256> means;
  std::memcpy(means.data(), data + job.layout.header_bytes,
              static_cast<std::size_t>(job.layout.scales) * sizeof(T));
  if (!std::all_of(means.begin(), means.begin() + job.layout.scales,
                   [](T mean) { return IsFinite(mean); })) {
    return false;
  }
  return ForEachUnit(
      job.count, kChunk, parallel, [&](std::int64_t first, std::int64_t n) {
        LevelChunk symbols;
        if (!UnpackLevels(job.code.form, job.layout, job.bit_loops, data, first,
                          n, &symbols)) {
          return false;
        }
        for (std::int64_t i = 0; i < n; ++i) {
          values[first + i] = means[symbols[static_cast<std::size_t>(i)]];
        }
        return true;
      });
}

#define FEDPLUG_INSTANTIATE(T)                                                \
  template bool EncodeCodebook(const Job<T>&, const T*, Parallel&,            \
                               std::uint8_t*);                                \
  template bool DecodeCodebook(const Job<T>&, const std::uint8_t*, Parallel&, \
                               T*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
