// Replaces CUDA's header of this name: the parts that csrc/cuda uses.
#ifndef FEDPLUG_TESTS_FAKE_CUDA_COOPERATIVE_GROUPS_H_
#define FEDPLUG_TESTS_FAKE_CUDA_COOPERATIVE_GROUPS_H_

#include "tests/fake_cuda/fibers.h"

namespace cooperative_groups {

struct grid_group {
  void sync() const { fedplug::fake_cuda::GridBarrier(); }
};

inline grid_group this_grid() { return {}; }

}  // namespace cooperative_groups

#endif  // FEDPLUG_TESTS_FAKE_CUDA_COOPERATIVE_GROUPS_H_
