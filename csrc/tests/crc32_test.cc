// CRC-32 against known values and its definition.
#include "core/crc32.h"

#include "core/reference.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

TEST(Crc32, GivesThePublishedCheckValue) {
  const std::string text = "123456789";
  EXPECT_EQ(Crc32(reinterpret_cast<const std::uint8_t*>(text.data()), 9),
            0xCBF43926u);
  EXPECT_EQ(Crc32(nullptr, 0), 0u);
}

TEST(Crc32, EqualsTheReferenceForEveryLengthAndAlignment) {
  Random random(1);
  for (std::size_t length = 0; length < 200; ++length) {
    std::vector<std::uint8_t> data(length);
    for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random());
    Buffer<std::uint8_t> shifted(data, length % 8);
    EXPECT_EQ(Crc32(shifted.data(), static_cast<std::int64_t>(length)),
              reference::Crc32(data));
  }
}

}  // namespace
}  // namespace fedplug::testing
