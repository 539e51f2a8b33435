// What the CUDA kernels are held to, for any machine that can run their steps:
// a GPU (cuda_check.cu) or a CPU that plays one (cuda_check_emulation_test.cc).
// A Machine has
//   TopK(inputs, policy)  ->  one TopKOutput per input, one call for all
//   TopKOfAll(inputs, k, policy)
//                         ->  TopKOfAllOutput; no input's own k counts
//   Scatter(input)        ->  ScatterOutput
// and every buffer it hands to the steps begins as garbage.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/reference.h"
#include "core/scatter_decode.h"
#include "core/topk_residual.h"
#include "cuda/scatter_decode.h"
#include "cuda/topk_residual.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {

template <typename T>
struct TopKInput {
  std::vector<T> delta;
  std::vector<T> residual;
  std::int64_t k = 0;
  bool in_place = true;

  std::int64_t n() const { return static_cast<std::int64_t>(delta.size()); }
  std::size_t chosen() const {
    return static_cast<std::size_t>(std::min(k, n()));
  }
};

template <typename T>
struct TopKOutput {
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<T> residual;
  cuda::TopKReport report = {-7, -7};
};

// Of a list with one k for all.
template <typename T>
struct TopKOfAllOutput {
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> row_splits;
  std::vector<std::vector<T>> residuals;
  std::vector<cuda::TopKReport> reports;
};

// min(k, sum of n)
template <typename T>
std::size_t ChosenOfAll(const std::vector<TopKInput<T>>& inputs,
                        std::int64_t k) {
  std::int64_t n = 0;
  for (const TopKInput<T>& input : inputs) n += input.n();
  return static_cast<std::size_t>(std::min(k, n));
}

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

// Tiles hold 8192 elements, warps 32, blocks 512 or 256.
inline constexpr std::int64_t kEdges[] = {
    0, 1, 2, 31, 32, 33, 511, 512, 513, 8191, 8192, 8193, 16384, 24581};

template <typename T>
void ExpectReference(const TopKInput<T>& input, const TopKOutput<T>& output) {
  const auto expected =
      reference::TopKResidual(input.delta, input.residual, input.k);
  EXPECT_EQ(output.report.non_finite, expected.non_finite);
  EXPECT_EQ(output.indices, expected.indices);
  EXPECT_EQ(BitsOf(output.values), BitsOf(expected.values));
  EXPECT_EQ(BitsOf(output.residual), BitsOf(expected.residual));
}

template <typename T>
TopKInput<T> RandomInput(std::int64_t n, std::int64_t k, Fill fill,
                         Random& random) {
  return {RandomVector<T>(n, fill, random), RandomVector<T>(n, fill, random), k,
          Below(random, 2) == 0};
}

template <typename T, typename Machine>
void TopKEqualsTheReference(Machine& machine) {
  Random random(1);
  for (const std::int64_t n : kEdges) {
    for (const Fill fill : kAllFills) {
      TopKInput<T> input = RandomInput<T>(n, 0, fill, random);
      for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, n / 100,
                                   n / 3, n - 1, n, n + 9}) {
        if (k < 0) continue;
        SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                     std::to_string(static_cast<int>(fill)) + ", k " +
                     std::to_string(k));
        input.k = k;
        input.in_place = !input.in_place;
        ExpectReference(input, machine.TopK(std::vector<TopKInput<T>>{input},
                                            NonFinitePolicy::kDrop)[0]);
      }
    }
  }
}

// Keys that agree in all digits but the last, or all but the first, and groups
// of ties that begin and end inside tiles.
template <typename T, typename Machine>
void TopKSeparatesKeysByEveryDigit(Machine& machine) {
  using Bits = FloatBitsOf<T>;
  Random random(2);
  const std::int64_t n = 20000;
  for (const int shift : {0, 3, 4, kKeyBits<T> / 2, kKeyBits<T> - 4}) {
    TopKInput<T> input;
    input.residual = std::vector<T>(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto base = static_cast<Bits>(FloatTraits<T>::kInfinity / 2);
      const auto low = static_cast<Bits>(Bits(Below(random, 8)) << shift);
      const Bits key =
          static_cast<Bits>((base ^ low) % FloatTraits<T>::kInfinity);
      input.delta.push_back(FromBits<T>(key));
    }
    for (const std::int64_t k : {1, 2499, 8192, 9999, 19999}) {
      SCOPED_TRACE("shift " + std::to_string(shift) + ", k " +
                   std::to_string(k));
      input.k = k;
      ExpectReference(input, machine.TopK(std::vector<TopKInput<T>>{input},
                                          NonFinitePolicy::kError)[0]);
    }
  }
}

// More tensors than a launch takes, of all sizes, with a k of their own.
template <typename T>
std::vector<TopKInput<T>> ManyTensors(Random& random) {
  std::vector<TopKInput<T>> inputs;
  for (int i = 0; i < 70; ++i) {
    const std::int64_t n =
        i % 7 == 3 ? 0 : Below(random, i % 10 == 0 ? 20000 : 700);
    inputs.push_back(
        RandomInput<T>(n, Below(random, n + 3),
                       i % 2 == 0 ? Fill::kNormal : Fill::kFewLevels, random));
  }
  return inputs;
}

template <typename T, typename Machine>
void TopKTakesALongListOfTensors(Machine& machine) {
  Random random(3);
  const auto inputs = ManyTensors<T>(random);
  const auto outputs = machine.TopK(inputs, NonFinitePolicy::kError);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    ExpectReference(inputs[i], outputs[i]);
    EXPECT_EQ(outputs[i].report.first_non_finite, std::int64_t{-1});
  }
}

template <typename T, typename Machine>
void TopKRefusesTheWholeListAndChangesNothing(Machine& machine) {
  Random random(4);
  auto inputs = ManyTensors<T>(random);
  TopKInput<T> bad = RandomInput<T>(17000, 40, Fill::kNormal, random);
  bad.delta[8193] = bad.residual[16999] =
      FromBits<T>(FloatTraits<T>::kInfinity);
  inputs[40] = bad;
  const auto outputs = machine.TopK(inputs, NonFinitePolicy::kError);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    EXPECT_EQ(BitsOf(outputs[i].residual), BitsOf(inputs[i].residual));
    const Status status = cuda::ToStatus(outputs[i].report, inputs[i].n(),
                                         NonFinitePolicy::kError);
    EXPECT_EQ(status.ok(), i != 40);
  }
  // In the words of the core.
  Serial serial;
  std::vector<T> values(40);
  std::vector<std::int32_t> indices(40);
  std::int64_t non_finite = 0;
  const Status expected =
      TopKResidual(bad.delta.data(), bad.residual.data(), bad.residual.data(),
                   bad.n(), bad.k, NonFinitePolicy::kError, serial,
                   values.data(), indices.data(), &non_finite);
  const Status actual =
      cuda::ToStatus(outputs[40].report, bad.n(), NonFinitePolicy::kError);
  EXPECT_EQ(actual.message(), expected.message());
  EXPECT_TRUE(actual.code() == StatusCode::kNonFinite);
}

// So many tiles that ScanTiles gives several to a thread.
template <typename Machine>
void TopKTakesALongTensor(Machine& machine) {
  Random random(5);
  const std::int64_t n = 513 * 8192 + 1;
  for (const Fill fill : {Fill::kNormal, Fill::kFewLevels}) {
    const auto input = RandomInput<float>(n, n / 50, fill, random);
    ExpectReference(input, machine.TopK(std::vector<TopKInput<float>>{input},
                                        NonFinitePolicy::kError)[0]);
  }
}

// The core, itself held against the obvious loop, says what is right.
template <typename T, typename Machine>
void ExpectSameAsCore(const std::vector<TopKInput<T>>& inputs, std::int64_t k,
                      NonFinitePolicy policy, Machine& machine) {
  Serial serial;
  std::vector<std::vector<T>> residuals;
  std::vector<std::int64_t> sizes;
  for (const TopKInput<T>& input : inputs) {
    residuals.push_back(input.residual);
    sizes.push_back(input.n());
  }
  std::vector<TensorUpdate<T>> updates;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    T* const residual = residuals[i].data();
    updates.push_back({inputs[i].delta.data(), residual, residual, sizes[i]});
  }
  std::vector<T> values(ChosenOfAll(inputs, k));
  std::vector<std::int32_t> indices(values.size());
  std::vector<std::int64_t> row_splits(inputs.size() + 1);
  std::int64_t non_finite = 0;
  const Status status =
      TopKResidualOfAll(updates, k, policy, serial, values.data(),
                        indices.data(), row_splits.data(), &non_finite);

  const TopKOfAllOutput<T> actual = machine.TopKOfAll(inputs, k, policy);
  EXPECT_EQ(cuda::ToStatus(actual.reports, sizes, policy).message(),
            status.message());
  std::int64_t reported = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    EXPECT_EQ(BitsOf(actual.residuals[i]), BitsOf(residuals[i]));
    reported += actual.reports[i].non_finite;
  }
  EXPECT_EQ(reported, non_finite);
  if (!status.ok()) return;
  EXPECT_EQ(actual.row_splits, row_splits);
  EXPECT_EQ(actual.indices, indices);
  EXPECT_EQ(BitsOf(actual.values), BitsOf(values));
}

template <typename T>
std::vector<TopKInput<T>> ListOf(const std::vector<std::int64_t>& sizes,
                                 Fill fill, Random& random) {
  std::vector<TopKInput<T>> inputs;
  for (const std::int64_t n : sizes) {
    inputs.push_back(RandomInput<T>(n, 0, fill, random));
  }
  return inputs;
}

// Of all sizes, with empty tensors anywhere, or with no tensor at all; and ties
// that begin in one tensor and end in another.
template <typename T, typename Machine>
void TopKOfAllEqualsTheCore(Machine& machine) {
  Random random(8);
  const std::vector<std::vector<std::int64_t>> lists = {
      {},
      {0},
      {1},
      {0, 0, 0},
      {8192, 0, 8192},
      {0, 300, 0, 1, 20000, 64, 0, 8193, 16, 0}};
  for (const auto& sizes : lists) {
    std::int64_t n = 0;
    for (const std::int64_t size : sizes) n += size;
    for (const Fill fill : kAllFills) {
      const auto inputs = ListOf<T>(sizes, fill, random);
      for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, n / 100,
                                   n / 3, n - 1, n, n + 9}) {
        if (k < 0) continue;
        SCOPED_TRACE("tensors " + std::to_string(sizes.size()) + ", n " +
                     std::to_string(n) + ", fill " +
                     std::to_string(static_cast<int>(fill)) + ", k " +
                     std::to_string(k));
        ExpectSameAsCore(inputs, k, NonFinitePolicy::kDrop, machine);
      }
    }
  }
}

// More tensors than several launches take, and than ScanTiles has threads.
template <typename T, typename Machine>
void TopKOfAllTakesALongListOfTensors(Machine& machine) {
  Random random(11);
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 700; ++i) sizes.push_back(Below(random, 60));
  for (const Fill fill : {Fill::kNormal, Fill::kFewLevels}) {
    const auto inputs = ListOf<T>(sizes, fill, random);
    ExpectSameAsCore(inputs, 5000, NonFinitePolicy::kError, machine);
  }
  ExpectSameAsCore(ManyTensors<T>(random), 9000, NonFinitePolicy::kError,
                   machine);
}

template <typename T, typename Machine>
void TopKOfAllRefusesInTheWordsOfTheCore(Machine& machine) {
  Random random(12);
  auto inputs = ManyTensors<T>(random);
  const T infinity = FromBits<T>(FloatTraits<T>::kInfinity);
  inputs[40] = RandomInput<T>(17000, 0, Fill::kNormal, random);
  inputs[40].delta[8193] = inputs[40].residual[16999] = infinity;
  inputs[69] = RandomInput<T>(5, 0, Fill::kNormal, random);
  inputs[69].delta[4] = infinity;
  ExpectSameAsCore(inputs, 4000, NonFinitePolicy::kError, machine);
  ExpectSameAsCore(inputs, 4000, NonFinitePolicy::kDrop, machine);
}

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

// The core, itself held against the obvious loop, says what is right.
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
  // More payloads than a block looks up at once.
  ExpectSameAsCore(
      RandomPayloads<T>(9000, 600, 40, true, Fill::kNormal, random), machine);
}

// One number changed anywhere: the same words as the core's, and nothing
// written.
template <typename Machine>
void ScatterRefusesInTheWordsOfTheCore(Machine& machine) {
  Random random(7);
  constexpr std::int64_t kWrong[] = {-1, 0, 1, 5, 39, 9000, INT32_MAX};
  for (int trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    // Short payloads, often empty ones, so that their first entries are hit.
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

#endif  // FEDPLUG_TESTS_CUDA_CHECK_CASES_H_
