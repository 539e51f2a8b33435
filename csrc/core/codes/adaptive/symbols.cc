#include "core/codes/adaptive/symbols.h"

#include <string>

#include "core/base/bytes_for.h"
#include "core/codes/adaptive/bits.h"
#include "core/codes/adaptive/symbol_model.h"
#include "core/codes/symbols/corrupt.h"

namespace fedplug {
namespace {

// Symbols of one state, which limits the recorded bits.
constexpr std::int64_t kBlock = 1 << 16;
static_assert(kBlock % value_loops::kChunk == 0);

constexpr std::int64_t kHeaderBytes = 1 + adaptive_bits::kStateBytes;

// A bounded number of symbols: every bit takes its share of a state.
constexpr std::int64_t kMostSymbolsPerByte = 2048;

// In [-2^(bits-1), 2^(bits-1)).
int DistanceOf(int symbol, int centre, int bits) {
  const int half = 1 << (bits - 1);
  return ((symbol - centre + half) & (2 * half - 1)) - half;
}

int ClassOf(int distance) {
  if (distance == 0) return 0;
  const int size = distance < 0 ? -distance : distance;
  return 32 - __builtin_clz(static_cast<unsigned>(size));
}

int CentreOf(const SymbolCounts& counts, int bits) {
  const int symbols = 1 << bits;
  std::array<std::int64_t, 256> classes;  // by the difference modulo 2^bits
  for (int difference = 0; difference < symbols; ++difference) {
    classes[static_cast<std::size_t>(difference)] =
        ClassOf(DistanceOf(difference, 0, bits));
  }
  int best = 0;
  std::int64_t least = INT64_MAX;
  for (int centre = 0; centre < symbols; ++centre) {
    std::int64_t sum = 0;
    for (int symbol = 0; symbol < symbols; ++symbol) {
      sum +=
          counts[static_cast<std::size_t>(symbol)] *
          classes[static_cast<std::size_t>((symbol - centre) & (symbols - 1))];
    }
    if (sum >= least) continue;
    least = sum;
    best = centre;
  }
  return best;
}

// Codes distances one after the other, and learns from them.
class DistanceCoder {
 public:
  explicit DistanceCoder(int bits) : bits_(bits) {}

  // Returns the distance, which a reader ignores.
  template <typename Coder>
  int Code(int distance, Coder* coder) {
    const int wanted = ClassOf(distance);
    const int size = distance < 0 ? -distance : distance;
    int e = 0;
    while (e < bits_ &&
           coder->Bit(&model_, SymbolModel::AboveOf(before_ + last_, e),
                      wanted > e ? 1 : 0) != 0) {
      ++e;
    }
    before_ = last_;
    last_ = e;
    if (e == 0) return 0;
    if (e == bits_) return -(1 << (bits_ - 1));
    const int negative =
        coder->Bit(&model_, SymbolModel::SignOf(e), distance < 0 ? 1 : 0);
    const int read = 1 << (e - 1) | Rest(e, size, coder);
    return negative != 0 ? -read : read;
  }

 private:
  // The bits after the first of the e bits of `size`.
  template <typename Coder>
  int Rest(int e, int size, Coder* coder) {
    int left = e - 1;
    if (left == 0) return 0;
    const int half =
        coder->Bit(&model_, SymbolModel::HalfOf(e), size >> --left & 1);
    if (left == 0) return half;
    const int quarter = coder->Bit(&model_, SymbolModel::QuarterOf(e, half),
                                   size >> --left & 1);
    const int read = 2 * half + quarter;
    if (left == 0) return read;
    const int mask = (1 << left) - 1;
    return read << left | static_cast<int>(coder->Raw(
                              left, static_cast<std::uint32_t>(size & mask)));
  }

  int bits_;
  int last_ = 0;
  int before_ = 0;
  SymbolModel model_;
};

bool EndsBlock(std::int64_t chunk, const SymbolChunks& chunks) {
  return (chunk + 1) * value_loops::kChunk % kBlock == 0 ||
         chunk + 1 == chunks.size();
}

}  // namespace

bool EncodeAdaptively(const std::uint8_t* packed, std::int64_t count, int bits,
                      const SymbolCounts& counts, SymbolChunks* chunks,
                      std::vector<std::uint8_t>* code) {
  const auto packed_bytes = static_cast<std::size_t>(BytesFor(count * bits));
  const int centre = CentreOf(counts, bits);
  code->push_back(static_cast<std::uint8_t>(centre));
  DistanceCoder distances(bits);
  adaptive_bits::Writer writer;
  for (std::int64_t c = 0; c < chunks->size(); ++c) {
    const std::uint8_t* const symbols = chunks->Unpack(packed, c);
    for (std::int64_t i = 0; i < chunks->SymbolsIn(c); ++i) {
      distances.Code(DistanceOf(symbols[i], centre, bits), &writer);
    }
    if (!EndsBlock(c, *chunks)) continue;
    writer.AppendTo(code);
    if (code->size() >= packed_bytes) return false;
  }
  return code->size() < packed_bytes;
}

Status CheckAdaptiveCode(std::int64_t bytes, std::int64_t count, int bits) {
  const std::int64_t packed_bytes = BytesFor(count * bits);
  if (bytes == packed_bytes) return {};
  if (bytes > packed_bytes || bytes < kHeaderBytes ||
      count > bytes * kMostSymbolsPerByte) {
    return CorruptSymbols(std::to_string(bytes) +
                          " bytes cannot be a code of " +
                          std::to_string(count) + " symbols");
  }
  return {};
}

Status DecodeAdaptively(const std::uint8_t* code, std::int64_t bytes, int bits,
                        SymbolChunks* chunks, std::uint8_t* packed) {
  const int centre = code[0];
  const int mask = (1 << bits) - 1;
  if (centre > mask) return CorruptSymbols("its centre is no symbol");
  DistanceCoder distances(bits);
  adaptive_bits::Reader reader(code + 1, bytes - 1);
  bool is_new = true;
  for (std::int64_t c = 0; c < chunks->size(); ++c) {
    if (is_new && !reader.Begin())
      return CorruptSymbols("a state is below 2^16");
    std::uint8_t* const symbols = chunks->Symbols(packed, c);
    for (std::int64_t i = 0; i < chunks->SymbolsIn(c); ++i) {
      symbols[i] = static_cast<std::uint8_t>(
          (centre + distances.Code(0, &reader)) & mask);
    }
    if (reader.Missed()) return CorruptSymbols("it ends before its symbols");
    chunks->Pack(c, packed);
    is_new = EndsBlock(c, *chunks);
    if (is_new && !reader.IsBack()) {
      return CorruptSymbols("a state does not end with its symbols");
    }
  }
  if (!reader.IsAtEnd())
    return CorruptSymbols("it does not end with its symbols");
  return {};
}

}  // namespace fedplug
