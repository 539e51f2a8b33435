#include "tests/reference/reference.h"

#include <algorithm>
#include <numeric>

#include "core/base/float_bits.h"

namespace fedplug::reference {
namespace {

// A string of bits, packed into bytes with the least significant bit first.
std::vector<std::uint8_t> Pack(const std::vector<bool>& bits) {
  std::vector<std::uint8_t> bytes((bits.size() + 7) / 8);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i])
      bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | (1u << (i % 8)));
  }
  return bytes;
}

std::vector<std::uint8_t> EncodeWith(const std::vector<std::int32_t>& indices,
                                     int b, std::size_t* code_bits) {
  std::vector<bool> low;
  std::vector<bool> unary;
  std::int32_t next = 0;
  for (const std::int32_t index : indices) {
    const std::int32_t gap = index - next;
    next = index + 1;
    for (int bit = 0; bit < b; ++bit) low.push_back(((gap >> bit) & 1) != 0);
    unary.insert(unary.end(), static_cast<std::size_t>(gap >> b), false);
    unary.push_back(true);
  }
  *code_bits = low.size() + unary.size();
  std::vector<std::uint8_t> code = {static_cast<std::uint8_t>(b)};
  for (const auto& part : {Pack(low), Pack(unary)})
    code.insert(code.end(), part.begin(), part.end());
  return code;
}

}  // namespace

template <typename T>
TopK<T> TopKResidual(const std::vector<T>& delta,
                     const std::vector<T>& residual, std::int64_t k) {
  TopK<T> result;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const T a = delta[i] + residual[i];
    if (!IsFinite(a)) ++result.non_finite;
    result.residual.push_back(IsFinite(a) ? a : T{});
  }
  std::vector<std::int32_t> order(delta.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::int32_t i) {
    return MagnitudeKey(result.residual[static_cast<std::size_t>(i)]);
  };
  const auto is_larger = [&](std::int32_t i, std::int32_t j) {
    return key(i) != key(j) ? key(i) > key(j) : i < j;
  };
  // The k largest first, in any order: the tests would spend most of their time
  // on sorting the others, too.
  const auto kept = std::min(order.size(), static_cast<std::size_t>(k));
  std::nth_element(order.begin(),
                   order.begin() + static_cast<std::ptrdiff_t>(kept),
                   order.end(), is_larger);
  order.resize(kept);
  std::sort(order.begin(), order.end());
  result.indices = order;
  for (const std::int32_t index : order) {
    T& a = result.residual[static_cast<std::size_t>(index)];
    result.values.push_back(a);
    a = T{};
  }
  return result;
}

template <typename T>
TopK<T> ChunkedTopKResidual(const std::vector<T>& delta,
                            const std::vector<T>& residual, std::int64_t k,
                            std::int64_t chunk, T decay) {
  TopK<T> result;
  const auto n = static_cast<std::int64_t>(delta.size());
  for (std::int64_t begin = 0; begin < n; begin += chunk) {
    const std::int64_t end = std::min(n, begin + chunk);
    const auto part = [=](const std::vector<T>& all) {
      return std::vector<T>(all.begin() + begin, all.begin() + end);
    };
    std::vector<T> kept = part(residual);
    for (T& value : kept) value = decay * value;
    const TopK<T> chosen = TopKResidual(part(delta), kept, k);
    for (const std::int32_t index : chosen.indices) {
      result.indices.push_back(index + static_cast<std::int32_t>(begin));
    }
    const auto append = [](const std::vector<T>& from, std::vector<T>* to) {
      to->insert(to->end(), from.begin(), from.end());
    };
    append(chosen.values, &result.values);
    append(chosen.residual, &result.residual);
    result.non_finite += chosen.non_finite;
  }
  return result;
}

template <typename T>
void ScatterDecodeAdd(std::vector<T>* accumulator,
                      const std::vector<std::vector<T>>& values,
                      const std::vector<std::vector<std::int32_t>>& indices,
                      const std::vector<T>& weights) {
  for (std::size_t p = 0; p < values.size(); ++p) {
    for (std::size_t j = 0; j < values[p].size(); ++j) {
      T& sum = (*accumulator)[static_cast<std::size_t>(indices[p][j])];
      const T term = weights.empty() ? values[p][j] : weights[p] * values[p][j];
      sum = sum + term;
    }
  }
}

std::vector<std::uint8_t> EncodeIndices(
    const std::vector<std::int32_t>& indices) {
  if (indices.empty()) return {};
  std::vector<std::uint8_t> best;
  std::size_t fewest = 0;
  for (int b = 0; b <= 30; ++b) {
    std::size_t bits = 0;
    std::vector<std::uint8_t> code = EncodeWith(indices, b, &bits);
    if (b == 0 || bits < fewest) {
      fewest = bits;
      best = std::move(code);
    }
  }
  return best;
}

std::optional<std::vector<std::int32_t>> DecodeIndices(
    const std::vector<std::uint8_t>& code, std::int64_t count,
    std::int64_t size) {
  std::vector<std::int32_t> indices;
  if (count > 0) {
    if (code.empty() || code[0] > 30) return std::nullopt;
    const std::int64_t b = code[0];
    const auto bit_at = [&](std::int64_t position) {
      const auto byte = static_cast<std::size_t>(position / 8);
      return byte < code.size() && ((code[byte] >> (position % 8)) & 1) != 0;
    };
    const auto end = static_cast<std::int64_t>(8 * code.size());
    std::int64_t low = 8;
    std::int64_t unary = 8 * (1 + (count * b + 7) / 8);
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t gap = 0;
      for (std::int64_t bit = 0; bit < b; ++bit)
        gap |= std::int64_t{bit_at(low++)} << bit;
      for (; unary < end && !bit_at(unary); ++unary)
        gap += std::int64_t{1} << b;
      ++unary;
      if (next + gap >= size) return std::nullopt;
      indices.push_back(static_cast<std::int32_t>(next + gap));
      next += gap + 1;
    }
  }
  if (EncodeIndices(indices) != code) return std::nullopt;
  return indices;
}

std::uint32_t Crc32(const std::vector<std::uint8_t>& data) {
  std::uint32_t crc = 0xffffffffu;
  for (const std::uint8_t byte : data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

#define FEDPLUG_INSTANTIATE(T)                                                 \
  template TopK<T> TopKResidual<T>(const std::vector<T>&,                      \
                                   const std::vector<T>&, std::int64_t);       \
  template TopK<T> ChunkedTopKResidual<T>(const std::vector<T>&,               \
                                          const std::vector<T>&, std::int64_t, \
                                          std::int64_t, T)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

#define FEDPLUG_INSTANTIATE(T)                             \
  template void ScatterDecodeAdd<T>(                       \
      std::vector<T>*, const std::vector<std::vector<T>>&, \
      const std::vector<std::vector<std::int32_t>>&, const std::vector<T>&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
