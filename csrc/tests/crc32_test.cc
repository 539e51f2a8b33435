// CRC-32 against known values and its definition.
#include "core/crc32.h"

#include "core/base/thread_pool.h"
#include "tests/kernel_inputs.h"
#include "tests/reference/reference.h"

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
  // Past two steps of the widest registers.
  for (std::size_t length = 0; length < 900; ++length) {
    std::vector<std::uint8_t> data(length);
    for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random());
    Buffer<std::uint8_t> shifted(data, length % 8);
    EXPECT_EQ(Crc32(shifted.data(), static_cast<std::int64_t>(length)),
              reference::Crc32(data));
  }
}

TEST(Crc32, IsTheSameNumberOnAnyNumberOfThreads) {
  Random random(2);
  std::vector<std::uint8_t> data((std::size_t{3} << 19) + 12345);
  for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random());
  for (const std::size_t size : {std::size_t{0}, std::size_t{1} << 20,
                                 (std::size_t{1} << 20) + 1, data.size()}) {
    const auto bytes = static_cast<std::int64_t>(size);
    const std::uint32_t expected = reference::Crc32(
        {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size)});
    for (const int threads : {1, 2, 3, 7}) {
      ThreadPool pool(threads);
      EXPECT_EQ(Crc32(data.data(), bytes, pool), expected);
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
