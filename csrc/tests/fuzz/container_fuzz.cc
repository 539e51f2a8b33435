// ReadContainer on hostile bytes: it stays inside them, and what it accepts is
// what WriteContainer writes for the same header and body.
#include <algorithm>
#include <cstring>

#include "core/container.h"
#include "core/crc32.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

// Mostly right, or nothing would get past them.
void Mend(std::uint8_t what, std::vector<std::uint8_t>* data) {
  const std::size_t size = data->size();
  if (size < 8) return;
  const std::uint8_t magic[] = {'F', 'P', 'L', 'G', 1};
  if ((what & 1) == 0) std::copy_n(magic, 5, data->data());
  if ((what & 2) == 0) (*data)[6] = static_cast<std::uint8_t>((*data)[6] % 66);
  if ((what & 4) == 0) (*data)[7] = static_cast<std::uint8_t>((*data)[7] % 4);
  const std::size_t length_at = 8 + (*data)[6] + std::size_t{4} * (*data)[7];
  if (size < length_at + 12) return;
  if ((what & 8) == 0) {
    const std::uint64_t length = size - length_at - 12;
    std::memcpy(data->data() + length_at, &length, 8);
  }
  if ((what & 16) == 0) {
    const std::uint32_t checksum =
        fedplug::Crc32(data->data(), static_cast<std::int64_t>(size) - 4);
    std::memcpy(data->data() + size - 4, &checksum, 4);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input_data,
                                      std::size_t size) {
  using fedplug::testing::Require;
  fedplug::testing::FuzzInput input(input_data, size);
  const auto what = input.Take<std::uint8_t>();
  auto data = input.TakeVector<std::uint8_t>(input.size());
  Mend(what, &data);
  fedplug::ContainerHeader header;
  fedplug::BodyRange body;
  if (!fedplug::ReadContainer(
           data.data(), static_cast<std::int64_t>(data.size()), &header, &body)
           .ok()) {
    return 0;
  }
  std::vector<std::uint8_t> head;
  Require(fedplug::EncodeHeader(header, &head).ok(), "the header is valid");
  const auto head_bytes = static_cast<std::int64_t>(head.size());
  std::vector<std::uint8_t> again(static_cast<std::size_t>(
      fedplug::ContainerBytes(head_bytes, body.bytes)));
  fedplug::WriteContainer(head.data(), head_bytes, data.data() + body.begin,
                          body.bytes, again.data());
  Require(again == data, "a container has one form");
  return 0;
}
