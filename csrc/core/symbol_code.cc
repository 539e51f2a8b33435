// The layout is in the header. Symbols are unpacked and packed a chunk at a
// time. The encoder, which begins at the end, takes the chunks backwards.
#include "core/symbol_code.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/bytes.h"
#include "core/base/scratch.h"
#include "core/codes/rans/rans.h"
#include "core/codes/rans/symbol_frequencies.h"
#include "core/codes/values/layout.h"
#include "core/simd/level.h"

namespace fedplug {
namespace {

using value_loops::kChunk;

// Packed symbols as bytes, one chunk at a time.
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
    if (bits_ == 8) return packed + c * value_loops::kChunk;
    UnpackChunk(loops_, packed + BytesBefore(c), SymbolsIn(c), bits_,
                &symbols_);
    return symbols_.data();
  }

  // The place for the symbols of chunk c before they are packed.
  std::uint8_t* Symbols(std::uint8_t* packed, std::int64_t c) {
    return bits_ == 8 ? packed + c * value_loops::kChunk : symbols_.data();
  }

  void Pack(std::int64_t c, std::uint8_t* packed) {
    if (bits_ == 8) return;
    PackChunk(loops_, SymbolsIn(c), bits_, &symbols_, packed + BytesBefore(c));
  }

 private:
  std::int64_t BytesBefore(std::int64_t c) const {
    return c * value_loops::kChunk / 8 * bits_;
  }

  value_loops::BitLoops loops_;
  std::int64_t count_;
  int bits_;
  LevelChunk symbols_{};
};

// A multiple of the lanes, and of the eight symbols that are packed together.
static_assert(kChunk % rans::kMostLanes == 0 && kChunk % 8 == 0);

constexpr std::int64_t kManySymbols = 1 << 16;
constexpr std::int64_t kStateBytes = 4;
constexpr std::int64_t kWordBytes = 2;

Status CorruptSymbols(const std::string& what) {
  return {StatusCode::kDataLoss, "symbol code: " + what};
}

int LanesFor(std::int64_t count) {
  return count < kManySymbols ? 4 : rans::kMostLanes;
}

std::int64_t WordsAt(std::int64_t table_bytes, std::int64_t count) {
  return 1 + table_bytes + kStateBytes * LanesFor(count);
}

// Whether a bit after the last symbol is set.
bool HasBitsLeftOver(const std::uint8_t* packed, std::int64_t count, int bits) {
  const std::int64_t used = count * bits;
  return used % 8 != 0 && packed[used / 8] >> (used % 8) != 0;
}

// Symbols that were sent uncoded.
Status CopyPacked(const std::uint8_t* code, std::int64_t count, int bits,
                  std::uint8_t* packed) {
  if (HasBitsLeftOver(code, count, bits)) {
    return CorruptSymbols("bits are set after its last symbol");
  }
  std::copy_n(code, PackedSymbolBytes(count, bits), packed);
  return {};
}

// Counts bytes in several tables, because equal bytes in a row would wait for
// each other in one.
class ByteCounts {
 public:
  void Add(const std::uint8_t* bytes, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      for (std::size_t j = 0; j < 4; ++j) {
        ++tables_[j][bytes[i + static_cast<std::int64_t>(j)]];
      }
    }
    for (; i < n; ++i) ++tables_[0][bytes[i]];
  }

  SymbolCounts Sums() const {
    SymbolCounts sums = tables_[0];
    for (std::size_t j = 1; j < tables_.size(); ++j) {
      for (std::size_t s = 0; s < sums.size(); ++s) sums[s] += tables_[j][s];
    }
    return sums;
  }

 private:
  std::array<SymbolCounts, 4> tables_{};
};

// The counts of symbols from the counts of bytes, each of which holds 8 / bits
// symbols.
SymbolCounts CountsInBytes(const SymbolCounts& bytes, int bits) {
  SymbolCounts counts{};
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
    for (int bit = 0; bit < 8; bit += bits) {
      counts[byte >> bit & ((1u << bits) - 1)] += bytes[byte];
    }
  }
  return counts;
}

SymbolCounts Count(const std::uint8_t* packed, std::int64_t count, int bits,
                   SymbolChunks* chunks) {
  ByteCounts counts;
  if (8 % bits == 0) {
    counts.Add(packed, PackedSymbolBytes(count, bits));
    SymbolCounts symbols = CountsInBytes(counts.Sums(), bits);
    // Removes the padding of the last byte from the counts.
    symbols[0] -= PackedSymbolBytes(count, bits) * (8 / bits) - count;
    return symbols;
  }
  for (std::int64_t c = 0; c < chunks->size(); ++c) {
    const std::uint8_t* const symbols = chunks->Unpack(packed, c);
    counts.Add(symbols, chunks->SymbolsIn(c));
  }
  return counts.Sums();
}

// Writes `head`, the states and the words. Writes nothing and returns false if
// that takes `limit` bytes or more.
bool WriteEncoded(const std::vector<std::uint8_t>& head,
                  const std::uint8_t* packed, std::int64_t count,
                  const rans::Frequencies& frequencies, SimdLevel level,
                  std::int64_t limit, SymbolChunks* chunks,
                  const CodePlace& place) {
  const int lanes = LanesFor(count);
  const std::int64_t room = limit / kWordBytes + lanes + 1;
  ScratchLease scratch;
  rans::Encoder encoder(frequencies, lanes, level,
                        scratch->values.Reserve<std::uint16_t>(room), room);
  for (std::int64_t c = chunks->size() - 1; c >= 0; --c) {
    const std::uint8_t* const symbols = chunks->Unpack(packed, c);
    if (!encoder.Encode(symbols, chunks->SymbolsIn(c))) return false;
  }
  const std::int64_t state_bytes = kStateBytes * lanes;
  const std::int64_t word_bytes = kWordBytes * encoder.word_count();
  const std::int64_t bytes =
      static_cast<std::int64_t>(head.size()) + state_bytes + word_bytes;
  if (bytes >= limit) return false;
  std::uint8_t* code = place(bytes);
  if (code == nullptr) return true;
  code = std::copy(head.begin(), head.end(), code);
  std::memcpy(code, encoder.states().data(),
              static_cast<std::size_t>(state_bytes));
  std::memcpy(code + state_bytes, encoder.words(),
              static_cast<std::size_t>(word_bytes));
  return true;
}

}  // namespace

Status CheckSymbols(std::int64_t count, std::int64_t bits) {
  if (bits < 1 || bits > 8) {
    return {StatusCode::kInvalidArgument,
            "bits = " + std::to_string(bits) + " is not in [1, 8]"};
  }
  return CheckInt32("count", count);
}

std::int64_t PackedSymbolBytes(std::int64_t count, int bits) {
  return BytesFor(count * bits);
}

Status PackSymbols(const std::uint8_t* symbols, std::int64_t count, int bits,
                   std::uint8_t* packed) {
  if (Status status = CheckSymbols(count, bits); !status.ok()) return status;
  std::uint8_t used = 0;
  for (std::int64_t i = 0; i < count; ++i) used |= symbols[i];
  if (used >> bits != 0) {
    return {StatusCode::kInvalidArgument,
            "a symbol has more than " + std::to_string(bits) + " bits"};
  }
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  SymbolChunks chunks(level, count, bits);
  for (std::int64_t c = 0; c < chunks.size(); ++c) {
    std::copy_n(symbols + c * kChunk, chunks.SymbolsIn(c),
                chunks.Symbols(packed, c));
    chunks.Pack(c, packed);
  }
  return {};
}

Status UnpackSymbols(const std::uint8_t* packed, std::int64_t count, int bits,
                     std::uint8_t* symbols) {
  if (Status status = CheckSymbols(count, bits); !status.ok()) return status;
  if (HasBitsLeftOver(packed, count, bits)) {
    return {StatusCode::kDataLoss,
            "packed symbols: bits are set after the last symbol"};
  }
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  SymbolChunks chunks(level, count, bits);
  for (std::int64_t c = 0; c < chunks.size(); ++c) {
    std::copy_n(chunks.Unpack(packed, c), chunks.SymbolsIn(c),
                symbols + c * kChunk);
  }
  return {};
}

Status EncodeSymbols(const std::uint8_t* packed, std::int64_t bytes,
                     std::int64_t count, int bits, const CodePlace& place) {
  if (Status status = CheckSymbols(count, bits); !status.ok()) return status;
  if (bytes != PackedSymbolBytes(count, bits)) {
    return {StatusCode::kInvalidArgument,
            std::to_string(count) + " packed symbols of " +
                std::to_string(bits) + " bits take " +
                std::to_string(PackedSymbolBytes(count, bits)) +
                " bytes, not " + std::to_string(bytes)};
  }
  if (HasBitsLeftOver(packed, count, bits)) {
    return {StatusCode::kInvalidArgument, "bits are set after the last symbol"};
  }
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;

  if (count > 0) {
    SymbolChunks chunks(level, count, bits);
    const auto frequencies = FrequenciesOf(Count(packed, count, bits, &chunks));
    const auto table = FrequenciesToBytes(frequencies, bits);
    std::vector<std::uint8_t> head{static_cast<std::uint8_t>(table.size())};
    head.insert(head.end(), table.begin(), table.end());
    if (WriteEncoded(head, packed, count, frequencies, level, 1 + bytes,
                     &chunks, place)) {
      return {};
    }
  }
  if (std::uint8_t* const code = place(1 + bytes); code != nullptr) {
    code[0] = 0;
    std::copy_n(packed, bytes, code + 1);
  }
  return {};
}

Status EncodeSymbols(const std::uint8_t* packed, std::int64_t bytes,
                     std::int64_t count, int bits,
                     std::vector<std::uint8_t>* code) {
  return EncodeSymbols(packed, bytes, count, bits, [code](std::int64_t length) {
    code->resize(static_cast<std::size_t>(length));
    return code->data();
  });
}

Status CheckSymbolCode(const std::uint8_t* code, std::int64_t bytes,
                       std::int64_t count, std::int64_t bits) {
  if (Status status = CheckSymbols(count, bits); !status.ok()) return status;
  if (bytes < 1) return CorruptSymbols("it is empty");
  const std::int64_t packed_bytes =
      PackedSymbolBytes(count, static_cast<int>(bits));
  if (code[0] == 0 && bytes != 1 + packed_bytes) {
    return CorruptSymbols(std::to_string(count) + " symbols take " +
                          std::to_string(packed_bytes) +
                          " bytes when packed, not " +
                          std::to_string(bytes - 1));
  }
  if (code[0] != 0) {
    const std::int64_t words_at = WordsAt(code[0], count);
    if (count == 0 || bytes < words_at ||
        (bytes - words_at) % kWordBytes != 0) {
      return CorruptSymbols(
          std::to_string(bytes) +
          " bytes are not frequencies, states and words for " +
          std::to_string(count) + " symbols");
    }
  }
  return {};
}

Status DecodeSymbols(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, int bits, std::uint8_t* packed) {
  if (Status status = CheckSymbolCode(code, bytes, count, bits); !status.ok()) {
    return status;
  }
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const std::int64_t table_bytes = code[0];
  if (table_bytes == 0) return CopyPacked(code + 1, count, bits, packed);

  rans::Frequencies frequencies;
  if (Status status =
          FrequenciesFromBytes(code + 1, table_bytes, bits, &frequencies);
      !status.ok()) {
    return status;
  }
  const int lanes = LanesFor(count);
  rans::States states{};
  std::memcpy(states.data(), code + 1 + table_bytes,
              static_cast<std::size_t>(kStateBytes * lanes));
  if (std::any_of(states.begin(), states.begin() + lanes,
                  [](std::uint32_t state) { return state < rans::kLowest; })) {
    return CorruptSymbols("a state is below 2^16");
  }
  const std::int64_t words_at = WordsAt(table_bytes, count);
  rans::Decoder decoder(frequencies, lanes, level, states, code + words_at,
                        (bytes - words_at) / kWordBytes);
  SymbolChunks chunks(level, count, bits);
  for (std::int64_t c = 0; c < chunks.size(); ++c) {
    if (!decoder.Decode(chunks.SymbolsIn(c), chunks.Symbols(packed, c))) {
      return CorruptSymbols("its words end before its symbols");
    }
    chunks.Pack(c, packed);
  }
  if (!decoder.IsAtEnd())
    return CorruptSymbols("it does not end with its symbols");
  return {};
}

}  // namespace fedplug
