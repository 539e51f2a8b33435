// Slow and simple versions of the kernels, line by line as the contracts in
// core/*.h. Tests compare every implementation with them. They accept
// valid input only, use one thread and allocate.
#ifndef FEDPLUG_TESTS_REFERENCE_REFERENCE_H_
#define FEDPLUG_TESTS_REFERENCE_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "core/base/floats.h"

namespace fedplug::reference {

template <typename T>
struct TopK {
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<T> residual;
  std::int64_t non_finite = 0;
};

// A stable sort of all |a|. Sums that are not finite count as zero.
// COST: O(n log n)
template <typename T>
TopK<T> TopKResidual(const std::vector<T>& delta,
                     const std::vector<T>& residual, std::int64_t k);

// TopKResidual of each of the tensors that are laid end to end, with a k for
// each. Indices count from the first tensor.
template <typename T>
TopK<T> TopKOfEach(const std::vector<T>& delta, const std::vector<T>& residual,
                   const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& ks);

// One payload after the other, one entry after the other.
// SHAPE: values and indices hold one vector per payload; weights[payloads], or
// empty for none
template <typename T>
void ScatterDecodeAdd(std::vector<T>* accumulator,
                      const std::vector<std::vector<T>>& values,
                      const std::vector<std::vector<std::int32_t>>& indices,
                      const std::vector<T>& weights);

// Bit by bit.
std::uint32_t Crc32(const std::vector<std::uint8_t>& data);

}  // namespace fedplug::reference

#endif  // FEDPLUG_TESTS_REFERENCE_REFERENCE_H_
