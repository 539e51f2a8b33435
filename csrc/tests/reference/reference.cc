// The references of the checksum, the sums of sparse payloads, and the selection of the largest entries.
#include "tests/reference/reference.h"

#include <algorithm>
#include <numeric>

#include "core/base/floats.h"

namespace fedplug::reference {

std::uint32_t Crc32(const std::vector<std::uint8_t>& data) {
  std::uint32_t crc = 0xffffffffu;
  for (const std::uint8_t byte : data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
  }
  return ~crc;
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

#define FEDPLUG_INSTANTIATE(T)                             \
  template void ScatterDecodeAdd<T>(                       \
      std::vector<T>*, const std::vector<std::vector<T>>&, \
      const std::vector<std::vector<std::int32_t>>&, const std::vector<T>&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

template <typename T>
TopK<T> TopKResidual(const std::vector<T>& delta,
                     const std::vector<T>& residual, std::int64_t k) {
  TopK<T> result;
  result.residual.resize(delta.size());
  std::vector<FloatBitsOf<T>> keys(delta.size());
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const T a = delta[i] + residual[i];
    if (!IsFinite(a)) ++result.non_finite;
    result.residual[i] = IsFinite(a) ? a : T{};
    keys[i] = MagnitudeKey(result.residual[i]);
  }
  std::vector<std::int32_t> order(delta.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::int32_t i) {
    return keys[static_cast<std::size_t>(i)];
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
TopK<T> TopKOfEach(const std::vector<T>& delta, const std::vector<T>& residual,
                   const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& ks) {
  TopK<T> result;
  std::int64_t begin = 0;
  for (std::size_t t = 0; t < sizes.size(); begin += sizes[t++]) {
    const auto part = [&](const std::vector<T>& all) {
      return std::vector<T>(all.begin() + begin,
                            all.begin() + begin + sizes[t]);
    };
    const TopK<T> chosen = TopKResidual(part(delta), part(residual), ks[t]);
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

#define FEDPLUG_INSTANTIATE(T)                                                 \
  template TopK<T> TopKResidual<T>(const std::vector<T>&,                      \
                                   const std::vector<T>&, std::int64_t);       \
  template TopK<T> TopKOfEach<T>(const std::vector<T>&, const std::vector<T>&, \
                                 const std::vector<std::int64_t>&,             \
                                 const std::vector<std::int64_t>&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
