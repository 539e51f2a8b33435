// Streams of bits, the lowest of a byte first: numbers of one width, and the
// places of ones.
#ifndef FEDPLUG_CORE_CODES_INDICES_BITS_H_
#define FEDPLUG_CORE_CODES_INDICES_BITS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/base/bytes.h"

namespace fedplug::index_codes {

// Up to eight bytes of stream[bytes], from byte `at` on. Zeros behind its end.
inline std::uint64_t LoadWord(const std::uint8_t* stream, std::int64_t bytes,
                              std::int64_t at) {
  std::uint64_t word = 0;
  if (at + 8 <= bytes) {
    std::memcpy(&word, stream + at, 8);
  } else if (at < bytes) {
    std::memcpy(&word, stream + at, static_cast<std::size_t>(bytes - at));
  }
  return word;
}

// Whether no bit from `position` on is set in its byte.
inline bool IsZeroFrom(const std::uint8_t* stream, std::int64_t position) {
  return position % 8 == 0 || (stream[position / 8] >> (position % 8)) == 0;
}

inline void SetBit(std::uint8_t* stream, std::int64_t position) {
  std::uint8_t& byte = stream[position / 8];
  byte = static_cast<std::uint8_t>(byte | 1u << (position % 8));
}

// Writes numbers one after the other.
class NumberWriter {
 public:
  explicit NumberWriter(std::uint8_t* to) : to_(to) {}

  // REQUIRES: value < 2^width, width <= 32
  void Write(std::uint64_t value, int width) {
    window_ |= value << filled_;
    filled_ += width;
    if (filled_ < 32) return;
    std::memcpy(to_, &window_, 4);
    to_ += 4;
    window_ >>= 32;
    filled_ -= 32;
  }

  // REQUIRES: value < 2^width, width <= 64
  void WriteLong(std::uint64_t value, int width) {
    const int low = std::min(width, 32);
    Write(value & ((std::uint64_t{1} << low) - 1), low);
    if (width > low) Write(value >> low, width - low);
  }

  // Writes the rest, padded with zeros to a whole byte. Returns the end.
  std::uint8_t* Finish() {
    if (filled_ == 0) return to_;  // null if nothing is written anywhere
    const std::int64_t rest = BytesFor(filled_);
    std::memcpy(to_, &window_, static_cast<std::size_t>(rest));
    return to_ + rest;
  }

 private:
  std::uint8_t* to_;
  std::uint64_t window_ = 0;
  int filled_ = 0;
};

// Reads the output of a NumberWriter. Zeros after the end of stream[bytes].
class NumberReader {
 public:
  NumberReader(const std::uint8_t* stream, std::int64_t bytes)
      : stream_(stream), bytes_(bytes) {}

  // REQUIRES: width <= 57
  std::uint64_t Read(int width) {
    const std::uint64_t word = LoadWord(stream_, bytes_, position_ / 8);
    const std::uint64_t value =
        word >> (position_ % 8) & ((std::uint64_t{1} << width) - 1);
    position_ += width;
    return value;
  }

  // REQUIRES: width <= 64
  std::uint64_t ReadLong(int width) {
    const int low = std::min(width, 32);
    const std::uint64_t value = Read(low);
    return width > low ? value | Read(width - low) << low : value;
  }

  // Whether the stream ends in the byte of the last bit read, and the bits
  // after that are zero.
  bool IsAtEnd() const {
    return BytesFor(position_) == bytes_ && IsZeroFrom(stream_, position_);
  }

 private:
  const std::uint8_t* const stream_;
  const std::int64_t bytes_;
  std::int64_t position_ = 0;
};

// Goes from one set bit of stream[bytes] to the next.
class OnesReader {
 public:
  OnesReader(const std::uint8_t* stream, std::int64_t bytes)
      : stream_(stream), bytes_(bytes), word_(LoadWord(stream, bytes, 0)) {}

  // The position of the next one, or 8 * bytes or more if there is none.
  std::int64_t Next() {
    while (word_ == 0) {
      at_ += 8;
      if (at_ >= bytes_) return 8 * std::max(at_, bytes_);
      word_ = LoadWord(stream_, bytes_, at_);
    }
    const int bit = __builtin_ctzll(word_);
    word_ &= word_ - 1;
    return 8 * at_ + bit;
  }

 private:
  const std::uint8_t* const stream_;
  const std::int64_t bytes_;
  std::int64_t at_ = 0;
  std::uint64_t word_;
};

}  // namespace fedplug::index_codes

#endif  // FEDPLUG_CORE_CODES_INDICES_BITS_H_
