// Test cases of selections from chunks of a scaled sum, compared with the core,
// and of entries of a list.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_SUM_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_SUM_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/chunked_topk_residual.h"
#include "cuda/entries.h"
#include "cuda/scaled_sum.h"
#include "cuda/topk_residual.h"
#include "tests/cuda_check_device.cuh"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {

template <typename T>
struct SumSelection {
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<T> residual;
  std::int64_t non_finite;
};

template <typename T>
void ExpectEqual(const SumSelection<T>& actual,
                 const SumSelection<T>& expected) {
  EXPECT_EQ(actual.non_finite, expected.non_finite);
  if (expected.non_finite > 0) return;  // the rest means nothing
  EXPECT_EQ(actual.indices, expected.indices);
  EXPECT_EQ(BitsOf(actual.values), BitsOf(expected.values));
  EXPECT_EQ(BitsOf(actual.residual), BitsOf(expected.residual));
}

template <typename T>
void ExpectChunksOfTheCore(const std::vector<T>& delta,
                           const std::vector<T>& residual, std::int64_t k,
                           std::int64_t chunk, T decay) {
  const auto n = static_cast<std::int64_t>(delta.size());
  const auto entries = static_cast<std::size_t>(ChunkedEntries(n, k, chunk));
  SumSelection<T> expected = {std::vector<T>(entries),
                              std::vector<std::int32_t>(entries),
                              std::vector<T>(delta.size()), 0};
  Serial serial;
  static_cast<void>(ChunkedTopKResidual(
      delta.data(), residual.data(), expected.residual.data(), n, k, chunk,
      decay, serial, expected.values.data(), expected.indices.data(),
      &expected.non_finite));

  const DeviceArray<T> x(delta);
  const DeviceArray<T> before(residual);
  const DeviceArray<T> after(delta.size());
  const DeviceArray<T> values(entries);
  const DeviceArray<std::int32_t> indices(entries);
  const DeviceArray<cuda::NonFiniteCount> non_finite(1);
  Check(cuda::QueueChunkedTopK<T>(
      {x.data(), before.data(), after.data(), n, decay}, k, chunk,
      values.data(), indices.data(), non_finite.data(), nullptr));
  ExpectEqual({values.ToVector(), indices.ToVector(), after.ToVector(),
               std::int64_t{non_finite.ToVector()[0].count}},
              expected);
}

template <typename T>
void ChunksEqualTheCore() {
  struct Row {
    std::int64_t n, k, chunk;
  };
  constexpr Row kRows[] = {{0, 3, 64},      {1, 1, 1},     {100, 0, 7},
                           {3001, 3, 1000}, {500, 64, 64}, {17000, 700, 9000}};
  Random random(7);
  for (const Row& row : kRows) {
    for (const Fill fill : {Fill::kNormal, Fill::kFewLevels, Fill::kZeros,
                            Fill::kDenormal, Fill::kAnyBits}) {
      SCOPED_TRACE("n " + std::to_string(row.n) + ", chunk " +
                   std::to_string(row.chunk) + ", fill " +
                   std::to_string(static_cast<int>(fill)));
      const auto delta = RandomVector<T>(row.n, fill, random);
      ExpectChunksOfTheCore(delta, RandomVector<T>(row.n, fill, random), row.k,
                            row.chunk, FromFloat<T>(0.95f));
    }
  }
}

// Two tensors of two dtypes, one without indices.
inline void EntriesAreReadTakenAddedAndDivided() {
  using Floats = std::vector<float>;
  using Doubles = std::vector<double>;
  const DeviceArray<float> sparse(Floats{1, 2, 3, 4});
  const DeviceArray<double> dense(Doubles{5, 6});
  const DeviceArray<std::int32_t> indices(std::vector<std::int32_t>{1, 3});
  const DeviceArray<float> few(2);
  const DeviceArray<double> all(2);
  const auto queue = [&](cuda::EntriesWork work, bool to_values) {
    const DeviceArray<cuda::Entries> lists(std::vector<cuda::Entries>{
        {sparse.data(), indices.data(), to_values ? few.data() : nullptr, 0, 0},
        {dense.data(), nullptr, to_values ? all.data() : nullptr, 2, 1}});
    Check(cuda::QueueEntries(work, lists.data(), 2, 4, nullptr));
    Check(cudaDeviceSynchronize());
  };
  queue(cuda::EntriesWork::kRead, true);
  EXPECT_EQ(few.ToVector(), (Floats{2, 4}));
  EXPECT_EQ(all.ToVector(), (Doubles{5, 6}));
  queue(cuda::EntriesWork::kAdd, true);
  EXPECT_EQ(sparse.ToVector(), (Floats{1, 4, 3, 8}));
  EXPECT_EQ(dense.ToVector(), (Doubles{10, 12}));
  queue(cuda::EntriesWork::kDivideBy, true);
  EXPECT_EQ(sparse.ToVector(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(dense.ToVector(), (Doubles{2, 12.0 / 5}));
  queue(cuda::EntriesWork::kTake, true);
  EXPECT_EQ(few.ToVector(), (Floats{2, 4}));
  EXPECT_EQ(sparse.ToVector(), (Floats{1, 0, 3, 0}));
  queue(cuda::EntriesWork::kTake, false);
  EXPECT_EQ(dense.ToVector(), (Doubles{0, 0}));
}

// NaN and infinity do not count.
inline void TheLargestFiniteMagnitudeIsFound() {
  const float infinity = std::numeric_limits<float>::infinity();
  const DeviceArray<float> elements(
      std::vector<float>{-3, infinity, 2, std::nanf("")});
  const DeviceArray<float> largest(std::vector<float>{0, 0});
  const DeviceArray<cuda::Entries> lists(std::vector<cuda::Entries>{
      {elements.data(), nullptr, largest.data(), 0, 0}});
  Check(cuda::QueueEntries(cuda::EntriesWork::kLargest, lists.data(), 1, 4,
                           nullptr));
  Check(cudaDeviceSynchronize());
  EXPECT_EQ(largest.ToVector(), (std::vector<float>{3, 0}));
}

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_SUM_CASES_H_
