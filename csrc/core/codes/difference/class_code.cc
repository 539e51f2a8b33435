// Codes the ranks and the steps of a class of exponents.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/base/bytes.h"
#include "core/codes/difference/parts.h"
#include "core/codes/difference/steps.h"
#include "core/codes/indices/bits.h"
#include "core/index_code.h"
#include "core/symbol_code.h"

namespace fedplug::differences {
namespace {

// The form of ranks whose gaps are coded. Every other number is the width of
// the symbols into which a bitmap is cut.
constexpr std::uint8_t kGaps = 0;

// Up to here a bit for every member is worse than gaps, and slower.
constexpr std::int64_t kSparse = 16;

// From here on the table of the frequencies of bytes is short in comparison.
constexpr std::int64_t kManyMembers = 1 << 17;

std::int64_t SymbolsInBitmap(std::int64_t members, int bits) {
  return BytesFor(members) * (8 / bits);
}

// The codes cannot refuse the inputs from this file.
void Require(const Status& status) { static_cast<void>(status); }

}  // namespace

void AppendRanks(const std::int32_t* ranks, std::int64_t count,
                 std::int64_t members, ByteVector* code) {
  if (count == 0 || count == members) return;
  ByteVector part;
  if (count * kSparse < members) {
    code->push_back(kGaps);
    Require(EncodeIndices(ranks, count, members, IndexForm::kRice, &part));
  } else {
    const int bits = members < kManyMembers ? 4 : 8;
    code->push_back(static_cast<std::uint8_t>(bits));
    ByteVector bitmap(static_cast<std::size_t>(BytesFor(members)));
    for (std::int64_t i = 0; i < count; ++i) {
      index_codes::SetBit(bitmap.data(), ranks[i]);
    }
    Require(EncodeSymbols(bitmap.data(),
                          static_cast<std::int64_t>(bitmap.size()),
                          SymbolsInBitmap(members, bits), bits, &part));
  }
  AppendPart(part, code);
}

Status ReadRanks(PartReader* code, std::int64_t count, std::int64_t members,
                 std::int32_t* ranks) {
  if (count == 0) return {};
  if (count == members) {
    std::iota(ranks, ranks + count, 0);
    return {};
  }
  std::uint8_t form;
  Part part;
  if (!code->Byte(&form) || !code->Next(&part)) {
    return Corrupt("it ends in the places of a class");
  }
  if (form == kGaps) {
    return DecodeIndices(part.data, part.bytes, count, members,
                         IndexForm::kRice, ranks);
  }
  if (form != 4 && form != 8) return Corrupt("places are of an unknown form");
  ByteVector bitmap(static_cast<std::size_t>(BytesFor(members)));
  const Status status =
      DecodeSymbols(part.data, part.bytes, SymbolsInBitmap(members, form), form,
                    bitmap.data());
  if (!status.ok()) return status;
  const auto bytes = static_cast<std::int64_t>(bitmap.size());
  index_codes::OnesReader ones(bitmap.data(), bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t rank = ones.Next();
    if (rank >= members) return Corrupt("a class has too few places");
    ranks[i] = static_cast<std::int32_t>(rank);
  }
  if (ones.Next() < 8 * bytes) return Corrupt("a class has too many places");
  return {};
}

template <typename Word>
void AppendSteps(const Word* steps, std::int64_t count, ByteVector* code) {
  ByteVector symbols(static_cast<std::size_t>(count));
  ByteVector low(static_cast<std::size_t>(count) * sizeof(Word));
  index_codes::NumberWriter lows(low.data());
  std::uint32_t largest = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const CodedStep step = CodeStep(steps[i]);
    symbols[static_cast<std::size_t>(i)] = step.symbol;
    largest = std::max<std::uint32_t>(largest, step.symbol);
    if (step.width > 0) lows.WriteLong(step.low, step.width);
  }
  low.resize(static_cast<std::size_t>(lows.Finish() - low.data()));
  const int bits = 32 - __builtin_clz(largest);
  ByteVector packed(static_cast<std::size_t>(PackedSymbolBytes(count, bits)));
  index_codes::NumberWriter numbers(packed.data());
  for (const std::uint8_t symbol : symbols) numbers.Write(symbol, bits);
  numbers.Finish();
  ByteVector part;
  Require(EncodeSymbols(packed.data(), static_cast<std::int64_t>(packed.size()),
                        count, bits, &part));
  code->push_back(static_cast<std::uint8_t>(bits));
  AppendPart(part, code);
  AppendPart(low, code);
}

template <typename Word>
Status ReadSteps(PartReader* code, std::int64_t count, Word* steps) {
  std::uint8_t bits;
  Part coded;
  Part low;
  if (!code->Byte(&bits) || !code->Next(&coded) || !code->Next(&low)) {
    return Corrupt("it ends in the steps of a class");
  }
  if (bits < 1 || bits > 8) return Corrupt("steps are of an unknown form");
  ByteVector packed(static_cast<std::size_t>(PackedSymbolBytes(count, bits)));
  const Status status =
      DecodeSymbols(coded.data, coded.bytes, count, bits, packed.data());
  if (!status.ok()) return status;
  index_codes::NumberReader numbers(packed.data(),
                                    static_cast<std::int64_t>(packed.size()));
  index_codes::NumberReader lows(low.data, low.bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t symbol = numbers.Read(bits);
    if (symbol >= kSymbolEnd<Word>) return Corrupt("no step has this symbol");
    const int width = kSteps<Word>.width[symbol];
    Word step = kSteps<Word>.base[symbol];
    if (width > 0) step = static_cast<Word>(step | lows.ReadLong(width));
    steps[i] = (symbol & 1) != 0 ? static_cast<Word>(Word{0} - step) : step;
  }
  if (!lows.IsAtEnd()) return Corrupt("low bits do not end with the steps");
  return {};
}

template void AppendSteps(const std::uint8_t*, std::int64_t, ByteVector*);
template void AppendSteps(const std::uint16_t*, std::int64_t, ByteVector*);
template void AppendSteps(const std::uint32_t*, std::int64_t, ByteVector*);
template void AppendSteps(const std::uint64_t*, std::int64_t, ByteVector*);
template Status ReadSteps(PartReader*, std::int64_t, std::uint8_t*);
template Status ReadSteps(PartReader*, std::int64_t, std::uint16_t*);
template Status ReadSteps(PartReader*, std::int64_t, std::uint32_t*);
template Status ReadSteps(PartReader*, std::int64_t, std::uint64_t*);

}  // namespace fedplug::differences
