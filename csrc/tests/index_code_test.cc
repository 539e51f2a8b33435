// The index code: a round trip, uniqueness, and a decoder given arbitrary
// bytes.
#include "core/index_code.h"

#include <array>

#include "tests/kernel_inputs.h"
#include "tests/reference/reference.h"

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

void ExpectSameAsReference(const Code& code, std::int64_t count,
                           std::int64_t size) {
  Indices indices;
  const Status status = Decode(code, count, size, &indices);
  const auto expected = reference::DecodeIndices(code, count, size);
  EXPECT_EQ(status.ok(), expected.has_value());
  if (status.ok() && expected.has_value()) {
    EXPECT_EQ(indices, *expected);
  } else {
    EXPECT_TRUE(status.code() == StatusCode::kDataLoss);
  }
}

TEST(IndexCode, RoundTripsAndEncodesLikeTheReference) {
  Random random(1);
  for (const std::int64_t size : {1, 2, 3, 7, 100, 1000, 65536}) {
    for (const std::int64_t count :
         {std::int64_t{0}, std::int64_t{1}, size / 100, size / 10, size / 2,
          size - 1, size}) {
      if (count * size > 4000000) continue;  // the reference is slow
      SCOPED_TRACE("size " + std::to_string(size) + ", count " +
                   std::to_string(count));
      const Indices indices = RandomIndices(count, size, random);
      const Code code = Encode(indices, size);
      EXPECT_EQ(code, reference::EncodeIndices(indices));
      Indices decoded;
      EXPECT_EQ(Decode(code, count, size, &decoded).message(), "");
      EXPECT_EQ(decoded, indices);
    }
  }
}

TEST(IndexCode, TakesTheShortestParameterForSkewedGaps) {
  for (const Indices& indices : std::vector<Indices>{{0},
                                                     {1},
                                                     {2},
                                                     {4095},
                                                     {0, 1, 2, 3, 5000},
                                                     {0, 5000, 5001, 5002},
                                                     {10, 20, 30, 40},
                                                     {0, 2, 4, 6, 8, 100000}}) {
    EXPECT_EQ(Encode(indices, 1 << 20), reference::EncodeIndices(indices));
  }
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

TEST(DecodeIndices,
     SurvivesEveryBitFlipAndAcceptsOnlyWhatEncodesToTheSameBytes) {
  Random random(3);
  for (const std::int64_t count : {1, 3, 20}) {
    const Code good = Encode(RandomIndices(count, 300, random), 300);
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      Code bad = good;
      bad[bit / 8] =
          static_cast<std::uint8_t>(bad[bit / 8] ^ (1u << (bit % 8)));
      ExpectSameAsReference(bad, count, 300);
    }
  }
}

TEST(DecodeIndices, SurvivesRandomBytes) {
  Random random(5);
  for (int round = 0; round < 20000; ++round) {
    Code code(static_cast<std::size_t>(Below(random, 24)));
    for (std::uint8_t& byte : code)
      byte = static_cast<std::uint8_t>(random() & random());
    if (!code.empty()) code[0] = static_cast<std::uint8_t>(Below(random, 34));
    const std::int64_t size = 1 + Below(random, round % 2 == 0 ? 40 : 3000);
    ExpectSameAsReference(
        code, Below(random, std::min<std::int64_t>(size, 12) + 1), size);
  }
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

TEST(IndexForms, EveryFormRoundTripsAtEveryDensity) {
  Random random(6);
  for (const IndexForm form : kForms) {
    for (const std::int64_t size : {0, 1, 2, 64, 65, 1000, 65537}) {
      for (const std::int64_t count :
           {std::int64_t{0}, size / 100, size / 2, size}) {
        SCOPED_TRACE("form " + std::to_string(static_cast<int>(form)) +
                     ", size " + std::to_string(size) + ", count " +
                     std::to_string(count));
        const Indices indices = RandomIndices(count, size, random);
        const Code code = Encode(indices, size, form);
        Indices decoded;
        EXPECT_EQ(Decode(code, count, size, &decoded, form).message(), "");
        EXPECT_EQ(decoded, indices);
      }
    }
  }
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

TEST(IndexForms, AnyBytesAreRefusedOrTheOneCodeOfTheirIndices) {
  Random random(7);
  for (int round = 0; round < 20000; ++round) {
    const IndexForm form = kForms[static_cast<std::size_t>(Below(random, 2))];
    Code code(static_cast<std::size_t>(Below(random, 7)));
    for (std::uint8_t& byte : code) {
      byte = static_cast<std::uint8_t>(random() & random());
    }
    const std::int64_t size = Below(random, 50);
    const std::int64_t count =
        Below(random, std::min<std::int64_t>(size, 9) + 1);
    Indices indices;
    if (!Decode(code, count, size, &indices, form).ok()) continue;
    EXPECT_EQ(Encode(indices, size, form), code);
  }
}

}  // namespace
}  // namespace fedplug::testing
