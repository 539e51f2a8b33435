// The symbol code at every SIMD level. tests/kernels tests its layout, length
// and errors, and decode_symbols_fuzz decodes arbitrary bytes.
#include "core/symbol_code.h"

#include <cmath>

#include "core/codes/rans/rans.h"
#include "core/codes/rans/symbol_frequencies.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::int64_t SizeOf(const Bytes& bytes) {
  return static_cast<std::int64_t>(bytes.size());
}

Bytes Pack(const Bytes& symbols, int bits) {
  Bytes packed(
      static_cast<std::size_t>(PackedSymbolBytes(SizeOf(symbols), bits)));
  EXPECT_TRUE(
      PackSymbols(symbols.data(), SizeOf(symbols), bits, packed.data()).ok());
  return packed;
}

Bytes Encode(const Bytes& packed, std::int64_t count, int bits) {
  Bytes code = {1, 2, 3};  // to be replaced
  EXPECT_TRUE(
      EncodeSymbols(packed.data(), SizeOf(packed), count, bits, &code).ok());
  return code;
}

// Like the levels of normally distributed values: `spread` of them are usual.
Bytes RandomSymbols(std::int64_t count, int bits, double spread,
                    Random& random) {
  std::normal_distribution<double> normal(0, spread);
  const double top = (1 << bits) - 1;
  Bytes symbols;
  for (std::int64_t i = 0; i < count; ++i) {
    const double level = std::round(normal(random) + top / 2);
    symbols.push_back(
        static_cast<std::uint8_t>(std::min(std::max(level, 0.0), top)));
  }
  return symbols;
}

TEST(SymbolCode, RoundTripsWithFewLanesAndWithMany) {
  Random random(2);
  for (const std::int64_t count :
       {0, 1, 31, 1025, 65535, 65536, 65537, 70000}) {
    for (const int bits : {1, 2, 5, 8}) {
      const Bytes symbols = RandomSymbols(count, bits, 1.0, random);
      const Bytes packed = Pack(symbols, bits);
      const Bytes code = Encode(packed, count, bits);
      Bytes decoded(packed.size());
      EXPECT_TRUE(
          DecodeSymbols(code.data(), SizeOf(code), count, bits, decoded.data())
              .ok());
      EXPECT_EQ(decoded, packed);
    }
  }
}

// The encoder's words, and its states before them.
std::vector<std::uint32_t> RansOf(const rans::Frequencies& frequencies,
                                  const Bytes& symbols, SimdLevel level) {
  std::vector<std::uint16_t> words(symbols.size() + rans::kMostLanes + 1);
  rans::Encoder encoder(frequencies, rans::kMostLanes, level, words.data(),
                        static_cast<std::int64_t>(words.size()));
  EXPECT_TRUE(encoder.Encode(symbols.data(), SizeOf(symbols)));
  std::vector<std::uint32_t> coded(encoder.states().begin(),
                                   encoder.states().end());
  coded.insert(coded.end(), encoder.words(),
               encoder.words() + encoder.word_count());
  return coded;
}

TEST(Rans, EveryLevelDividesExactly) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    // A few symbols have nearly all, so that every frequency comes, also 4096.
    SymbolCounts counts{};
    const std::int64_t different = 1 + Below(random, round % 2 == 0 ? 16 : 256);
    for (std::int64_t s = 0; s < different; ++s) {
      counts[static_cast<std::size_t>(s)] =
          1 + Below(random, std::int64_t{1} << Below(random, 20));
    }
    Bytes symbols;
    for (int i = 0; i < 4000 + round; ++i) {
      symbols.push_back(static_cast<std::uint8_t>(Below(random, different)));
    }
    const rans::Frequencies frequencies = FrequenciesOf(counts);
    const auto expected = RansOf(frequencies, symbols, SimdLevel::kBaseline);
    for (const SimdLevel level :
         {SimdLevel::kAvx2, SimdLevel::kAvx512, SimdLevel::kNeon}) {
      if (!IsSupported(level)) continue;
      SCOPED_TRACE(NameOf(level));
      EXPECT_TRUE(RansOf(frequencies, symbols, level) == expected);
    }
  }
}

TEST(EncodeSymbols, AsksOnceForItsPlaceAndNeedsNone) {
  Random random(7);
  for (const double spread : {0.5, 100.0}) {
    const Bytes symbols = RandomSymbols(1000, 4, spread, random);
    const Bytes packed = Pack(symbols, 4);
    const std::int64_t length = SizeOf(Encode(packed, 1000, 4));
    int asked = 0;
    const auto nowhere = [&](std::int64_t bytes) -> std::uint8_t* {
      ++asked;
      EXPECT_EQ(bytes, length);
      return nullptr;
    };
    EXPECT_TRUE(
        EncodeSymbols(packed.data(), SizeOf(packed), 1000, 4, nowhere).ok());
    EXPECT_EQ(asked, 1);
    EXPECT_FALSE(
        EncodeSymbols(packed.data(), SizeOf(packed), 1001, 4, nowhere).ok());
    EXPECT_EQ(asked, 1);
  }
}

}  // namespace
}  // namespace fedplug::testing
