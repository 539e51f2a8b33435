// Runs the cases of cuda_check_cases.h on a GPU, without TensorFlow. Without a
// GPU it exits with 77, which ctest counts as skipped.
#include "tests/cuda_check_device.cuh"
#include "tests/cuda_check_fixed_cases.h"
#include "tests/cuda_check_sum_cases.h"

namespace fedplug::testing {
namespace {

TEST(Cuda, HasADevice) { FindDevice(); }

// body(gpu, T{}) for every dtype.
template <typename Body>
void ForEachDtypeOnGpu(const Body& body) {
  Gpu gpu;
  ForEachWideDtype([&](auto zero) { body(gpu, zero); });
}

TEST(Cuda, TopKEqualsTheReference) {
  ForEachDtypeOnGpu(
      [](Gpu& gpu, auto zero) { TopKEqualsTheReference<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKSeparatesKeysByEveryDigit) {
  ForEachDtypeOnGpu([](Gpu& gpu, auto zero) {
    TopKSeparatesKeysByEveryDigit<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKRefusesATensorAndChangesNothing) {
  ForEachDtypeOnGpu([](Gpu& gpu, auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesTensorsOfOneValue) {
  ForEachDtypeOnGpu([](Gpu& gpu, auto zero) {
    TopKTakesTensorsOfOneValue<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesTensorsInOrderAndOfZeros) {
  ForEachDtypeOnGpu([](Gpu& gpu, auto zero) {
    TopKTakesTensorsInOrderAndOfZeros<decltype(zero)>(gpu);
  });
}

TEST(Cuda, GroupedTopKEqualsTheCore) {
  ForEachDtypeOnGpu([](Gpu& gpu, auto zero) {
    GroupedTopKEqualsTheCore<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesALongTensor) {
  Gpu gpu;
  TopKTakesALongTensor(gpu);
}

TEST(Cuda, TopKTakesALongListOfTensors) {
  Gpu gpu;
  ForEachWideDtype(
      [&](auto zero) { TopKTakesALongListOfTensors<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKRefusesTheWholeListAndChangesNothing) {
  Gpu gpu;
  ForEachWideDtype([&](auto zero) {
    TopKRefusesTheWholeListAndChangesNothing<decltype(zero)>(gpu);
  });
}

TEST(Cuda, GroupedTopKTakesALongListOfTensors) {
  ForEachDtypeOnGpu([](Gpu& gpu, auto zero) {
    GroupedTopKTakesALongListOfTensors<decltype(zero)>(gpu);
  });
}

TEST(Cuda, GroupedTopKRefusesInTheWordsOfTheCore) {
  ForEachDtypeOnGpu([](Gpu& gpu, auto zero) {
    GroupedTopKRefusesInTheWordsOfTheCore<decltype(zero)>(gpu);
  });
}

TEST(Cuda, BandedTopKHandlesUnexpectedDistributions) {
  Gpu gpu;
  ForEachWideDtype([&](auto zero) {
    TopKTakesResidualsFarFromTheirSums<decltype(zero)>(gpu);
    TopKTakesWhatItsSampleDoesNotShow<decltype(zero)>(gpu);
    GroupedTopKTakesWhatItsLogAndItsSampleAreNotFor<decltype(zero)>(gpu);
  });
}

TEST(Cuda, ChunksOfSumsEqualTheCore) {
  ForEachWideDtype([](auto zero) { ChunksEqualTheCore<decltype(zero)>(); });
}

TEST(Cuda, EntriesOfSumsAreReadTakenAddedAndDivided) {
  EntriesAreReadTakenAddedAndDivided();
  TheLargestFiniteMagnitudeIsFound();
}

TEST(Cuda, ScatterEqualsTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) { ScatterEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, DecodeEqualsTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) { DecodeEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, EncodedValuesEqualTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    EncodedValuesEqualTheCore<decltype(zero)>(gpu, kEdges);
    ManyEncodedValuesEqualTheCore<decltype(zero)>(gpu, 20'000'003);
  });
}

TEST(Cuda, DecodedValuesEqualTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    DecodedValuesEqualTheCore<decltype(zero)>(gpu, kEdges);
  });
}

TEST(Cuda, FixedPayloadsEqualTheCore) { FixedPayloadsEqualTheCore(); }

TEST(Cuda, ScatterRefusesInTheWordsOfTheCore) {
  Gpu gpu;
  ScatterRefusesInTheWordsOfTheCore(gpu);
}

}  // namespace
}  // namespace fedplug::testing
