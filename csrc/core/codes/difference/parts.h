// The parts of a difference: words and their exponents, parts as bytes, and the codes of the parts.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_PARTS_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"

namespace fedplug::differences {

template <typename Word>
inline constexpr int kWordBits = 8 * static_cast<int>(sizeof(Word));

template <typename Word>
Word LoadWordAt(const std::uint8_t* words, std::int64_t i) {
  Word word;
  std::memcpy(&word, words + i * static_cast<std::int64_t>(sizeof(Word)),
              sizeof(Word));
  return word;
}

template <typename Word>
void StoreWordAt(std::uint8_t* words, std::int64_t i, Word word) {
  std::memcpy(words + i * static_cast<std::int64_t>(sizeof(Word)), &word,
              sizeof(Word));
}

// The place of the exponent in a word, below its sign.
struct ExponentField {
  int low;     // the number of bits below it
  int values;  // how many there are; a power of two, 1 without an exponent
};

template <typename Word>
std::size_t ExponentOf(Word word, ExponentField field) {
  return static_cast<std::size_t>(word >> field.low) &
         static_cast<std::size_t>(field.values - 1);
}

// Numbers, and parts with their lengths before them, one after the other.

using ByteVector = std::vector<std::uint8_t>;

inline Status Corrupt(const std::string& what) {
  return {StatusCode::kDataLoss, "difference code: " + what};
}

inline void AppendNumber(std::int64_t number, ByteVector* code) {
  const std::size_t at = code->size();
  code->resize(at + static_cast<std::size_t>(Leb128Bytes(number)));
  PutLeb128(number, code->data() + at);
}

inline void AppendPart(const ByteVector& part, ByteVector* code) {
  AppendNumber(static_cast<std::int64_t>(part.size()), code);
  code->insert(code->end(), part.begin(), part.end());
}

struct Part {
  const std::uint8_t* data = nullptr;
  std::int64_t bytes = 0;
};

// Reads untrusted bytes from the front. Every read is false where they end.
class PartReader {
 public:
  explicit PartReader(Part code) : code_(code) {}

  bool Number(std::int64_t limit, std::int64_t* number) {
    return GetLeb128(code_.data, code_.bytes, limit, &at_, number);
  }

  bool Byte(std::uint8_t* byte) {
    if (at_ == code_.bytes) return false;
    *byte = code_.data[at_++];
    return true;
  }

  bool Next(Part* part) {
    std::int64_t bytes;
    if (!Number(code_.bytes + 1, &bytes) || bytes > code_.bytes - at_) {
      return false;
    }
    *part = {code_.data + at_, bytes};
    at_ += bytes;
    return true;
  }

  bool IsAtEnd() const { return at_ == code_.bytes; }

 private:
  const Part code_;
  std::int64_t at_ = 0;
};

// The code of one class: the ranks of its changed members, and their steps.

// Ranks ascend strictly and are below `members`. Nothing is appended for all of
// them or for none.
//
// REQUIRES: 0 <= count <= members < 2^31
// SHAPE:    ranks[count]
void AppendRanks(const std::int32_t* ranks, std::int64_t count,
                 std::int64_t members, ByteVector* code);
Status ReadRanks(PartReader* code, std::int64_t count, std::int64_t members,
                 std::int32_t* ranks);

// No step is 0.
//
// SHAPE: steps[count]
template <typename Word>
void AppendSteps(const Word* steps, std::int64_t count, ByteVector* code);
template <typename Word>
Status ReadSteps(PartReader* code, std::int64_t count, Word* steps);

// The words of a segment byte by byte, each plane in its own entropy code. The
// layout is in docs/wire-format.md.

// Word is an unsigned integer of the element's width.
//
// REQUIRES: 0 < n < 2^31
// SHAPE:    words[n * sizeof(Word)], at any address
template <typename Word>
ByteVector EncodePlanes(const std::uint8_t* words, std::int64_t n,
                        bool rotated);

// The inverse, for untrusted bytes. After a refusal (kDataLoss) `words` holds
// anything.
template <typename Word>
Status DecodePlanes(Part code, std::int64_t n, bool rotated,
                    std::uint8_t* words);

// The changed elements of a segment, by the exponents of their old words. The
// layout is in docs/wire-format.md.

// Word is an unsigned integer of the element's width.
//
// REQUIRES: 0 < n < 2^31
// SHAPE:    before[n * sizeof(Word)], after[n * sizeof(Word)], at any address
// COST:     two passes over all elements, and some work for each changed one.
//           Scratch memory of 4 + sizeof(Word) bytes for each changed one
template <typename Word>
ByteVector EncodeChanges(const std::uint8_t* before, const std::uint8_t* after,
                         std::int64_t n, ExponentField field);

// The inverse, for untrusted bytes. After a refusal (kDataLoss) `after` holds
// anything.
//
// REQUIRES, COST: as above
template <typename Word>
Status DecodeChanges(Part code, const std::uint8_t* before, std::int64_t n,
                     ExponentField field, std::uint8_t* after);

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_PARTS_H_
