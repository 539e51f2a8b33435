// ScatterDecodeAdd and ScatterDecode against the loop of reference.h.
// scatter_decode_fuzz has small sums, also refused ones.
#include "core/scatter_decode.h"

#include "tests/kernel_inputs.h"
#include "tests/reference/reference.h"

namespace fedplug::testing {
namespace {

template <typename T>
struct Payloads {
  std::vector<std::vector<T>> values;
  std::vector<std::vector<std::int32_t>> indices;
  std::vector<T> weights;
};

template <typename T>
Payloads<T> RandomPayloads(std::int64_t count, std::int64_t n,
                           std::int64_t largest_k, bool weighted,
                           Random& random) {
  Payloads<T> payloads;
  for (std::int64_t p = 0; p < count; ++p) {
    const std::int64_t k = std::min(n, Below(random, largest_k + 1));
    payloads.indices.push_back(RandomIndices(k, n, random));
    payloads.values.push_back(RandomVector<T>(k, Fill::kNormal, random));
  }
  if (weighted)
    payloads.weights = RandomVector<T>(count, Fill::kNormal, random);
  return payloads;
}

template <typename T>
std::vector<T> Join(const std::vector<std::vector<T>>& rows,
                    std::vector<std::int64_t>* row_splits) {
  std::vector<T> joined;
  row_splits->assign(1, 0);
  for (const auto& row : rows) {
    joined.insert(joined.end(), row.begin(), row.end());
    row_splits->push_back(static_cast<std::int64_t>(joined.size()));
  }
  return joined;
}

// Adds the payloads to `accumulator`, and makes their sum where something else
// was before.
template <typename T>
void ExpectReference(std::vector<T> accumulator, const Payloads<T>& payloads,
                     Parallel& parallel) {
  std::vector<std::int64_t> row_splits;
  const std::vector<T> joined_values = Join(payloads.values, &row_splits);
  Buffer<T> values(joined_values, 1);
  Buffer<std::int32_t> indices(Join(payloads.indices, &row_splits), 1);
  const T* weights =
      payloads.weights.empty() ? nullptr : payloads.weights.data();
  const auto expect = [&](auto decode, std::vector<T> start) {
    Buffer<T> actual(accumulator, 1);
    const Status status = decode(
        actual.data(), static_cast<std::int64_t>(accumulator.size()),
        values.data(), indices.data(),
        static_cast<std::int64_t>(joined_values.size()), row_splits.data(),
        static_cast<std::int64_t>(payloads.values.size()), weights, parallel);
    EXPECT_EQ(status.message(), "");
    reference::ScatterDecodeAdd(&start, payloads.values, payloads.indices,
                                payloads.weights);
    EXPECT_EQ(BitsOf(actual.ToVector()), BitsOf(start));
  };
  expect(ScatterDecodeAdd<T>, accumulator);
  expect(ScatterDecode<T>, std::vector<T>(accumulator.size()));
}

// Long enough for several tiles: dense payloads, which prefetch tiles, and thin
// ones, which have longer tiles. The longest does not fit the caches, and the
// last tiles have fewer entries than are requested ahead.
TEST(ScatterDecodeAdd, EqualsTheReferenceAcrossTilesOnAnyNumberOfThreads) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    Random random(3);
    ThreadPool one(1);
    ThreadPool two(2);
    for (const auto& [n, largest_k] :
         {std::pair{300007, 300007}, std::pair{300007, 6000},
          std::pair{300007, 100}, std::pair{(1 << 21) + 77, 1000}}) {
      SCOPED_TRACE("n " + std::to_string(n) + ", at most " +
                   std::to_string(largest_k) + " entries");
      const auto sum = RandomVector<T>(n, Fill::kNormal, random);
      for (const bool weighted : {false, true}) {
        const auto payloads =
            RandomPayloads<T>(4, n, largest_k, weighted, random);
        ExpectReference(sum, payloads, one);
        ExpectReference(sum, payloads, two);
      }
    }
  });
}

TEST(ScatterDecodeAdd, NamesTheFirstBadPayloadWhateverTheNumberOfThreads) {
  const std::int64_t payloads = 20;
  const std::int64_t k = 8000;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> row_splits = {0};
  for (std::int64_t p = 0; p < payloads; ++p) {
    for (std::int32_t j = 0; j < k; ++j) indices.push_back(j);
    row_splits.push_back(static_cast<std::int64_t>(indices.size()));
  }
  for (const std::int64_t bad : {19, 12, 5})
    indices[static_cast<std::size_t>(bad * k + 1)] = 0;
  const std::vector<float> values(indices.size(), 1.0f);
  std::vector<float> accumulator(static_cast<std::size_t>(k));
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    const Status status = ScatterDecodeAdd(
        accumulator.data(), k, values.data(), indices.data(), payloads * k,
        row_splits.data(), payloads, static_cast<const float*>(nullptr), pool);
    EXPECT_EQ(status.message(),
              "payload 5: index 0 is not above the one before it "
              "(0), at position 1 of 8000");
  }
}

}  // namespace
}  // namespace fedplug::testing
