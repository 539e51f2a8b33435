#include "tests/reference/matrix.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace fedplug::reference {
namespace {

using value_loops::WideOf;

float Widened(float x) { return x; }
double Widened(double x) { return x; }
float Widened(Half x) { return ToFloat(x); }
float Widened(BFloat16 x) { return ToFloat(x); }

float Narrowed(float x, float /*like*/) { return x; }
double Narrowed(double x, double /*like*/) { return x; }
Half Narrowed(float x, Half /*like*/) { return ToHalf(x); }
BFloat16 Narrowed(float x, BFloat16 /*like*/) { return ToBFloat16(x); }

template <typename T>
T Largest() {
  T largest;
  const auto bits = static_cast<FloatBitsOf<T>>(FloatTraits<T>::kInfinity - 1);
  std::memcpy(&largest, &bits, sizeof(largest));
  return largest;
}

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
std::vector<T> Times(const std::vector<T>& a, T scale, const std::vector<T>& b,
                     const MatrixShape& shape, bool transposed) {
  const auto element = [&](std::int64_t i, std::int64_t c) {
    const T x = a[static_cast<std::size_t>(i * shape.columns + c)];
    return scale == 0 ? T{0} : x / scale;
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
std::vector<T> LowRankMatrix(const std::vector<WideOf<T>>& p,
                             const std::vector<WideOf<T>>& q, WideOf<T> scale,
                             const MatrixShape& shape) {
  using Wide = WideOf<T>;
  std::vector<T> matrix;
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t c = 0; c < shape.columns; ++c) {
      Wide sum = 0;
      for (std::int64_t j = 0; j < shape.rank; ++j) {
        const Wide product = p[static_cast<std::size_t>(i * shape.rank + j)] *
                             q[static_cast<std::size_t>(c * shape.rank + j)];
        sum = j == 0 ? product : sum + product;
      }
      sum *= scale;
      const Wide largest = Widened(Largest<T>());
      if (sum > largest) sum = largest;
      if (sum < -largest) sum = -largest;
      matrix.push_back(Narrowed(sum, T{}));
    }
  }
  return matrix;
}

template std::vector<float> Times(const std::vector<float>&, float,
                                  const std::vector<float>&, const MatrixShape&,
                                  bool);
template std::vector<double> Times(const std::vector<double>&, double,
                                   const std::vector<double>&,
                                   const MatrixShape&, bool);

#define FEDPLUG_INSTANTIATE(T)                                            \
  template std::vector<T> LowRankMatrix<T>(const std::vector<WideOf<T>>&, \
                                           const std::vector<WideOf<T>>&, \
                                           WideOf<T>, const MatrixShape&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
