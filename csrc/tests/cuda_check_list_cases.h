// Test cases of the CUDA selection from a list of tensors with one k. A Machine
// (cuda_check_cases.h) has
//   GroupedTopK(inputs, k, policy)  ->  GroupedTopKOutput. No input's own k
//                                       counts
#ifndef FEDPLUG_TESTS_CUDA_CHECK_LIST_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_LIST_CASES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/topk_residual.h"
#include "cuda/topk/banded.h"
#include "cuda/topk_residual.h"
#include "tests/cuda_check_cases.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {

// Of a list with one k for all.
template <typename T>
struct GroupedTopKOutput {
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> row_splits;
  std::vector<std::vector<T>> residuals;
  std::vector<cuda::TopKReport> reports;
};

// min(k, sum of n)
template <typename T>
std::size_t ChosenOfGroup(const std::vector<TopKInput<T>>& inputs,
                          std::int64_t k) {
  std::int64_t n = 0;
  for (const TopKInput<T>& input : inputs) n += input.n();
  return static_cast<std::size_t>(std::min(k, n));
}

// The core, which is tested against the reference, is the oracle.
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
  std::vector<T> values(ChosenOfGroup(inputs, k));
  std::vector<std::int32_t> indices(values.size());
  std::vector<std::int64_t> row_splits(inputs.size() + 1);
  std::int64_t non_finite = 0;
  const Status status =
      GroupedTopKResidual(updates, k, policy, serial, values.data(),
                          indices.data(), row_splits.data(), &non_finite);

  const GroupedTopKOutput<T> actual = machine.GroupedTopK(inputs, k, policy);
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

// Lists of all sizes, with empty tensors or without tensors, and with ties that
// begin in one tensor and end in another.
template <typename T, typename Machine>
void GroupedTopKEqualsTheCore(Machine& machine) {
  Random random(8);
  const std::vector<std::vector<std::int64_t>> lists = {
      {},
      {0},
      {1},
      {0, 0, 0},
      {8192, 0, 8192},
      {20000},
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

// A table of more tensors than the arguments of a launch take.
template <typename T, typename Machine>
void GroupedTopKTakesALongListOfTensors(Machine& machine) {
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
void GroupedTopKRefusesInTheWordsOfTheCore(Machine& machine) {
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

}  // namespace fedplug::testing

// Further test cases of the banded CUDA selection: residuals that its log
// cannot describe, and misleading samples. cuda_check_cases.h describes a
// Machine.

namespace fedplug::testing {

// Residuals that do not fit the log of 16 bits, in some of the tiles:
// negligible ones, and -0.
template <typename T>
TopKInput<T> TensorFarFromItsSums() {
  Random random(17);
  TopKInput<T> input = RandomInput<T>(24581, 500, Fill::kNormal, random);
  input.in_place = true;
  const auto minus_zero = FromBits<T>(
      static_cast<FloatBitsOf<T>>(FloatBitsOf<T>{1} << kKeyBits<T>));
  for (std::size_t i = 9000; i < 20000; i += 7) {
    input.delta[i] = FromFloat<T>(i % 2 == 0 ? 12345.0f : 1.0f);
    input.residual[i] = i % 3 == 0 ? minus_zero : FromFloat<T>(6.1e-5f);
  }
  return input;
}

// Also with a refused sum beside these and one in another tile.
template <typename T, typename Machine>
void TopKTakesResidualsFarFromTheirSums(Machine& machine) {
  TopKInput<T> input = TensorFarFromItsSums<T>();
  ExpectReference(input, machine.TopK(std::vector<TopKInput<T>>{input},
                                      NonFinitePolicy::kError)[0]);
  input.delta[9000 + 7] = input.residual[24580] =
      FromBits<T>(FloatTraits<T>::kInfinity);
  ExpectRefusedAsByTheCore(input, machine.TopK(std::vector<TopKInput<T>>{input},
                                               NonFinitePolicy::kError)[0]);
}

// The elements of a sample, unlike the rest of the tensor.
enum class Sampled { kLarge, kSmall };

// Tensors whose sampled elements differ in size from all others: the k-th
// largest is below or above the band.
template <typename T>
std::vector<TopKInput<T>> MisleadingInputs(Sampled sampled) {
  Random random(18);
  const std::int64_t n = 20000;
  std::vector<TopKInput<T>> inputs;
  for (const bool in_place : {false, true}) {
    TopKInput<T> input = RandomInput<T>(n, n / 10, Fill::kNormal, random);
    input.in_place = in_place;
    const auto scale = [&](std::int64_t i, float factor) {
      for (auto* const addends : {&input.delta, &input.residual}) {
        T& addend = (*addends)[static_cast<std::size_t>(i)];
        addend = addend * FromFloat<T>(factor);
      }
    };
    const std::int64_t lines = cuda::topk::SampleOf(n, input.k).lines;
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t begin = cuda::topk::LineAt(line, lines, n);
      for (std::int64_t i = begin; i < begin + topk::kLine; ++i) {
        scale(i, sampled == Sampled::kLarge ? 64.0f : 0x1p-30f);
      }
    }
    inputs.push_back(input);
  }
  return inputs;
}

template <typename T, typename Machine>
void TopKTakesWhatItsSampleDoesNotShow(Machine& machine) {
  for (const Sampled sampled : {Sampled::kLarge, Sampled::kSmall}) {
    for (const auto& input : MisleadingInputs<T>(sampled)) {
      ExpectReference(input, machine.TopK(std::vector<TopKInput<T>>{input},
                                          NonFinitePolicy::kError)[0]);
    }
  }
}

// The tensor cut in pieces: long ones, short ones, and an empty one.
template <typename T>
std::vector<TopKInput<T>> PiecesOf(const TopKInput<T>& input) {
  std::vector<TopKInput<T>> pieces;
  const auto n = static_cast<std::ptrdiff_t>(input.delta.size());
  std::ptrdiff_t begin = 0;
  for (const std::ptrdiff_t size : {n / 2, std::ptrdiff_t{5}, std::ptrdiff_t{0},
                                    n / 5, std::ptrdiff_t{64}, n}) {
    const std::ptrdiff_t end = std::min(begin + size, n);
    TopKInput<T> piece = input;
    piece.delta.assign(input.delta.begin() + begin, input.delta.begin() + end);
    piece.residual.assign(input.residual.begin() + begin,
                          input.residual.begin() + end);
    pieces.push_back(piece);
    begin = end;
  }
  return pieces;
}

// The same for a list, which is sampled as one tensor.
template <typename T, typename Machine>
void GroupedTopKTakesWhatItsLogAndItsSampleAreNotFor(Machine& machine) {
  std::vector<TopKInput<T>> inputs = {TensorFarFromItsSums<T>()};
  inputs.push_back(inputs[0]);
  inputs[1].delta[9000 + 7] = inputs[1].residual[24580] =
      FromBits<T>(FloatTraits<T>::kInfinity);
  for (const Sampled sampled : {Sampled::kLarge, Sampled::kSmall}) {
    for (const auto& input : MisleadingInputs<T>(sampled)) {
      inputs.push_back(input);
    }
  }
  for (const auto& input : inputs) {
    ExpectSameAsCore(PiecesOf(input), input.k, NonFinitePolicy::kError,
                     machine);
  }
}

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_LIST_CASES_H_
