// The test cases of the CUDA selection, which run on a GPU (cuda_check.cu) and
// on fibers (fake_cuda/cuda_device_test.cc). A Machine has
//   TopK(inputs, policy)  ->  one TopKOutput per input, one call for all
// and every buffer it passes to the kernels begins as garbage. More cases:
// cuda_check_list_cases.h and
// cuda_check_scatter_cases.h.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_CASES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/topk_residual.h"
#include "cuda/topk_residual.h"
#include "tests/kernel_inputs.h"
#include "tests/reference/reference.h"

namespace fedplug::testing {

template <typename T>
struct TopKInput {
  std::vector<T> delta;
  std::vector<T> residual;
  std::int64_t k = 0;
  bool in_place = true;
  // Elements before the first in every buffer, because a part of a larger
  // tensor is only aligned to its dtype.
  std::size_t shift = 0;

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
          Below(random, 2) == 0, static_cast<std::size_t>(Below(random, 4))};
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

// Tensors of all sizes, with a k of their own.
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

// Two of its sums are not finite.
template <typename T>
TopKInput<T> BadTensor(Random& random) {
  TopKInput<T> bad = RandomInput<T>(17000, 40, Fill::kNormal, random);
  bad.delta[8193] = bad.residual[16999] =
      FromBits<T>(FloatTraits<T>::kInfinity);
  return bad;
}

template <typename T>
void ExpectRefusedAsByTheCore(const TopKInput<T>& bad,
                              const TopKOutput<T>& output) {
  Serial serial;
  std::vector<T> residual = bad.residual;
  std::vector<T> values(bad.chosen());
  std::vector<std::int32_t> indices(bad.chosen());
  std::int64_t non_finite = 0;
  const Status expected =
      TopKResidual(bad.delta.data(), residual.data(), residual.data(), bad.n(),
                   bad.k, NonFinitePolicy::kError, serial, values.data(),
                   indices.data(), &non_finite);
  const Status actual =
      cuda::ToStatus(output.report, bad.n(), NonFinitePolicy::kError);
  EXPECT_EQ(actual.message(), expected.message());
  EXPECT_TRUE(actual.code() == StatusCode::kNonFinite);
  EXPECT_EQ(BitsOf(output.residual), BitsOf(bad.residual));
}

template <typename T, typename Machine>
void TopKRefusesATensorAndChangesNothing(Machine& machine) {
  Random random(15);
  TopKInput<T> bad = BadTensor<T>(random);
  for (const bool in_place : {false, true}) {
    bad.in_place = in_place;
    const std::vector<TopKInput<T>> inputs = {bad};
    ExpectRefusedAsByTheCore(bad,
                             machine.TopK(inputs, NonFinitePolicy::kError)[0]);
    ExpectReference(bad, machine.TopK(inputs, NonFinitePolicy::kDrop)[0]);
  }
}

template <typename T, typename Machine>
void TopKRefusesTheWholeListAndChangesNothing(Machine& machine) {
  Random random(4);
  auto inputs = ManyTensors<T>(random);
  const TopKInput<T> bad = BadTensor<T>(random);
  inputs[40] = bad;
  const auto outputs = machine.TopK(inputs, NonFinitePolicy::kError);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    EXPECT_EQ(BitsOf(outputs[i].residual), BitsOf(inputs[i].residual));
    const Status status = cuda::ToStatus(outputs[i].report, inputs[i].n(),
                                         NonFinitePolicy::kError);
    EXPECT_EQ(status.ok(), i != 40);
  }
  ExpectRefusedAsByTheCore(bad, outputs[40]);
}

// One value everywhere: a single tie, or only refused sums.
template <typename T, typename Machine>
void TopKTakesTensorsOfOneValue(Machine& machine) {
  const T infinity = FromBits<T>(FloatTraits<T>::kInfinity);
  const T nan = FromBits<T>(FloatTraits<T>::kInfinity + 1);
  for (const T value : {T{}, FromFloat<T>(-1.5f), infinity, nan}) {
    for (const std::int64_t n : {1, 33, 8193}) {
      for (const std::int64_t k : {std::int64_t{0}, n / 2, n}) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE("n " + std::to_string(n) + ", k " + std::to_string(k));
          const auto size = static_cast<std::size_t>(n);
          const TopKInput<T> input = {std::vector<T>(size, value),
                                      std::vector<T>(size, T{}), k, in_place,
                                      1};
          const std::vector<TopKInput<T>> inputs = {input};
          ExpectReference(input,
                          machine.TopK(inputs, NonFinitePolicy::kDrop)[0]);
          const auto output = machine.TopK(inputs, NonFinitePolicy::kError)[0];
          if (IsFinite(value)) {
            ExpectReference(input, output);
            continue;
          }
          EXPECT_EQ(output.report.non_finite, n);
          EXPECT_EQ(output.report.first_non_finite, std::int64_t{0});
          EXPECT_EQ(BitsOf(output.residual), BitsOf(input.residual));
        }
      }
    }
  }
}

// Ascending and descending tensors, and tensors with mostly zeros, of which
// some or none are selected.
template <typename T, typename Machine>
void TopKTakesTensorsInOrderAndOfZeros(Machine& machine) {
  Random random(19);
  const std::int64_t n = 30000;
  TopKInput<T> rising = RandomInput<T>(n, 0, Fill::kNormal, random);
  rising.residual.assign(rising.residual.size(), T{});
  std::sort(rising.delta.begin(), rising.delta.end(),
            [](T a, T b) { return MagnitudeKey(a) < MagnitudeKey(b); });
  TopKInput<T> falling = rising;
  std::reverse(falling.delta.begin(), falling.delta.end());
  TopKInput<T> zeros = RandomInput<T>(n, 0, Fill::kZeros, random);
  for (std::size_t i = 50; i < zeros.delta.size(); i += 100) {
    zeros.delta[i] = RandomValue<T>(Fill::kNormal, random);
  }
  for (TopKInput<T>* const input : {&rising, &falling, &zeros}) {
    for (const std::int64_t k : {std::int64_t{3}, n / 200, n / 50, n / 2}) {
      SCOPED_TRACE("k " + std::to_string(k));
      input->k = k;
      ExpectReference(*input, machine.TopK(std::vector<TopKInput<T>>{*input},
                                           NonFinitePolicy::kError)[0]);
    }
  }
}

// A tensor of many tiles, with a long shortlist.
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

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_CASES_H_
