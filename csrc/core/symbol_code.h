// rANS codes of symbols of a few bits, such as the levels of a value code
// (value_code.h), in about as many bits as their empirical entropy.
//
// Symbols are numbers of b bits, 1 <= b <= 8. Packed, they are one after the
// other, lowest bit first, and unused bits are 0.
//
// Layout of a code of `count` symbols, integers little-endian:
//   byte 0     0: the packed symbols follow as they are, which is what the
//              encoder writes where the code would not be shorter. Otherwise t,
//              and the rest is as follows
//   t bytes    the frequencies f of the 2^b symbols in parts of 4096, as
//              symbol_frequencies.h writes them
//   4 * lanes  the states, uint32; none is below 2^16
//   the rest   the words, uint16
// There are 4 lanes, and 32 from 2^16 symbols on; the symbols of lane j are j,
// j + lanes, j + 2 lanes and so on. To decode the next one, take the state x of
// its lane and r = x % 4096. The symbol is the s for which r - F is in
// [0, f[s]), where F = f[0] + ... + f[s - 1]; x becomes f[s] * (x / 4096) +
// r - F; and where that is below 2^16, 65536 * x + the next word. In the end no
// word is left, and every state is 2^16.
//
// Sources: see rans.h.
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

// Returns the place for `bytes` bytes of a code; null: they are not written.
using CodePlace = std::function<std::uint8_t*(std::int64_t bytes)>;

// Refuses (kInvalidArgument) what CheckSymbols does, another number of bytes
// than PackedSymbolBytes says, and unused bits that are set. The code is never
// longer than the packed symbols and one byte, and it follows from the symbols
// alone. FindSimdLevel may refuse, too. Asks for the code's place once, when
// its length is known. Does not ask for it if it refuses.
//
// SHAPE:    packed[bytes]
// THREADS:  the caller's only
// COST:     two passes over the symbols: one counts them, or bytes that have
//           whole ones, and one encodes them; and a copy of the code. Scratch
//           memory is kept for the next call.
Status EncodeSymbols(const std::uint8_t* packed, std::int64_t bytes,
                     std::int64_t count, int bits, const CodePlace& place);

// The same; *code is replaced.
Status EncodeSymbols(const std::uint8_t* packed, std::int64_t bytes,
                     std::int64_t count, int bits,
                     std::vector<std::uint8_t>* code);

// Refuses what CheckSymbols does, and (kDataLoss) bytes whose first byte or
// length cannot be those of `count` symbols. Call it before allocating the
// symbols. Many equal symbols have a short code, so the caller must know the
// count.
//
// SHAPE: code[bytes]
Status CheckSymbolCode(const std::uint8_t* code, std::int64_t bytes,
                       std::int64_t count, std::int64_t bits);

// The inverse. Every byte is treated as hostile: what is not laid out in this
// way for `count` symbols is kDataLoss, and nothing outside of `packed` is
// written, which then holds anything. Other frequencies than the encoder's are
// as good, so that it may learn to choose better ones.
//
// SHAPE:    code[bytes], packed[PackedSymbolBytes(count, bits)]
// THREADS:  the caller's only
// COST:     one look into a table of 16 KB per symbol
Status DecodeSymbols(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, int bits, std::uint8_t* packed);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_SYMBOL_CODE_H_
