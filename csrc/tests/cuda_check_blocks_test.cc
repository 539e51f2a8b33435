// Runs the steps of the CUDA kernels on the CPU, the blocks of a launch on
// several threads. Under the thread sanitizer (`make sanitize`) this proves
// that blocks meet in atomic operations only, and that the last one to arrive
// reads nothing of the others but what they wrote before they arrived.
#include "tests/cuda_check_banded_cases.h"
#include "tests/cuda_check_cases.h"
#include "tests/cuda_check_emulator.h"
#include "tests/cuda_check_list_cases.h"
#include "tests/cuda_check_scatter_cases.h"

namespace fedplug::testing {
namespace {

TEST(CudaBlocksOnThreads, TopKTakesALongListOfTensors) {
  EmulatedMachine machine(/*threads=*/4);
  TopKTakesALongListOfTensors<float>(machine);
}

TEST(CudaBlocksOnThreads, ResidentTopKRefusesATensorAndChangesNothing) {
  EmulatedMachine machine(/*threads=*/4, cuda::TopKWay::kResident,
                          {4, 227 * 1024, true});
  TopKRefusesATensorAndChangesNothing<float>(machine);
}

TEST(CudaBlocksOnThreads, BandedTopKRefusesATensorAndChangesNothing) {
  EmulatedMachine machine(/*threads=*/4, cuda::TopKWay::kBanded, {4, 0, true});
  TopKRefusesATensorAndChangesNothing<float>(machine);
  TopKTakesResidualsFarFromTheirSums<float>(machine);
}

TEST(CudaBlocksOnThreads, BandedTopKTakesAListWithOneK) {
  EmulatedMachine machine(/*threads=*/4, cuda::TopKWay::kBanded, {4, 0, true});
  GroupedTopKEqualsTheCore<float>(machine);
}

TEST(CudaBlocksOnThreads, GroupedTopKTakesALongListOfTensors) {
  EmulatedMachine machine(/*threads=*/4);
  GroupedTopKTakesALongListOfTensors<float>(machine);
}

TEST(CudaBlocksOnThreads, GroupedTopKRefusesInTheWordsOfTheCore) {
  EmulatedMachine machine(/*threads=*/4);
  GroupedTopKRefusesInTheWordsOfTheCore<float>(machine);
}

TEST(CudaBlocksOnThreads, ScatterRefusesInTheWordsOfTheCore) {
  EmulatedMachine machine(/*threads=*/4);
  ScatterRefusesInTheWordsOfTheCore(machine);
}

}  // namespace
}  // namespace fedplug::testing
