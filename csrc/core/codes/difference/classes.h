// Which exponents share a class: neighbours whose statistics cost more than
// they save.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_CLASSES_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_CLASSES_H_

#include <array>
#include <cstdint>
#include <vector>

namespace fedplug::differences {

inline constexpr int kMostClasses = 64;

// The statistics of the elements with some old exponents.
struct Group {
  static constexpr int kSymbols = 16;  // the last one is for all above it

  std::int64_t exponents = 0;
  double members = 0;  // an estimate suffices
  double changed = 0;
  std::array<double, kSymbols> symbols{};
};

// Merges neighbouring groups until no merger makes the code shorter and at most
// kMostClasses are left. The result has every exponent of `groups`, in order.
//
// THREADS: any, and the result does not depend on the C library's logarithm
// COST:    O(groups^2), with few operations
std::vector<Group> MergedGroups(const std::vector<Group>& groups);

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_CLASSES_H_
