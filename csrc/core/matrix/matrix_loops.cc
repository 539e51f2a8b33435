#include "core/matrix/matrix_loops.h"

#include <algorithm>

#include "core/simd/loops.h"

namespace fedplug::matrix {
namespace {

// Product i of 2^kDepth stretches, the first of which is `stretch`.
template <int kDepth, typename Product>
FEDPLUG_ALWAYS_INLINE auto Tree(const Product& product, std::int64_t stretch) {
  if constexpr (kDepth == 0) {
    return product(stretch);
  } else {
    constexpr std::int64_t kHalf = std::int64_t{1} << (kDepth - 1);
    return Tree<kDepth - 1>(product, stretch) +
           Tree<kDepth - 1>(product, stretch + kHalf);
  }
}

template <int kDepth, typename T>
FEDPLUG_ALWAYS_INLINE void NumbersLoop(const T* x, std::int64_t x_stride,
                                       const T* y, std::int64_t y_stride,
                                       std::int64_t n, T* __restrict sums) {
  T numbers[1 << kDepth];
  for (int s = 0; s < 1 << kDepth; ++s) numbers[s] = y[s * y_stride];
  for (std::int64_t i = 0; i < n; ++i) {
    sums[i] = Tree<kDepth>(
        [&](std::int64_t s) { return x[s * x_stride + i] * numbers[s]; }, 0);
  }
}

template <int kDepth, typename T>
FEDPLUG_ALWAYS_INLINE void VectorsLoop(const T* x, std::int64_t x_stride,
                                       const T* y, std::int64_t y_stride,
                                       std::int64_t n, T* __restrict sums) {
  for (std::int64_t at = 0; at < n; at += kLoopBlock) {
    T block[kLoopBlock];  // GCC checks too many pointers for aliasing without
                          // it
    for (std::int64_t i = 0; i < kLoopBlock; ++i) {
      block[i] = Tree<kDepth>(
          [&](std::int64_t s) {
            return x[s * x_stride + at + i] * y[s * y_stride + at + i];
          },
          0);
    }
    std::copy_n(block, kLoopBlock, sums + at);
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void AddHalvesLoop(const T* terms, std::int64_t half,
                                         T* __restrict sums) {
  for (std::int64_t at = 0; at < half; at += kLoopBlock) {
    for (std::int64_t i = at; i < at + kLoopBlock; ++i) {
      sums[i] = terms[i] + terms[half + i];
    }
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void AddLoop(const T* terms, std::int64_t n,
                                   T* __restrict sums) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += terms[i];
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void AddZerosLoop(std::int64_t n, T* sums) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += T{0};
}

template <int kRanks, bool kAdds, typename T>
FEDPLUG_ALWAYS_INLINE void OuterLoop(const T* p, const T* q,
                                     std::int64_t q_stride, std::int64_t n,
                                     T* __restrict total) {
  T numbers[kRanks];
  for (int j = 0; j < kRanks; ++j) numbers[j] = p[j];
  for (std::int64_t i = 0; i < n; ++i) {
    T sum = kAdds ? total[i] + numbers[0] * q[i] : numbers[0] * q[i];
    for (int j = 1; j < kRanks; ++j) sum += numbers[j] * q[j * q_stride + i];
    total[i] = sum;
  }
}

template <typename T>
FEDPLUG_ALWAYS_INLINE void LimitLoop(T largest, std::int64_t n, T* x) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T value = x[i] > largest ? largest : x[i];
    x[i] = value < -largest ? -largest : value;
  }
}

}  // namespace

template <typename T>
MatrixLoops<T> MatrixLoopsFor(SimdLevel level) {
  return {
      {LoopFor<NumbersLoop<0, T>>(level), LoopFor<NumbersLoop<1, T>>(level),
       LoopFor<NumbersLoop<2, T>>(level), LoopFor<NumbersLoop<3, T>>(level)},
      {LoopFor<VectorsLoop<0, T>>(level), LoopFor<VectorsLoop<1, T>>(level),
       LoopFor<VectorsLoop<2, T>>(level), LoopFor<VectorsLoop<3, T>>(level)},
      LoopFor<AddHalvesLoop<T>>(level),
      LoopFor<AddLoop<T>>(level),
      LoopFor<AddZerosLoop<T>>(level),
      {nullptr, LoopFor<OuterLoop<1, false, T>>(level),
       LoopFor<OuterLoop<2, false, T>>(level),
       LoopFor<OuterLoop<3, false, T>>(level),
       LoopFor<OuterLoop<4, false, T>>(level)},
      {nullptr, LoopFor<OuterLoop<1, true, T>>(level),
       LoopFor<OuterLoop<2, true, T>>(level),
       LoopFor<OuterLoop<3, true, T>>(level),
       LoopFor<OuterLoop<4, true, T>>(level)},
      LoopFor<LimitLoop<T>>(level)};
}

template MatrixLoops<float> MatrixLoopsFor(SimdLevel);
template MatrixLoops<double> MatrixLoopsFor(SimdLevel);

}  // namespace fedplug::matrix
