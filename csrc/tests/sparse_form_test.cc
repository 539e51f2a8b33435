// Tests the body of a sparse payload: its bytes and its refusals.
#include "core/sparse_form.h"

#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

constexpr std::int64_t kLargest = (std::int64_t{1} << 31) - 1;

std::vector<std::uint8_t> Body(std::int64_t count,
                               const std::vector<std::uint8_t>& code,
                               const std::vector<std::uint8_t>& values) {
  const auto code_bytes = static_cast<std::int64_t>(code.size());
  const auto value_bytes = static_cast<std::int64_t>(values.size());
  std::vector<std::uint8_t> body(static_cast<std::size_t>(
      SparseBodyBytes(count, code_bytes, value_bytes)));
  WriteSparseBody(count, code.data(), code_bytes, values.data(), value_bytes,
                  body.data());
  return body;
}

Status Read(const std::vector<std::uint8_t>& body, std::int64_t elements,
            SparseBodyParts* parts) {
  Buffer<std::uint8_t> input(body, 3);
  return ReadSparseBody(input.data(), static_cast<std::int64_t>(body.size()),
                        elements, parts);
}

TEST(SparseForm, HasTheBytesOfItsLayout) {
  EXPECT_EQ(Body(3, {7, 8}, {9}), std::vector<std::uint8_t>({3, 2, 7, 8, 9}));
  EXPECT_EQ(Body(300, {}, {}), std::vector<std::uint8_t>({0xac, 2, 0}));
}

TEST(SparseForm, IsReadAsItWasWrittenOnBothSidesOfWhereANumberNeedsAByteMore) {
  for (int bits = 0; bits <= 31; ++bits) {
    for (const std::int64_t count :
         {(std::int64_t{1} << bits) - 1, std::int64_t{1} << bits}) {
      if (count > kLargest) continue;
      SCOPED_TRACE("count " + std::to_string(count));
      const auto body = Body(count, std::vector<std::uint8_t>(200, 5), {1, 2});
      SparseBodyParts parts;
      EXPECT_EQ(Read(body, kLargest, &parts).message(), "");
      EXPECT_EQ(parts.count, count);
      EXPECT_EQ(parts.values_begin - parts.code_begin, 200);
      EXPECT_EQ(static_cast<std::int64_t>(body.size()) - parts.values_begin, 2);
    }
  }
}

TEST(SparseForm, RefusesNumbersThatCannotBeReadOrHaveAShorterForm) {
  const std::vector<std::uint8_t> hostile[] = {
      {},
      {0},
      {0x80},
      {0, 0x80},
      {0x80, 0x80, 0x80, 0x80, 0x80, 1, 0},  // six bytes
      {0x80, 0, 0},                          // zero in two bytes
      {0, 0xff, 0},                          // 127 in two bytes
      {0x80, 0x80, 0x80, 0x80, 8, 0},        // 2^31
      {0xff, 0xff, 0xff, 0xff, 0x7f, 0},     // 2^35 - 1
  };
  for (const auto& body : hostile) {
    SparseBodyParts parts;
    EXPECT_TRUE(Read(body, kLargest, &parts).code() == StatusCode::kDataLoss);
  }
}

TEST(SparseForm, RefusesMoreEntriesThanElementsAndACodeThatIsLongerThanItself) {
  SparseBodyParts parts;
  EXPECT_TRUE(Read({3, 0}, 3, &parts).ok());
  EXPECT_TRUE(Read({3, 0}, 2, &parts).code() == StatusCode::kDataLoss);
  EXPECT_TRUE(Read({3, 2, 7, 8}, 3, &parts).ok());
  EXPECT_TRUE(Read({3, 2, 7}, 3, &parts).code() == StatusCode::kDataLoss);
}

TEST(SparseForm, RefusesPartsThatHaveNoPlaceInTheLayout) {
  EXPECT_TRUE(CheckSparseBody(kLargest, kLargest).ok());
  for (const std::int64_t bad : {std::int64_t{-1}, kLargest + 1}) {
    EXPECT_TRUE(CheckSparseBody(bad, 0).code() == StatusCode::kInvalidArgument);
    EXPECT_TRUE(CheckSparseBody(0, bad).code() == StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace fedplug::testing
