// The codes of index_code.h, one by one, for callers that have checked indices,
// counts and sizes.
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

// Bits of the largest index below `size`.
int IndexWidth(std::int64_t size);

// A Rice code is written in two steps; the first computes its length.
struct RicePlan {
  int parameter = 0;
  std::int64_t bytes = 0;
};
RicePlan PlanRice(const std::int32_t* indices, std::int64_t count);

// REQUIRES: indices ascend strictly and lie in [0, size); the code is all zeros
// SHAPE:    indices[count], code[plan.bytes], code[ceil(count *
// IndexWidth(size)
//           / 8)], code[ceil(size / 8)]
void EncodeRice(const std::int32_t* indices, std::int64_t count,
                const RicePlan& plan, std::uint8_t* code);
void EncodeBitPack(const std::int32_t* indices, std::int64_t count,
                   std::int64_t size, std::uint8_t* code);
void EncodeBitmap(const std::int32_t* indices, std::int64_t count,
                  std::uint8_t* code);

// As the others, but appends to `code`.
void EncodeGaps(const std::int32_t* indices, std::int64_t count,
                std::int64_t size, std::vector<std::uint8_t>* code);

// REQUIRES: 0 <= count <= size < 2^31; the length was found possible by
//           CheckIndexCode
// SHAPE:    code[bytes], indices[count]
Status DecodeRice(const std::uint8_t* code, std::int64_t bytes,
                  std::int64_t count, std::int64_t size, std::int32_t* indices);
Status DecodeBitPack(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, std::int64_t size,
                     std::int32_t* indices);
Status DecodeBitmap(const std::uint8_t* code, std::int64_t bytes,
                    std::int64_t count, std::int64_t size,
                    std::int32_t* indices);
Status DecodeGaps(const std::uint8_t* code, std::int64_t bytes,
                  std::int64_t count, std::int64_t size, std::int32_t* indices);

}  // namespace fedplug::index_codes

#endif  // FEDPLUG_CORE_CODES_INDICES_FORMS_H_
