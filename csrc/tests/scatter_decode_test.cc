// ScatterDecodeAdd and ScatterDecode against the loop of reference.h, and every
// refusal.
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
                           std::int64_t largest_k, bool weighted, Fill fill,
                           Random& random) {
  Payloads<T> payloads;
  for (std::int64_t p = 0; p < count; ++p) {
    const std::int64_t k = std::min(n, Below(random, largest_k + 1));
    payloads.indices.push_back(RandomIndices(k, n, random));
    payloads.values.push_back(RandomVector<T>(k, fill, random));
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
                     Parallel& parallel, std::size_t shift) {
  std::vector<std::int64_t> row_splits;
  const std::vector<T> joined_values = Join(payloads.values, &row_splits);
  Buffer<T> values(joined_values, shift);
  Buffer<std::int32_t> indices(Join(payloads.indices, &row_splits), shift);
  const T* weights =
      payloads.weights.empty() ? nullptr : payloads.weights.data();
  const auto expect = [&](auto decode, std::vector<T> start) {
    Buffer<T> actual(accumulator, shift);
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

TEST(ScatterDecodeAdd, EqualsTheReferenceForEverySizeWeightAndAlignment) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    Random random(1);
    Serial serial;
    for (const std::int64_t n : {0, 1, 2, 3, 17, 64, 1000}) {
      for (const std::int64_t payloads : {0, 1, 2, 9}) {
        for (const bool weighted : {false, true}) {
          for (const Fill fill :
               {Fill::kNormal, Fill::kDenormal, Fill::kZeros}) {
            SCOPED_TRACE("n " + std::to_string(n) + ", payloads " +
                         std::to_string(payloads));
            ExpectReference(RandomVector<T>(n, fill, random),
                            RandomPayloads<T>(payloads, n, n / 2 + 1, weighted,
                                              fill, random),
                            serial, weighted ? 1 : 0);
          }
        }
      }
    }
  });
}

// Long enough for several tiles. Dense payloads, which prefetch tiles, and thin
// ones, which have longer tiles.
TEST(ScatterDecodeAdd, EqualsTheReferenceAcrossTiles) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    Random random(3);
    Serial serial;
    ThreadPool two(2);
    const std::int64_t n = 300007;
    for (const std::int64_t largest_k : {n, n / 50, std::int64_t{100}}) {
      for (Parallel* threads :
           {static_cast<Parallel*>(&serial), static_cast<Parallel*>(&two)}) {
        SCOPED_TRACE("at most " + std::to_string(largest_k) + " entries");
        ExpectReference(
            RandomVector<T>(n, Fill::kNormal, random),
            RandomPayloads<T>(4, n, largest_k, true, Fill::kNormal, random),
            *threads, 1);
      }
    }
  });
}

// So large that it is not taken to be in the caches. The entries are few, and
// those of the last tiles fewer than are requested ahead.
TEST(ScatterDecodeAdd, EqualsTheReferenceWhereTheAccumulatorIsFarAway) {
  Random random(4);
  ThreadPool two(2);
  const std::int64_t n = (std::int64_t{1} << 21) + 77;
  ExpectReference(
      RandomVector<double>(n, Fill::kNormal, random),
      RandomPayloads<double>(3, n, 1000, true, Fill::kNormal, random), two, 1);
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
