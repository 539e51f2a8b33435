// Tests the CUDA kernels under a race detector, which treats every CUDA thread
// as a thread (fibers.h). They are correct and free of races; without a barrier
// or the fences, the detector reports races.
#include <cstdio>

#include "tests/cuda_check_device.cuh"
#include "tests/cuda_check_fixed_cases.h"
#include "tests/cuda_check_sum_cases.h"
#include "tests/fake_cuda/fibers.h"

namespace fedplug::testing {
namespace {

using fake_cuda::RacesReported;

constexpr auto kError = NonFinitePolicy::kError;
constexpr auto kDrop = NonFinitePolicy::kDrop;

// The number of races during `body`.
template <typename Body>
int RacesOf(const Body& body) {
  const int before = RacesReported();
  body();
  return RacesReported() - before;
}

// The number of races with a mistake in all launches of `body`.
template <typename Body>
int RacesOfMistake(const fake_cuda::Mistakes& mistakes, const Body& body) {
  fake_cuda::Make(mistakes);
  const int races = RacesOf(body);
  fake_cuda::Make({});
  return races;
}

// The same, repeated, because the detector misses races whose first access it
// has forgotten, and races of blocks in a lucky order.
template <typename Body>
int RacesOfMistakeInAWhile(const fake_cuda::Mistakes& mistakes,
                           const Body& body) {
  int races = 0;
  for (int i = 0; i < 10 && races == 0; ++i) {
    races = RacesOfMistake(mistakes, body);
  }
  return races;
}

template <typename T>
void ExpectReference(const TopKInput<T>& input, NonFinitePolicy policy) {
  Gpu gpu;
  ExpectReference(input, gpu.TopK(std::vector<TopKInput<T>>{input}, policy)[0]);
}

template <typename T>
TopKInput<T> Input(std::int64_t n, std::int64_t k, Fill fill, bool in_place) {
  Random random(1);
  TopKInput<T> input = RandomInput<T>(n, k, fill, random);
  input.in_place = in_place;
  return input;
}

TEST(CudaRaces, OneLaunchIsFreeOfRaces) {
  EXPECT_EQ(
      RacesOf([&] {
        ExpectReference(Input<double>(17000, 900, Fill::kNormal, true), kError);
        ExpectReference(Input<float>(30000, 9000, Fill::kZeros, true), kError);
        ExpectReference(Input<float>(9000, 100, Fill::kFewLevels, false),
                        kError);
        ExpectReference(Input<float>(9000, 100, Fill::kAnyBits, true), kDrop);
      }),
      0);
}

TEST(CudaRaces, OneLaunchThatRefusesIsFreeOfRaces) {
  Gpu gpu;
  EXPECT_EQ(RacesOf([&] { TopKRefusesATensorAndChangesNothing<float>(gpu); }),
            0);
}

// Sums that are held back, and bands that miss.
TEST(CudaRaces, BandedFallbacksAreFreeOfRaces) {
  Gpu gpu;
  EXPECT_EQ(RacesOf([&] {
              TopKTakesResidualsFarFromTheirSums<float>(gpu);
              TopKTakesWhatItsSampleDoesNotShow<float>(gpu);
              GroupedTopKTakesWhatItsLogAndItsSampleAreNotFor<float>(gpu);
            }),
            0);
}

// Tensors of all sizes. Ties begin in one tensor and end in another.
TEST(CudaRaces, ListsAreFreeOfRaces) {
  Random random(2);
  const auto inputs =
      ListOf<float>({300, 0, 8193, 1, 64}, Fill::kFewLevels, random);
  Gpu gpu;
  EXPECT_EQ(RacesOf([&] {
              ExpectSameAsCore(inputs, 2000, kDrop, gpu);
              ExpectSameAsCore(inputs, 2000, kError, gpu);
            }),
            0);
}

TEST(CudaRaces, RefusedListsAreFreeOfRaces) {
  Random random(3);
  auto inputs = ListOf<float>({9000, 40}, Fill::kNormal, random);
  inputs[0].delta[8500] = inputs[1].delta[0] =
      std::numeric_limits<float>::infinity();
  Gpu gpu;
  EXPECT_EQ(RacesOf([&] {
              ExpectSameAsCore(inputs, 50, kError, gpu);
              gpu.TopK(inputs, kError);
            }),
            0);
}

// The first tensor has a team of two blocks.
std::vector<TopKInput<float>> InputsOfTeams() {
  Random random(6);
  std::vector<TopKInput<float>> inputs;
  for (const std::int64_t n : {30000, 9000, 10}) {
    inputs.push_back(RandomInput<float>(n, n / 9 + 1, Fill::kNormal, random));
  }
  return inputs;
}

TEST(CudaRaces, TeamsAreFreeOfRaces) {
  const auto inputs = InputsOfTeams();
  Gpu gpu;
  EXPECT_EQ(RacesOf([&] {
              for (const auto policy : {kError, kDrop}) {
                const auto outputs = gpu.TopK(inputs, policy);
                for (std::size_t i = 0; i < inputs.size(); ++i) {
                  ExpectReference(inputs[i], outputs[i]);
                }
              }
            }),
            0);
}

TEST(CudaRaces, PassesOverChunksAreFreeOfRaces) {
  EXPECT_EQ(RacesOf([] {
              Random random(1);
              const auto x = RandomVector<float>(9000, Fill::kNormal, random);
              const auto y =
                  RandomVector<float>(9000, Fill::kFewLevels, random);
              ExpectChunksOfTheCore(x, y, 100, 4500, 0.5f);
              EntriesAreReadTakenAddedAndDivided();
              TheLargestFiniteMagnitudeIsFound();
            }),
            0);
}

TEST(CudaRaces, PassesOverPayloadsAreFreeOfRaces) {
  Random random(4);
  auto input =
      RandomPayloads<float>(20000, 5, 3000, true, Fill::kNormal, random);
  Gpu gpu;
  EXPECT_EQ(RacesOf([&] {
              ExpectSameAsCore(input, gpu);
              input.indices[700] = input.indices[699];
              ExpectSameAsCore(input, gpu);
            }),
            0);
}

// Results are ignored here.
TEST(CudaRaces, ValuesAreFreeOfRaces) {
  Gpu gpu;
  EXPECT_EQ(
      RacesOf([&] {
        Random random(5);
        for (const ValueCode& code : kDeviceCodes) {
          ExpectSameAsCore(
              ValueInput<float>{
                  RandomVector<float>(17000, Fill::kNormal, random),
                  RandomVector<float>(17000, Fill::kNormal, random), code},
              gpu);
        }
      }),
      0);
}

// The decoded values are ignored here.
TEST(CudaRaces, DecodedValuesAreFreeOfRaces) {
  constexpr std::int64_t kSizes[] = {5121};
  Gpu gpu;
  EXPECT_EQ(RacesOf([&] { DecodedValuesEqualTheCore<float>(gpu, kSizes); }), 0);
}

// With several blocks for each sum. A payload is refused, too.
TEST(CudaRaces, PassesOverPayloadsOfAFixedSizeAreFreeOfRaces) {
  Random random(7);
  const FixedInput kept =
      RandomFixedInput({20000, 512, 2048, 3}, Fill::kNormal, random);
  FixedInput refused = kept;
  refused.delta[777] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RacesOf([&] {
              ExpectMeanOfTheCore(kept, kept);
              std::vector<float> decoded;
              ExpectEncodedAsByTheCore(refused, &decoded);
            }),
            0);
}

TEST(CudaRaces, AreFoundWithoutABarrier) {
  const auto input = Input<float>(9000, 100, Fill::kNormal, true);
  Random random(5);
  const auto payloads =
      RandomPayloads<float>(9000, 5, 3000, true, Fill::kNormal, random);
  Gpu gpu;
  // The third barrier of a block of a selection ends its count of the sample.
  // The first of a sum of payloads follows the search for its entries.
  EXPECT_TRUE(RacesOfMistake({/*barrier_to_skip=*/2}, [&] {
                gpu.TopK(std::vector<TopKInput<float>>{input}, kDrop);
              }) > 0);
  EXPECT_TRUE(RacesOfMistake({/*barrier_to_skip=*/0},
                             [&] { gpu.Scatter(payloads); }) > 0);
}

// The fences of the barrier of a team follow two of the grid.
TEST(CudaRaces, AreFoundWithoutFences) {
  const auto inputs = InputsOfTeams();
  Gpu gpu;
  for (const int fence : {2, 3}) {
    EXPECT_TRUE(
        RacesOfMistakeInAWhile({/*barrier_to_skip=*/-1, /*skip_fences=*/false,
                                /*fence_to_skip=*/fence},
                               [&] { gpu.TopK(inputs, kDrop); }) > 0);
  }
}

// One fence before a block waits for the others, and one after it.
constexpr int kFencesOfABarrier[] = {0, 1};

// Mistakes that omit a part of the ordering of blocks.
std::vector<fake_cuda::Mistakes> MistakesOfTheGrid(int barrier) {
  std::vector<fake_cuda::Mistakes> all(1);
  all[0].grid_barrier_to_skip = barrier;
  for (const int fence : kFencesOfABarrier) {
    all.emplace_back();
    all.back().fence_to_skip = 2 * barrier + fence;
  }
  return all;
}

// The first barriers follow the zeroing of the workspace, and a count.
TEST(CudaRaces, AreFoundWithoutABarrierOfTopK) {
  const auto input = Input<float>(17000, 100, Fill::kNormal, true);
  Gpu gpu;
  for (int barrier = 0; barrier < 2; ++barrier) {
    for (const auto& mistakes : MistakesOfTheGrid(barrier)) {
      SCOPED_TRACE("barrier " + std::to_string(barrier) + ", fence " +
                   std::to_string(mistakes.fence_to_skip));
      EXPECT_TRUE(RacesOfMistakeInAWhile(mistakes, [&] {
                    gpu.TopK(std::vector<TopKInput<float>>{input}, kDrop);
                  }) > 0);
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
