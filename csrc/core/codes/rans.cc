// The lanes are independent, so that a processor works at several symbols at
// once; whether a word moves is never asked by a branch, which would be a coin
// toss.
#include "core/codes/rans.h"

#include <algorithm>
#include <cstring>

#include "core/base/always_inline.h"
#include "core/codes/rans_avx512.h"

namespace fedplug::rans {
namespace {

constexpr int kWordBits = 16;
constexpr int kWordBytes = 2;
constexpr int kReciprocalBits = 44;

// Before a symbol is encoded, its state must be below this for the state after
// it to have 32 bits.
constexpr std::uint64_t LimitOf(std::uint32_t frequency) {
  return std::uint64_t{frequency} << (32 - kScaleBits);
}

// The symbol that was put into a state last. The word that left the state
// before is not put back.
FEDPLUG_ALWAYS_INLINE std::uint8_t Take(const std::uint32_t* table,
                                        std::uint32_t* state) {
  const std::uint32_t entry = table[*state % kScale];
  const std::uint32_t frequency = (entry >> (8 + kScaleBits)) + 1;
  *state = frequency * (*state >> kScaleBits) + (entry >> 8) % kScale;
  return static_cast<std::uint8_t>(entry);
}

}  // namespace

Encoder::Encoder(const Frequencies& frequencies, int lanes,
                 std::uint16_t* words, std::int64_t capacity)
    : steps_{},
      lanes_(lanes),
      begin_(words),
      next_(words + capacity),
      end_(words + capacity) {
  states_.fill(kLowest);
  std::uint32_t start = 0;
  for (std::size_t symbol = 0; symbol < frequencies.size(); ++symbol) {
    const std::uint32_t frequency = frequencies[symbol];
    if (frequency == 0) continue;
    // With m = floor(2^44 / f) + 1, x m / 2^44 is above x / f by at most
    // x / 2^44, which is less than 1 / f; and x m < 2^64.
    steps_[symbol] = {(std::uint64_t{1} << kReciprocalBits) / frequency + 1,
                      LimitOf(frequency), kScale - frequency, start};
    start += frequency;
  }
}

FEDPLUG_ALWAYS_INLINE void Encoder::Put(std::uint8_t symbol,
                                        std::uint32_t* state) {
  const Step& step = steps_[symbol];
  const int full = *state >= step.limit;
  next_[-1] = static_cast<std::uint16_t>(*state);
  next_ -= full;
  const std::uint32_t x = *state >> (full * kWordBits);
  const auto quotient =
      static_cast<std::uint32_t>((x * step.reciprocal) >> kReciprocalBits);
  *state = x + quotient * step.rest + step.start;
}

template <int kLanes>
bool Encoder::EncodeIn(const std::uint8_t* symbols, std::int64_t n) {
  // A word is written before it is known whether it stays, so one place more
  // than the lanes must be free.
  for (std::int64_t i = n; i > 0;) {
    if (next_ - begin_ <= kLanes) return false;
    const int group = i % kLanes == 0 ? kLanes : static_cast<int>(i % kLanes);
    i -= group;
    for (int lane = group - 1; lane >= 0; --lane) {
      Put(symbols[i + lane], &states_[static_cast<std::size_t>(lane)]);
    }
  }
  return true;
}

bool Encoder::Encode(const std::uint8_t* symbols, std::int64_t n) {
  return lanes_ == kMostLanes ? EncodeIn<kMostLanes>(symbols, n)
                              : EncodeIn<4>(symbols, n);
}

Decoder::Decoder(const Frequencies& frequencies, int lanes, SimdLevel level,
                 const States& states, const std::uint8_t* words,
                 std::int64_t count)
    : states_(states),
      lanes_(lanes),
      level_(level),
      next_(words),
      end_(words + kWordBytes * count) {
  table_.reserve(kScale);
  for (std::uint32_t symbol = 0; symbol < frequencies.size(); ++symbol) {
    const std::uint32_t frequency = frequencies[symbol];
    for (std::uint32_t place = 0; place < frequency; ++place) {
      table_.push_back((frequency - 1) << (8 + kScaleBits) | place << 8 |
                       symbol);
    }
  }
}

template <int kLanes>
bool Decoder::DecodeIn(std::int64_t n, std::uint8_t* symbols) {
  // Copies that nobody else can see: as far as a compiler knows, symbols may
  // lie anywhere.
  const std::uint32_t* const table = table_.data();
  const std::uint8_t* next = next_;
  States states = states_;
  std::int64_t i = 0;
  for (; n - i >= kLanes && end_ - next >= kWordBytes * kLanes; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      std::uint32_t& x = states[static_cast<std::size_t>(lane)];
      symbols[i + lane] = Take(table, &x);
      std::uint16_t word;
      std::memcpy(&word, next, sizeof(word));
      const std::uint32_t is_short = x < kLowest ? 1 : 0;
      x = x << (is_short * kWordBits) | (word & (0 - is_short));
      next += kWordBytes * is_short;
    }
  }
  for (; i < n; ++i) {
    std::uint32_t& x = states[static_cast<std::size_t>(i % kLanes)];
    symbols[i] = Take(table, &x);
    if (x >= kLowest) continue;
    if (next == end_) return false;
    x = x << kWordBits | static_cast<std::uint32_t>(next[0] | next[1] << 8);
    next += kWordBytes;
  }
  next_ = next;
  states_ = states;
  return true;
}

bool Decoder::Decode(std::int64_t n, std::uint8_t* symbols) {
  if (lanes_ != kMostLanes) return DecodeIn<4>(n, symbols);
#if FEDPLUG_SIMD_X86
  if (level_ == SimdLevel::kAvx512) {
    const std::int64_t done = DecodeGroupsAvx512(
        table_.data(), n, end_, states_.data(), &next_, symbols);
    n -= done;
    symbols += done;
  }
#endif
  static_cast<void>(level_);
  return DecodeIn<kMostLanes>(n, symbols);
}

bool Decoder::IsAtEnd() const {
  return next_ == end_ &&
         std::all_of(states_.begin(), states_.begin() + lanes_,
                     [](std::uint32_t state) { return state == kLowest; });
}

}  // namespace fedplug::rans
