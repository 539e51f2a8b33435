#include "core/sparse_form.h"

#include <algorithm>
#include <string>

#include "core/base/bytes.h"

namespace fedplug {
namespace {

constexpr std::int64_t kNumbersEnd = std::int64_t{1} << 31;

Status Corrupt(const std::string& what) {
  return {StatusCode::kDataLoss, "the lengths in a sparse payload " + what};
}

// Reads the number that begins at *at, and moves on to the byte after it.
Status GetNumber(const std::uint8_t* body, std::int64_t bytes, std::int64_t* at,
                 std::int64_t* number) {
  if (GetLeb128(body, bytes, kNumbersEnd, at, number)) return {};
  return Corrupt("cannot be read, are not in their fewest bytes, or too large");
}

}  // namespace

Status CheckSparseBody(std::int64_t count, std::int64_t code_bytes) {
  for (const std::int64_t number : {count, code_bytes}) {
    if (number >= 0 && number < kNumbersEnd) continue;
    return {StatusCode::kInvalidArgument,
            "a sparse payload has less than 2^31 entries and bytes of their "
            "index code, not " +
                std::to_string(number)};
  }
  return {};
}

std::int64_t SparseBodyBytes(std::int64_t count, std::int64_t code_bytes,
                             std::int64_t value_bytes) {
  return Leb128Bytes(count) + Leb128Bytes(code_bytes) + code_bytes +
         value_bytes;
}

void WriteSparseBody(std::int64_t count, const std::uint8_t* code,
                     std::int64_t code_bytes, const std::uint8_t* values,
                     std::int64_t value_bytes, std::uint8_t* body) {
  body = PutLeb128(code_bytes, PutLeb128(count, body));
  std::copy_n(values, value_bytes, std::copy_n(code, code_bytes, body));
}

Status ReadSparseBody(const std::uint8_t* body, std::int64_t bytes,
                      std::int64_t elements, SparseBodyParts* parts) {
  std::int64_t at = 0;
  std::int64_t count;
  std::int64_t code_bytes;
  Status status = GetNumber(body, bytes, &at, &count);
  if (status.ok()) status = GetNumber(body, bytes, &at, &code_bytes);
  if (!status.ok()) return status;
  if (count > elements || code_bytes > bytes - at) {
    return Corrupt("do not fit the payload or the tensor");
  }
  *parts = {count, at, at + code_bytes};
  return {};
}

}  // namespace fedplug
