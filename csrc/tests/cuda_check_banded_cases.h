// Further test cases of the banded CUDA selection: residuals that its log
// cannot describe, and misleading samples. cuda_check_cases.h describes a
// Machine.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_BANDED_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_BANDED_CASES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/topk_residual.h"
#include "cuda/topk/banded.h"
#include "tests/cuda_check_cases.h"
#include "tests/cuda_check_list_cases.h"
#include "tests/kernel_inputs.h"

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

#endif  // FEDPLUG_TESTS_CUDA_CHECK_BANDED_CASES_H_
