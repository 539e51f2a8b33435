// Packed symbols as bytes, one chunk at a time.
#ifndef FEDPLUG_CORE_CODES_SYMBOLS_CHUNKS_H_
#define FEDPLUG_CORE_CODES_SYMBOLS_CHUNKS_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/bytes_for.h"
#include "core/codes/values/loops.h"
#include "core/simd/level.h"

namespace fedplug {

class SymbolChunks {
 public:
  SymbolChunks(SimdLevel level, std::int64_t count, int bits)
      : loops_(value_loops::BitLoopsFor(level)), count_(count), bits_(bits) {}

  std::int64_t size() const {
    return (count_ + value_loops::kChunk - 1) / value_loops::kChunk;
  }

  // The number of symbols of chunk c.
  std::int64_t SymbolsIn(std::int64_t c) const {
    return std::min(value_loops::kChunk, count_ - c * value_loops::kChunk);
  }

  // The symbols of chunk c, valid until the next call.
  const std::uint8_t* Unpack(const std::uint8_t* packed, std::int64_t c) {
    const std::int64_t n = SymbolsIn(c);
    if (bits_ == 8) return packed + c * value_loops::kChunk;
    std::copy_n(packed + BytesBefore(c), BytesFor(n * bits_), bytes_.data());
    loops_.unpack(bytes_.data(), n, bits_, symbols_.data());
    return symbols_.data();
  }

  // The place for the symbols of chunk c before they are packed.
  std::uint8_t* Symbols(std::uint8_t* packed, std::int64_t c) {
    return bits_ == 8 ? packed + c * value_loops::kChunk : symbols_.data();
  }

  void Pack(std::int64_t c, std::uint8_t* packed) {
    if (bits_ == 8) return;
    const std::int64_t n = SymbolsIn(c);
    std::fill(symbols_.begin() + n, symbols_.begin() + (n + 7) / 8 * 8,
              std::uint8_t{0});
    loops_.pack(symbols_.data(), n, bits_, bytes_.data());
    std::copy_n(bytes_.data(), BytesFor(n * bits_), packed + BytesBefore(c));
  }

 private:
  std::int64_t BytesBefore(std::int64_t c) const {
    return c * value_loops::kChunk / 8 * bits_;
  }

  value_loops::BitLoops loops_;
  std::int64_t count_;
  int bits_;
  std::array<std::uint8_t, value_loops::kChunk> symbols_{};
  std::array<std::uint8_t, value_loops::kChunk + value_loops::kPackedSlack>
      bytes_{};
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_SYMBOLS_CHUNKS_H_
