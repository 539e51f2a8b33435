// Random numbers that follow from a seed and a position alone, so that any
// thread can make any part of them: Philox4x32-10. Source: Salmon, Moraes,
// Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Seeds
// become a key, and words numbers in [0, 1), as in TensorFlow's stateless
// random ops, so that plain-TensorFlow references can draw the same numbers.
#ifndef FEDPLUG_CORE_BASE_PHILOX_H_
#define FEDPLUG_CORE_BASE_PHILOX_H_

#include <array>
#include <cstdint>
#include <cstring>

#include "core/base/always_inline.h"

namespace fedplug {

// Draw g is four words, a function of the key and of g + the counter.
class Philox {
 public:
  static constexpr int kWords = 4;
  static constexpr int kDoubles = 2;

  // Draws made side by side, for the vector units.
  static constexpr int kLanes = 32;

  using Words = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;

  // tf.random.stateless_uniform(seed=[first, second], alg="philox").
  Philox(std::uint64_t first, std::uint64_t second) {
    const Words mixed =
        Draw({Low(first), High(first), Low(second), High(second)},
             {0x3ec8f720u, 0x02461e29u});
    key_ = {mixed[0], mixed[1]};
    stream_ = {mixed[2], mixed[3]};
  }

  // The function itself, of a counter and a key.
  static Words Draw(Words words, Key key) {
    for (int round = 0; round < kRounds; ++round) {
      Round(key, &words[0], &words[1], &words[2], &words[3]);
      key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
    }
    return words;
  }

  // The words of draws as they are.
  // REQUIRES: draws is a multiple of kLanes
  // SHAPE:    all[4 * draws]
  FEDPLUG_ALWAYS_INLINE void AllWords(std::int64_t first_draw,
                                      std::int64_t draws,
                                      std::uint32_t* all) const {
    for (std::int64_t done = 0; done < draws; done += kLanes) {
      Lanes words;
      DrawLanes(static_cast<std::uint64_t>(first_draw + done), &words);
      std::uint32_t* const to = all + kWords * done;
      for (int lane = 0; lane < kLanes; ++lane) {
        for (int w = 0; w < kWords; ++w) to[kWords * lane + w] = words[w][lane];
      }
    }
  }

  // Uniform in [0, 1), multiples of 2^-23: draws first_draw,
  // first_draw + 1 ...
  // SHAPE: noise[4 * draws rounded up to a multiple of kLanes]
  FEDPLUG_ALWAYS_INLINE void Uniform(std::int64_t first_draw,
                                     std::int64_t draws, float* noise) const {
    for (std::int64_t done = 0; done < draws; done += kLanes) {
      Lanes words;
      DrawLanes(static_cast<std::uint64_t>(first_draw + done), &words);
      float* const to = noise + kWords * done;
      for (int lane = 0; lane < kLanes; ++lane) {
        for (int w = 0; w < kWords; ++w) {
          to[kWords * lane + w] = ToUniform(words[w][lane]);
        }
      }
    }
  }

  // Uniform in [0, 1), multiples of 2^-52, two of a draw.
  // REQUIRES: draws is a multiple of kLanes
  // SHAPE:    numbers[2 * draws]
  FEDPLUG_ALWAYS_INLINE void UniformDoubles(std::int64_t first_draw,
                                            std::int64_t draws,
                                            double* numbers) const {
    for (std::int64_t done = 0; done < draws; done += kLanes) {
      Lanes words;
      DrawLanes(static_cast<std::uint64_t>(first_draw + done), &words);
      double* const to = numbers + kDoubles * done;
      for (int lane = 0; lane < kLanes; ++lane) {
        to[kDoubles * lane] = ToUniform(words[0][lane], words[1][lane]);
        to[kDoubles * lane + 1] = ToUniform(words[2][lane], words[3][lane]);
      }
    }
  }

 private:
  static constexpr int kRounds = 10;

  // Of kLanes draws side by side, the four words.
  using Lanes = std::uint32_t[kWords][kLanes];

  static std::uint32_t Low(std::uint64_t x) {
    return static_cast<std::uint32_t>(x);
  }
  static std::uint32_t High(std::uint64_t x) {
    return static_cast<std::uint32_t>(x >> 32);
  }

  FEDPLUG_ALWAYS_INLINE static void Round(const Key& key, std::uint32_t* w0,
                                          std::uint32_t* w1, std::uint32_t* w2,
                                          std::uint32_t* w3) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * *w0;
    const std::uint64_t product2 = std::uint64_t{0xCD9E8D57u} * *w2;
    const std::uint32_t next0 =
        static_cast<std::uint32_t>(product2 >> 32) ^ *w1 ^ key[0];
    const std::uint32_t next2 =
        static_cast<std::uint32_t>(product0 >> 32) ^ *w3 ^ key[1];
    *w1 = static_cast<std::uint32_t>(product2);
    *w3 = static_cast<std::uint32_t>(product0);
    *w0 = next0;
    *w2 = next2;
  }

  // 23 bits as the significand of a number in [1, 2), minus 1.
  FEDPLUG_ALWAYS_INLINE static float ToUniform(std::uint32_t word) {
    const std::uint32_t bits = (word & 0x7fffffu) | 0x3f800000u;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value - 1.0f;
  }

  // 52 bits, the upper ones from `high`, likewise.
  FEDPLUG_ALWAYS_INLINE static double ToUniform(std::uint32_t high,
                                                std::uint32_t low) {
    const std::uint64_t bits =
        (std::uint64_t{high & 0xfffffu} << 32) | low | 0x3ff0000000000000u;
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value - 1.0;
  }

  FEDPLUG_ALWAYS_INLINE void DrawLanes(std::uint64_t first_draw,
                                       Lanes* lanes) const {
    auto& [w0, w1, w2, w3] = *lanes;
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t draw = first_draw + static_cast<std::uint64_t>(lane);
      w0[lane] = static_cast<std::uint32_t>(draw);
      w1[lane] = static_cast<std::uint32_t>(draw >> 32);
      w2[lane] = stream_[0];
      w3[lane] = stream_[1];
    }
    Key key = key_;
    for (int round = 0; round < kRounds; ++round) {
      for (int lane = 0; lane < kLanes; ++lane) {
        Round(key, &w0[lane], &w1[lane], &w2[lane], &w3[lane]);
      }
      key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
    }
  }

  Key key_;
  Key stream_;  // the upper half of the counter
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_PHILOX_H_
