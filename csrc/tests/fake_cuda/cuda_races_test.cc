// Runs the cases of cuda_check_cases.h under a race detector, which treats every
// CUDA thread as a thread (fibers.h). Without a barrier or the fences, the
// detector reports races.
#include "tests/cuda_check_cases.h"
#include "tests/fake_cuda/fibers.h"

namespace fedplug::testing {
namespace {

using fake_cuda::RacesReported;

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

// Every case of cuda_check_cases.h is free of races, too.
const bool kWatched = [] {
  for (TestCase& test : AllTests()) {
    test.body = [body = test.body] { EXPECT_EQ(RacesOf(body), 0); };
  }
  return true;
}();

TopKInput<float> Input(std::int64_t n) {
  Random random(1);
  TopKInput<float> input = RandomInput<float>(n, 100, Fill::kNormal, random);
  input.in_place = true;
  return input;
}

TEST(CudaRaces, AreFoundWithoutABarrier) {
  const auto input = Input(9000);
  Random random(5);
  const auto payloads =
      RandomPayloads<float>(9000, 5, 3000, true, Fill::kNormal, random);
  const DeviceSum<float> sum(payloads);
  // The third barrier of a block of a selection ends its count of the sample.
  // The first of a sum of payloads follows the search for its entries.
  EXPECT_TRUE(RacesOfMistake({/*barrier_to_skip=*/2}, [&] { TopKOf(input); }) >
              0);
  EXPECT_TRUE(RacesOfMistake({/*barrier_to_skip=*/0}, [&] {
                Check(sum.Queue(cuda::ScatterDecodeAdd<float>));
                Check(cudaDeviceSynchronize());
              }) > 0);
}

// The fences of the barrier of a team follow those of two barriers of the grid.
TEST(CudaRaces, AreFoundWithoutFences) {
  const auto inputs = InputsOfTeams();
  for (const int fence : {4, 5}) {
    EXPECT_TRUE(
        RacesOfMistakeInAWhile({/*barrier_to_skip=*/-1, /*skip_fences=*/false,
                                /*fence_to_skip=*/fence},
                               [&] { TopK(inputs); }) > 0);
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
  const auto input = Input(17000);
  for (int barrier = 0; barrier < 2; ++barrier) {
    for (const auto& mistakes : MistakesOfTheGrid(barrier)) {
      SCOPED_TRACE("barrier " + std::to_string(barrier) + ", fence " +
                   std::to_string(mistakes.fence_to_skip));
      EXPECT_TRUE(RacesOfMistakeInAWhile(mistakes, [&] { TopKOf(input); }) > 0);
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
