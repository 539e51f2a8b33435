// DecodeIndices on untrusted bytes, of both forms: it stays inside its buffers,
// which the sanitizers watch, and accepts a code only if its indices have just
// that code.
#include "core/index_code.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using fedplug::IndexForm;
  using fedplug::testing::Require;
  fedplug::testing::FuzzInput input(data, size);
  const auto form = static_cast<IndexForm>(input.Take<std::uint8_t>() % 2);
  const std::int64_t count = input.Take<std::uint16_t>() % 2048;
  const int shift = input.Take<std::uint8_t>() % 32;
  const std::int64_t limit = input.Take<std::int32_t>() >> shift;
  const auto code = input.TakeVector<std::uint8_t>(input.size());
  const auto bytes = static_cast<std::int64_t>(code.size());
  const bool plausible =
      fedplug::CheckIndexCode(bytes, count, limit, form).ok();
  Require(!plausible || count <= (form == IndexForm::kGaps ? 256 : 8) * bytes,
          "this number of indices is likely");

  std::vector<std::int32_t> indices(static_cast<std::size_t>(count));
  const bool accepted = fedplug::DecodeIndices(code.data(), bytes, count, limit,
                                               form, indices.data())
                            .ok();
  Require(plausible || !accepted, "what is accepted was plausible");
  if (!accepted) return 0;
  std::int64_t previous = -1;
  for (const std::int32_t index : indices) {
    Require(index > previous && index < limit, "indices ascend in [0, size)");
    previous = index;
  }
  std::vector<std::uint8_t> again;
  Require(
      fedplug::EncodeIndices(indices.data(), count, limit, form, &again).ok(),
      "what was decoded can be encoded");
  Require(again == code, "indices have one code");
  return 0;
}
