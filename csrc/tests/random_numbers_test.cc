// Numbers against the function of a counter and a key that they are made of.
#include "core/random_numbers.h"

#include <cmath>

#include "core/base/philox.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

// Words 0 to 3 are draw 0, and so on: the key and the upper half of the counter
// are a draw of the seeds.
std::vector<std::uint32_t> SlowWords(std::uint64_t first, std::uint64_t second,
                                     std::int64_t count) {
  const auto half = [](std::uint64_t x, int shift) {
    return static_cast<std::uint32_t>(x >> shift);
  };
  const Philox::Words mixed = Philox::Draw(
      {half(first, 0), half(first, 32), half(second, 0), half(second, 32)},
      {0x3ec8f720u, 0x02461e29u});
  std::vector<std::uint32_t> words;
  for (std::uint64_t draw = 0; static_cast<std::int64_t>(words.size()) < count;
       ++draw) {
    for (const std::uint32_t word :
         Philox::Draw({half(draw, 0), half(draw, 32), mixed[2], mixed[3]},
                      {mixed[0], mixed[1]})) {
      words.push_back(word);
    }
  }
  words.resize(static_cast<std::size_t>(count));
  return words;
}

template <typename T>
std::vector<T> Drawn(std::uint64_t first, std::uint64_t second,
                     std::int64_t count, Parallel& parallel) {
  std::vector<T> numbers(static_cast<std::size_t>(count));
  DrawNumbers(first, second, count, parallel, numbers.data());
  return numbers;
}

TEST(DrawNumbers, AreTheWordsOfTheDrawsInTheirOrder) {
  Serial serial;
  ThreadPool three(3);
  const std::uint64_t first = 0x123456789abcdef0u;
  const std::uint64_t second = ~std::uint64_t{6};
  for (const std::int64_t count : {0, 1, 5, 511, 512, 513, 70001}) {
    for (Parallel* const threads :
         {static_cast<Parallel*>(&serial), static_cast<Parallel*>(&three)}) {
      const auto words = SlowWords(first, second, count);
      const auto pairs = SlowWords(first, second, 2 * count);
      EXPECT_EQ(Drawn<std::uint32_t>(first, second, count, *threads), words);
      std::vector<float> floats;
      std::vector<double> doubles;
      for (const std::uint32_t word : words) {
        floats.push_back(std::ldexp(static_cast<float>(word & 0x7fffffu), -23));
      }
      for (std::size_t i = 0; i < pairs.size(); i += 2) {
        const std::uint64_t bits =
            (std::uint64_t{pairs[i] & 0xfffffu} << 32) | pairs[i + 1];
        doubles.push_back(std::ldexp(static_cast<double>(bits), -52));
      }
      EXPECT_EQ(Drawn<float>(first, second, count, *threads), floats);
      EXPECT_EQ(Drawn<double>(first, second, count, *threads), doubles);
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
