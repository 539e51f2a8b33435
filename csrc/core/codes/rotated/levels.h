// The levels of a rotated code in the type of its arithmetic.
#ifndef FEDPLUG_CORE_CODES_ROTATED_LEVELS_H_
#define FEDPLUG_CORE_CODES_ROTATED_LEVELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/codes/rotated/hadamard_loops.h"
#include "core/rotated_code.h"

namespace fedplug {

// Bits of a level's number.
inline int BitsOf(const RotatedCode& code) {
  int bits = 1;
  while ((std::size_t{1} << bits) < 2 * code.levels.size()) ++bits;
  return bits;
}

inline std::int64_t BlocksOf(const RotatedCode& code, std::int64_t count) {
  return (count + code.block_size - 1) / code.block_size;
}

template <typename T>
hadamard_loops::Levels<T> LevelsOf(const RotatedCode& code) {
  hadamard_loops::Levels<T> levels;
  for (std::size_t i = 0; i < code.levels.size(); ++i) {
    levels.positive[i] = static_cast<T>(code.levels[i]);
    if (i + 1 < code.levels.size()) {
      const double middle = (code.levels[i] + code.levels[i + 1]) / 2;
      levels.borders[i] = static_cast<T>(middle);
    }
  }
  return levels;
}

// All levels by their numbers.
template <typename T>
using LevelTable = std::array<T, 2 * hadamard_loops::Levels<T>::kMost>;

template <typename T>
LevelTable<T> TableOf(const hadamard_loops::Levels<T>& levels, int bits) {
  LevelTable<T> table{};
  const std::size_t positive = std::size_t{1} << (bits - 1);
  for (std::size_t i = 0; i < positive; ++i) {
    table[positive + i] = levels.positive[i];
    table[positive - 1 - i] = -levels.positive[i];
  }
  return table;
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_ROTATED_LEVELS_H_
