// Numbers, and parts with their lengths before them, one after the other.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_PARTS_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/leb128.h"
#include "core/base/status.h"

namespace fedplug::differences {

using ByteVector = std::vector<std::uint8_t>;

inline Status Corrupt(const std::string& what) {
  return {StatusCode::kDataLoss, "difference code: " + what};
}

inline void AppendNumber(std::int64_t number, ByteVector* code) {
  const std::size_t at = code->size();
  code->resize(at + static_cast<std::size_t>(Leb128Bytes(number)));
  PutLeb128(number, code->data() + at);
}

inline void AppendPart(const ByteVector& part, ByteVector* code) {
  AppendNumber(static_cast<std::int64_t>(part.size()), code);
  code->insert(code->end(), part.begin(), part.end());
}

struct Part {
  const std::uint8_t* data = nullptr;
  std::int64_t bytes = 0;
};

// Reads untrusted bytes from the front. Every read is false where they end.
class PartReader {
 public:
  explicit PartReader(Part code) : code_(code) {}

  bool Number(std::int64_t limit, std::int64_t* number) {
    return GetLeb128(code_.data, code_.bytes, limit, &at_, number);
  }

  bool Byte(std::uint8_t* byte) {
    if (at_ == code_.bytes) return false;
    *byte = code_.data[at_++];
    return true;
  }

  bool Next(Part* part) {
    std::int64_t bytes;
    if (!Number(code_.bytes + 1, &bytes) || bytes > code_.bytes - at_) {
      return false;
    }
    *part = {code_.data + at_, bytes};
    at_ += bytes;
    return true;
  }

  bool IsAtEnd() const { return at_ == code_.bytes; }

 private:
  const Part code_;
  std::int64_t at_ = 0;
};

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_PARTS_H_
