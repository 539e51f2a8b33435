// AllFinite and CopyFinite against a loop over the values.
#include "core/all_finite.h"

#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

template <typename T>
bool Answer(const std::vector<T>& values, Parallel& parallel) {
  Buffer<T> buffer(values, 1);
  const auto n = static_cast<std::int64_t>(values.size());
  const bool finite = AllFinite<T>(buffer.data(), n, parallel);
  // As bytes that lie anywhere.
  const std::size_t size = values.size() * sizeof(T);
  std::vector<std::uint8_t> bytes(1 + size);
  if (n > 0) std::memcpy(&bytes[1], values.data(), size);
  std::vector<T> copy(values.size());
  EXPECT_EQ(CopyFinite<T>(bytes.data() + 1, n, copy.data(), parallel), finite);
  if (finite && n > 0) {
    EXPECT_EQ(std::memcmp(copy.data(), values.data(), size), 0);
  }
  return finite;
}

TEST(AllFinite, FindsANonFiniteValueAtAnyPlace) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    using Bits = FloatBitsOf<T>;
    constexpr Bits kInfinity = FloatTraits<T>::kInfinity;
    constexpr auto kSign = static_cast<Bits>(Bits{1} << kKeyBits<T>);
    Random random(1);
    ThreadPool three(3);
    for (const std::int64_t n : {1, 2, 63, 4096, 4097, 1100000}) {
      // The largest finite number of either sign among the others.
      auto values = RandomVector<T>(n, Fill::kAnyFinite, random);
      values[0] = FromBits<T>(static_cast<Bits>(kInfinity - 1));
      values.back() = FromBits<T>(static_cast<Bits>(kSign | (kInfinity - 1)));
      EXPECT_TRUE(Answer(values, three));
      for (const Bits bad : {kInfinity, static_cast<Bits>(kInfinity + 1),
                             static_cast<Bits>(kSign | kInfinity),
                             static_cast<Bits>(~Bits{0})}) {
        for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
          auto changed = values;
          changed[static_cast<std::size_t>(at)] = FromBits<T>(bad);
          EXPECT_FALSE(Answer(changed, three));
        }
      }
    }
    EXPECT_TRUE(Answer(std::vector<T>{}, three));
  });
}

}  // namespace
}  // namespace fedplug::testing
