// Random numbers that depend on a seed and a position alone, so that any thread
// can compute any part of them: Philox4x32-10. Source: Salmon, Moraes, Dror,
// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Seeds become a
// key, and words become numbers in [0, 1), as in TensorFlow's stateless random
// ops, so that the references draw the same numbers.
#ifndef FEDPLUG_CORE_BASE_PHILOX_H_
#define FEDPLUG_CORE_BASE_PHILOX_H_

#include <array>
#include <cstdint>
#include <cstring>

#include "core/base/floats.h"

namespace fedplug {

// Draw g is four words, a function of the key and of g + the counter.
class Philox {
 public:
  static constexpr int kWords = 4;
  static constexpr int kDoubles = 2;

  using Words = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;

  // tf.random.stateless_uniform(seed=[first, second], alg="philox").
  FEDPLUG_HOST_DEVICE Philox(std::uint64_t first, std::uint64_t second) {
    const Words mixed =
        Draw({Low(first), High(first), Low(second), High(second)},
             {0x3ec8f720u, 0x02461e29u});
    key_ = {mixed[0], mixed[1]};
    stream_ = {mixed[2], mixed[3]};
  }

  // The function itself, of a counter and a key.
  FEDPLUG_HOST_DEVICE static Words Draw(Words words, Key key) {
    for (int round = 0; round < kRounds; ++round) {
      Round(key, &words[0], &words[1], &words[2], &words[3]);
      key = NextKey(key);
    }
    return words;
  }

  // The words of draw g.
  FEDPLUG_HOST_DEVICE Words WordsOf(std::uint64_t g) const {
    return Draw({Low(g), High(g), stream_[0], stream_[1]}, key_);
  }

  static constexpr int kRounds = 10;
  static constexpr std::array<std::uint32_t, 2> kFactors{0xD2511F53u,
                                                         0xCD9E8D57u};

  FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE static void Round(
      const Key& key, std::uint32_t* w0, std::uint32_t* w1, std::uint32_t* w2,
      std::uint32_t* w3) {
    const std::uint64_t product0 = std::uint64_t{kFactors[0]} * *w0;
    const std::uint64_t product2 = std::uint64_t{kFactors[1]} * *w2;
    const std::uint32_t next0 =
        static_cast<std::uint32_t>(product2 >> 32) ^ *w1 ^ key[0];
    const std::uint32_t next2 =
        static_cast<std::uint32_t>(product0 >> 32) ^ *w3 ^ key[1];
    *w1 = static_cast<std::uint32_t>(product2);
    *w3 = static_cast<std::uint32_t>(product0);
    *w0 = next0;
    *w2 = next2;
  }
  FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE static Key NextKey(const Key& key) {
    return {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }

  FEDPLUG_HOST_DEVICE const Key& key() const { return key_; }

  // The upper half of the counter.
  FEDPLUG_HOST_DEVICE const Key& stream() const { return stream_; }

  // Uniform in [0, 1), a multiple of 2^-23: 23 bits as the significand of a
  // number in [1, 2), minus 1.
  FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE static float ToUniform(
      std::uint32_t word) {
    const std::uint32_t bits = (word & 0x7fffffu) | 0x3f800000u;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value - 1.0f;
  }

  // A multiple of 2^-52 of two words that follow each other, likewise: the
  // upper bits are from the first.
  FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE static double ToUniform(
      std::uint32_t high, std::uint32_t low) {
    const std::uint64_t bits =
        (std::uint64_t{high & 0xfffffu} << 32) | low | 0x3ff0000000000000u;
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value - 1.0;
  }

 private:
  FEDPLUG_HOST_DEVICE static std::uint32_t Low(std::uint64_t x) {
    return static_cast<std::uint32_t>(x);
  }
  FEDPLUG_HOST_DEVICE static std::uint32_t High(std::uint64_t x) {
    return static_cast<std::uint32_t>(x >> 32);
  }

  Key key_;
  Key stream_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_PHILOX_H_
