// ReadSparseBody on untrusted bytes: it stays inside the bytes, and accepts
// only the bytes of WriteSparseBody for the same parts.
#include "core/sparse_form.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input_data,
                                      std::size_t input_size) {
  using fedplug::testing::Require;
  fedplug::testing::FuzzInput input(input_data, input_size);
  const std::int64_t elements = input.Take<std::uint32_t>();
  // Exactly as long as the bytes, so that a sanitizer sees a read past them.
  const auto body = input.TakeVector<std::uint8_t>(input.size());
  const auto bytes = static_cast<std::int64_t>(body.size());
  fedplug::SparseBodyParts parts;
  if (!fedplug::ReadSparseBody(body.data(), bytes, elements, &parts).ok()) {
    return 0;
  }
  Require(parts.count >= 0 && parts.count <= elements,
          "entries fit the tensor");
  Require(0 <= parts.code_begin && parts.code_begin <= parts.values_begin &&
              parts.values_begin <= bytes,
          "the parts are inside the body");
  const std::int64_t code_bytes = parts.values_begin - parts.code_begin;
  const std::int64_t value_bytes = bytes - parts.values_begin;
  Require(fedplug::CheckSparseBody(parts.count, code_bytes).ok(),
          "the parts can be written");
  Require(
      fedplug::SparseBodyBytes(parts.count, code_bytes, value_bytes) == bytes,
      "a body has one length");
  std::vector<std::uint8_t> again(body.size());
  fedplug::WriteSparseBody(parts.count, body.data() + parts.code_begin,
                           code_bytes, body.data() + parts.values_begin,
                           value_bytes, again.data());
  Require(again == body, "a body has one form");
  return 0;
}
