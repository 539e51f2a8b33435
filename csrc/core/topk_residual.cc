// Checks, and the choice of what the selection of topk_select.h runs over.
#include "core/topk_residual.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "core/float_bits.h"
#include "core/float_environment.h"
#include "core/topk_select.h"

namespace fedplug {
namespace {

using topk::PlainDelta;
using topk::Selection;
using topk::Update;

Status CheckSizes(std::int64_t n, std::int64_t k) {
  if (n < 0 || n > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "n = " + std::to_string(n) + " is not in [0, 2^31)"};
  }
  if (k < 0) {
    return {StatusCode::kInvalidArgument,
            "k = " + std::to_string(k) + " is negative"};
  }
  return {};
}

// Only after a refusal, and so without haste.
template <typename T>
std::int64_t FirstNonFinite(const T* delta, const T* residual, std::int64_t n) {
  const DefaultFloatEnvironment environment;
  std::int64_t i = 0;
  while (i < n && IsFinite(delta[i] + residual[i])) ++i;
  return i;
}

template <typename T>
Status NonFiniteStatus(const T* delta, const T* residual, std::int64_t n,
                       std::int64_t count) {
  return {StatusCode::kNonFinite,
          std::to_string(count) + " of " + std::to_string(n) +
              " sums of delta and residual are NaN or infinite, the first at "
              "index " +
              std::to_string(FirstNonFinite(delta, residual, n)) +
              "; nothing was changed. Leave this update out, or choose the "
              "policy \"drop\" to count such sums as zero"};
}

}  // namespace

template <typename T>
Status TopKResidual(const T* delta, const T* residual_in, T* residual_out,
                    std::int64_t n, std::int64_t k, NonFinitePolicy policy,
                    Parallel& parallel, T* values, std::int32_t* indices,
                    std::int64_t* non_finite) {
  *non_finite = 0;
  if (Status status = CheckSizes(n, k); !status.ok()) return status;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const PlainDelta<T> source(delta);
  Selection<T> selection({{&source, residual_in, residual_out, n}}, k, policy,
                         level, parallel);
  if (!selection.Run(values, indices)) {
    if (residual_out != residual_in) std::copy_n(residual_in, n, residual_out);
    *non_finite = CountNonFinite(delta, residual_in, n, parallel);
    return NonFiniteStatus(delta, residual_in, n, *non_finite);
  }
  *non_finite = selection.dropped();
  return {};
}

template <typename T>
std::int64_t CountNonFinite(const T* delta, const T* residual, std::int64_t n,
                            Parallel& parallel) {
  constexpr std::int64_t kPiece = 1 << 16;
  std::atomic<std::int64_t> total{0};
  parallel.Run(static_cast<int>((n + kPiece - 1) / kPiece), [&](int p) {
    const DefaultFloatEnvironment environment;
    std::int64_t count = 0;
    for (std::int64_t i = p * kPiece; i < std::min(n, (p + 1) * kPiece); ++i) {
      count += IsFinite(delta[i] + residual[i]) ? 0 : 1;
    }
    total += count;
  });
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
