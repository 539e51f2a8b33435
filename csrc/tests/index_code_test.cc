// The index code: its layout and its errors. tests/kernels has the round trips, and decode_indices_fuzz decodes
// arbitrary bytes.
#include "core/index_code.h"

#include <array>

#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using Code = std::vector<std::uint8_t>;
using Indices = std::vector<std::int32_t>;

constexpr std::array kForms = {IndexForm::kRice, IndexForm::kGaps};

Code Encode(const Indices& indices, std::int64_t size,
            IndexForm form = IndexForm::kRice) {
  Code code = {1, 2, 3};  // to be replaced
  const Status status =
      EncodeIndices(indices.data(), static_cast<std::int64_t>(indices.size()),
                    size, form, &code);
  EXPECT_EQ(status.message(), "");
  return code;
}

// The code and the indices lie in heap blocks of exactly their size, so that
// the address sanitizer sees every step outside of them.
Status Decode(const Code& code, std::int64_t count, std::int64_t size,
              Indices* indices, IndexForm form = IndexForm::kRice) {
  Buffer<std::uint8_t> bytes(code, 0);
  Buffer<std::int32_t> decoded(Indices(static_cast<std::size_t>(count), -1), 0);
  Status status =
      DecodeIndices(bytes.data(), static_cast<std::int64_t>(code.size()), count,
                    size, form, decoded.data());
  *indices = decoded.ToVector();
  return status;
}

TEST(IndexCode, HoldsTheLargestIndexThereIs) {
  const Indices indices = {INT32_MAX - 1};
  const Code code = Encode(indices, INT32_MAX);
  EXPECT_EQ(+code[0], 30);
  Indices decoded;
  EXPECT_TRUE(Decode(code, 1, INT32_MAX, &decoded).ok());
  EXPECT_EQ(decoded, indices);
  EXPECT_FALSE(Decode(code, 1, INT32_MAX - 1, &decoded).ok());
}

TEST(IndexCode, HasTheLayoutOfItsHeader) {
  // gaps 3 and 4, b = 2: low bits 3 and 0, quotients 0 and 1 -> 1, then 0 1
  EXPECT_EQ(Encode({3, 8}, 9), (Code{1, 0b01, 0b10010}));
  EXPECT_EQ(Encode({}, 9), Code{});
  EXPECT_EQ(Encode({0, 1, 2}, 3), (Code{0, 0b111}));
}

TEST(DecodeIndices, NamesTheFault) {
  Indices decoded;
  const auto message = [&](const Code& code, std::int64_t count,
                           std::int64_t size) {
    return Decode(code, count, size, &decoded).message();
  };
  EXPECT_EQ(message({31, 0, 0, 0, 0, 1}, 1, 9),
            "index code: its parameter is 31, and the largest one is 30");
  EXPECT_EQ(message({0, 0b1001}, 3, 9),
            "index code: it ends after 2 of 3 indices");
  EXPECT_EQ(message({0, 0b101}, 2, 2), "index code: index 1 is not below 2");
  EXPECT_EQ(message({0, 0b1111}, 2, 9),
            "index code: the padding at its end is not zero");
  EXPECT_EQ(message({1, 0b1000, 0b11}, 2, 9),
            "index code: the padding after the low bits is not zero");
  EXPECT_EQ(message({0, 0b11, 0}, 2, 9), "index code: 1 bytes follow its end");
  EXPECT_EQ(
      message({1, 0b00, 0b11}, 2, 9),
      "index code: its parameter 1 is not the one that makes it shortest");
  EXPECT_EQ(message({}, 2, 9),
            "index code: 0 bytes cannot hold 2 indices below 9");
  EXPECT_EQ(message({0}, 2, 9), "index code: 1 bytes cannot hold 2 indices");
  EXPECT_EQ(message({7}, 0, 9),
            "index code: 1 bytes where no index was announced");
}

TEST(IndexForms, CodeNoIndicesWithoutMemory) {
  for (const IndexForm form : kForms) {
    for (const std::int64_t size : {0, 1, 5}) {
      Code code;
      EXPECT_TRUE(EncodeIndices(nullptr, 0, size, form, &code).ok());
      const auto bytes = static_cast<std::int64_t>(code.size());
      EXPECT_TRUE(
          DecodeIndices(code.data(), bytes, 0, size, form, nullptr).ok());
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
