// Elements as unsigned words, at any address.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_WORDS_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

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

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_WORDS_H_
