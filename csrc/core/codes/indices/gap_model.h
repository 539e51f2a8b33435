// Bits with learnt probabilities, in a rANS code of one state, for kGaps. The
// encoder works backwards, so a writer first records the probabilities of all
// bits.
//
// Source: Duda, "Asymmetric numeral systems", 2013 (arXiv:1311.2540).
#ifndef FEDPLUG_CORE_CODES_INDICES_GAP_MODEL_H_
#define FEDPLUG_CORE_CODES_INDICES_GAP_MODEL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace fedplug::adaptive_bits {

// Probabilities are in parts of kScale.
inline constexpr int kScaleBits = 12;
inline constexpr std::uint32_t kScale = 1u << kScaleBits;

// A state is in [kLowest, 2^24), and kLowest when nothing was encoded yet.
inline constexpr std::uint32_t kLowest = 1u << 16;
inline constexpr int kStateBytes = 3;

// A share of the outcomes: `frequency` of kScale, after `start` others.
struct Share {
  std::uint16_t start;
  std::uint16_t frequency;
};

inline Share ShareOf(std::uint32_t one, int bit) {
  return bit != 0 ? Share{0, static_cast<std::uint16_t>(one)}
                  : Share{static_cast<std::uint16_t>(one),
                          static_cast<std::uint16_t>(kScale - one)};
}

inline Share ShareOfRaw(int bits, std::uint32_t value) {
  const std::uint32_t each = kScale >> bits;
  return {static_cast<std::uint16_t>(value * each),
          static_cast<std::uint16_t>(each)};
}

// Records the shares of all bits. A model has ProbabilityOfOne(context), and
// Learn(context, bit) updates it.
class Writer {
 public:
  template <typename Model>
  int Bit(Model* model, int context, int bit) {
    shares_.push_back(ShareOf(model->ProbabilityOfOne(context), bit));
    model->Learn(context, bit);
    return bit;
  }

  // REQUIRES: 1 <= bits <= 8, value < 2^bits
  std::uint32_t Raw(int bits, std::uint32_t value) {
    shares_.push_back(ShareOfRaw(bits, value));
    return value;
  }

  // Appends the state and the bytes of all recorded bits, and starts anew.
  void AppendTo(std::vector<std::uint8_t>* code) {
    std::uint32_t state = kLowest;
    backwards_.clear();
    for (auto share = shares_.rbegin(); share != shares_.rend(); ++share) {
      const std::uint32_t frequency = share->frequency;
      while (state >= frequency << 12) {
        backwards_.push_back(static_cast<std::uint8_t>(state));
        state >>= 8;
      }
      state =
          (state / frequency << kScaleBits) + state % frequency + share->start;
    }
    for (int byte = 0; byte < kStateBytes; ++byte) {
      code->push_back(static_cast<std::uint8_t>(state >> (8 * byte)));
    }
    code->insert(code->end(), backwards_.rbegin(), backwards_.rend());
    shares_.clear();
  }

 private:
  std::vector<Share> shares_;
  std::vector<std::uint8_t> backwards_;
};

// Decodes bits from a state. Missing bytes are zeros.
class Reader {
 public:
  Reader(const std::uint8_t* code, std::int64_t bytes)
      : next_(code), end_(code + bytes) {}

  // Reads a state. False if there is none.
  bool Begin() {
    if (end_ - next_ < kStateBytes) return false;
    state_ =
        static_cast<std::uint32_t>(next_[0] | next_[1] << 8 | next_[2] << 16);
    next_ += kStateBytes;
    return state_ >= kLowest;
  }

  // Whether all bytes were read.
  bool IsAtEnd() const {
    return state_ == kLowest && !missed_ && next_ == end_;
  }
  bool Missed() const { return missed_; }

  template <typename Model>
  int Bit(Model* model, int context, int) {
    const std::uint32_t one = model->ProbabilityOfOne(context);
    const int bit = state_ % kScale < one ? 1 : 0;
    Take(ShareOf(one, bit));
    model->Learn(context, bit);
    return bit;
  }

  std::uint32_t Raw(int bits, std::uint32_t) {
    const std::uint32_t value = state_ % kScale >> (kScaleBits - bits);
    Take(ShareOfRaw(bits, value));
    return value;
  }

 private:
  void Take(Share share) {
    state_ = share.frequency * (state_ >> kScaleBits) + state_ % kScale -
             share.start;
    while (state_ < kLowest) {
      missed_ |= next_ == end_;
      state_ = state_ << 8 | (next_ == end_ ? 0u : *next_++);
    }
  }

  std::uint32_t state_ = kLowest;
  const std::uint8_t* next_;
  const std::uint8_t* end_;
  bool missed_ = false;
};

}  // namespace fedplug::adaptive_bits

// The probability of each bit of a gap between indices, which "gaps/1"
// initialises from the share of indices and then learns (docs/wire-format.md).

namespace fedplug::index_codes {

class GapModel {
 public:
  static constexpr std::uint32_t kScale = adaptive_bits::kScale;
  static constexpr int kLengthBits = 5;  // of the number of a gap's class

  // REQUIRES: 0 < count <= size < 2^31
  GapModel(std::int64_t count, std::int64_t size) {
    while (size >> (top_ + 1) > 0) ++top_;
    // survival[e]: a gap of 2^e - 1 or more, in parts of 2^30.
    const std::int64_t miss = ((size - count) << kPlaces) / size;
    std::array<std::int64_t, 33> survival{std::int64_t{1} << kPlaces};
    for (std::size_t e = 0; e + 1 < survival.size(); ++e) {
      survival[e + 1] = Product(Product(survival[e], survival[e]), miss);
    }
    survival[32] = 0;
    for (int bits = 0; bits < kLengthBits; ++bits) {
      const int width = 32 >> bits;
      for (int node = 0; node < 1 << bits; ++node) {
        const auto first = static_cast<std::size_t>(node * width);
        const auto end = first + static_cast<std::size_t>(width);
        Begin((1 << bits) + node,
              survival[first + static_cast<std::size_t>(width / 2)] -
                  survival[end],
              survival[first] - survival[end]);
      }
    }
    Begin(kHalves, 0, 0);  // a gap of class 0 has no halves
    for (std::size_t e = 1; e < 32; ++e) {
      const std::int64_t middle =
          Product(survival[e], Product(survival[e - 1], miss));
      Begin(kHalves + static_cast<int>(e),
            std::max<std::int64_t>(0, middle - survival[e + 1]),
            survival[e] - survival[e + 1]);
    }
    for (int quarter = kQuarters; quarter < kContexts; ++quarter) {
      Begin(quarter, 0, 0);
    }
  }

  // The contexts of bits: bit `node` of the tree of classes, the half of class
  // e that contains the gap, and the quarter.
  static int HalfOf(int e) { return kHalves + e; }
  static int QuarterOf(int e, int half) { return kQuarters + 2 * e + half; }

  // Whether a gap of class e is possible. Bits without a choice are omitted.
  bool MayBe(int e) const { return e <= top_; }

  // The probability of a 1, in parts of kScale.
  std::uint32_t ProbabilityOfOne(int context) const {
    const auto i = static_cast<std::size_t>(context);
    const std::uint32_t mean = (fast_[i] + slow_[i]) >> 5;
    return std::min(kScale - kLeast, std::max(kLeast, mean));
  }

  void Learn(int context, int bit) {
    const auto i = static_cast<std::size_t>(context);
    Approach(bit, kFastShift, &fast_[i]);
    Approach(bit, kSlowShift, &slow_[i]);
  }

 private:
  static constexpr int kPlaces = 30;
  static constexpr int kHalves = 32;
  static constexpr int kQuarters = 64;
  static constexpr int kContexts = 128;
  static constexpr std::uint32_t kCertain = 1u << 16;
  static constexpr std::uint32_t kLeast = 32;
  static constexpr int kFastShift = 4;
  static constexpr int kSlowShift = 7;

  static std::int64_t Product(std::int64_t x, std::int64_t y) {
    return (x * y) >> kPlaces;
  }

  static void Approach(int bit, int shift, std::uint32_t* probability) {
    if (bit != 0) {
      *probability += (kCertain - *probability) >> shift;
    } else {
      *probability -= *probability >> shift;
    }
  }

  // `ones` of `all`; 1/2 if `all` is 0.
  void Begin(int context, std::int64_t ones, std::int64_t all) {
    const std::int64_t share = all == 0 ? kCertain / 2 : (ones << 16) / all;
    const auto i = static_cast<std::size_t>(context);
    fast_[i] = slow_[i] = static_cast<std::uint32_t>(std::min<std::int64_t>(
        kCertain - 512, std::max<std::int64_t>(512, share)));
  }

  int top_ = 0;
  std::array<std::uint32_t, kContexts> fast_{};
  std::array<std::uint32_t, kContexts> slow_{};
};

}  // namespace fedplug::index_codes

#endif  // FEDPLUG_CORE_CODES_INDICES_GAP_MODEL_H_
