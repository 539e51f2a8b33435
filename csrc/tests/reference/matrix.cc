#include "tests/reference/matrix.h"

#include <algorithm>
#include <limits>

namespace fedplug::reference {
namespace {

template <typename W>
W HalvedSum(std::vector<W> terms) {
  while (terms.size() > 1) {
    if (terms.size() % 2 != 0) terms.push_back(0);
    const std::size_t half = terms.size() / 2;
    for (std::size_t i = 0; i < half; ++i) terms[i] += terms[half + i];
    terms.resize(half);
  }
  return terms.empty() ? W{0} : terms[0];
}

}  // namespace

template <typename T>
std::vector<T> Times(const std::vector<T>& a, const std::vector<T>& b,
                     const MatrixShape& shape, bool transposed) {
  const auto element = [&](std::int64_t i, std::int64_t c) {
    return a[static_cast<std::size_t>(i * shape.columns + c)];
  };
  const std::int64_t sums = transposed ? shape.columns : shape.rows;
  const std::int64_t terms = transposed ? shape.rows : shape.columns;
  std::vector<T> product;
  for (std::int64_t i = 0; i < sums; ++i) {
    for (std::int64_t j = 0; j < shape.rank; ++j) {
      std::vector<T> products;
      for (std::int64_t k = 0; k < terms; ++k) {
        products.push_back((transposed ? element(k, i) : element(i, k)) *
                           b[static_cast<std::size_t>(k * shape.rank + j)]);
      }
      product.push_back(HalvedSum(products));
    }
  }
  return product;
}

template <typename T>
std::vector<T> LowRankMatrix(const std::vector<T>& p, const std::vector<T>& q,
                             const MatrixShape& shape) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  std::vector<T> matrix;
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t c = 0; c < shape.columns; ++c) {
      T sum = 0;
      for (std::int64_t j = 0; j < shape.rank; ++j) {
        const T product = p[static_cast<std::size_t>(i * shape.rank + j)] *
                          q[static_cast<std::size_t>(c * shape.rank + j)];
        sum = j == 0 ? product : sum + product;
      }
      if (sum > kLargest) sum = kLargest;
      if (sum < -kLargest) sum = -kLargest;
      matrix.push_back(sum);
    }
  }
  return matrix;
}

#define FEDPLUG_INSTANTIATE(T)                                                \
  template std::vector<T> Times(const std::vector<T>&, const std::vector<T>&, \
                                const MatrixShape&, bool);                    \
  template std::vector<T> LowRankMatrix(                                      \
      const std::vector<T>&, const std::vector<T>&, const MatrixShape&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
