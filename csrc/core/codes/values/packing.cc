#include "core/codes/values/packing.h"

#include <algorithm>

namespace fedplug {
namespace {

bool AllAtMost(const std::uint8_t* levels, std::int64_t n, int highest) {
  std::uint8_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, levels[i]);
  return most <= highest;
}

std::int64_t MissingInGroup(std::int64_t n) {
  return (ValueLayout::kGroup - n % ValueLayout::kGroup) % ValueLayout::kGroup;
}

}  // namespace

void PackLevels(const ValueLayout& layout, const value_loops::BitLoops& loops,
                std::int64_t n, LevelChunk* levels, PackedChunk* packed) {
  std::fill_n(levels->data() + n, MissingInGroup(n), std::uint8_t{0});
  loops.pack(levels->data(), n, static_cast<int>(layout.group_bytes),
             packed->data());
}

bool UnpackLevels(ValueForm form, const ValueLayout& layout,
                  const value_loops::BitLoops& loops, std::int64_t n,
                  const PackedChunk& packed, LevelChunk* levels) {
  std::uint8_t* const level = levels->data();
  loops.unpack(packed.data(), n, static_cast<int>(layout.group_bytes), level);
  if (!AllAtMost(level, n, 2 * layout.top) ||
      !AllAtMost(level + n, MissingInGroup(n), 0)) {
    return false;
  }
  if (form == ValueForm::kSign) {  // 0 and 1 mean -1 and +1
    for (std::int64_t i = 0; i < n; ++i) {
      level[i] = static_cast<std::uint8_t>(2 * level[i]);
    }
  }
  return true;
}

}  // namespace fedplug
