// Test cases of the CUDA decoding. A Machine (cuda_check_cases.h) has
//   Scatter(input)        ->  ScatterOutput of ScatterDecodeAdd
//   Decode(input)         ->  ScatterOutput of ScatterDecode, which must not
//                             see the accumulator's old values
#ifndef FEDPLUG_TESTS_CUDA_CHECK_SCATTER_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_SCATTER_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/scatter_decode.h"
#include "cuda/scatter_decode.h"
#include "tests/cuda_check_cases.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {

template <typename T>
struct ScatterInput {
  std::vector<T> accumulator;
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> row_splits;
  std::vector<T> weights;  // empty for none

  std::int64_t payloads() const {
    return static_cast<std::int64_t>(row_splits.size()) - 1;
  }
};

template <typename T>
struct ScatterOutput {
  std::vector<T> accumulator;
  Status status;
};

template <typename T>
ScatterInput<T> RandomPayloads(std::int64_t n, std::int64_t payloads,
                               std::int64_t largest_k, bool weighted, Fill fill,
                               Random& random) {
  ScatterInput<T> input;
  input.accumulator = RandomVector<T>(n, fill, random);
  input.row_splits = {0};
  for (std::int64_t p = 0; p < payloads; ++p) {
    const auto indices =
        RandomIndices(std::min(n, Below(random, largest_k + 1)), n, random);
    const auto values = RandomVector<T>(
        static_cast<std::int64_t>(indices.size()), fill, random);
    input.indices.insert(input.indices.end(), indices.begin(), indices.end());
    input.values.insert(input.values.end(), values.begin(), values.end());
    input.row_splits.push_back(static_cast<std::int64_t>(input.values.size()));
  }
  if (weighted)
    input.weights = RandomVector<T>(payloads, Fill::kNormal, random);
  return input;
}

// The core, which is tested against the reference, is the oracle.
template <typename T, typename Machine>
void ExpectSameAsCore(const ScatterInput<T>& input, Machine& machine) {
  Serial serial;
  std::vector<T> expected = input.accumulator;
  const Status status = ScatterDecodeAdd(
      expected.data(), static_cast<std::int64_t>(expected.size()),
      input.values.data(), input.indices.data(),
      static_cast<std::int64_t>(input.values.size()), input.row_splits.data(),
      input.payloads(), input.weights.empty() ? nullptr : input.weights.data(),
      serial);
  const ScatterOutput<T> actual = machine.Scatter(input);
  EXPECT_EQ(actual.status.message(), status.message());
  EXPECT_TRUE(actual.status.code() == status.code());
  EXPECT_EQ(BitsOf(actual.accumulator), BitsOf(expected));
}

template <typename T, typename Machine>
void ScatterEqualsTheCore(Machine& machine) {
  Random random(6);
  for (const std::int64_t n : kEdges) {
    for (const std::int64_t payloads : {0, 1, 2, 9}) {
      for (const Fill fill : {Fill::kNormal, Fill::kDenormal, Fill::kZeros}) {
        SCOPED_TRACE("n " + std::to_string(n) + ", payloads " +
                     std::to_string(payloads));
        ExpectSameAsCore(RandomPayloads<T>(n, payloads, n / 2 + 1,
                                           Below(random, 2) == 0, fill, random),
                         machine);
      }
    }
  }
  // More payloads than a block searches at once.
  ExpectSameAsCore(
      RandomPayloads<T>(9000, 600, 40, true, Fill::kNormal, random), machine);
}

template <typename T, typename Machine>
void DecodeEqualsTheCore(Machine& machine) {
  Random random(14);
  for (const std::int64_t n : {0, 1, 33, 8193}) {
    for (const std::int64_t payloads : {0, 3}) {
      SCOPED_TRACE("n " + std::to_string(n) + ", payloads " +
                   std::to_string(payloads));
      const auto input = RandomPayloads<T>(n, payloads, n / 2 + 1, true,
                                           Fill::kAnyFinite, random);
      Serial serial;
      std::vector<T> expected = input.accumulator;
      const Status status = ScatterDecode(
          expected.data(), n, input.values.data(), input.indices.data(),
          static_cast<std::int64_t>(input.values.size()),
          input.row_splits.data(), payloads, input.weights.data(), serial);
      const ScatterOutput<T> actual = machine.Decode(input);
      EXPECT_TRUE(status.ok() && actual.status.ok());
      EXPECT_EQ(BitsOf(actual.accumulator), BitsOf(expected));
    }
  }
}

// One changed number: the core's message, and nothing written.
template <typename Machine>
void ScatterRefusesInTheWordsOfTheCore(Machine& machine) {
  Random random(7);
  constexpr std::int64_t kWrong[] = {-1, 0, 1, 5, 39, 9000, INT32_MAX};
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    // Short payloads, often empty ones, so that changes hit their first
    // entries.
    const std::int64_t largest_k = trial % 2 == 0 ? 4 : 900;
    auto input =
        RandomPayloads<float>(9000, 6, largest_k, true, Fill::kNormal, random);
    const auto any = [&](std::size_t size) {
      return static_cast<std::size_t>(
          Below(random, static_cast<std::int64_t>(size)));
    };
    for (std::int64_t change = Below(random, 3); change >= 0; --change) {
      const std::int64_t wrong = kWrong[any(std::size(kWrong))];
      if (trial % 3 == 0) {
        input.row_splits[any(input.row_splits.size())] = wrong;
      } else if (!input.indices.empty()) {
        input.indices[any(input.indices.size())] =
            static_cast<std::int32_t>(wrong);
      }
    }
    ExpectSameAsCore(input, machine);
  }
}

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_SCATTER_CASES_H_
