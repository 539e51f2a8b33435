// The lanes are independent, so that a processor works on several symbols at
// once. Words move without branches, which would be unpredictable.
#include "core/codes/rans/rans.h"

#include <algorithm>
#include <cstring>

#include "core/base/floats.h"

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

// Decodes the last symbol of a state, without restoring the word that left the
// state before it.
FEDPLUG_ALWAYS_INLINE std::uint8_t Take(const std::uint32_t* table,
                                        std::uint32_t* state) {
  const std::uint32_t entry = table[*state % kScale];
  const std::uint32_t frequency = (entry >> (8 + kScaleBits)) + 1;
  *state = frequency * (*state >> kScaleBits) + (entry >> 8) % kScale;
  return static_cast<std::uint8_t>(entry);
}

// The loop that encodes many lanes at `level`. Null if they are encoded one by
// one.
EncodeLoop* EncodeLoopFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level == SimdLevel::kAvx512)
    return VectorEncodeLoop<SimdLevel::kAvx512>();
  if (level == SimdLevel::kAvx2) return VectorEncodeLoop<SimdLevel::kAvx2>();
#elif FEDPLUG_SIMD_NEON
  if (level == SimdLevel::kNeon) return VectorEncodeLoop<SimdLevel::kNeon>();
#endif
  static_cast<void>(level);
  return nullptr;
}

}  // namespace

Encoder::Encoder(const Frequencies& frequencies, int lanes, SimdLevel level,
                 std::uint16_t* words, std::int64_t capacity)
    : steps_{},
      table_{},
      groups_(lanes == kMostLanes ? EncodeLoopFor(level) : nullptr),
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
    // x / 2^44, which is less than 1 / f, and x m < 2^64.
    steps_[symbol] = {(std::uint64_t{1} << kReciprocalBits) / frequency + 1,
                      LimitOf(frequency), kScale - frequency, start};
    table_.entries[symbol] = (frequency - 1) | start << kScaleBits;
    table_.largest = static_cast<int>(symbol);
    start += frequency;
  }
}

template <int kLanes>
bool Encoder::EncodeIn(const std::uint8_t* symbols, std::int64_t n) {
  // Local copies, because the compiler must assume that the words alias.
  States states = states_;
  std::uint16_t* next = next_;
  for (std::int64_t i = n; i > 0;) {
    // A word is written before it is known whether it stays, so one extra place
    // must be free.
    if (next - begin_ <= kLanes) return false;
    const int group = i % kLanes == 0 ? kLanes : static_cast<int>(i % kLanes);
    i -= group;
    for (int lane = group - 1; lane >= 0; --lane) {
      std::uint32_t& state = states[static_cast<std::size_t>(lane)];
      const Step& step = steps_[symbols[i + lane]];
      const int full = state >= step.limit;
      next[-1] = static_cast<std::uint16_t>(state);
      next -= full;
      const std::uint32_t x = state >> (full * kWordBits);
      const auto quotient =
          static_cast<std::uint32_t>((x * step.reciprocal) >> kReciprocalBits);
      state = x + quotient * step.rest + step.start;
    }
  }
  states_ = states;
  next_ = next;
  return true;
}

bool Encoder::Encode(const std::uint8_t* symbols, std::int64_t n) {
  if (lanes_ != kMostLanes) return EncodeIn<4>(symbols, n);
  if (groups_ != nullptr) {
    const std::int64_t last = n % kMostLanes;
    if (!EncodeIn<kMostLanes>(symbols + n - last, last)) return false;
    n -= last;
    n -= groups_(table_, symbols, n, begin_, states_.data(), &next_);
  }
  return EncodeIn<kMostLanes>(symbols, n);
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
  // Local copies, because the compiler must assume that the symbols alias.
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
