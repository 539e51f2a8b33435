// ReadContainer and ReadContainerOf on untrusted bytes: they stay inside the
// bytes, and accept only the bytes of WriteContainer for the same header and
// body.
#include <algorithm>
#include <cstring>

#include "core/container.h"
#include "core/crc32.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

// Mostly valid, so that inputs pass the first checks.
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
                                      std::size_t input_size) {
  using fedplug::testing::Require;
  fedplug::testing::FuzzInput input(input_data, input_size);
  const auto what = input.Take<std::uint8_t>();
  const auto wanted_bytes = input.Take<std::uint8_t>();
  auto data = input.TakeVector<std::uint8_t>(input.size());
  Mend(what, &data);
  const auto size = static_cast<std::int64_t>(data.size());

  // A container with another header, or arbitrary bytes as its header.
  fedplug::BodyRange body;
  std::vector<std::uint8_t> wanted(data);
  wanted.resize(wanted_bytes);
  if (fedplug::ReadContainerOf(wanted.data(), wanted_bytes, data.data(), size,
                               &body)
          .ok()) {
    Require(fedplug::ContainerBytes(wanted_bytes, body.bytes) == size,
            "a body has the length that was announced");
  }

  fedplug::ContainerHeader header;
  if (!fedplug::ReadContainer(data.data(), size, &header, &body).ok()) return 0;
  const std::int64_t head_bytes = body.begin - fedplug::BodyBegin(0);
  const std::vector<std::uint8_t> head(data.begin(), data.begin() + head_bytes);
  std::vector<std::uint8_t> again(static_cast<std::size_t>(
      fedplug::ContainerBytes(head_bytes, body.bytes)));
  fedplug::WriteContainer(head.data(), head_bytes, data.data() + body.begin,
                          body.bytes, again.data());
  Require(again == data, "a container has one form");
  fedplug::BodyRange same;
  Require(fedplug::ReadContainerOf(head.data(), head_bytes, data.data(), size,
                                   &same)
                  .ok() &&
              same.begin == body.begin && same.bytes == body.bytes,
          "its header is the one it should have");
  return 0;
}
