// DecodeRotated on untrusted bytes, of every dtype: it stays inside its buffers
// (sanitizers check), accepts what the obvious decoder accepts, with the same
// bits, and nothing that is not finite.
#include "core/base/float_bits.h"
#include "core/base/parallel.h"
#include "core/rotated_code.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/reference/rotated.h"

namespace {

using fedplug::RotatedCode;

template <typename T>
void DecodeAs(std::vector<std::uint8_t> bytes, std::size_t count,
              const RotatedCode& code, bool right_length) {
  using fedplug::testing::Require;
  const auto signed_count = static_cast<std::int64_t>(count);
  const bool valid_code = fedplug::CheckRotatedCode(code, signed_count).ok();
  if (right_length && valid_code) {  // mostly so, or nothing would be decoded
    bytes.resize(static_cast<std::size_t>(
        fedplug::RotatedCodeBytes(code, signed_count, sizeof(T))));
  }
  std::vector<T> values(count);
  fedplug::Serial serial;
  const bool accepted =
      fedplug::DecodeRotated<T>(bytes.data(),
                                static_cast<std::int64_t>(bytes.size()),
                                signed_count, code, serial, values.data())
          .ok();
  if (!valid_code) {
    Require(!accepted, "a code that does not exist is refused");
    return;
  }
  const auto expected =
      fedplug::reference::DecodeRotated<T>(bytes, count, code);
  Require(accepted == expected.has_value(), "the reference agrees");
  if (!accepted) return;
  for (std::size_t i = 0; i < count; ++i) {
    Require(fedplug::IsFinite(values[i]), "what is decoded is finite");
    Require(fedplug::ToBits(values[i]) == fedplug::ToBits((*expected)[i]),
            "the values are those of the reference");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  fedplug::testing::FuzzInput input(data, size);
  RotatedCode code{};
  code.block_size = std::int64_t{1} << (input.Take<std::uint8_t>() % 11);
  code.first_seed = input.Take<std::uint8_t>();
  const int levels = input.Take<std::uint8_t>() % 20;
  for (int i = 0; i < levels; ++i) code.levels.push_back(i + 0.5);
  const int dtype = input.Take<std::uint8_t>() % 4;
  const std::size_t count = input.Take<std::uint16_t>() % 2048;
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
