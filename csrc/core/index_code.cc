// Checks the requirements of both forms, and calls the requested one.
#include "core/index_code.h"

#include <string>

#include "core/codes/indices/forms.h"

namespace fedplug {
namespace {

using index_codes::Corrupt;

Status CheckCount(std::int64_t count, std::int64_t size) {
  if (Status status = CheckInt32("size", size); !status.ok()) return status;
  if (count < 0 || count > size) {
    return {StatusCode::kInvalidArgument,
            "count = " + std::to_string(count) + " is not in [0, " +
                std::to_string(size) + "], the number of distinct indices"};
  }
  return {};
}

}  // namespace

bool FindIndexForm(const std::string& name, IndexForm* form) {
  if (name != "rice" && name != "gaps") return false;
  *form = name == "rice" ? IndexForm::kRice : IndexForm::kGaps;
  return true;
}

Status CheckIndices(const std::int32_t* indices, std::int64_t count,
                    std::int64_t size) {
  if (Status status = CheckCount(count, size); !status.ok()) return status;
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

Status EncodeIndices(const std::int32_t* indices, std::int64_t count,
                     std::int64_t size, IndexForm form,
                     std::vector<std::uint8_t>* code) {
  if (Status status = CheckIndices(indices, count, size); !status.ok()) {
    return status;
  }
  code->clear();
  if (count == 0) return {};
  if (form == IndexForm::kRice) {
    index_codes::EncodeRice(indices, count, code);
  } else {
    index_codes::EncodeGaps(indices, count, size, code);
  }
  return {};
}

Status CheckIndexCode(std::int64_t bytes, std::int64_t count, std::int64_t size,
                      IndexForm form) {
  if (Status status = CheckCount(count, size); !status.ok()) return status;
  if (count == 0 && bytes > 0) {
    return Corrupt(std::to_string(bytes) +
                   " bytes where no index was announced");
  }
  // An index of a Rice code takes one bit at least, of kGaps 0.05.
  if (count > (form == IndexForm::kGaps ? 256 : 8) * bytes) {
    return Corrupt(std::to_string(bytes) + " bytes cannot hold " +
                   std::to_string(count) + " indices below " +
                   std::to_string(size));
  }
  return {};
}

Status DecodeIndices(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, std::int64_t size, IndexForm form,
                     std::int32_t* indices) {
  if (Status status = CheckIndexCode(bytes, count, size, form); !status.ok()) {
    return status;
  }
  if (count == 0) return {};
  return form == IndexForm::kRice
             ? index_codes::DecodeRice(code, bytes, count, size, indices)
             : index_codes::DecodeGaps(code, bytes, count, size, indices);
}

}  // namespace fedplug
