// Tests the container: its bytes and its refusals.
#include "core/container.h"

#include <cstring>

#include "core/crc32.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

std::vector<std::uint8_t> Header(const ContainerHeader& header) {
  std::vector<std::uint8_t> bytes;
  EXPECT_EQ(EncodeHeader(header, &bytes).message(), "");
  return bytes;
}

std::vector<std::uint8_t> Packed(const ContainerHeader& header,
                                 const std::vector<std::uint8_t>& body) {
  const auto head = Header(header);
  const auto head_bytes = static_cast<std::int64_t>(head.size());
  const auto body_bytes = static_cast<std::int64_t>(body.size());
  std::vector<std::uint8_t> data(
      static_cast<std::size_t>(ContainerBytes(head_bytes, body_bytes)));
  WriteContainer(head.data(), head_bytes, body.data(), body_bytes, data.data());
  return data;
}

Status Read(const std::vector<std::uint8_t>& data, ContainerHeader* header,
            BodyRange* body) {
  Buffer<std::uint8_t> input(data, 3);
  return ReadContainer(input.data(), static_cast<std::int64_t>(data.size()),
                       header, body);
}

TEST(Container, HasTheBytesOfVersion1) {
  const auto data = Packed({"topk/1", 1, {3, 256}}, {'h', 'i'});
  const std::string expected(
      "FPLG\1\1\6\2topk/1\3\0\0\0\0\1\0\0\2\0\0\0\0\0\0\0hi", 34 - 2);
  EXPECT_EQ(std::string(data.begin(), data.end() - 4), expected);
  std::uint32_t checksum;
  std::memcpy(&checksum, data.data() + data.size() - 4, 4);
  EXPECT_EQ(checksum,
            Crc32(data.data(), static_cast<std::int64_t>(data.size()) - 4));
}

TEST(Container, IsReadAsItWasWritten) {
  const ContainerHeader header = {"sparse+qsgd/1+rice/1", 4, {0, 4294967295u}};
  const auto data = Packed(header, {1, 2, 3});
  ContainerHeader read;
  BodyRange body;
  EXPECT_EQ(Read(data, &read, &body).message(), "");
  EXPECT_EQ(read.wire_id, header.wire_id);
  EXPECT_EQ(read.dtype, 4);
  EXPECT_EQ(read.shape, header.shape);
  EXPECT_EQ(body.bytes, 3);
  EXPECT_EQ(data[static_cast<std::size_t>(body.begin)], 1);
}

TEST(Container, JoinsTheParts) {
  const auto header = Header({"topk/1", 1, {7}});
  const auto header_bytes = static_cast<std::int64_t>(header.size());
  const std::vector<std::uint8_t> first{1, 2}, last{3, 4, 5};
  std::vector<std::uint8_t> data(
      static_cast<std::size_t>(ContainerBytes(header_bytes, 5)));
  WriteContainer(header.data(), header_bytes,
                 {{first.data(), 2}, {nullptr, 0}, {last.data(), 3}},
                 data.data());
  EXPECT_TRUE(data == Packed({"topk/1", 1, {7}}, {1, 2, 3, 4, 5}));
  WriteContainer(header.data(), header_bytes, {}, data.data());
  data.resize(data.size() - 5);
  EXPECT_TRUE(data == Packed({"topk/1", 1, {7}}, {}));
}

TEST(Container, NoticesEveryFlippedBitAndEveryOtherLength) {
  const auto data = Packed({"topk/1", 1, {7}}, {5, 6, 7, 8});
  const auto header = Header({"topk/1", 1, {7}});
  const auto refused = [&](const std::vector<std::uint8_t>& changed) {
    ContainerHeader read;
    BodyRange body;
    const bool expected =
        ReadContainerOf(header.data(), static_cast<std::int64_t>(header.size()),
                        changed.data(),
                        static_cast<std::int64_t>(changed.size()), &body)
            .code() == StatusCode::kDataLoss;
    return expected &&
           Read(changed, &read, &body).code() == StatusCode::kDataLoss;
  };
  for (std::size_t bit = 0; bit < 8 * data.size(); ++bit) {
    auto changed = data;
    changed[bit / 8] =
        static_cast<std::uint8_t>(changed[bit / 8] ^ (1u << (bit % 8)));
    EXPECT_TRUE(refused(changed));
  }
  for (std::size_t length = 0; length < data.size(); ++length) {
    EXPECT_TRUE(refused(
        {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(length)}));
  }
  auto longer = data;
  longer.push_back(0);
  EXPECT_TRUE(refused(longer));
}

TEST(Container, RefusesTheHeaderOfAnotherTensor) {
  const auto data = Packed({"topk/1", 1, {3, 5}}, {1});
  for (const ContainerHeader& other : {ContainerHeader{"sign/1", 1, {3, 5}},
                                       ContainerHeader{"topk/1", 2, {3, 5}},
                                       ContainerHeader{"topk/1", 1, {5, 3}}}) {
    const auto header = Header(other);
    BodyRange body;
    const Status status = ReadContainerOf(
        header.data(), static_cast<std::int64_t>(header.size()), data.data(),
        static_cast<std::int64_t>(data.size()), &body);
    EXPECT_TRUE(status.code() == StatusCode::kDataLoss);
  }
}

TEST(Container, RefusesHeadersThatHaveNoPlaceInTheFormat) {
  std::vector<std::uint8_t> bytes;
  EXPECT_FALSE(EncodeHeader({"", 1, {}}, &bytes).ok());
  EXPECT_FALSE(EncodeHeader({std::string(65, 'x'), 1, {}}, &bytes).ok());
  EXPECT_FALSE(EncodeHeader({"\xc3\xa9", 1, {}}, &bytes).ok());
  EXPECT_FALSE(EncodeHeader({"x", 0, {}}, &bytes).ok());
  EXPECT_FALSE(EncodeHeader({"x", 14, {}}, &bytes).ok());
  EXPECT_FALSE(
      EncodeHeader({"x", 1, std::vector<std::uint32_t>(33, 1)}, &bytes).ok());
}

}  // namespace
}  // namespace fedplug::testing
