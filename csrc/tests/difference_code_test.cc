// The difference code: round trips of every kind of word and change, with the
// same bytes at every SIMD level and on any number of threads. tests/kernels
// reads the layout, and decode_difference_fuzz decodes arbitrary bytes.
#include "core/difference_code.h"

#include "core/crc32.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Floats of 8, 16, 32 and 64 bits, and integers.
constexpr ElementLayout kLayouts[] = {{1, 3},  {2, 7}, {2, 10}, {4, 23},
                                      {8, 52}, {1, 7}, {2, 15}, {4, 31},
                                      {8, 63}, {4, 0}};

std::int64_t SizeOf(const Bytes& bytes) {
  return static_cast<std::int64_t>(bytes.size());
}

// Changes the lowest byte of one of `one_in` elements a little, and sometimes
// another one.
Bytes Changed(const Bytes& before, ElementLayout layout, std::int64_t one_in,
              Random& random) {
  Bytes after = before;
  for (std::int64_t at = 0; at < SizeOf(before); at += layout.bytes) {
    if (Below(random, one_in) != 0) continue;
    std::uint8_t& low = after[static_cast<std::size_t>(at)];
    low = static_cast<std::uint8_t>(low + 1 - 2 * Below(random, 2));
    if (Below(random, 4) != 0) continue;
    after[static_cast<std::size_t>(at + Below(random, layout.bytes))] =
        static_cast<std::uint8_t>(random());
  }
  return after;
}

// The code of a change, which is decoded again.
Bytes CodeOf(const Bytes* before, const Bytes& after, ElementLayout layout,
             Parallel& threads) {
  const std::int64_t count = SizeOf(after) / layout.bytes;
  const auto* const old = before == nullptr ? nullptr : before->data();
  Bytes code = {1, 2, 3};  // to be replaced
  EXPECT_TRUE(
      EncodeDifference(old, after.data(), count, layout, threads, &code).ok());
  Bytes decoded(after.size());
  EXPECT_TRUE(DecodeDifference(code.data(), SizeOf(code), old, count, layout,
                               threads, decoded.data())
                  .ok());
  EXPECT_TRUE(decoded == after);
  return code;
}

TEST(DifferenceCode, RoundTripsWithTheSameBytesEverywhere) {
  ThreadPool one(1), three(3);
  Random random(1);
  std::vector<std::uint32_t> checksums;
  const auto check = [&](const Bytes* before, const Bytes& after,
                         ElementLayout layout) {
    const Bytes code = CodeOf(before, after, layout, one);
    EXPECT_TRUE(CodeOf(before, after, layout, three) == code);
    checksums.push_back(Crc32(code.data(), SizeOf(code)));
  };
  // The largest has more than a segment of 2^23.
  for (const std::int64_t size :
       {0, 1, 2, 63, 64, 65, 127, 1000, 70001, (1 << 23) + 77}) {
    for (const ElementLayout layout : kLayouts) {
      if (size > 100000 && layout.bytes > 1) continue;
      SCOPED_TRACE(std::to_string(size) + " of " +
                   std::to_string(layout.bytes) + " bytes, " +
                   std::to_string(layout.mantissa));
      Bytes before(static_cast<std::size_t>(size * layout.bytes));
      for (std::uint8_t& byte : before) {
        byte = static_cast<std::uint8_t>(random());
      }
      check(nullptr, before, layout);
      for (const std::int64_t one_in : {1, 3, 30, 1000, 1 << 30}) {
        check(&before, Changed(before, layout, one_in, random), layout);
      }
    }
  }
  EXPECT_EQ(Crc32(reinterpret_cast<const std::uint8_t*>(checksums.data()),
                  static_cast<std::int64_t>(4 * checksums.size())),
            0x3a6b180bu);
}

}  // namespace
}  // namespace fedplug::testing
