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
#include "tests/cuda_check_cases.h"
#include "tests/cuda_check_emulator.h"
#include "tests/cuda_check_list_cases.h"
#include "tests/cuda_check_scatter_cases.h"

namespace fedplug::testing {
namespace {

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
  EmulatedMachine machine(/*threads=*/1, kTwoMultiprocessors);
  ForEachDtype(
      [&](auto zero) { TopKEqualsTheReference<decltype(zero)>(machine); });
}

TEST(CudaResidentStepsOnTheCpu, TopKSeparatesKeysByEveryDigit) {
  EmulatedMachine machine(/*threads=*/1, kTwoMultiprocessors);
  ForEachDtype([&](auto zero) {
    TopKSeparatesKeysByEveryDigit<decltype(zero)>(machine);
  });
}

TEST(CudaResidentStepsOnTheCpu, TopKTakesTensorsOfOneValue) {
  EmulatedMachine machine(/*threads=*/1, kTwoMultiprocessors);
  ForEachDtype(
      [&](auto zero) { TopKTakesTensorsOfOneValue<decltype(zero)>(machine); });
}

TEST(CudaResidentStepsOnTheCpu, TopKRefusesATensorAndChangesNothing) {
  EmulatedMachine machine(/*threads=*/1, kTwoMultiprocessors);
  ForEachDtype([&](auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(machine);
  });
}

// On as many blocks as an H200 has multiprocessors.
TEST(CudaResidentStepsOnTheCpu, TopKTakesALongTensor) {
  EmulatedMachine machine(/*threads=*/1, {132, 227 * 1024, true});
  TopKTakesALongTensor(machine);
}

TEST(CudaResidentStepsOnTheCpu, GroupedTopKEqualsTheCore) {
  EmulatedMachine machine(/*threads=*/1, kTwoMultiprocessors);
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
