// Codes whole arrays by planes: byte i of every word, one plane after the other.
#include <cstddef>

#include "core/codes/difference/parts.h"
#include "core/symbol_code.h"

namespace fedplug::differences {
namespace {

template <typename Word>
Word Rotated(Word word, int left) {
  return static_cast<Word>(word << left | word >> (kWordBits<Word> - left));
}

}  // namespace

template <typename Word>
ByteVector EncodePlanes(const std::uint8_t* words, std::int64_t n,
                        bool rotated) {
  ByteVector code;
  ByteVector plane(static_cast<std::size_t>(n));
  ByteVector part;
  for (int shift = 0; shift < kWordBits<Word>; shift += 8) {
    for (std::int64_t i = 0; i < n; ++i) {
      const Word word = LoadWordAt<Word>(words, i);
      plane[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(
          (rotated ? Rotated(word, 1) : word) >> shift);
    }
    const Status status = EncodeSymbols(plane.data(), n, n, 8, &part);
    static_cast<void>(status);  // these are n symbols
    AppendPart(part, &code);
  }
  return code;
}

template <typename Word>
Status DecodePlanes(Part code, std::int64_t n, bool rotated,
                    std::uint8_t* words) {
  PartReader reader(code);
  ByteVector plane(static_cast<std::size_t>(n));
  for (int shift = 0; shift < kWordBits<Word>; shift += 8) {
    Part part;
    if (!reader.Next(&part)) return Corrupt("it ends before its planes");
    const Status status =
        DecodeSymbols(part.data, part.bytes, n, 8, plane.data());
    if (!status.ok()) return status;
    for (std::int64_t i = 0; i < n; ++i) {
      const Word byte = plane[static_cast<std::size_t>(i)];
      const Word lower = shift == 0 ? Word{0} : LoadWordAt<Word>(words, i);
      StoreWordAt(words, i, static_cast<Word>(lower | byte << shift));
    }
  }
  if (!reader.IsAtEnd()) return Corrupt("bytes follow its planes");
  if (!rotated) return {};
  for (std::int64_t i = 0; i < n; ++i) {
    StoreWordAt(words, i,
                Rotated(LoadWordAt<Word>(words, i), kWordBits<Word> - 1));
  }
  return {};
}

#define FEDPLUG_INSTANTIATE(Word)                                           \
  template ByteVector EncodePlanes<Word>(const std::uint8_t*, std::int64_t, \
                                         bool);                             \
  template Status DecodePlanes<Word>(Part, std::int64_t, bool, std::uint8_t*)
FEDPLUG_INSTANTIATE(std::uint8_t);
FEDPLUG_INSTANTIATE(std::uint16_t);
FEDPLUG_INSTANTIATE(std::uint32_t);
FEDPLUG_INSTANTIATE(std::uint64_t);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::differences
