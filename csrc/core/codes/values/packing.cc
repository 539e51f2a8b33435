#include "core/codes/values/packing.h"

#include <algorithm>
#include <cstring>

#include "core/codes/values/pack_group.h"

namespace fedplug {
namespace {

// The five levels of every byte of kTernGrad; of those from 243 on the last one
// is 3, which no level is.
constexpr std::size_t kTrits = 5;

using TritTable = std::array<std::array<std::uint8_t, kTrits>, 256>;

constexpr TritTable MakeTritTable() {
  TritTable table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    std::size_t rest = byte;
    for (std::size_t i = 0; i + 1 < kTrits; ++i, rest /= 3) {
      table[byte][i] = static_cast<std::uint8_t>(rest % 3);
    }
    table[byte][kTrits - 1] = static_cast<std::uint8_t>(rest);
  }
  return table;
}

constexpr TritTable kTritTable = MakeTritTable();

// Five levels at a time, of eight that are read.
// SHAPE: levels[n rounded up to 5, + 3], packed[ceil(n / 5)]
void PackTrits(const std::uint8_t* levels, std::int64_t n,
               std::uint8_t* packed) {
  for (std::int64_t i = 0; i < n; i += 5, levels += 5, ++packed) {
    std::uint64_t word;
    std::memcpy(&word, levels, sizeof(word));
    *packed = value_loops::PushTritsTogether(word);
  }
}

// An invalid byte gives levels above 2.
void UnpackTrits(const std::uint8_t* packed, std::int64_t n,
                 std::uint8_t* levels) {
  for (std::int64_t i = 0; i < n; i += 5, levels += 5, ++packed) {
    std::memcpy(levels, kTritTable[*packed].data(), kTrits);
  }
}

bool AllAtMost(const std::uint8_t* levels, std::int64_t n, int highest) {
  std::uint8_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, levels[i]);
  return most <= highest;
}

// The level that fills the last group.
std::uint8_t Filler(ValueForm form) {
  return form == ValueForm::kTernGrad ? 1 : 0;
}

std::int64_t MissingInGroup(const ValueLayout& layout, std::int64_t n) {
  return (layout.group - n % layout.group) % layout.group;
}

}  // namespace

void PackLevels(ValueForm form, const ValueLayout& layout,
                const value_loops::BitLoops& loops, std::int64_t n,
                LevelChunk* levels, PackedChunk* packed) {
  std::uint8_t* const level = levels->data();
  std::uint8_t* const byte = packed->data();
  std::fill_n(level + n, MissingInGroup(layout, n), Filler(form));
  switch (form) {
    case ValueForm::kBlockwise8:
      for (std::int64_t i = 0; i < n; ++i) {
        byte[i] = static_cast<std::uint8_t>(level[i] - layout.top);
      }
      return;
    case ValueForm::kTernGrad:
      return PackTrits(level, n, byte);
    default:
      loops.pack(level, n, static_cast<int>(layout.group_bytes), byte);
  }
}

bool UnpackLevels(ValueForm form, const ValueLayout& layout,
                  const value_loops::BitLoops& loops, std::int64_t n,
                  const PackedChunk& packed, LevelChunk* levels) {
  std::uint8_t* const level = levels->data();
  const int top = layout.top;
  switch (form) {
    case ValueForm::kBlockwise8:
      for (std::int64_t i = 0; i < n; ++i) {
        level[i] = static_cast<std::uint8_t>(
            packed[static_cast<std::size_t>(i)] + top);
      }
      return AllAtMost(level, n, 2 * top);
    case ValueForm::kTernGrad:
      UnpackTrits(packed.data(), n, level);
      break;
    default:
      loops.unpack(packed.data(), n, static_cast<int>(layout.group_bytes),
                   level);
  }
  const std::uint8_t filler = Filler(form);
  const std::uint8_t* const end = level + n + MissingInGroup(layout, n);
  if (!AllAtMost(level, n, 2 * top) ||
      std::any_of(static_cast<const std::uint8_t*>(level + n), end,
                  [=](std::uint8_t rest) { return rest != filler; })) {
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
