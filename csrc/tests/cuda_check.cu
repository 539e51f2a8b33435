// Runs the cases of cuda_check_cases.h on a GPU, without TensorFlow. Without a
// GPU it exits with 77, which ctest counts as skipped.
#include "tests/cuda_check_device.cuh"

namespace fedplug::testing {
namespace {

TEST(Cuda, HasADevice) { FindDevice(); }

}  // namespace
}  // namespace fedplug::testing

#include "tests/cuda_check_cases.h"
