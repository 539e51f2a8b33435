// DecodeValues on untrusted bytes, of every form and dtype: it stays inside its
// buffers (sanitizers check), and gives nothing that is not finite. CheckValues
// accepts the same. decode_payload_fuzz compares it with the reader in C.
#include "core/base/floats.h"
#include "core/base/parallel.h"
#include "core/value_code.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using fedplug::ValueCode;

template <typename T>
void DecodeAs(std::vector<std::uint8_t> bytes, std::size_t count,
              const ValueCode& code, bool right_length) {
  using fedplug::testing::Require;
  const auto signed_count = static_cast<std::int64_t>(count);
  const bool valid_code = fedplug::CheckValueCode(code).ok();
  if (right_length && valid_code) {
    // Mostly the right length, so that inputs are decoded, and with the right
    // header.
    bytes.resize(static_cast<std::size_t>(
        fedplug::ValueCodeBytes(code, signed_count, sizeof(T))));
    std::vector<std::uint8_t> header(
        static_cast<std::size_t>(fedplug::ValueCodeBytes(code, 0, sizeof(T))));
    fedplug::Serial serial;
    std::int64_t non_finite;
    Require(fedplug::EncodeValues<T>(nullptr, 0, code, 0, serial, header.data(),
                                     &non_finite)
                .ok(),
            "nothing is encoded");
    header.resize(std::min(header.size(), bytes.size()));
    std::copy(header.begin(), header.end(), bytes.begin());
  }
  std::vector<T> values(count);
  fedplug::Serial serial;
  const bool accepted =
      fedplug::DecodeValues<T>(bytes.data(),
                               static_cast<std::int64_t>(bytes.size()),
                               signed_count, code, serial, values.data())
          .ok();
  if (!valid_code) {
    Require(!accepted, "a code that does not exist is refused");
    return;
  }
  T largest{};
  const bool checked =
      fedplug::CheckValues(bytes.data(),
                           static_cast<std::int64_t>(bytes.size()),
                           signed_count, code, serial, &largest)
          .ok();
  const bool checks = code.form != fedplug::ValueForm::kCodebook &&
                      code.form != fedplug::ValueForm::kBounded;
  Require(checked == (accepted && checks), "the check agrees");
  if (!accepted) return;
  auto key = fedplug::MagnitudeKey(T{});
  for (std::size_t i = 0; i < count; ++i) {
    Require(fedplug::IsFinite(values[i]), "what is decoded is finite");
    key = std::max(key, fedplug::MagnitudeKey(values[i]));
  }
  Require(!checks || fedplug::ToBits(largest) == key,
          "the largest magnitude is that of a value");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  fedplug::testing::FuzzInput input(data, size);
  ValueCode code;
  code.form = static_cast<fedplug::ValueForm>(input.Take<std::uint8_t>() % 8);
  code.bits = input.Take<std::uint8_t>() % 10;
  code.block_size = std::int64_t{1} << (input.Take<std::uint8_t>() % 22);
  code.relative =
      1.0f / static_cast<float>(2 + input.Take<std::uint16_t>() % 32768);
  const int dtype = input.Take<std::uint8_t>() % 4;
  // Up to a few chunks of the kernel.
  const std::size_t count = input.Take<std::uint16_t>() % 4096;
  const bool right_length = input.Take<std::uint8_t>() % 4 != 0;
  const auto bytes = input.TakeVector<std::uint8_t>(input.size());
  switch (dtype) {
    case 0:
      DecodeAs<float>(bytes, count, code, right_length);
      break;
    case 1:
      DecodeAs<double>(bytes, count, code, right_length);
      break;
    case 2:
      DecodeAs<fedplug::Half>(bytes, count, code, right_length);
      break;
    default:
      DecodeAs<fedplug::BFloat16>(bytes, count, code, right_length);
  }
  return 0;
}
