// The cases of the CUDA kernels, against the core. They run on a GPU (cuda_check.cu), there also under
// compute-sanitizer, and without one on fibers (fake_cuda/cuda_device_test.cc), there also under a race detector
// (fake_cuda/cuda_races_test.cc). plugins/fedplug-cuda/tests compares dense values, payloads of a fixed size, chunks
// and entries with the CPU. The cases here only run their kernels, for the detectors.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_CASES_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/scatter_decode.h"
#include "core/topk_residual.h"
#include "cuda/entries.h"
#include "cuda/scaled_sum.h"
#include "cuda/topk/banded.h"
#include "tests/cuda_check_device.cuh"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

// Fibers take a part of the sizes, because one of their launches takes milliseconds.
#ifdef FEDPLUG_ON_FIBERS
constexpr bool kOnFibers = true;
#else
constexpr bool kOnFibers = false;
#endif

// Tiles hold 8192 elements, warps 32, blocks 512 or 256.
std::vector<std::int64_t> Edges() {
  if (kOnFibers) return {0, 1, 33, 8192, 8193};
  return {0, 1, 2, 31, 32, 33, 511, 512, 513, 8191, 8192, 8193, 16384, 24581};
}

// For a selection from n elements.
std::vector<std::int64_t> SomeKs(std::int64_t n, Random& random) {
  if (kOnFibers) return {Below(random, n + 2)};
  return {0, 1, n / 100, n / 3, std::max<std::int64_t>(n - 1, 0), n, n + 9};
}

// The core, which is tested against the reference, is the oracle, also for the words of a refusal.
template <typename T>
void ExpectSameAsCore(const TopKInput<T>& input, const TopKOutput<T>& output) {
  Serial serial;
  std::vector<T> residual = input.residual;
  std::vector<T> values(input.chosen());
  std::vector<std::int32_t> indices(input.chosen());
  std::int64_t non_finite = 0;
  const Status expected = TopKResidual(
      input.delta.data(), residual.data(), residual.data(), input.n(), input.k,
      serial, values.data(), indices.data(), &non_finite);
  const Status actual = cuda::ToStatus({output.report}, {input.n()});
  EXPECT_EQ(actual.message(), expected.message());
  EXPECT_TRUE(actual.code() == expected.code());
  EXPECT_EQ(output.report.non_finite, non_finite);
  EXPECT_EQ(BitsOf(output.residual), BitsOf(residual));
  if (!expected.ok()) return;
  EXPECT_EQ(output.indices, indices);
  EXPECT_EQ(BitsOf(output.values), BitsOf(values));
}

template <typename T>
TopKOutput<T> TopKOf(const TopKInput<T>& input) {
  return TopK(std::vector<TopKInput<T>>{input})[0];
}

TEST(CudaTopK, EqualsTheCore) {
  ForEachWideDtype([](auto zero) {
    Random random(1);
    for (const std::int64_t n : Edges()) {
      for (const Fill fill : kAllFills) {
        auto input = RandomInput<decltype(zero)>(n, 0, fill, random);
        for (const std::int64_t k : SomeKs(n, random)) {
          SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                       std::to_string(static_cast<int>(fill)) + ", k " +
                       std::to_string(k));
          input.k = k;
          input.in_place = !input.in_place;
          ExpectSameAsCore(input, TopKOf(input));
        }
      }
    }
  });
}

// Keys that agree in all digits but the last, or all but the first, and groups
// of ties that begin and end inside tiles.
TEST(CudaTopK, SeparatesKeysByEveryDigit) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    using Bits = FloatBitsOf<T>;
    Random random(2);
    const std::int64_t n = kOnFibers ? 9000 : 20000;
    for (const int shift : {0, 3, 4, kKeyBits<T> / 2, kKeyBits<T> - 4}) {
      TopKInput<T> input;
      input.residual = std::vector<T>(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) {
        const auto base = static_cast<Bits>(FloatTraits<T>::kInfinity / 2);
        const auto low = static_cast<Bits>(Bits(Below(random, 8)) << shift);
        input.delta.push_back(FromBits<T>(
            static_cast<Bits>((base ^ low) % FloatTraits<T>::kInfinity)));
      }
      for (const std::int64_t k : {n / 8 - 1, n / 2 - 1}) {
        SCOPED_TRACE("shift " + std::to_string(shift));
        input.k = k;
        ExpectSameAsCore(input, TopKOf(input));
      }
    }
  });
}

// Ascending and descending tensors, and tensors with mostly zeros, of which
// some or none are selected.
TEST(CudaTopK, TakesTensorsInOrderAndOfZeros) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(19);
    const std::int64_t n = kOnFibers ? 9000 : 30000;
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
      for (const std::int64_t k : {n / 200, n / 2}) {
        SCOPED_TRACE("k " + std::to_string(k));
        input->k = k;
        ExpectSameAsCore(*input, TopKOf(*input));
      }
    }
  });
}

// A tensor of many tiles, with a long shortlist.
TEST(CudaTopK, TakesALongTensor) {
  Random random(5);
  const std::int64_t n = kOnFibers ? 30001 : 513 * 8192 + 1;
  for (const Fill fill : {Fill::kNormal, Fill::kFewLevels}) {
    const auto input = RandomInput<float>(n, n / 50, fill, random);
    ExpectSameAsCore(input, TopKOf(input));
  }
}

template <typename T>
constexpr T kInfinityOf = std::numeric_limits<T>::infinity();

// Two of its sums are not finite.
template <typename T>
TopKInput<T> BadTensor(Random& random) {
  TopKInput<T> bad = RandomInput<T>(17000, 40, Fill::kNormal, random);
  bad.delta[8193] = bad.residual[16999] = kInfinityOf<T>;
  return bad;
}

TEST(CudaTopK, RefusesATensorAndChangesNothing) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(15);
    TopKInput<T> bad = BadTensor<T>(random);
    TopKInput<T> all_bad = bad;
    all_bad.delta.assign(bad.delta.size(), -kInfinityOf<T>);
    for (TopKInput<T>* const input : {&bad, &all_bad}) {
      for (const bool in_place : {false, true}) {
        input->in_place = in_place;
        ExpectSameAsCore(*input, TopKOf(*input));
      }
    }
  });
}

// The first tensor has a team of two of the three blocks of the fibers.
std::vector<TopKInput<float>> InputsOfTeams() {
  Random random(6);
  std::vector<TopKInput<float>> inputs;
  for (const std::int64_t n : {30000, 0, 9000, 10}) {
    inputs.push_back(RandomInput<float>(n, n / 9 + 1, Fill::kNormal, random));
  }
  return inputs;
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

template <typename T>
void ExpectEachSameAsCore(const std::vector<TopKInput<T>>& inputs) {
  const auto outputs = TopK(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    ExpectSameAsCore(inputs[i], outputs[i]);
    EXPECT_EQ(outputs[i].report.first_non_finite, std::int64_t{-1});
  }
}

TEST(CudaLists, WithAKForEachTensorEqualTheCore) {
  ExpectEachSameAsCore(InputsOfTeams());
  ForEachWideDtype([](auto zero) {
    Random random(3);
    ExpectEachSameAsCore(ManyTensors<decltype(zero)>(random));
  });
}

TEST(CudaLists, WithAKForEachTensorAreRefusedAsAWhole) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(4);
    auto inputs = ManyTensors<T>(random);
    inputs[40] = BadTensor<T>(random);
    const auto outputs = TopK(inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      SCOPED_TRACE("tensor " + std::to_string(i));
      EXPECT_EQ(BitsOf(outputs[i].residual), BitsOf(inputs[i].residual));
      const Status status =
          cuda::ToStatus({outputs[i].report}, {inputs[i].n()});
      EXPECT_EQ(status.ok(), i != 40);
    }
    ExpectSameAsCore(inputs[40], outputs[40]);
  });
}

// The same of a list with one k.
template <typename T>
void ExpectSameAsCore(const std::vector<TopKInput<T>>& inputs, std::int64_t k) {
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
      GroupedTopKResidual(updates, k, serial, values.data(), indices.data(),
                          row_splits.data(), &non_finite);

  const GroupedTopKOutput<T> actual = GroupedTopK(inputs, k);
  EXPECT_EQ(cuda::ToStatus(actual.reports, sizes).message(), status.message());
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
TEST(CudaLists, WithOneKEqualTheCore) {
  std::vector<std::vector<std::int64_t>> lists = {
      {}, {0, 0}, {0, 300, 8193, 1, 0}};
  if (!kOnFibers) {
    lists.insert(
        lists.end(),
        {{8192, 0, 8192}, {20000}, {0, 300, 0, 1, 20000, 64, 0, 8193, 16, 0}});
  }
  ForEachWideDtype([&](auto zero) {
    Random random(8);
    for (const auto& sizes : lists) {
      std::int64_t n = 0;
      for (const std::int64_t size : sizes) n += size;
      for (const Fill fill : kAllFills) {
        const auto inputs = ListOf<decltype(zero)>(sizes, fill, random);
        for (const std::int64_t k : SomeKs(n, random)) {
          SCOPED_TRACE("tensors " + std::to_string(sizes.size()) + ", n " +
                       std::to_string(n) + ", fill " +
                       std::to_string(static_cast<int>(fill)) + ", k " +
                       std::to_string(k));
          ExpectSameAsCore(inputs, k);
        }
      }
    }
  });
}

// A table of more tensors than the arguments of a launch take.
TEST(CudaLists, WithOneKAndManyTensorsEqualTheCore) {
  Random random(11);
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 700; ++i) sizes.push_back(Below(random, 60));
  ExpectSameAsCore(ListOf<float>(sizes, Fill::kFewLevels, random), 5000);
}

TEST(CudaLists, WithOneKAreRefusedInTheWordsOfTheCore) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(12);
    auto inputs = ManyTensors<T>(random);
    inputs[40] = BadTensor<T>(random);
    inputs[69] = RandomInput<T>(5, 0, Fill::kNormal, random);
    inputs[69].delta[4] = kInfinityOf<T>;
    ExpectSameAsCore(inputs, 4000);
  });
}

// Residuals that do not fit the log of 16 bits of the banded selection, in some
// of the tiles: negligible ones, and -0.
template <typename T>
TopKInput<T> TensorFarFromItsSums() {
  Random random(17);
  TopKInput<T> input = RandomInput<T>(24581, 500, Fill::kNormal, random);
  input.in_place = true;
  for (std::size_t i = 9000; i < 20000; i += 7) {
    input.delta[i] = FromFloat<T>(i % 2 == 0 ? 12345.0f : 1.0f);
    input.residual[i] = FromFloat<T>(i % 3 == 0 ? -0.0f : 6.1e-5f);
  }
  return input;
}

// Also with a refused sum beside these and one in another tile.
TEST(CudaBands, TakeResidualsFarFromTheirSums) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    TopKInput<T> input = TensorFarFromItsSums<T>();
    ExpectSameAsCore(input, TopKOf(input));
    input.delta[9000 + 7] = input.residual[24580] = kInfinityOf<T>;
    ExpectSameAsCore(input, TopKOf(input));
  });
}

// Tensors whose sampled elements are larger or smaller than all others: the
// k-th largest is below or above the band.
template <typename T>
std::vector<TopKInput<T>> MisleadingInputs() {
  Random random(18);
  const std::int64_t n = 20000;
  std::vector<TopKInput<T>> inputs;
  for (const float factor : {64.0f, 0x1p-30f}) {
    for (const bool in_place : {false, true}) {
      TopKInput<T> input = RandomInput<T>(n, n / 10, Fill::kNormal, random);
      input.in_place = in_place;
      const std::int64_t lines = cuda::topk::SampleOf(n, input.k).lines;
      for (std::int64_t line = 0; line < lines; ++line) {
        const std::int64_t begin = cuda::topk::LineAt(line, lines, n);
        for (std::int64_t i = begin; i < begin + topk::kLine; ++i) {
          for (auto* const addends : {&input.delta, &input.residual}) {
            T& addend = (*addends)[static_cast<std::size_t>(i)];
            addend = addend * FromFloat<T>(factor);
          }
        }
      }
      inputs.push_back(input);
    }
  }
  return inputs;
}

TEST(CudaBands, TakeWhatTheSampleDoesNotShow) {
  ForEachWideDtype([](auto zero) {
    for (const auto& input : MisleadingInputs<decltype(zero)>()) {
      ExpectSameAsCore(input, TopKOf(input));
    }
  });
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

// A list is sampled as one tensor.
TEST(CudaBands, OfListsTakeBoth) {
  auto inputs = MisleadingInputs<float>();
  inputs.push_back(TensorFarFromItsSums<float>());
  inputs.push_back(inputs.back());
  inputs.back().delta[9000 + 7] = inputs.back().residual[24580] =
      kInfinityOf<float>;
  for (const auto& input : inputs) {
    ExpectSameAsCore(PiecesOf(input), input.k);
  }
}

template <typename T>
void ExpectSumsOfTheCore(const ScatterInput<T>& input) {
  Serial serial;
  const auto expect = [&](auto core, auto device) {
    std::vector<T> expected = input.accumulator;
    const Status status = core(
        expected.data(), input.n(), input.values.data(), input.indices.data(),
        input.entries(), input.row_splits.data(), input.payloads(),
        input.weights.empty() ? nullptr : input.weights.data(), serial);
    const DeviceSum<T> sum(input);
    Check(sum.Queue(device));
    const Status actual = cuda::ToStatus(sum.report.ToVector()[0]);
    EXPECT_EQ(actual.message(), status.message());
    EXPECT_TRUE(actual.code() == status.code());
    if (status.ok() || core == ScatterDecodeAdd<T>) {
      EXPECT_EQ(BitsOf(sum.accumulator.ToVector()), BitsOf(expected));
    }
  };
  expect(ScatterDecodeAdd<T>, cuda::ScatterDecodeAdd<T>);
  expect(ScatterDecode<T>, cuda::ScatterDecode<T>);
}

TEST(CudaSums, EqualTheCore) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    Random random(6);
    for (const std::int64_t n : Edges()) {
      for (const std::int64_t payloads : {0, 1, 9}) {
        SCOPED_TRACE("n " + std::to_string(n) + ", payloads " +
                     std::to_string(payloads));
        ExpectSumsOfTheCore(RandomPayloads<T>(
            n, payloads, n / 2 + 1, /*weighted=*/payloads == 9,
            payloads == 9 ? Fill::kNormal : Fill::kDenormal, random));
      }
    }
  });
}

// More payloads than a block searches at once.
TEST(CudaSums, OfManyPayloadsEqualTheCore) {
  Random random(14);
  ExpectSumsOfTheCore(
      RandomPayloads<float>(9000, 600, 40, true, Fill::kNormal, random));
}

// One changed number: the core's message, and nothing written.
TEST(CudaSums, AreRefusedInTheWordsOfTheCore) {
  Random random(7);
  constexpr std::int64_t kWrong[] = {-1, 0, 1, 5, 39, 9000, INT32_MAX};
  for (int trial = 0; trial < (kOnFibers ? 60 : 400); ++trial) {
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
    ExpectSumsOfTheCore(input);
  }
}

// The kernels whose results plugins/fedplug-cuda/tests compares.

struct TwoArrays {
  DeviceArray<float> one;
  DeviceArray<float> other;

  explicit TwoArrays(std::int64_t n, Random random = Random(1))
      : one(RandomVector<float>(n, Fill::kNormal, random)),
        other(RandomVector<float>(n, Fill::kFewLevels, random)) {}
};

TEST(CudaOthers, ValuesAreEncodedAndDecoded) {
  constexpr std::int64_t kCount = 17000;
  constexpr ValueCode kCodes[] = {{ValueForm::kFloat16},
                                  {ValueForm::kBFloat16},
                                  {ValueForm::kNearest, 8, 256},
                                  {ValueForm::kQsgd, 8, 512},
                                  {ValueForm::kQsgd, 3, 1},
                                  {ValueForm::kQsgd, 2, 4096},
                                  {ValueForm::kSign},
                                  {ValueForm::kBfp, 5, 8}};
  const TwoArrays given(kCount);
  const DeviceArray<float> after(kCount);
  const DeviceArray<cuda::NonFiniteCount> report(1);
  for (const ValueCode& code : kCodes) {
    const DeviceArray<std::uint8_t> data(
        static_cast<std::size_t>(ValueCodeBytes(code, kCount, sizeof(float))));
    const DeviceArray<std::byte> workspace(
        cuda::EncodeValuesWorkspaceBytes(code, kCount, sizeof(float)));
    Check(cuda::EncodeValues<float>(
        {given.one.data(), given.other.data(), after.data(), kCount}, code, 7,
        workspace.data(), workspace.Bytes(), data.data(), report.data(),
        nullptr));
    Check(cuda::ToStatus(report.ToVector()[0], kCount));
    Check(cuda::DecodeValues<float>(data.data(), kCount, code, 0.3,
                                    after.data(), nullptr));
    Check(cudaDeviceSynchronize());
  }
}

// With several blocks for each sum, and a refused tensor.
TEST(CudaOthers, PayloadsOfAFixedSizeAreEncodedAndAveraged) {
  const cuda::FixedForm form{20000, 512, 2048, 3};
  const TwoArrays given(form.n);
  const DeviceArray<float> bad(std::vector<float>(20000, kInfinityOf<float>));
  const FixedPayloads payloads(form, 2);
  payloads.Encode(0, given.one, given.other);
  EXPECT_EQ(payloads.Refused(), 0u);
  payloads.Encode(1, bad, given.other);
  EXPECT_EQ(payloads.Refused(), 20000u);
  payloads.Mean();
  Check(cudaDeviceSynchronize());
}

TEST(CudaOthers, ChunksAreSelectedFrom) {
  const TwoArrays given(9000);
  const DeviceArray<float> after(9000);
  const DeviceArray<float> values(200);
  const DeviceArray<std::int32_t> indices(200);
  const DeviceArray<cuda::NonFiniteCount> non_finite(1);
  Check(cuda::QueueChunkedTopK<float>(
      {given.one.data(), given.other.data(), after.data(), 9000, 0.5f}, 100,
      4500, values.data(), indices.data(), non_finite.data(), nullptr));
  EXPECT_EQ(non_finite.ToVector()[0].count, 0u);
}

// Of two tensors of two dtypes, one without indices.
TEST(CudaOthers, EntriesAreReadTakenAddedAndDivided) {
  const DeviceArray<float> sparse(std::vector<float>{1, 2, 3, 4});
  const DeviceArray<double> dense(std::vector<double>{5, 6});
  const DeviceArray<std::int32_t> indices(std::vector<std::int32_t>{1, 3});
  const DeviceArray<float> few(2);
  const DeviceArray<double> all(2);
  const DeviceArray<cuda::Entries> lists(std::vector<cuda::Entries>{
      {sparse.data(), indices.data(), few.data(), 0, 0},
      {dense.data(), nullptr, all.data(), 2, 1}});
  using cuda::EntriesWork;
  for (const auto work :
       {EntriesWork::kRead, EntriesWork::kAdd, EntriesWork::kDivideBy,
        EntriesWork::kTake, EntriesWork::kLargest}) {
    Check(cuda::QueueEntries(work, lists.data(), 2, 4, nullptr));
  }
  EXPECT_EQ(sparse.ToVector(), (std::vector<float>{1, 0, 3, 0}));
  EXPECT_EQ(dense.ToVector(), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_CASES_H_
