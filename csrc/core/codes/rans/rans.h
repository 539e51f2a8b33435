// The inner loops of rans::Encoder and rans::Decoder over registers of lanes.
#ifndef FEDPLUG_CORE_CODES_RANS_RANS_H_
#define FEDPLUG_CORE_CODES_RANS_RANS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/simd/level.h"

namespace fedplug::rans {

// For every symbol, frequency - 1 (12 bits) and start (12 bits), the sum of the
// frequencies before it.
struct EncoderTable {
  std::array<std::uint32_t, 256> entries;
  int largest;  // of the symbols that have a frequency
};

// Encodes the last groups of kMostLanes symbols while there is room for their
// words, and returns the number of symbols.
//
// REQUIRES: n is a multiple of kMostLanes
// SHAPE:    symbols[n], states[kMostLanes]; *next is moved down, and not below
//           begin
// THREADS:  the caller's only
// COST:     a quotient of floats, and a product of integers, for each symbol
using EncodeLoop = std::int64_t(const EncoderTable& table,
                                const std::uint8_t* symbols, std::int64_t n,
                                const std::uint16_t* begin,
                                std::uint32_t* states, std::uint16_t** next);

// The loop of rans_vector.cc. REQUIRES: IsSupported(kLevel)
template <SimdLevel kLevel>
EncodeLoop* VectorEncodeLoop();

// Decodes groups of kMostLanes symbols while there are enough words, and
// returns the number of symbols.
//
// REQUIRES: IsSupported(SimdLevel::kAvx512), `table` is that of Decoder
// SHAPE:    table[kScale], states[kMostLanes], symbols[n]; *next is moved on,
//           and not beyond end
// THREADS:  the caller's only
// COST:     two looks into the table of 16 lanes each per group
std::int64_t DecodeGroupsAvx512(const std::uint32_t* table, std::int64_t n,
                                const std::uint8_t* end, std::uint32_t* states,
                                const std::uint8_t** next,
                                std::uint8_t* symbols);

// Interleaved rANS: symbols of one byte to words of 16 bits and back, for given
// frequencies. The layout in which states and words travel is described in
// docs/wire-format.md.
//
// Sources: Duda, "Asymmetric numeral systems", 2013 (arXiv:1311.2540);
// interleaving: Giesen, "Interleaved entropy coders", 2014 (arXiv:1402.3392).

// Frequencies are in units of 1 / kScale, with kScale = 2^kScaleBits.
inline constexpr int kScaleBits = 12;
inline constexpr std::uint32_t kScale = 1u << kScaleBits;

// A state is in [kLowest, 2^32), and kLowest when nothing was encoded yet.
inline constexpr std::uint32_t kLowest = 1u << 16;

inline constexpr int kMostLanes = 32;

// The frequency of every symbol. Their sum is kScale.
using Frequencies = std::array<std::uint32_t, 256>;

// State i has the symbols i, i + lanes, i + 2 lanes and so on.
using States = std::array<std::uint32_t, kMostLanes>;

// The last symbols are encoded first.
class Encoder {
 public:
  // REQUIRES: IsSupported(level), lanes is 4 or 32, words[capacity] outlives
  //           the encoder
  Encoder(const Frequencies& frequencies, int lanes, SimdLevel level,
          std::uint16_t* words, std::int64_t capacity);

  // Encodes the n symbols before those already encoded. False if the words no
  // longer fit. The encoder is then unusable.
  //
  // REQUIRES: no symbol has frequency 0, n is a multiple of the lanes in every
  //           call but the first
  // COST:     of few lanes one product of 64 bits per symbol. Else see
  //           EncodeLoop
  bool Encode(const std::uint8_t* symbols, std::int64_t n);

  const States& states() const { return states_; }

  // The words written: the last ones of words[capacity].
  std::int64_t word_count() const { return end_ - next_; }
  const std::uint16_t* words() const { return next_; }

 private:
  template <int kLanes>
  bool EncodeIn(const std::uint8_t* symbols, std::int64_t n);

  // x / frequency is (x * reciprocal) >> 44 for every x < frequency * 2^20.
  struct Step {
    std::uint64_t reciprocal;
    std::uint64_t limit;  // from which on a word must leave the state before
    std::uint32_t rest;   // kScale - frequency
    std::uint32_t start;
  };

  std::array<Step, 256> steps_;
  EncoderTable table_;
  EncodeLoop* groups_;  // nothing where there are too few lanes
  States states_;
  int lanes_;
  std::uint16_t* begin_;
  std::uint16_t* next_;
  const std::uint16_t* end_;
};

class Decoder {
 public:
  // The words are little-endian, at any address, and untrusted. So are the
  // states, which must be kLowest or above.
  //
  // REQUIRES: IsSupported(level), lanes is 4 or 32, words[2 * count] outlives
  //           the decoder
  Decoder(const Frequencies& frequencies, int lanes, SimdLevel level,
          const States& states, const std::uint8_t* words, std::int64_t count);

  // Decodes the next n symbols. False if there are not enough words.
  //
  // REQUIRES: n is a multiple of the lanes in every call but the last
  // COST:     one look into a table of 16 KB per symbol
  bool Decode(std::int64_t n, std::uint8_t* symbols);

  // Whether all words were used and every state has its initial value: the end
  // of an encoder's output.
  bool IsAtEnd() const;

 private:
  template <int kLanes>
  bool DecodeIn(std::int64_t n, std::uint8_t* symbols);

  // One entry for every residue of a state: frequency - 1 (12 bits), place
  // among those of the symbol (12 bits), symbol (8 bits).
  std::vector<std::uint32_t> table_;
  States states_;
  int lanes_;
  SimdLevel level_;
  const std::uint8_t* next_;
  const std::uint8_t* end_;
};

}  // namespace fedplug::rans

#endif  // FEDPLUG_CORE_CODES_RANS_RANS_H_
