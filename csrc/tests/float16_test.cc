// The 16-bit types: every value there and back, and rounding checked against
// the two neighbours.
#include <cmath>

#include "core/base/floats.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

template <typename T>
void ForEachBitPattern(const std::function<void(T)>& body) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    body(T{static_cast<std::uint16_t>(bits)});
}

template <typename T>
void ExpectRoundTrip() {
  ForEachBitPattern<T>([](T value) {
    const T back = FromFloat<T>(ToFloat(value));
    if (std::isnan(ToFloat(value))) {
      EXPECT_TRUE(std::isnan(ToFloat(back)));
    } else {
      EXPECT_EQ(+back.bits, +value.bits);
    }
  });
}

TEST(Float16, EveryValueSurvivesTheWayToFloatAndBack) {
  ExpectRoundTrip<Half>();
  ExpectRoundTrip<BFloat16>();
}

TEST(Float16, WidensToTheValueOfTheFormat) {
  EXPECT_EQ(ToFloat(Half{0x3c00}), 1.0f);
  EXPECT_EQ(ToFloat(Half{0xc100}), -2.5f);
  EXPECT_EQ(ToFloat(Half{0x7bff}), 65504.0f);
  EXPECT_EQ(ToFloat(Half{0x0001}), 0x1p-24f);
  EXPECT_EQ(ToFloat(Half{0x83ff}), -1023 * 0x1p-24f);
  EXPECT_EQ(ToFloat(BFloat16{0x3f80}), 1.0f);
  EXPECT_EQ(ToFloat(BFloat16{0xc020}), -2.5f);
  EXPECT_EQ(ToFloat(BFloat16{0x0001}), 0x1p-133f);
}

// Between a value and the next one away from zero: the middle goes to the even
// one, the float before it down and the float after it up.
template <typename T>
void ExpectNearestEven() {
  ForEachBitPattern<T>([](T value) {
    const std::uint32_t magnitude = value.bits & 0x7fffu;
    if (magnitude + 1 >= FloatTraits<T>::kInfinity) return;
    const T next{static_cast<std::uint16_t>(value.bits + 1)};
    const float middle = ToFloat(value) / 2 + ToFloat(next) / 2;
    const T even = (value.bits & 1) == 0 ? value : next;
    const bool exact =
        std::fabs(middle) >
        std::fabs(ToFloat(value));  // not so at the end of the float denormals
    EXPECT_TRUE(exact);
    EXPECT_EQ(+FromFloat<T>(middle).bits, +even.bits);
    EXPECT_EQ(+FromFloat<T>(std::nextafter(middle, ToFloat(value))).bits,
              +value.bits);
    EXPECT_EQ(+FromFloat<T>(std::nextafter(middle, ToFloat(next))).bits,
              +next.bits);
  });
}

TEST(Float16, RoundsToNearestEven) {
  ExpectNearestEven<Half>();
  ExpectNearestEven<BFloat16>();
}

TEST(Float16, OverflowsToInfinityFromTheMiddleBeyondTheLargestValueOn) {
  EXPECT_EQ(+ToHalf(65519.996f).bits, 0x7bff);
  EXPECT_EQ(+ToHalf(65520.0f).bits, 0x7c00);
  EXPECT_EQ(+ToHalf(-1e30f).bits, 0xfc00);
  EXPECT_EQ(+ToBFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(+ToBFloat16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
}

TEST(Float16, RoundsASumAndAProductOnce) {
  // 2048 + 1 is a tie in Half (its spacing is 2 there) and goes to the even
  // significand, so is 2050 + 1, upwards.
  EXPECT_EQ(ToFloat(ToHalf(2048) + ToHalf(1)), 2048.0f);
  EXPECT_EQ(ToFloat(ToHalf(2050) + ToHalf(1)), 2052.0f);
  EXPECT_EQ(ToFloat(ToHalf(65504) + ToHalf(16)),
            std::numeric_limits<float>::infinity());
  EXPECT_EQ(ToFloat(ToBFloat16(256) + ToBFloat16(1)), 256.0f);
  EXPECT_EQ(ToFloat(ToHalf(3) * ToHalf(0x1p-24f)), 3 * 0x1p-24f);
  EXPECT_EQ(ToFloat(ToBFloat16(1.5f) * ToBFloat16(1.5f)), 2.25f);
}

}  // namespace
}  // namespace fedplug::testing
