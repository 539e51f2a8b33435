// Checks what all forms require, and calls the requested one.
#include "core/index_code.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/codes/indices/bits.h"
#include "core/codes/indices/forms.h"

namespace fedplug {
namespace {

using index_codes::Corrupt;
using index_codes::IndexWidth;

// The forms that kShortest chooses from, as its first byte names them.
constexpr std::array<IndexForm, 3> kChoices = {
    IndexForm::kRice, IndexForm::kBitPack, IndexForm::kBitmap};

Status CheckCount(std::int64_t count, std::int64_t size) {
  if (size < 0 || size > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "size = " + std::to_string(size) + " is not in [0, 2^31)"};
  }
  if (count < 0 || count > size) {
    return {StatusCode::kInvalidArgument,
            "count = " + std::to_string(count) + " is not in [0, " +
                std::to_string(size) + "], the number of distinct indices"};
  }
  return {};
}

Status CheckIndices(const std::int32_t* indices, std::int64_t count,
                    std::int64_t size) {
  std::int64_t previous = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[i];
    if (index < 0 || index >= size) {
      return {StatusCode::kInvalidArgument,
              "index " + std::to_string(index) + " at position " +
                  std::to_string(i) + " is not in [0, " + std::to_string(size) +
                  ")"};
    }
    if (index <= previous) {
      return {StatusCode::kInvalidArgument,
              "index " + std::to_string(index) + " at position " +
                  std::to_string(i) + " is not above the one before it (" +
                  std::to_string(previous) + ")"};
    }
    previous = index;
  }
  return {};
}

// Writes a code of one of kChoices behind what `code` holds.
void Append(const std::int32_t* indices, std::int64_t count, std::int64_t size,
            IndexForm form, std::int64_t bytes,
            const index_codes::RicePlan& plan,
            std::vector<std::uint8_t>* code) {
  const std::size_t at = code->size();
  code->resize(at + static_cast<std::size_t>(bytes));
  std::uint8_t* const to = code->data() + at;
  switch (form) {
    case IndexForm::kBitPack:
      return index_codes::EncodeBitPack(indices, count, size, to);
    case IndexForm::kBitmap:
      return index_codes::EncodeBitmap(indices, count, to);
    default:
      return index_codes::EncodeRice(indices, count, plan, to);
  }
}

// The length of each of kChoices; of a Rice code only if requested, because it
// takes a walk over the indices.
struct Lengths {
  index_codes::RicePlan rice;
  std::array<std::int64_t, kChoices.size()> bytes;

  Lengths(const std::int32_t* indices, std::int64_t count, std::int64_t size,
          IndexForm form) {
    if (form == IndexForm::kRice || form == IndexForm::kShortest) {
      rice = index_codes::PlanRice(indices, count);
    }
    bytes = {rice.bytes, BytesFor(count * IndexWidth(size)), BytesFor(size)};
  }

  // The first of the shortest, among all.
  std::size_t Shortest() const {
    return static_cast<std::size_t>(
        std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
  }
};

Status CheckChoice(const std::uint8_t* code, std::int64_t bytes) {
  if (bytes < 1) return Corrupt("it is too short to say which it is");
  if (code[0] >= kChoices.size()) {
    return Corrupt("it is of no known kind, " + std::to_string(code[0]));
  }
  return {};
}

// REQUIRES: as CheckIndexCode, with one of kChoices and a valid count
Status CheckLength(std::int64_t bytes, std::int64_t count, std::int64_t size,
                   IndexForm form) {
  // An index of a Rice code takes one bit at least, of kGaps 0.05.
  bool fits = count <= (form == IndexForm::kGaps ? 256 : 8) * bytes;
  if (form == IndexForm::kBitPack) {
    fits = bytes == BytesFor(count * IndexWidth(size));
  } else if (form == IndexForm::kBitmap) {
    fits = bytes == BytesFor(size);
  }
  return fits ? Status()
              : Corrupt(std::to_string(bytes) + " bytes cannot hold " +
                        std::to_string(count) + " indices below " +
                        std::to_string(size));
}

}  // namespace

bool FindIndexForm(const std::string& name, IndexForm* form) {
  const std::pair<const char*, IndexForm> names[] = {
      {"rice", IndexForm::kRice},
      {"bitpack", IndexForm::kBitPack},
      {"bitmap", IndexForm::kBitmap},
      {"shortest", IndexForm::kShortest},
      {"gaps", IndexForm::kGaps}};
  for (const auto& [known, meant] : names) {
    if (name == known) {
      *form = meant;
      return true;
    }
  }
  return false;
}

Status EncodeIndices(const std::int32_t* indices, std::int64_t count,
                     std::int64_t size, IndexForm form,
                     std::vector<std::uint8_t>* code) {
  if (Status status = CheckCount(count, size); !status.ok()) return status;
  if (Status status = CheckIndices(indices, count, size); !status.ok()) {
    return status;
  }
  code->clear();
  if (form == IndexForm::kGaps) {
    index_codes::EncodeGaps(indices, count, size, code);
    return {};
  }
  const Lengths lengths(indices, count, size, form);
  auto choice = static_cast<std::size_t>(form);
  if (form == IndexForm::kShortest) {
    choice = lengths.Shortest();
    code->push_back(static_cast<std::uint8_t>(choice));
  }
  Append(indices, count, size, kChoices[choice], lengths.bytes[choice],
         lengths.rice, code);
  return {};
}

Status CheckIndexCode(const std::uint8_t* code, std::int64_t bytes,
                      std::int64_t count, std::int64_t size, IndexForm form) {
  if (Status status = CheckCount(count, size); !status.ok()) return status;
  if (form != IndexForm::kShortest) {
    return CheckLength(bytes, count, size, form);
  }
  if (Status status = CheckChoice(code, bytes); !status.ok()) return status;
  return CheckLength(bytes - 1, count, size, kChoices[code[0]]);
}

Status DecodeIndices(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, std::int64_t size, IndexForm form,
                     std::int32_t* indices) {
  if (Status status = CheckIndexCode(code, bytes, count, size, form);
      !status.ok()) {
    return status;
  }
  switch (form) {
    case IndexForm::kRice:
      return index_codes::DecodeRice(code, bytes, count, size, indices);
    case IndexForm::kBitPack:
      return index_codes::DecodeBitPack(code, bytes, count, size, indices);
    case IndexForm::kBitmap:
      return index_codes::DecodeBitmap(code, bytes, count, size, indices);
    case IndexForm::kGaps:
      return index_codes::DecodeGaps(code, bytes, count, size, indices);
    case IndexForm::kShortest:
      break;
  }
  const Status status = DecodeIndices(code + 1, bytes - 1, count, size,
                                      kChoices[code[0]], indices);
  if (!status.ok()) return status;
  if (Lengths(indices, count, size, form).Shortest() != code[0]) {
    return Corrupt("it is of kind " + std::to_string(code[0]) +
                   ", and another is shorter");
  }
  return {};
}

}  // namespace fedplug
