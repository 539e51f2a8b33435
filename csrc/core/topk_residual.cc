// Selection by a radix histogram, in two streaming passes and a short tail:
//   survey   counts the sums by the leading bits of |a| and the non-finite
//   ones; writes nothing split    writes a to residual_out and shortlists the
//   entries at or above the bin in which the k-th largest lies settle   finds
//   the k-th largest key inside that one bin, and moves the chosen entries out
//   of the residual
// COST: reads delta and residual_in twice and writes residual_out once (5 *
// sizeof(T) bytes per element), and 4 bytes of scratch per shortlisted entry.
// Only values that share their leading bits make the shortlist longer than k.
#include "core/topk_residual.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/float_bits.h"
#include "core/float_environment.h"
#include "core/tiles.h"

namespace fedplug {
namespace {

// 2^12 counters of 4 bytes stay in the first-level cache, next to the streams.
constexpr int kBinBits = 12;
constexpr int kBins = 1 << kBinBits;
constexpr std::int64_t kSmallestTile = 1 << 15;

template <typename T>
int BinOf(T a) {
  return static_cast<int>(MagnitudeKey(a) >> (kKeyBits<T> - kBinBits));
}

struct Survey {
  std::vector<std::uint32_t> histogram = std::vector<std::uint32_t>(kBins);
  std::int64_t non_finite = 0;
  std::int64_t first_non_finite = -1;
};

// Of the sums above `bin` all leave, of those in `bin` the `wanted` largest do.
struct Cut {
  int bin;
  std::int64_t wanted;
};

template <typename T>
void SurveyTile(const T* delta, const T* residual, Range tile, Survey* survey) {
  for (std::int64_t i = tile.begin; i < tile.end; ++i) {
    T a = delta[i] + residual[i];
    if (!IsFinite(a)) {
      if (survey->non_finite++ == 0) survey->first_non_finite = i;
      a = T{};
    }
    ++survey->histogram[static_cast<std::size_t>(BinOf(a))];
  }
}

template <typename T>
std::vector<Survey> SurveyAll(const T* delta, const T* residual, std::int64_t n,
                              Parallel& parallel) {
  const int tiles = TileCount(n, kSmallestTile, parallel);
  std::vector<Survey> surveys(static_cast<std::size_t>(tiles));
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    SurveyTile(delta, residual, TileOf(n, tiles, t),
               &surveys[static_cast<std::size_t>(t)]);
  });
  return surveys;
}

std::int64_t NonFiniteIn(const std::vector<Survey>& surveys) {
  std::int64_t count = 0;
  for (const Survey& survey : surveys) count += survey.non_finite;
  return count;
}

Status NonFiniteStatus(const std::vector<Survey>& surveys, std::int64_t n) {
  const auto first =
      std::find_if(surveys.begin(), surveys.end(),
                   [](const Survey& survey) { return survey.non_finite > 0; });
  return {StatusCode::kNonFinite,
          std::to_string(NonFiniteIn(surveys)) + " of " + std::to_string(n) +
              " sums of delta and residual are NaN or infinite, the first at "
              "index " +
              std::to_string(first->first_non_finite) +
              "; nothing was changed. Leave this update out, or choose the "
              "policy \"drop\" to count such sums as zero"};
}

// The highest bin is that of infinity and thus empty, so k = 0 shortlists
// nothing.
Cut FindCut(const std::vector<Survey>& surveys, std::int64_t k) {
  std::int64_t above = 0;
  for (int bin = kBins - 1;; --bin) {
    std::int64_t here = 0;
    for (const Survey& survey : surveys) {
      here += survey.histogram[static_cast<std::size_t>(bin)];
    }
    if (above + here >= k) return {bin, k - above};
    above += here;
  }
}

std::int64_t ShortlistSize(const Survey& survey, Cut cut) {
  std::int64_t size = 0;
  for (int bin = cut.bin; bin < kBins; ++bin) {
    size += survey.histogram[static_cast<std::size_t>(bin)];
  }
  return size;
}

template <typename T>
void SplitTile(const T* delta, const T* residual_in, T* residual_out,
               Range tile, Cut cut, std::int32_t* shortlist) {
  for (std::int64_t i = tile.begin; i < tile.end; ++i) {
    T a = delta[i] + residual_in[i];
    if (!IsFinite(a)) a = T{};
    residual_out[i] = a;
    if (BinOf(a) >= cut.bin) *shortlist++ = static_cast<std::int32_t>(i);
  }
}

// Which keys of the cut bin leave: those above `key`, and the first `ties` of
// those equal to it.
template <typename T>
struct Threshold {
  FloatBitsOf<T> key;
  std::int64_t ties;
};

template <typename T>
Threshold<T> FindThreshold(std::vector<FloatBitsOf<T>>* keys,
                           std::int64_t wanted) {
  if (wanted == 0) return {FloatTraits<T>::kInfinity, 0};
  const auto kth = keys->begin() + (wanted - 1);
  std::nth_element(keys->begin(), kth, keys->end(), std::greater<>());
  const FloatBitsOf<T> key = *kth;
  const auto larger = std::count_if(
      keys->begin(), kth, [key](FloatBitsOf<T> other) { return other > key; });
  return {key, wanted - larger};
}

template <typename T>
void Settle(const std::int32_t* shortlist, std::int64_t listed, Cut cut,
            std::vector<FloatBitsOf<T>>* keys, T* residual, T* values,
            std::int32_t* indices) {
  for (std::int64_t j = 0; j < listed; ++j) {
    const T a = residual[shortlist[j]];
    if (BinOf(a) == cut.bin) keys->push_back(MagnitudeKey(a));
  }
  Threshold<T> threshold = FindThreshold<T>(keys, cut.wanted);
  for (std::int64_t j = 0; j < listed; ++j) {
    T& a = residual[shortlist[j]];
    const FloatBitsOf<T> key = MagnitudeKey(a);
    if (key > threshold.key || (key == threshold.key && threshold.ties-- > 0)) {
      *values++ = a;
      *indices++ = shortlist[j];
      a = T{};
    }
  }
}

}  // namespace

template <typename T>
Status TopKResidual(const T* delta, const T* residual_in, T* residual_out,
                    std::int64_t n, std::int64_t k, NonFinitePolicy policy,
                    Parallel& parallel, T* values, std::int32_t* indices,
                    std::int64_t* non_finite) {
  *non_finite = 0;
  if (n < 0 || n > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "n = " + std::to_string(n) + " is not in [0, 2^31)"};
  }
  if (k < 0) {
    return {StatusCode::kInvalidArgument,
            "k = " + std::to_string(k) + " is negative"};
  }
  const std::vector<Survey> surveys =
      SurveyAll(delta, residual_in, n, parallel);
  *non_finite = NonFiniteIn(surveys);
  if (*non_finite > 0 && policy == NonFinitePolicy::kError) {
    if (residual_out != residual_in) {
      std::copy_n(residual_in, n, residual_out);
    }
    return NonFiniteStatus(surveys, n);
  }

  // All memory is taken before the first write, so that running out of it
  // leaves the residual as it was.
  const Cut cut = FindCut(surveys, std::min(k, n));
  std::vector<std::int64_t> offsets = {0};
  std::size_t in_cut_bin = 0;
  for (const Survey& survey : surveys) {
    offsets.push_back(offsets.back() + ShortlistSize(survey, cut));
    in_cut_bin += survey.histogram[static_cast<std::size_t>(cut.bin)];
  }
  const std::unique_ptr<std::int32_t[]> shortlist(
      new std::int32_t[static_cast<std::size_t>(offsets.back())]);
  std::vector<FloatBitsOf<T>> keys;
  keys.reserve(in_cut_bin);

  const int tiles = static_cast<int>(surveys.size());
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    SplitTile(delta, residual_in, residual_out, TileOf(n, tiles, t), cut,
              shortlist.get() + offsets[static_cast<std::size_t>(t)]);
  });
  Settle(shortlist.get(), offsets.back(), cut, &keys, residual_out, values,
         indices);
  return {};
}

template <typename T>
std::int64_t CountNonFinite(const T* delta, const T* residual, std::int64_t n,
                            Parallel& parallel) {
  const int tiles = TileCount(n, kSmallestTile, parallel);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(tiles));
  parallel.Run(tiles, [&](int t) {
    const DefaultFloatEnvironment environment;
    const Range tile = TileOf(n, tiles, t);
    std::int64_t count = 0;
    for (std::int64_t i = tile.begin; i < tile.end; ++i) {
      count += IsFinite(delta[i] + residual[i]) ? 0 : 1;
    }
    counts[static_cast<std::size_t>(t)] = count;
  });
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  return total;
}

#define FEDPLUG_INSTANTIATE(T)                                              \
  template Status TopKResidual<T>(const T*, const T*, T*, std::int64_t,     \
                                  std::int64_t, NonFinitePolicy, Parallel&, \
                                  T*, std::int32_t*, std::int64_t*);        \
  template std::int64_t CountNonFinite<T>(const T*, const T*, std::int64_t, \
                                          Parallel&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
