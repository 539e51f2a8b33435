// DecodeDifference on untrusted bytes: it stays inside its buffers, which the
// sanitizers watch, and accepted codes can be encoded and decoded again.
#include "core/difference_code.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

constexpr fedplug::ElementLayout kLayouts[] = {
    {2, 7}, {2, 10}, {4, 23}, {8, 52}, {1, 3}, {1, 7}, {4, 31}, {8, 63}};

std::int64_t SizeOf(const std::vector<std::uint8_t>& bytes) {
  return static_cast<std::int64_t>(bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using fedplug::testing::Require;
  fedplug::testing::FuzzInput input(data, size);
  const auto kind = input.Take<std::uint8_t>();
  const fedplug::ElementLayout layout = kLayouts[kind % 8];
  const bool is_whole = kind >= 128;
  const std::int64_t count = input.Take<std::uint16_t>() % 1024;
  // A byte of the seed for many elements, because inputs are short.
  std::vector<std::uint8_t> before(
      static_cast<std::size_t>(count * layout.bytes));
  std::uint32_t state = input.Take<std::uint32_t>();
  for (std::uint8_t& byte : before) {
    byte = static_cast<std::uint8_t>(state >> 24);
    state = state * 1664525u + 1013904223u;
  }
  const std::uint8_t* const old = is_whole ? nullptr : before.data();
  const auto code = input.TakeVector<std::uint8_t>(input.size());
  fedplug::Serial serial;
  std::vector<std::uint8_t> after(before.size());
  if (!fedplug::DecodeDifference(code.data(), SizeOf(code), old, count, layout,
                                 serial, after.data())
           .ok()) {
    return 0;
  }
  std::vector<std::uint8_t> again;
  Require(fedplug::EncodeDifference(old, after.data(), count, layout, serial,
                                    &again)
              .ok(),
          "what was decoded can be encoded");
  Require(SizeOf(again) <= SizeOf(after) + 5 + 6 * layout.bytes,
          "a code is never much longer");
  std::vector<std::uint8_t> same(before.size());
  Require(fedplug::DecodeDifference(again.data(), SizeOf(again), old, count,
                                    layout, serial, same.data())
              .ok(),
          "what was encoded can be decoded");
  Require(same == after, "elements come back");
  return 0;
}
