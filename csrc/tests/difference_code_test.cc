// The difference code: round trips of every kind of word and change, its length
// beside the elements. decode_difference_fuzz decodes arbitrary bytes.
#include "core/difference_code.h"

#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Floats of 8, 16, 32 and 64 bits, and integers.
constexpr ElementLayout kLayouts[] = {{1, 3},  {2, 7}, {2, 10}, {4, 23},
                                      {8, 52}, {1, 7}, {2, 15}, {4, 31},
                                      {8, 63}, {4, 0}};
constexpr std::int64_t kSizes[] = {1, 2, 63, 64, 65, 127, 1000, 70001};

std::int64_t SizeOf(const Bytes& bytes) {
  return static_cast<std::int64_t>(bytes.size());
}

Bytes AnyBytes(std::int64_t n, Random& random) {
  Bytes bytes(static_cast<std::size_t>(n));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
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

Bytes Encode(const Bytes* before, const Bytes& after, ElementLayout layout,
             Parallel& threads) {
  Bytes code = {1, 2, 3};  // to be replaced
  const Status status = EncodeDifference(
      before == nullptr ? nullptr : before->data(), after.data(),
      SizeOf(after) / layout.bytes, layout, threads, &code);
  EXPECT_EQ(status.message(), "");
  return code;
}

// All bytes lie in heap blocks of exactly their size, so that the address
// sanitizer sees every step outside of them.
Status Decode(const Bytes& code, const Bytes* before, std::int64_t bytes,
              ElementLayout layout, Bytes* after) {
  Serial serial;
  Buffer<std::uint8_t> coded(code, 0);
  Buffer<std::uint8_t> old(before == nullptr ? Bytes() : *before, 1);
  Buffer<std::uint8_t> decoded(Bytes(static_cast<std::size_t>(bytes), 0xaa), 1);
  Status status = DecodeDifference(
      coded.data(), SizeOf(code), before == nullptr ? nullptr : old.data(),
      bytes / layout.bytes, layout, serial, decoded.data());
  *after = decoded.ToVector();
  return status;
}

void ExpectRoundTrip(const Bytes* before, const Bytes& after,
                     ElementLayout layout, Parallel& threads) {
  const Bytes code = Encode(before, after, layout, threads);
  Bytes decoded;
  EXPECT_EQ(Decode(code, before, SizeOf(after), layout, &decoded).message(),
            "");
  EXPECT_TRUE(decoded == after);
  EXPECT_TRUE(SizeOf(code) <= SizeOf(after) + 5 + 6 * layout.bytes);
}

TEST(DifferenceCode, RoundTrips) {
  Random random(1);
  Serial serial;
  for (const ElementLayout layout : kLayouts) {
    for (const std::int64_t size : kSizes) {
      SCOPED_TRACE(std::to_string(size) + " of " +
                   std::to_string(layout.bytes) + " bytes, " +
                   std::to_string(layout.mantissa));
      const Bytes before = AnyBytes(size * layout.bytes, random);
      ExpectRoundTrip(nullptr, before, layout, serial);
      ExpectRoundTrip(&before, before, layout, serial);
      for (const std::int64_t one_in : {1, 3, 30, 1000}) {
        ExpectRoundTrip(&before, Changed(before, layout, one_in, random),
                        layout, serial);
      }
      ExpectRoundTrip(&before, AnyBytes(size * layout.bytes, random), layout,
                      serial);
    }
  }
}

TEST(DifferenceCode, IsEmptyWithoutChanges) {
  Serial serial;
  const Bytes nothing;
  EXPECT_EQ(Encode(&nothing, nothing, {4, 23}, serial).size(), 0u);
  ExpectRoundTrip(&nothing, nothing, {4, 23}, serial);
}

TEST(DifferenceCode, IsEqualForAnyNumberOfThreads) {
  Random random(2);
  Serial serial;
  ThreadPool threads(3);
  const ElementLayout layout{1, 3};  // more than a segment of 2^23
  const Bytes before = AnyBytes((std::int64_t{1} << 23) + 77, random);
  const Bytes after = Changed(before, layout, 50, random);
  const Bytes code = Encode(&before, after, layout, serial);
  EXPECT_TRUE(code == Encode(&before, after, layout, threads));
  Bytes decoded(after.size());
  EXPECT_TRUE(DecodeDifference(code.data(), SizeOf(code), before.data(),
                               SizeOf(after), layout, threads, decoded.data())
                  .ok());
  EXPECT_TRUE(decoded == after);
}

}  // namespace
}  // namespace fedplug::testing
