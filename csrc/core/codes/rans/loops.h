// The inner loops of rans::Encoder and rans::Decoder over registers of lanes.
#ifndef FEDPLUG_CORE_CODES_RANS_LOOPS_H_
#define FEDPLUG_CORE_CODES_RANS_LOOPS_H_

#include <array>
#include <cstdint>

#include "core/simd/level.h"

namespace fedplug::rans {

// For every symbol, frequency - 1 (12 bits) and start (12 bits), the sum of the
// frequencies before it.
struct EncoderTable {
  std::array<std::uint32_t, 256> entries;
  int largest;  // of the symbols that have a frequency
};

// Encodes the last groups of kMostLanes symbols while there is room for their
// words, and returns the number of symbols.
//
// REQUIRES: n is a multiple of kMostLanes
// SHAPE:    symbols[n], states[kMostLanes]; *next is moved down, and not below
//           begin
// THREADS:  the caller's only
// COST:     a quotient of floats, and a product of integers, for each symbol
using EncodeLoop = std::int64_t(const EncoderTable& table,
                                const std::uint8_t* symbols, std::int64_t n,
                                const std::uint16_t* begin,
                                std::uint32_t* states, std::uint16_t** next);

// REQUIRES: IsSupported of the level they are named after
EncodeLoop EncodeGroupsAvx2;
EncodeLoop EncodeGroupsAvx512;
EncodeLoop EncodeGroupsNeon;

// Decodes groups of kMostLanes symbols while there are enough words, and
// returns the number of symbols.
//
// REQUIRES: IsSupported(SimdLevel::kAvx512), `table` is that of Decoder
// SHAPE:    table[kScale], states[kMostLanes], symbols[n]; *next is moved on,
//           and not beyond end
// THREADS:  the caller's only
// COST:     two looks into the table of 16 lanes each per group
std::int64_t DecodeGroupsAvx512(const std::uint32_t* table, std::int64_t n,
                                const std::uint8_t* end, std::uint32_t* states,
                                const std::uint8_t** next,
                                std::uint8_t* symbols);

}  // namespace fedplug::rans

#endif  // FEDPLUG_CORE_CODES_RANS_LOOPS_H_
