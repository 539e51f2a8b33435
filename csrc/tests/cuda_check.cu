// Runs the cases of cuda_check_cases.h on a GPU, without TensorFlow. Without a
// GPU it exits with 77, which ctest counts as skipped.
#include "tests/cuda_check_device.cuh"
#include "tests/cuda_check_fixed_cases.h"
#include "tests/cuda_check_sum_cases.h"

namespace fedplug::testing {
namespace {

TEST(Cuda, HasADevice) { FindDevice(); }

// body(gpu, T{}) for every way and dtype.
template <typename Body>
void ForEachWay(const Body& body) {
  const auto traced = [&](const char* name, cuda::TopKWay way) {
    SCOPED_TRACE(name);
    Gpu gpu(way);
    ForEachWideDtype([&](auto zero) { body(gpu, zero); });
  };
  traced("fastest", cuda::TopKWay::kFastest);
  traced("banded", cuda::TopKWay::kBanded);
}

TEST(Cuda, TopKEqualsTheReference) {
  ForEachWay(
      [](Gpu& gpu, auto zero) { TopKEqualsTheReference<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKSeparatesKeysByEveryDigit) {
  ForEachWay([](Gpu& gpu, auto zero) {
    TopKSeparatesKeysByEveryDigit<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKRefusesATensorAndChangesNothing) {
  ForEachWay([](Gpu& gpu, auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesTensorsOfOneValue) {
  ForEachWay([](Gpu& gpu, auto zero) {
    TopKTakesTensorsOfOneValue<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesTensorsInOrderAndOfZeros) {
  ForEachWay([](Gpu& gpu, auto zero) {
    TopKTakesTensorsInOrderAndOfZeros<decltype(zero)>(gpu);
  });
}

TEST(Cuda, GroupedTopKEqualsTheCore) {
  ForEachWay([](Gpu& gpu, auto zero) {
    GroupedTopKEqualsTheCore<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesALongTensor) {
  for (const auto way : {cuda::TopKWay::kFastest, cuda::TopKWay::kBanded}) {
    Gpu gpu(way);
    TopKTakesALongTensor(gpu);
  }
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
  ForEachWay([](Gpu& gpu, auto zero) {
    GroupedTopKTakesALongListOfTensors<decltype(zero)>(gpu);
  });
}

TEST(Cuda, GroupedTopKRefusesInTheWordsOfTheCore) {
  ForEachWay([](Gpu& gpu, auto zero) {
    GroupedTopKRefusesInTheWordsOfTheCore<decltype(zero)>(gpu);
  });
}

TEST(Cuda, BandedTopKHandlesUnexpectedDistributions) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachWideDtype([&](auto zero) {
    TopKTakesResidualsFarFromTheirSums<decltype(zero)>(gpu);
    TopKTakesWhatItsSampleDoesNotShow<decltype(zero)>(gpu);
    GroupedTopKTakesWhatItsLogAndItsSampleAreNotFor<decltype(zero)>(gpu);
  });
}

TEST(Cuda, ChunksAndThresholdsOfSumsEqualTheCore) {
  ForEachWideDtype([](auto zero) {
    ChunksEqualTheCore<decltype(zero)>();
    ThresholdsEqualTheCore<decltype(zero)>();
  });
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

TEST(Cuda, RotatedCodesEqualTheCore) {
  constexpr std::int64_t kBlocks[] = {
      1, 2, 4, 8, 32, 128, 2048, 4096, 1 << 13, 1 << 16, 1 << 18, 1 << 20};
  Gpu gpu;
  RotatedCodesOfAllDtypesEqualTheCore(gpu, kBlocks);
}

TEST(Cuda, FixedPayloadsEqualTheCore) { FixedPayloadsEqualTheCore(); }

TEST(Cuda, ScatterRefusesInTheWordsOfTheCore) {
  Gpu gpu;
  ScatterRefusesInTheWordsOfTheCore(gpu);
}

}  // namespace
}  // namespace fedplug::testing
