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

// Blocks of several tiles and chunks each, and of none.
EmulatedMachine BandedMachine() {
  return EmulatedMachine(/*threads=*/1, TopKWay::kBanded, {5, 0, true});
}

// body(machine, T{}) for every way and dtype.
template <typename Body>
void ForEachWay(const Body& body) {
  const auto traced = [&](const char* way, EmulatedMachine machine) {
    SCOPED_TRACE(way);
    ForEachDtype([&](auto zero) { body(machine, zero); });
  };
  traced("passes", EmulatedMachine());
  // Shares of several tiles each, which begin anywhere in them.
  traced("resident", EmulatedMachine(/*threads=*/1, TopKWay::kResident,
                                     {2, 227 * 1024, true}));
  traced("banded", BandedMachine());
}

TEST(CudaStepsOnTheCpu, TopKEqualsTheReference) {
  ForEachWay([](auto& machine, auto zero) {
    TopKEqualsTheReference<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, TopKSeparatesKeysByEveryDigit) {
  ForEachWay([](auto& machine, auto zero) {
    TopKSeparatesKeysByEveryDigit<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, TopKRefusesATensorAndChangesNothing) {
  ForEachWay([](auto& machine, auto zero) {
    TopKRefusesATensorAndChangesNothing<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, TopKTakesTensorsOfOneValue) {
  ForEachWay([](auto& machine, auto zero) {
    TopKTakesTensorsOfOneValue<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, TopKTakesTensorsInOrderAndOfZeros) {
  ForEachWay([](auto& machine, auto zero) {
    TopKTakesTensorsInOrderAndOfZeros<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, GroupedTopKEqualsTheCore) {
  ForEachWay([](auto& machine, auto zero) {
    GroupedTopKEqualsTheCore<decltype(zero)>(machine);
  });
}

// On as many blocks as an H200 has multiprocessors, or twice as many.
TEST(CudaStepsOnTheCpu, TopKTakesALongTensor) {
  EmulatedMachine passes;
  TopKTakesALongTensor(passes);
  EmulatedMachine resident(/*threads=*/1, TopKWay::kResident,
                           {132, 227 * 1024, true});
  TopKTakesALongTensor(resident);
  EmulatedMachine banded(/*threads=*/1, TopKWay::kBanded, {264, 0, true});
  TopKTakesALongTensor(banded);
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

TEST(CudaStepsOnTheCpu, GroupedTopKTakesALongListOfTensors) {
  ForEachWay([](auto& machine, auto zero) {
    GroupedTopKTakesALongListOfTensors<decltype(zero)>(machine);
  });
}

TEST(CudaStepsOnTheCpu, GroupedTopKRefusesInTheWordsOfTheCore) {
  ForEachWay([](auto& machine, auto zero) {
    GroupedTopKRefusesInTheWordsOfTheCore<decltype(zero)>(machine);
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

TEST(CudaBandedStepsOnTheCpu, GroupedTopKTakesTheSameInPieces) {
  EmulatedMachine machine = BandedMachine();
  ForEachDtype([&](auto zero) {
    GroupedTopKTakesWhatItsLogAndItsSampleAreNotFor<decltype(zero)>(machine);
  });
  EXPECT_EQ(machine.lists_again(), 2);  // of the last
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
