// Bits with learnt probabilities, in a rANS code of one state, for kGaps. The
// encoder works backwards, so a writer first records the probabilities of all
// bits.
//
// Source: Duda, "Asymmetric numeral systems", 2013 (arXiv:1311.2540).
#ifndef FEDPLUG_CORE_CODES_INDICES_LEARNT_BITS_H_
#define FEDPLUG_CORE_CODES_INDICES_LEARNT_BITS_H_

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

#endif  // FEDPLUG_CORE_CODES_INDICES_LEARNT_BITS_H_
