// Runs the steps of the CUDA kernels on the CPU (cuda_check_emulator.h).
//
// What this proves: the arithmetic, the selection, the places, the layout of
// the workspace, the order of the steps, every bound (under the address
// sanitizer too), and that no result depends on the order of the blocks or of
// the threads between two barriers. That blocks may run at the same time,
// proves cuda_check_blocks_test.cc; that the threads of a block do, with the
// device halves of block.h and what launches the steps, fake_cuda/. What none
// of them does: how nvcc translates the steps, the order of memory on a GPU
// beyond barriers and fences, and speed. cuda_check.cu holds a GPU to the same
// cases.
#include "tests/cuda_check_banded_cases.h"
#include "tests/cuda_check_cases.h"
#include "tests/cuda_check_emulator.h"
#include "tests/cuda_check_list_cases.h"
#include "tests/cuda_check_scatter_cases.h"

namespace fedplug::testing {
namespace {

using cuda::TopKWay;

TEST(CudaStepsOnTheCpu, TopKEqualsTheReference) {
  EmulatedMachine machine;
  ForEachDtype(
      [&](auto zero) { TopKEqualsTheReference<decltype(zero)>(machine); });
}

TEST(CudaStepsOnTheCpu, TopKSeparatesKeysByEveryDigit) {
  EmulatedMachine machine;
  ForEachDtype([&](auto zero) {
    TopKSeparatesKeysByEveryDigit<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, TopKTakesALongListOfTensors) {
  EmulatedMachine machine;
  ForEachDtype(
      [&](auto zero) { TopKTakesALongListOfTensors<decltype(zero)>(machine); });
}

TEST(CudaStepsOnTheCpu, TopKRefusesTheWholeListAndChangesNothing) {
  EmulatedMachine machine;
  ForEachDtype([&](auto zero) {
    TopKRefusesTheWholeListAndChangesNothing<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, TopKRefusesATensorAndChangesNothing) {
  EmulatedMachine machine;
  ForEachDtype([&](auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, TopKTakesTensorsOfOneValue) {
  EmulatedMachine machine;
  ForEachDtype(
      [&](auto zero) { TopKTakesTensorsOfOneValue<decltype(zero)>(machine); });
}

TEST(CudaStepsOnTheCpu, TopKTakesTensorsInOrderAndOfZeros) {
  EmulatedMachine machine;
  ForEachDtype([&](auto zero) {
    TopKTakesTensorsInOrderAndOfZeros<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, TopKTakesALongTensor) {
  EmulatedMachine machine;
  TopKTakesALongTensor(machine);
}

TEST(CudaStepsOnTheCpu, GroupedTopKEqualsTheCore) {
  EmulatedMachine machine;
  ForEachDtype(
      [&](auto zero) { GroupedTopKEqualsTheCore<decltype(zero)>(machine); });
}

TEST(CudaStepsOnTheCpu, GroupedTopKTakesALongListOfTensors) {
  EmulatedMachine machine;
  ForEachDtype([&](auto zero) {
    GroupedTopKTakesALongListOfTensors<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, GroupedTopKRefusesInTheWordsOfTheCore) {
  EmulatedMachine machine;
  ForEachDtype([&](auto zero) {
    GroupedTopKRefusesInTheWordsOfTheCore<decltype(zero)>(machine);
  });
}

// Shares of several tiles each, which begin anywhere in them.
constexpr cuda::DeviceLimits kTwoMultiprocessors = {2, 227 * 1024, true};

TEST(CudaResidentStepsOnTheCpu, TopKEqualsTheReference) {
  EmulatedMachine machine(/*threads=*/1, TopKWay::kResident,
                          kTwoMultiprocessors);
  ForEachDtype(
      [&](auto zero) { TopKEqualsTheReference<decltype(zero)>(machine); });
}

TEST(CudaResidentStepsOnTheCpu, TopKSeparatesKeysByEveryDigit) {
  EmulatedMachine machine(/*threads=*/1, TopKWay::kResident,
                          kTwoMultiprocessors);
  ForEachDtype([&](auto zero) {
    TopKSeparatesKeysByEveryDigit<decltype(zero)>(machine);
  });
}

TEST(CudaResidentStepsOnTheCpu, TopKTakesTensorsOfOneValue) {
  EmulatedMachine machine(/*threads=*/1, TopKWay::kResident,
                          kTwoMultiprocessors);
  ForEachDtype(
      [&](auto zero) { TopKTakesTensorsOfOneValue<decltype(zero)>(machine); });
}

TEST(CudaResidentStepsOnTheCpu, TopKRefusesATensorAndChangesNothing) {
  EmulatedMachine machine(/*threads=*/1, TopKWay::kResident,
                          kTwoMultiprocessors);
  ForEachDtype([&](auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(machine);
  });
}

// On as many blocks as an H200 has multiprocessors.
TEST(CudaResidentStepsOnTheCpu, TopKTakesALongTensor) {
  EmulatedMachine machine(/*threads=*/1, TopKWay::kResident,
                          {132, 227 * 1024, true});
  TopKTakesALongTensor(machine);
}

TEST(CudaResidentStepsOnTheCpu, GroupedTopKEqualsTheCore) {
  EmulatedMachine machine(/*threads=*/1, TopKWay::kResident,
                          kTwoMultiprocessors);
  ForEachDtype(
      [&](auto zero) { GroupedTopKEqualsTheCore<decltype(zero)>(machine); });
}

// Blocks of several tiles and chunks each, and of none.
constexpr cuda::DeviceLimits kFiveBlocks = {5, 0, true};

EmulatedMachine BandedMachine() {
  return EmulatedMachine(/*threads=*/1, TopKWay::kBanded, kFiveBlocks);
}

TEST(CudaBandedStepsOnTheCpu, TopKEqualsTheReference) {
  EmulatedMachine machine = BandedMachine();
  ForEachDtype(
      [&](auto zero) { TopKEqualsTheReference<decltype(zero)>(machine); });
}

TEST(CudaBandedStepsOnTheCpu, TopKSeparatesKeysByEveryDigit) {
  EmulatedMachine machine = BandedMachine();
  ForEachDtype([&](auto zero) {
    TopKSeparatesKeysByEveryDigit<decltype(zero)>(machine);
  });
}

TEST(CudaBandedStepsOnTheCpu, TopKTakesTensorsOfOneValue) {
  EmulatedMachine machine = BandedMachine();
  ForEachDtype(
      [&](auto zero) { TopKTakesTensorsOfOneValue<decltype(zero)>(machine); });
}

TEST(CudaBandedStepsOnTheCpu, TopKTakesTensorsInOrderAndOfZeros) {
  EmulatedMachine machine = BandedMachine();
  ForEachDtype([&](auto zero) {
    TopKTakesTensorsInOrderAndOfZeros<decltype(zero)>(machine);
  });
}

TEST(CudaBandedStepsOnTheCpu, TopKRefusesATensorAndChangesNothing) {
  EmulatedMachine machine = BandedMachine();
  ForEachDtype([&](auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(machine);
  });
}

TEST(CudaBandedStepsOnTheCpu, TopKTakesResidualsFarFromTheirSums) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    EmulatedMachine machine = BandedMachine();
    TopKTakesResidualsFarFromTheirSums<T>(machine);
    // Two bytes tell any residual that has two.
    const TopKInput<T> input = TensorFarFromItsSums<T>();
    machine.TopK(std::vector<TopKInput<T>>{input}, NonFinitePolicy::kError);
    EXPECT_EQ(machine.held_back(), sizeof(T) > 2);
    machine.TopK(std::vector<TopKInput<T>>{input}, NonFinitePolicy::kDrop);
    EXPECT_FALSE(machine.held_back());
  });
}

TEST(CudaBandedStepsOnTheCpu, TopKTakesWhatItsSampleDoesNotShow) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    for (const Sampled sampled : {Sampled::kLarge, Sampled::kSmall}) {
      EmulatedMachine machine = BandedMachine();
      for (const auto& input : MisleadingInputs<T>(sampled)) {
        ExpectReference(input, machine.TopK(std::vector<TopKInput<T>>{input},
                                            NonFinitePolicy::kError)[0]);
        EXPECT_EQ(machine.lists_again(), 2);
      }
    }
  });
}

// Where the sample is like the rest, it is not listed again.
TEST(CudaBandedStepsOnTheCpu, TopKHasABandThatHolds) {
  Random random(16);
  EmulatedMachine machine = BandedMachine();
  ForEachDtype([&](auto zero) {
    using T = decltype(zero);
    for (const Fill fill : {Fill::kNormal, Fill::kFewLevels, Fill::kZeros}) {
      for (const std::int64_t k : {0, 1, 50, 1000, 30000, 50000}) {
        SCOPED_TRACE("k " + std::to_string(k));
        const auto input = RandomInput<T>(50000, k, fill, random);
        ExpectReference(input, machine.TopK(std::vector<TopKInput<T>>{input},
                                            NonFinitePolicy::kError)[0]);
        EXPECT_EQ(machine.lists_again(), 0);
      }
    }
  });
}

TEST(CudaBandedStepsOnTheCpu, TopKTakesALongTensor) {
  EmulatedMachine machine(/*threads=*/1, TopKWay::kBanded, {264, 0, true});
  TopKTakesALongTensor(machine);
}

TEST(CudaBandedStepsOnTheCpu, GroupedTopKEqualsTheCore) {
  EmulatedMachine machine = BandedMachine();
  ForEachDtype(
      [&](auto zero) { GroupedTopKEqualsTheCore<decltype(zero)>(machine); });
}

TEST(CudaStepsOnTheCpu, ScatterEqualsTheCore) {
  EmulatedMachine machine;
  ForEachDtype(
      [&](auto zero) { ScatterEqualsTheCore<decltype(zero)>(machine); });
}

TEST(CudaStepsOnTheCpu, DecodeEqualsTheCore) {
  EmulatedMachine machine;
  ForEachDtype(
      [&](auto zero) { DecodeEqualsTheCore<decltype(zero)>(machine); });
}

TEST(CudaStepsOnTheCpu, ScatterRefusesInTheWordsOfTheCore) {
  EmulatedMachine machine;
  ScatterRefusesInTheWordsOfTheCore(machine);
}

}  // namespace
}  // namespace fedplug::testing
