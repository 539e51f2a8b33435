// rANS codes of symbols of a few bits, such as the levels of a value code
// (value_code.h), in about as many bits as their empirical entropy.
// docs/wire-format.md specifies their bytes under "rans/1". If the code would
// not be shorter, the encoder writes the packed symbols.
#ifndef FEDPLUG_CORE_SYMBOL_CODE_H_
#define FEDPLUG_CORE_SYMBOL_CODE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace fedplug {

// Refuses bits that are not in [1, 8] and counts that are not in [0, 2^31).
Status CheckSymbols(std::int64_t count, std::int64_t bits);

// How many bytes `count` symbols take when they are packed.
//
// REQUIRES: CheckSymbols(count, bits) is ok
std::int64_t PackedSymbolBytes(std::int64_t count, int bits);

// Packs symbols of one byte each. Returns the errors of CheckSymbols, and
// kInvalidArgument for a symbol of more than `bits` bits, before it writes.
//
// SHAPE:    symbols[count], packed[PackedSymbolBytes(count, bits)]
// THREADS:  the caller's only
// COST:     two passes over the symbols
Status PackSymbols(const std::uint8_t* symbols, std::int64_t count, int bits,
                   std::uint8_t* packed);

// The inverse, for untrusted bytes. Returns the errors of CheckSymbols, and
// kDataLoss for unused bits that are set, before it writes.
//
// SHAPE:    packed[PackedSymbolBytes(count, bits)], symbols[count]
// THREADS:  the caller's only
Status UnpackSymbols(const std::uint8_t* packed, std::int64_t count, int bits,
                     std::uint8_t* symbols);

// Returns the place for `bytes` bytes of a code. Null, if they are not written.
using CodePlace = std::function<std::uint8_t*(std::int64_t bytes)>;

// Refuses (kInvalidArgument) as CheckSymbols does, and another number of bytes
// than PackedSymbolBytes says, and unused bits that are set. The code is never
// longer than the packed symbols and one byte, and it follows from the symbols
// alone. FindSimdLevel may refuse, too. Asks for the code's place once, when
// its length is known. Does not ask for it if it refuses.
//
// SHAPE:    packed[bytes]
// THREADS:  the caller's only
// COST:     two passes over the symbols: one counts them, or bytes that have
//           whole ones, and one encodes them, and a copy of the code. Scratch
//           memory is kept for the next call.
Status EncodeSymbols(const std::uint8_t* packed, std::int64_t bytes,
                     std::int64_t count, int bits, const CodePlace& place);

// The same; *code is replaced.
Status EncodeSymbols(const std::uint8_t* packed, std::int64_t bytes,
                     std::int64_t count, int bits,
                     std::vector<std::uint8_t>* code);

// Refuses as CheckSymbols does, and (kDataLoss) bytes whose first byte or
// length cannot be those of `count` symbols. Call it before allocating the
// symbols. Many equal symbols have a short code, so the caller must know the
// count.
//
// SHAPE: code[bytes]
Status CheckSymbolCode(const std::uint8_t* code, std::int64_t bytes,
                       std::int64_t count, std::int64_t bits);

// The inverse. Every byte is treated as hostile. Anything but a code of
// `count` symbols is kDataLoss. Nothing outside of `packed` is written, which
// then holds anything. Other frequencies than the encoder's are
// as good, so that it may learn to choose better ones.
//
// SHAPE:    code[bytes], packed[PackedSymbolBytes(count, bits)]
// THREADS:  the caller's only
// COST:     one look into a table of 16 KB per symbol
Status DecodeSymbols(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, int bits, std::uint8_t* packed);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SYMBOL_CODE_H_
