// The frequency of each symbol in 4096ths: from counts, and as bytes.
#ifndef FEDPLUG_CORE_CODES_RANS_SYMBOL_FREQUENCIES_H_
#define FEDPLUG_CORE_CODES_RANS_SYMBOL_FREQUENCIES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/codes/rans/rans.h"

namespace fedplug {

using SymbolCounts = std::array<std::int64_t, 256>;

// Every occurring symbol gets 1 or more, the others 0, and the sum is 4096. Of
// n symbols, s of them distinct, those that occur fewer than n / (4096 - s)
// times get 1. The others share the rest. With c[0] to c[i] of them being
// symbols up to i, and r left to share, those up to i get floor((c[0] + ... +
// c[i]) r / (c[0] + ... + c[255])).
//
// REQUIRES: the counts are not negative, their sum is in [1, 2^31)
rans::Frequencies FrequenciesOf(const SymbolCounts& counts);

// The frequencies of 2^bits symbols as the table of "rans/1"
// (docs/wire-format.md), which has 1 to 255 bytes.
//
// REQUIRES: 1 <= bits <= 8, only the first 2^bits symbols come
std::vector<std::uint8_t> FrequenciesToBytes(
    const rans::Frequencies& frequencies, int bits);

// The inverse, for untrusted bytes.
Status FrequenciesFromBytes(const std::uint8_t* data, std::int64_t bytes,
                            int bits, rans::Frequencies* frequencies);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_RANS_SYMBOL_FREQUENCIES_H_
