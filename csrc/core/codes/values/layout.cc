#include "core/codes/values/layout.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/bytes.h"

namespace fedplug {
namespace {

constexpr std::int64_t kLargestBlock = 1 << 20;
constexpr std::int64_t kExponentBytes = 2;
constexpr float kLeastRelative = 0x1p-15f;
constexpr float kMostRelative = 0x1p-2f;

bool HasBlocks(ValueForm form) {
  return form == ValueForm::kQsgd || form == ValueForm::kNearest ||
         form == ValueForm::kBfp;
}

// The fewest bits of a level; 0 for forms without levels of variable width.
int LeastBits(ValueForm form) {
  if (HasBlocks(form)) return 2;
  return form == ValueForm::kCodebook ? 1 : 0;
}

std::uint8_t Log2(std::int64_t power) {
  std::uint8_t log = 0;
  while ((std::int64_t{1} << log) < power) ++log;
  return log;
}

// The bits of a level of kBounded: those of floor(1 / relative) + 2.
int BitsOfLevels(float relative) {
  auto last = static_cast<std::uint32_t>(1 / static_cast<double>(relative)) + 2;
  int bits = 0;
  for (; last > 0; last >>= 1) ++bits;
  return bits;
}

struct NamedForm {
  const char* name;
  ValueForm form;
};

constexpr NamedForm kForms[] = {
    {"float16", ValueForm::kFloat16}, {"bfloat16", ValueForm::kBFloat16},
    {"qsgd", ValueForm::kQsgd},       {"nearest", ValueForm::kNearest},
    {"sign", ValueForm::kSign},       {"codebook", ValueForm::kCodebook},
    {"bounded", ValueForm::kBounded}, {"bfp", ValueForm::kBfp}};

}  // namespace

bool FindValueForm(const std::string& name, ValueForm* form) {
  for (const NamedForm& known : kForms) {
    if (name != known.name) continue;
    *form = known.form;
    return true;
  }
  return false;
}

Status CheckValueCode(const ValueCode& code, std::int64_t count) {
  if (Status status = CheckInt32("count", count); !status.ok()) return status;
  const int least = LeastBits(code.form);
  if (least > 0 && (code.bits < least || code.bits > 8)) {
    return {StatusCode::kInvalidArgument,
            "bits = " + std::to_string(code.bits) + " is not in [" +
                std::to_string(least) + ", 8]"};
  }
  const std::int64_t block = code.block_size;
  if (HasBlocks(code.form) &&
      (block < 1 || block > kLargestBlock || (block & (block - 1)) != 0)) {
    return {StatusCode::kInvalidArgument,
            "block_size = " + std::to_string(block) +
                " is not a power of two from 1 to 2^20"};
  }
  if (code.form == ValueForm::kBounded &&
      !(code.relative >= kLeastRelative && code.relative <= kMostRelative)) {
    return {StatusCode::kInvalidArgument,
            "relative = " + std::to_string(code.relative) +
                " is not in [2^-15, 1/4]"};
  }
  return {};
}

ValueLayout LayoutOf(const ValueCode& code, std::int64_t count,
                     std::int64_t value_bytes) {
  ValueLayout layout;
  switch (code.form) {
    case ValueForm::kFloat16:
    case ValueForm::kBFloat16:
      layout.group_bytes = 16;
      return layout;
    case ValueForm::kQsgd:
    case ValueForm::kNearest:
    case ValueForm::kBfp:
      layout.header = {static_cast<std::uint8_t>(code.bits),
                       Log2(code.block_size)};
      layout.header_bytes = 2;
      layout.top = (1 << (code.bits - 1)) - 1;
      layout.group_bytes = code.bits;
      break;
    case ValueForm::kSign:
      break;
    case ValueForm::kCodebook:
      layout.header = {static_cast<std::uint8_t>(code.bits)};
      layout.header_bytes = 1;
      layout.top = 1 << (code.bits - 1);
      layout.group_bytes = code.bits;
      break;
    case ValueForm::kBounded: {
      std::memcpy(layout.header.data(), &code.relative, sizeof(float));
      layout.header_bytes = sizeof(float);
      const int bits = BitsOfLevels(code.relative);
      layout.low_bits = std::max(0, bits - 8);
      layout.group_bytes = bits - layout.low_bits;
      break;
    }
  }
  layout.per_block = HasBlocks(code.form);
  layout.block =
      layout.per_block ? code.block_size : std::max<std::int64_t>(count, 1);
  layout.scales =
      layout.per_block ? (count + layout.block - 1) / layout.block : 1;
  if (code.form == ValueForm::kCodebook) layout.scales = 2 * layout.top;
  if (code.form == ValueForm::kBounded) layout.scales = 2;
  layout.scale_bytes =
      code.form == ValueForm::kBfp ? kExponentBytes : value_bytes;
  layout.low_at = layout.header_bytes + layout.scales * layout.scale_bytes;
  layout.levels_at = layout.low_at + BytesFor(count * layout.low_bits);
  return layout;
}

std::int64_t ValueCodeBytes(const ValueCode& code, std::int64_t count,
                            std::int64_t value_bytes) {
  const ValueLayout layout = LayoutOf(code, count, value_bytes);
  return layout.levels_at + layout.LevelBytes(count);
}

Status CheckValueBytes(const std::uint8_t* data, std::int64_t bytes,
                       std::int64_t count, const ValueCode& code,
                       std::int64_t value_bytes) {
  if (Status status = CheckValueCode(code, count); !status.ok()) return status;
  const ValueLayout layout = LayoutOf(code, count, value_bytes);
  if (bytes >= layout.header_bytes &&
      !std::equal(data, data + layout.header_bytes, layout.header.begin())) {
    const std::string bits =
        LeastBits(code.form) > 0 ? "bits=" + std::to_string(code.bits) : "";
    const std::string block =
        HasBlocks(code.form) ? "block_size=" + std::to_string(code.block_size)
                             : "";
    const std::string relative =
        code.form == ValueForm::kBounded
            ? "relative=" + std::to_string(code.relative)
            : "";
    const char* const both = bits.empty() || block.empty() ? "" : " and ";
    return {StatusCode::kDataLoss, "value code: it was not made with " + bits +
                                       both + block + relative};
  }
  const std::int64_t wanted = layout.levels_at + layout.LevelBytes(count);
  if (bytes == wanted) return {};
  return {StatusCode::kDataLoss, "value code: " + std::to_string(count) +
                                     " values take " + std::to_string(wanted) +
                                     " bytes, not " + std::to_string(bytes)};
}

namespace {

bool AllAtMost(const std::uint8_t* levels, std::int64_t n, int highest) {
  std::uint8_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, levels[i]);
  return most <= highest;
}

// The end of the last group of eight.
std::ptrdiff_t GroupEnd(std::int64_t n) { return (n + 7) / 8 * 8; }

}  // namespace

void PackChunk(const value_loops::BitLoops& loops, std::int64_t n, int bits,
               LevelChunk* levels, std::uint8_t* to) {
  if (bits == 0) return;
  std::array<std::uint8_t, value_loops::kChunk + value_loops::kPackedSlack>
      packed;
  std::fill(levels->begin() + n, levels->begin() + GroupEnd(n),
            std::uint8_t{0});
  loops.pack(levels->data(), n, bits, packed.data());
  std::copy_n(packed.begin(), BytesFor(n * bits), to);
}

bool UnpackChunk(const value_loops::BitLoops& loops, const std::uint8_t* from,
                 std::int64_t n, int bits, LevelChunk* levels) {
  if (bits == 0) {
    std::fill_n(levels->begin(), n, std::uint8_t{0});
    return true;
  }
  std::array<std::uint8_t, value_loops::kChunk + value_loops::kPackedSlack>
      packed;
  auto* const end = std::copy_n(from, BytesFor(n * bits), packed.begin());
  std::fill_n(end, value_loops::kPackedSlack, std::uint8_t{0});
  loops.unpack(packed.data(), n, bits, levels->data());
  return AllAtMost(levels->data() + n, GroupEnd(n) - n, 0);
}

void PackLevels(const ValueLayout& layout, const value_loops::BitLoops& loops,
                std::int64_t first, std::int64_t n, LevelChunk* levels,
                std::uint8_t* data) {
  PackChunk(loops, n, layout.group_bytes, levels,
            data + layout.levels_at + layout.LevelBytes(first));
}

bool UnpackLevels(ValueForm form, const ValueLayout& layout,
                  const value_loops::BitLoops& loops, const std::uint8_t* data,
                  std::int64_t first, std::int64_t n, LevelChunk* levels) {
  if (!UnpackChunk(loops, data + layout.levels_at + layout.LevelBytes(first), n,
                   layout.group_bytes, levels) ||
      !AllAtMost(levels->data(), n, 2 * layout.top)) {
    return false;
  }
  if (form == ValueForm::kSign) {  // 0 and 1 mean -1 and +1
    for (std::int64_t i = 0; i < n; ++i) {
      std::uint8_t& level = (*levels)[static_cast<std::size_t>(i)];
      level = static_cast<std::uint8_t>(2 * level);
    }
  }
  return true;
}

}  // namespace fedplug
