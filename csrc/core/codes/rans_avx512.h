// The inner loop of rans::Decoder for AVX-512. Knows states, words and a table.
#ifndef FEDPLUG_CORE_CODES_RANS_AVX512_H_
#define FEDPLUG_CORE_CODES_RANS_AVX512_H_

#include <cstdint>

#include "core/simd/level.h"

#if FEDPLUG_SIMD_X86

namespace fedplug::rans {

// Decodes groups of kMostLanes symbols while there surely are enough words, and
// returns how many symbols that were.
//
// REQUIRES: IsSupported(SimdLevel::kAvx512); `table` is that of Decoder
// SHAPE:    table[kScale], states[kMostLanes], symbols[n]; *next is moved on,
//           and not beyond end
// THREADS:  the caller's only
// COST:     two looks into the table of 16 lanes each per group
std::int64_t DecodeGroupsAvx512(const std::uint32_t* table, std::int64_t n,
                                const std::uint8_t* end, std::uint32_t* states,
                                const std::uint8_t** next,
                                std::uint8_t* symbols);

}  // namespace fedplug::rans

#endif  // FEDPLUG_SIMD_X86

#endif  // FEDPLUG_CORE_CODES_RANS_AVX512_H_
