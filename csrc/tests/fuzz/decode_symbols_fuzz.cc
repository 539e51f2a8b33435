// DecodeSymbols on untrusted bytes: it stays inside its buffers, which the
// sanitizers watch, and accepted codes can be encoded and decoded again.
#include "core/symbol_code.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

constexpr std::int64_t kManySymbols = 1 << 16;  // from there on, more lanes

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using fedplug::testing::Require;
  fedplug::testing::FuzzInput input(data, size);
  const int bits = 1 + input.Take<std::uint8_t>() % 8;
  const auto what = input.Take<std::uint8_t>();
  std::int64_t count = input.Take<std::uint16_t>() % 512;
  if (what % 8 == 0) count += kManySymbols;
  auto code = input.TakeVector<std::uint8_t>(input.size());
  if (what >= 128) {
    // The input describes the parts of a code, because few arbitrary bytes are
    // a valid code.
    std::vector<std::uint8_t> packed = code;
    packed.resize(
        static_cast<std::size_t>(fedplug::PackedSymbolBytes(count, bits)));
    const std::int64_t used = count * bits % 8;
    if (used != 0) {
      packed.back() = static_cast<std::uint8_t>(packed.back() % (1u << used));
    }
    Require(fedplug::EncodeSymbols(packed.data(),
                                   static_cast<std::int64_t>(packed.size()),
                                   count, bits, &code)
                .ok(),
            "packed symbols can be encoded");
    Require(code.size() <= 1 + packed.size(), "a code is never much longer");
    // And then one byte of it is changed.
    if (code.empty()) return 0;
    const std::size_t at = what % 128 * std::size_t{7} % code.size();
    code[at] = static_cast<std::uint8_t>(code[at] ^ what >> 5);
  }
  const auto packed_bytes =
      static_cast<std::size_t>(fedplug::PackedSymbolBytes(count, bits));
  std::vector<std::uint8_t> packed(packed_bytes);
  if (!fedplug::DecodeSymbols(code.data(),
                              static_cast<std::int64_t>(code.size()), count,
                              bits, packed.data())
           .ok()) {
    return 0;
  }
  std::vector<std::uint8_t> symbols(static_cast<std::size_t>(count));
  std::vector<std::uint8_t> repacked(packed_bytes);
  Require(
      fedplug::UnpackSymbols(packed.data(), count, bits, symbols.data()).ok() &&
          fedplug::PackSymbols(symbols.data(), count, bits, repacked.data())
              .ok() &&
          repacked == packed,
      "unpacked symbols are packed to the same bytes");
  std::vector<std::uint8_t> again;
  Require(fedplug::EncodeSymbols(packed.data(),
                                 static_cast<std::int64_t>(packed_bytes), count,
                                 bits, &again)
              .ok(),
          "what was decoded can be encoded");
  std::vector<std::uint8_t> same(packed_bytes);
  Require(fedplug::DecodeSymbols(again.data(),
                                 static_cast<std::int64_t>(again.size()), count,
                                 bits, same.data())
              .ok(),
          "what was encoded can be decoded");
  Require(same == packed, "symbols come back");
  return 0;
}
