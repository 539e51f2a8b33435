// DecodeValues on hostile bytes: it stays inside its buffers, which the
// sanitizers watch, and what it accepts is finite.
#include <cmath>

#include "core/parallel.h"
#include "core/reference.h"
#include "core/value_code.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

template <typename T>
void DecodeAs(const std::vector<std::uint8_t>& data, std::size_t count,
              const fedplug::ValueCode& code) {
  std::vector<T> values(count);
  fedplug::Serial serial;
  const fedplug::Status status = fedplug::DecodeValues<T>(
      data.data(), static_cast<std::int64_t>(data.size()),
      static_cast<std::int64_t>(count), code, serial, values.data());
  if (!status.ok()) return;
  for (const T value : values) {
    fedplug::testing::Require(std::isfinite(value),
                              "what is decoded is finite");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  fedplug::testing::FuzzInput input(data, size);
  fedplug::ValueCode code;
  code.form = static_cast<fedplug::ValueForm>(input.Take<std::uint8_t>() % 6);
  code.bits = input.Take<std::uint8_t>() % 10;
  code.block_size = std::int64_t{1} << (input.Take<std::uint8_t>() % 22);
  const bool wide = input.Take<std::uint8_t>() % 2 != 0;
  const std::size_t count = input.Take<std::uint8_t>();
  const bool right_length = input.Take<std::uint8_t>() % 4 != 0;
  auto bytes = input.TakeVector<std::uint8_t>(input.size());
  const auto as_many = static_cast<std::int64_t>(count);
  if (right_length && fedplug::CheckValueCode(code).ok()) {
    // Mostly so, or nothing would be decoded; and with the right header.
    bytes.resize(static_cast<std::size_t>(
        fedplug::ValueCodeBytes(code, as_many, wide ? 8 : 4)));
    const std::vector<float> nothing;
    auto header = fedplug::reference::EncodeValues(nothing, code, 0);
    header.resize(std::min(header.size(), bytes.size()));
    std::copy(header.begin(), header.end(), bytes.begin());
  }
  wide ? DecodeAs<double>(bytes, count, code)
       : DecodeAs<float>(bytes, count, code);
  return 0;
}
