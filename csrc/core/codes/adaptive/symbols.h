// The form kAdaptive of symbol_code.h, if it is shorter than the packed
// symbols.
#ifndef FEDPLUG_CORE_CODES_ADAPTIVE_SYMBOLS_H_
#define FEDPLUG_CORE_CODES_ADAPTIVE_SYMBOLS_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/codes/rans/symbol_frequencies.h"
#include "core/codes/symbols/chunks.h"

namespace fedplug {

// Appends the code. False if it is not shorter than the packed symbols; *code
// is then unspecified.
//
// REQUIRES: `counts` are those of the symbols; `chunks` is of `count` and
// `bits`
bool EncodeAdaptively(const std::uint8_t* packed, std::int64_t count, int bits,
                      const SymbolCounts& counts, SymbolChunks* chunks,
                      std::vector<std::uint8_t>* code);

// As CheckSymbolCode, which calls this. REQUIRES: CheckSymbols(count, bits)
Status CheckAdaptiveCode(std::int64_t bytes, std::int64_t count, int bits);

// As DecodeSymbols, of a code that CheckAdaptiveCode takes and that is shorter
// than the packed symbols.
Status DecodeAdaptively(const std::uint8_t* code, std::int64_t bytes, int bits,
                        SymbolChunks* chunks, std::uint8_t* packed);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_ADAPTIVE_SYMBOLS_H_
