// Numbers of varying width in a stream of bits, the lowest of a byte first.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_BITS_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_BITS_H_

#include <cstdint>
#include <vector>

#include "core/codes/indices/bits.h"

namespace fedplug::differences {

class BitWriter {
 public:
  // REQUIRES: value < 2^width, width <= 62
  void Write(std::uint64_t value, int width) {
    if (width > 32) {
      Write(value & 0xffffffffu, 32);
      value >>= 32;
      width -= 32;
    }
    window_ |= value << filled_;
    filled_ += width;
    for (; filled_ >= 8; filled_ -= 8, window_ >>= 8) {
      bytes_.push_back(static_cast<std::uint8_t>(window_));
    }
  }

  // The stream, padded with zeros to a whole byte. The writer is then empty.
  std::vector<std::uint8_t> Finish() {
    if (filled_ > 0) bytes_.push_back(static_cast<std::uint8_t>(window_));
    window_ = 0;
    filled_ = 0;
    return std::move(bytes_);
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::uint64_t window_ = 0;
  int filled_ = 0;  // below 8 between calls
};

// Reads the output of a BitWriter. Zeros after the end of stream[bytes].
class BitReader {
 public:
  BitReader(const std::uint8_t* stream, std::int64_t bytes)
      : stream_(stream), bytes_(bytes) {}

  // REQUIRES: width <= 62
  std::uint64_t Read(int width) {
    if (width > 32) {
      const std::uint64_t low = Read(32);
      return low | Read(width - 32) << 32;
    }
    const std::uint64_t word =
        index_codes::LoadWord(stream_, bytes_, position_ / 8);
    const std::uint64_t value =
        word >> (position_ % 8) & ((std::uint64_t{1} << width) - 1);
    position_ += width;
    return value;
  }

  // Whether the stream ends in the byte of the last bit read, and the bits
  // after that are zero.
  bool IsAtEnd() const {
    return BytesFor(position_) == bytes_ &&
           index_codes::IsZeroFrom(stream_, position_);
  }

 private:
  const std::uint8_t* const stream_;
  const std::int64_t bytes_;
  std::int64_t position_ = 0;
};

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_BITS_H_
