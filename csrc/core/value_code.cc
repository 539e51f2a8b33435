// A tensor is cut into units of whole blocks and chunks, which threads take one
// after the other. In a unit the scales are computed first, if it has its own,
// then each chunk is widened, quantized and packed in the cache. Decoding is
// the reverse, and checks a chunk before using it.
#include "core/value_code.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <type_traits>

#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/base/philox.h"
#include "core/codes/values/cast.h"
#include "core/codes/values/forms.h"
#include "core/codes/values/job.h"
#include "core/codes/values/layout.h"
#include "core/codes/values/loops.h"
#include "core/crc32.h"
#include "core/philox/words.h"

namespace fedplug {
namespace {

using value_loops::kChunk;
using value_loops::WideOf;

Status Corrupt(const std::string& what) {
  return {StatusCode::kDataLoss, "value code: " + what};
}

// The scales of the blocks of a unit.
template <typename T>
bool EncodeScales(const Job<T>& job, const T* values, std::int64_t first,
                  std::int64_t n, std::uint8_t* data) {
  const std::int64_t size = job.layout.block;
  for (std::int64_t at = first; at < first + n; at += size) {
    const auto key =
        LargestKey(job, values + at, std::min(size, first + n - at));
    if (!IsFiniteKey<WideOf<T>>(key)) return false;
    WriteScale(job, FromKey<WideOf<T>>(key), at / size, data);
  }
  return true;
}

// The scale of kSign. EncodeChunk checks that all values are finite.
template <typename T>
void EncodeMean(const Job<T>& job, const T* values, Parallel& parallel,
                std::uint8_t* data) {
  const T mean = MeanMagnitude(values, job.count, job.simd, parallel);
  WriteScale(job, value_loops::Wide(mean), 0, data);
}

// Calls loop(i, length, scale) for the runs of values that share a scale which
// is not 0, and fills in the levels of the others.
template <typename T, typename Loop>
void EncodeRuns(const Job<T>& job, const std::uint8_t* data, std::int64_t first,
                std::int64_t n, std::uint8_t* levels, const Loop& loop) {
  ForEachRun(job, data, first, n,
             [&](std::int64_t i, std::int64_t length, WideOf<T> scale) {
               if (scale == 0) {
                 std::fill_n(levels + i, length,
                             static_cast<std::uint8_t>(job.layout.top));
               } else {
                 loop(i, length, scale);
               }
             });
}

// Quantizes with noise in registers as many whole groups with one scale as
// there are loops for. Returns the number of values.
template <typename T>
std::int64_t EncodeInRegisters(const Job<T>& job, const WideOf<T>* wide,
                               std::int64_t first, std::int64_t n,
                               const Philox& random, const std::uint8_t* data,
                               std::uint8_t* levels) {
  if constexpr (std::is_same_v<WideOf<T>, float>) {
    constexpr std::int64_t kGroup = value_loops::kDitherGroup;
    const auto& loops = job.dither;
    if (loops.at_random == nullptr || job.layout.block < kGroup) return 0;
    const std::int64_t whole = n / kGroup * kGroup;
    EncodeRuns(job, data, first, whole, levels,
               [&](std::int64_t i, std::int64_t length, float scale) {
                 const std::int64_t draw = (first + i) / Philox::kWords;
                 loops.at_random(random, draw, wide + i, length, scale,
                                 job.layout.top, levels + i);
               });
    return whole;
  }
  return 0;
}

template <typename T>
void EncodeAtRandom(const Job<T>& job, const WideOf<T>* wide,
                    std::int64_t first, std::int64_t n, const Philox& random,
                    const std::uint8_t* data, std::uint8_t* levels) {
  constexpr std::int64_t kGroup = value_loops::kDitherGroup;
  const auto& loops = job.level_loops;
  std::array<std::uint32_t, kChunk> noise;
  job.noise(random, first / Philox::kWords,
            (n + kGroup - 1) / kGroup * philox::kGroup, noise.data());
  EncodeRuns(job, data, first, n, levels,
             [&](std::int64_t i, std::int64_t length, WideOf<T> scale) {
               loops.at_random(wide + i, noise.data() + i, length, scale,
                               job.layout.top, levels + i);
             });
}

// The levels of a chunk of finite values.
template <typename T>
void EncodeLevels(const Job<T>& job, const WideOf<T>* wide, std::int64_t first,
                  std::int64_t n, const Philox& random,
                  const std::uint8_t* data, std::uint8_t* levels) {
  const auto& loops = job.level_loops;
  if (job.code.form == ValueForm::kSign) return loops.signs(wide, n, levels);
  if (job.code.form == ValueForm::kQsgd) {
    const std::int64_t done =
        EncodeInRegisters(job, wide, first, n, random, data, levels);
    if (done < n) {
      EncodeAtRandom(job, wide + done, first + done, n - done, random, data,
                     levels + done);
    }
    return;
  }
  const int top = job.layout.top;
  EncodeRuns(job, data, first, n, levels,
             [&](std::int64_t i, std::int64_t length, WideOf<T> scale) {
               if (job.code.form == ValueForm::kNearest) {
                 loops.nearest(wide + i, length, scale, top, levels + i);
               } else {
                 loops.nearest_multiple(wide + i, length, 1 / scale, top,
                                        levels + i);
               }
             });
}

template <typename T>
bool EncodeScaled(const Job<T>& job, const T* values, std::uint64_t seed,
                  Parallel& parallel, std::uint8_t* data) {
  const KeepAwake awake(parallel);
  const ValueLayout& layout = job.layout;
  std::copy_n(layout.header.begin(), layout.header_bytes, data);
  std::uint32_t content = 0;
  if (job.code.form == ValueForm::kSign) {
    EncodeMean(job, values, parallel, data);
  } else if (job.code.form == ValueForm::kQsgd) {
    content = Crc32(reinterpret_cast<const std::uint8_t*>(values),
                    job.count * static_cast<std::int64_t>(sizeof(T)), parallel);
  }
  const Philox random(seed, content);
  const auto encode_chunk = [&](std::int64_t first, std::int64_t n) {
    WideChunk<T> staging;
    const auto* const wide = Widened(job, values + first, n, &staging);
    // The scales of the other forms show it.
    if (job.code.form == ValueForm::kSign &&
        !IsFiniteKey<WideOf<T>>(job.level_loops.largest(wide, n))) {
      return false;
    }
    LevelChunk levels;
    EncodeLevels(job, wide, first, n, random, data, levels.data());
    PackLevels(layout, job.bit_loops, first, n, &levels, data);
    return true;
  };
  return ForEachUnit(job.count, layout.Unit(), parallel,
                     [&](std::int64_t first, std::int64_t n) {
                       return (!layout.per_block ||
                               EncodeScales(job, values, first, n, data)) &&
                              ForEachChunk(first, n, encode_chunk);
                     });
}

template <typename T>
bool DecodeScaled(const Job<T>& job, const std::uint8_t* data,
                  Parallel& parallel, const Decoded<T>& to) {
  const ValueLayout& layout = job.layout;
  const auto times = job.code.form == ValueForm::kBfp
                         ? job.level_loops.times_step
                         : job.level_loops.times_scale;
  const auto decode_chunk = [&](std::int64_t first, std::int64_t n) {
    LevelChunk levels;
    if (!UnpackLevels(job.code.form, layout, job.bit_loops, data, first, n,
                      &levels)) {
      return false;
    }
    const auto write = [&](WideOf<T>* wide) {
      ForEachRun(job, data, first, n,
                 [&](std::int64_t i, std::int64_t length, WideOf<T> scale) {
                   times(levels.data() + i, length, layout.top, scale,
                         wide + i);
                 });
    };
    if constexpr (std::is_same_v<T, WideOf<T>>) {
      if (to.values != nullptr) {
        write(to.values + first);
        return true;
      }
    }
    WideChunk<T> wide;
    write(wide.data());
    to.Put(job, wide.data(), first, n);
    return true;
  };
  return ForEachUnit(job.count, layout.Unit(), parallel,
                     [&](std::int64_t first, std::int64_t n) {
                       return ForEachChunk(first, n, decode_chunk);
                     });
}

template <typename T>
Status RefuseNonFinite(const T* values, std::int64_t count,
                       std::int64_t* non_finite) {
  std::int64_t first = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    if (IsFinite(values[i])) continue;
    first = first < 0 ? i : first;
    ++*non_finite;
  }
  return NonFiniteValues(*non_finite, count, first);
}

template <typename T>
Status CheckExponents(const Job<T>& job, const std::uint8_t* data) {
  using Range = StepExponents<T>;
  for (std::int64_t block = 0; block < job.layout.scales; ++block) {
    const int exponent = ReadExponent(job, data, block);
    if (exponent < Range::kLowest || exponent > Range::kHighest) {
      return Corrupt("exponent " + std::to_string(block) + " is " +
                     std::to_string(exponent));
    }
  }
  return {};
}

template <typename T>
Status CheckScales(const Job<T>& job, const std::uint8_t* data) {
  if (job.code.form == ValueForm::kBfp) return CheckExponents(job, data);
  for (std::int64_t block = 0; block < job.layout.scales; ++block) {
    const WideOf<T> scale = ReadScale(job, data, block);
    if (job.count == 0 && scale != 0) {
      return Corrupt("the scale of no values is not 0");
    }
    // -0 would be a second code for the same values.
    if (!IsFinite(scale) || ToBits(scale) != MagnitudeKey(scale)) {
      return Corrupt("scale " + std::to_string(block) +
                     " is negative or not finite");
    }
  }
  return {};
}

template <typename T>
Status Decode(const std::uint8_t* data, std::int64_t bytes, std::int64_t count,
              const ValueCode& code, Parallel& parallel, const Decoded<T>& to) {
  constexpr auto kValueBytes = static_cast<std::int64_t>(sizeof(T));
  SimdLevel level;
  if (Status status = CheckValueBytes(data, bytes, count, code, kValueBytes);
      !status.ok()) {
    return status;
  }
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const DefaultFloatEnvironment environment;
  const Job<T> job(code, count, level);
  // Means and extremes have signs.
  if (code.form != ValueForm::kCodebook && code.form != ValueForm::kBounded) {
    if (Status status = CheckScales(job, data); !status.ok()) return status;
  }
  bool valid;
  switch (code.form) {
    case ValueForm::kFloat16:
      valid = DecodeCast<Half>(job, data, parallel, to);
      break;
    case ValueForm::kBFloat16:
      valid = DecodeCast<BFloat16>(job, data, parallel, to);
      break;
    case ValueForm::kCodebook:
      valid = DecodeCodebook(job, data, parallel, to.values);
      break;
    case ValueForm::kBounded:
      valid = DecodeBounded(job, data, parallel, to.values);
      break;
    default:
      valid = DecodeScaled(job, data, parallel, to);
  }
  return valid ? Status()
               : Corrupt(
                     "a level or value does not exist, or unused bits are "
                     "set");
}

}  // namespace

Status NonFiniteValues(std::int64_t non_finite, std::int64_t count,
                       std::int64_t first) {
  return {StatusCode::kNonFinite,
          std::to_string(non_finite) + " of " + std::to_string(count) +
              " values are NaN or infinite, the first at position " +
              std::to_string(first)};
}

template <typename T>
Status EncodeValues(const T* values, std::int64_t count, const ValueCode& code,
                    std::uint64_t seed, Parallel& parallel, std::uint8_t* data,
                    std::int64_t* non_finite) {
  *non_finite = 0;
  SimdLevel level;
  if (Status status = CheckValueCode(code, count); !status.ok()) return status;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const DefaultFloatEnvironment environment;
  const Job<T> job(code, count, level);
  bool finite;
  switch (code.form) {
    case ValueForm::kFloat16:
      finite = EncodeCast<Half>(job, values, parallel, data);
      break;
    case ValueForm::kBFloat16:
      finite = EncodeCast<BFloat16>(job, values, parallel, data);
      break;
    case ValueForm::kCodebook:
      finite = EncodeCodebook(job, values, parallel, data);
      break;
    case ValueForm::kBounded:
      finite = EncodeBounded(job, values, parallel, data);
      break;
    default:
      finite = EncodeScaled(job, values, seed, parallel, data);
  }
  return finite ? Status() : RefuseNonFinite(values, count, non_finite);
}

template <typename T>
Status DecodeValues(const std::uint8_t* data, std::int64_t bytes,
                    std::int64_t count, const ValueCode& code,
                    Parallel& parallel, T* values) {
  return Decode<T>(data, bytes, count, code, parallel, {values, nullptr});
}

template <typename T>
Status CheckValues(const std::uint8_t* data, std::int64_t bytes,
                   std::int64_t count, const ValueCode& code,
                   Parallel& parallel, T* largest) {
  if (code.form == ValueForm::kCodebook || code.form == ValueForm::kBounded) {
    return {StatusCode::kInvalidArgument,
            "the value codes codebook and bounded are checked as they are "
            "decoded"};
  }
  LargestOfThreads<WideOf<T>> found;
  const Status status =
      Decode<T>(data, bytes, count, code, parallel, {nullptr, &found});
  *largest = value_loops::Rounded<T>(FromKey<WideOf<T>>(found.key()));
  return status;
}

#define FEDPLUG_INSTANTIATE(T)                                                 \
  template Status EncodeValues(const T*, std::int64_t, const ValueCode&,       \
                               std::uint64_t, Parallel&, std::uint8_t*,        \
                               std::int64_t*);                                 \
  template Status DecodeValues(const std::uint8_t*, std::int64_t,              \
                               std::int64_t, const ValueCode&, Parallel&, T*); \
  template Status CheckValues(const std::uint8_t*, std::int64_t, std::int64_t, \
                              const ValueCode&, Parallel&, T*)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
