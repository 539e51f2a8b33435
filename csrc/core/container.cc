#include "core/container.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/crc32.h"

namespace fedplug {
namespace {

constexpr std::array<std::uint8_t, 5> kMagicAndVersion = {'F', 'P', 'L', 'G',
                                                          1};
constexpr std::int64_t kFixedBytes = 8;
constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kChecksumBytes = 4;
constexpr std::size_t kLongestWireId = 64;
constexpr std::size_t kHighestRank = 32;

constexpr const char* kDTypes[] = {
    "float32", "float64", "float16", "bfloat16", "int8",   "int16", "int32",
    "int64",   "uint8",   "uint16",  "uint32",   "uint64", "bool"};

Status Corrupt(const std::string& what) {
  return {StatusCode::kDataLoss, what};
}

template <typename Unsigned>
void Put(Unsigned value, std::uint8_t* at) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    at[i] = static_cast<std::uint8_t>(value >> (8 * i));
  }
}

template <typename Unsigned>
Unsigned Get(const std::uint8_t* at) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value |= static_cast<Unsigned>(Unsigned{at[i]} << (8 * i));
  }
  return value;
}

bool IsAscii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 128;
  });
}

Status Truncated(std::int64_t bytes) {
  return Corrupt("a payload of " + std::to_string(bytes) +
                 " bytes is truncated; its header announces more");
}

// Checks the length and checksum that follow a valid header.
Status CheckBody(const std::uint8_t* data, std::int64_t bytes,
                 std::int64_t header_bytes, BodyRange* body) {
  const std::int64_t around = ContainerBytes(header_bytes, 0);
  if (bytes < around) return Truncated(bytes);
  // Compared as unsigned, because an untrusted length may have any value.
  const auto length = Get<std::uint64_t>(data + header_bytes);
  if (length != static_cast<std::uint64_t>(bytes - around)) {
    return Corrupt(
        "a payload of " + std::to_string(bytes) +
        " bytes has not the length its header announces: a body of " +
        std::to_string(length) + " bytes");
  }
  const std::int64_t content = bytes - kChecksumBytes;
  if (Get<std::uint32_t>(data + content) != Crc32(data, content)) {
    return Corrupt(
        "the checksum of a payload is wrong: the bytes were changed on the "
        "way");
  }
  *body = {header_bytes + kLengthBytes, bytes - around};
  return {};
}

}  // namespace

const char* DTypeName(int code) {
  const int known = static_cast<int>(std::size(kDTypes));
  return code >= 1 && code <= known ? kDTypes[code - 1] : nullptr;
}

std::int64_t ContainerBytes(std::int64_t header_bytes,
                            std::int64_t body_bytes) {
  return header_bytes + kLengthBytes + body_bytes + kChecksumBytes;
}

std::int64_t BodyBegin(std::int64_t header_bytes) {
  return header_bytes + kLengthBytes;
}

void CloseContainer(const std::uint8_t* header, std::int64_t header_bytes,
                    std::int64_t body_bytes, std::uint8_t* data) {
  std::copy_n(header, header_bytes, data);
  Put(static_cast<std::uint64_t>(body_bytes), data + header_bytes);
  const std::int64_t content = BodyBegin(header_bytes) + body_bytes;
  Put(Crc32(data, content), data + content);
}

void WriteContainer(const std::uint8_t* header, std::int64_t header_bytes,
                    const std::uint8_t* body, std::int64_t body_bytes,
                    std::uint8_t* data) {
  std::copy_n(body, body_bytes, data + BodyBegin(header_bytes));
  CloseContainer(header, header_bytes, body_bytes, data);
}

Status ReadContainer(const std::uint8_t* data, std::int64_t bytes,
                     ContainerHeader* header, BodyRange* body) {
  if (bytes < kFixedBytes) {
    return Corrupt("a payload of " + std::to_string(bytes) +
                   " bytes is truncated; its header alone takes 8");
  }
  if (!std::equal(data, data + 4, kMagicAndVersion.begin())) {
    return Corrupt("not a fedplug payload: it does not start with FPLG");
  }
  if (data[4] != kMagicAndVersion[4]) {
    return Corrupt("payload format " + std::to_string(data[4]) +
                   " is not known here; this fedplug reads format 1");
  }
  const std::size_t id_bytes = data[6];
  const std::size_t rank = data[7];
  if (id_bytes < 1 || id_bytes > kLongestWireId || rank > kHighestRank) {
    return Corrupt("payload header is corrupt: wire id of " +
                   std::to_string(id_bytes) + " characters, rank " +
                   std::to_string(rank));
  }
  const auto header_bytes =
      static_cast<std::int64_t>(kFixedBytes + id_bytes + 4 * rank);
  if (Status status = CheckBody(data, bytes, header_bytes, body);
      !status.ok()) {
    return status;
  }
  if (DTypeName(data[5]) == nullptr) {
    return Corrupt("payload dtype code " + std::to_string(data[5]) +
                   " is not known here");
  }
  header->dtype = data[5];
  header->wire_id.assign(data + kFixedBytes, data + kFixedBytes + id_bytes);
  if (!IsAscii(header->wire_id)) return Corrupt("payload wire id is not ASCII");
  header->shape.resize(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    header->shape[axis] =
        Get<std::uint32_t>(data + kFixedBytes + id_bytes + 4 * axis);
  }
  return {};
}

Status ReadContainerOf(const std::uint8_t* header, std::int64_t header_bytes,
                       const std::uint8_t* data, std::int64_t bytes,
                       BodyRange* body) {
  if (bytes < ContainerBytes(header_bytes, 0)) return Truncated(bytes);
  if (!std::equal(header, header + header_bytes, data)) {
    return Corrupt(
        "the header of a payload is wrong: corrupt, or made by another encoder "
        "or for another tensor");
  }
  return CheckBody(data, bytes, header_bytes, body);
}

}  // namespace fedplug
