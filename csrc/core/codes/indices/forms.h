// The codes of index_code.h, for callers that have checked indices, counts and
// sizes.
#ifndef FEDPLUG_CORE_CODES_INDICES_FORMS_H_
#define FEDPLUG_CORE_CODES_INDICES_FORMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace fedplug::index_codes {

inline Status Corrupt(const std::string& what) {
  return {StatusCode::kDataLoss, "index code: " + what};
}

// REQUIRES: indices ascend strictly and lie in [0, size), 0 < count, the code
//           is empty
// SHAPE:    indices[count]
void EncodeRice(const std::int32_t* indices, std::int64_t count,
                std::vector<std::uint8_t>* code);
void EncodeGaps(const std::int32_t* indices, std::int64_t count,
                std::int64_t size, std::vector<std::uint8_t>* code);

// REQUIRES: 0 < count <= size < 2^31, CheckIndexCode accepted the length
// SHAPE:    code[bytes], indices[count]
Status DecodeRice(const std::uint8_t* code, std::int64_t bytes,
                  std::int64_t count, std::int64_t size, std::int32_t* indices);
Status DecodeGaps(const std::uint8_t* code, std::int64_t bytes,
                  std::int64_t count, std::int64_t size, std::int32_t* indices);

}  // namespace fedplug::index_codes

#endif  // FEDPLUG_CORE_CODES_INDICES_FORMS_H_
