// The reference of the decoders of values, as in docs/wire-format.md.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/base/float_bits.h"
#include "tests/reference/reference.h"
#include "tests/reference/values.h"

namespace fedplug::reference {
namespace {

// The value of a level.
int Signed(int level, const ValueCode& code, int top) {
  return code.form == ValueForm::kSign ? (level == 0 ? -1 : 1) : level - top;
}

// REQUIRES: length and header are right
template <typename T>
std::optional<std::vector<T>> DecodeCodebook(
    const std::vector<std::uint8_t>& bytes, std::size_t count, int bits) {
  std::vector<T> means(std::size_t{1} << bits);
  std::memcpy(means.data(), bytes.data() + 1, means.size() * sizeof(T));
  for (const T& mean : means) {
    if (!IsFinite(mean)) return std::nullopt;
  }
  const std::vector<int> bins =
      UnpackBits(bytes, 1 + means.size() * sizeof(T), bits);
  std::vector<T> values;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (i < count) {
      values.push_back(means[static_cast<std::size_t>(bins[i])]);
    } else if (bins[i] != 0) {
      return std::nullopt;
    }
  }
  return values;
}

template <typename Cast, typename T>
std::optional<std::vector<T>> DecodeCasts(
    const std::vector<std::uint8_t>& bytes) {
  std::vector<T> values;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Cast)) {
    Cast cast;
    std::memcpy(&cast, bytes.data() + at, sizeof(Cast));
    if (!IsFinite(cast)) return std::nullopt;
    values.push_back(Narrow<T>(static_cast<double>(Widen(cast))));
  }
  return values;
}

}  // namespace

template <typename T>
std::optional<std::vector<T>> DecodeValues(
    const std::vector<std::uint8_t>& bytes, std::size_t count,
    const ValueCode& code) {
  const std::int64_t right_bytes =
      ValueCodeBytes(code, static_cast<std::int64_t>(count), sizeof(T));
  if (bytes.size() != static_cast<std::size_t>(right_bytes))
    return std::nullopt;
  if (code.form == ValueForm::kFloat16) return DecodeCasts<Half, T>(bytes);
  if (code.form == ValueForm::kBFloat16) return DecodeCasts<BFloat16, T>(bytes);
  const auto header = Header(code);
  if (!std::equal(header.begin(), header.end(), bytes.begin())) {
    return std::nullopt;
  }
  if (code.form == ValueForm::kBounded) {
    return DecodeBounded<T>(bytes, count, code);
  }
  if (code.form == ValueForm::kBfp) return DecodeBfp<T>(bytes, count, code);
  if (code.form == ValueForm::kCodebook) {
    return DecodeCodebook<T>(bytes, count, code.bits);
  }
  std::size_t at = header.size();
  Quantized<T> q = Unfilled<T>(count, code);
  for (T& scale : q.scales) {
    std::memcpy(&scale, bytes.data() + at, sizeof(T));
    at += sizeof(T);
    if (!IsFinite(scale) || std::signbit(Widen(scale))) return std::nullopt;
    if (count == 0 && Widen(scale) != 0) return std::nullopt;
  }
  q.levels = UnpackBits(bytes, at, BitsOfLevel(code));
  for (std::size_t i = count; i < q.levels.size(); ++i) {
    if (q.levels[i] != 0) return std::nullopt;
  }
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) {
    const int level = Signed(q.levels[i], code, q.top);
    if (level < -q.top || level > q.top) return std::nullopt;
    const Wide<T> relative =
        static_cast<Wide<T>>(level) / static_cast<Wide<T>>(q.top);
    values.push_back(Narrow<T>(Widen(q.scales[i / q.block]) * relative));
  }
  return values;
}

#define FEDPLUG_INSTANTIATE(T)                         \
  template std::optional<std::vector<T>> DecodeValues( \
      const std::vector<std::uint8_t>&, std::size_t, const ValueCode&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
