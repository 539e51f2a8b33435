// Holds a GPU to the cases of cuda_check_cases.h. Needs no TensorFlow. Without
// a GPU it says so and exits with 77, which ctest counts as skipped.
#include "tests/cuda_check_device.cuh"

namespace fedplug::testing {
namespace {

TEST(Cuda, HasADevice) { FindDevice(); }

TEST(Cuda, TopKEqualsTheReference) {
  Gpu gpu;
  ForEachDtype([&](auto zero) { TopKEqualsTheReference<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKSeparatesKeysByEveryDigit) {
  Gpu gpu;
  ForEachDtype(
      [&](auto zero) { TopKSeparatesKeysByEveryDigit<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKTakesALongListOfTensors) {
  Gpu gpu;
  ForEachDtype(
      [&](auto zero) { TopKTakesALongListOfTensors<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKRefusesTheWholeListAndChangesNothing) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    TopKRefusesTheWholeListAndChangesNothing<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesTensorsOfOneValue) {
  Gpu gpu;
  ForEachDtype(
      [&](auto zero) { TopKTakesTensorsOfOneValue<decltype(zero)>(gpu); });
}

TEST(Cuda, TopKTakesTensorsInOrderAndOfZeros) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    TopKTakesTensorsInOrderAndOfZeros<decltype(zero)>(gpu);
  });
}

TEST(Cuda, TopKTakesALongTensor) {
  Gpu gpu;
  TopKTakesALongTensor(gpu);
}

TEST(Cuda, ResidentTopKEqualsTheReference) {
  Gpu gpu(cuda::TopKWay::kResident);
  ForEachDtype([&](auto zero) { TopKEqualsTheReference<decltype(zero)>(gpu); });
}

TEST(Cuda, ResidentTopKSeparatesKeysByEveryDigit) {
  Gpu gpu(cuda::TopKWay::kResident);
  ForEachDtype(
      [&](auto zero) { TopKSeparatesKeysByEveryDigit<decltype(zero)>(gpu); });
}

TEST(Cuda, ResidentTopKRefusesATensorAndChangesNothing) {
  Gpu gpu(cuda::TopKWay::kResident);
  ForEachDtype([&](auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(gpu);
  });
}

TEST(Cuda, ResidentTopKTakesTensorsOfOneValue) {
  Gpu gpu(cuda::TopKWay::kResident);
  ForEachDtype(
      [&](auto zero) { TopKTakesTensorsOfOneValue<decltype(zero)>(gpu); });
}

TEST(Cuda, ResidentTopKTakesALongTensor) {
  Gpu gpu(cuda::TopKWay::kResident);
  TopKTakesALongTensor(gpu);
}

TEST(Cuda, BandedTopKEqualsTheReference) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachDtype([&](auto zero) { TopKEqualsTheReference<decltype(zero)>(gpu); });
}

TEST(Cuda, BandedTopKSeparatesKeysByEveryDigit) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachDtype(
      [&](auto zero) { TopKSeparatesKeysByEveryDigit<decltype(zero)>(gpu); });
}

TEST(Cuda, BandedTopKRefusesATensorAndChangesNothing) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachDtype([&](auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(gpu);
  });
}

TEST(Cuda, BandedTopKTakesTensorsOfOneValue) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachDtype(
      [&](auto zero) { TopKTakesTensorsOfOneValue<decltype(zero)>(gpu); });
}

TEST(Cuda, BandedTopKTakesTensorsInOrderAndOfZeros) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachDtype([&](auto zero) {
    TopKTakesTensorsInOrderAndOfZeros<decltype(zero)>(gpu);
  });
}

TEST(Cuda, BandedTopKTakesResidualsFarFromTheirSums) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachDtype([&](auto zero) {
    TopKTakesResidualsFarFromTheirSums<decltype(zero)>(gpu);
  });
}

TEST(Cuda, BandedTopKTakesWhatItsSampleDoesNotShow) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachDtype([&](auto zero) {
    TopKTakesWhatItsSampleDoesNotShow<decltype(zero)>(gpu);
  });
}

TEST(Cuda, BandedTopKTakesALongTensor) {
  Gpu gpu(cuda::TopKWay::kBanded);
  TopKTakesALongTensor(gpu);
}

TEST(Cuda, GroupedTopKEqualsTheCore) {
  Gpu gpu;
  ForEachDtype(
      [&](auto zero) { GroupedTopKEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, ResidentGroupedTopKEqualsTheCore) {
  Gpu gpu(cuda::TopKWay::kResident);
  ForEachDtype(
      [&](auto zero) { GroupedTopKEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, BandedGroupedTopKEqualsTheCore) {
  Gpu gpu(cuda::TopKWay::kBanded);
  ForEachDtype(
      [&](auto zero) { GroupedTopKEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, GroupedTopKTakesALongListOfTensors) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    GroupedTopKTakesALongListOfTensors<decltype(zero)>(gpu);
  });
}

TEST(Cuda, GroupedTopKRefusesInTheWordsOfTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) {
    GroupedTopKRefusesInTheWordsOfTheCore<decltype(zero)>(gpu);
  });
}

TEST(Cuda, ScatterEqualsTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) { ScatterEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, DecodeEqualsTheCore) {
  Gpu gpu;
  ForEachDtype([&](auto zero) { DecodeEqualsTheCore<decltype(zero)>(gpu); });
}

TEST(Cuda, ScatterRefusesInTheWordsOfTheCore) {
  Gpu gpu;
  ScatterRefusesInTheWordsOfTheCore(gpu);
}

}  // namespace
}  // namespace fedplug::testing
