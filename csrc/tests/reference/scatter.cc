// The reference of the sums of sparse payloads.
#include "tests/reference/reference.h"

namespace fedplug::reference {

template <typename T>
void ScatterDecodeAdd(std::vector<T>* accumulator,
                      const std::vector<std::vector<T>>& values,
                      const std::vector<std::vector<std::int32_t>>& indices,
                      const std::vector<T>& weights) {
  for (std::size_t p = 0; p < values.size(); ++p) {
    for (std::size_t j = 0; j < values[p].size(); ++j) {
      T& sum = (*accumulator)[static_cast<std::size_t>(indices[p][j])];
      const T term = weights.empty() ? values[p][j] : weights[p] * values[p][j];
      sum = sum + term;
    }
  }
}

#define FEDPLUG_INSTANTIATE(T)                             \
  template void ScatterDecodeAdd<T>(                       \
      std::vector<T>*, const std::vector<std::vector<T>>&, \
      const std::vector<std::vector<std::int32_t>>&, const std::vector<T>&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::reference
