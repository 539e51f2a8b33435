// The value codes: their bytes at every SIMD level, and damaged bytes. tests/ops compares them with a
// reference.
#include "core/value_code.h"

#include "core/base/philox.h"
#include "core/crc32.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

const ValueCode kCodes[] = {
    {ValueForm::kFloat16},
    {ValueForm::kBFloat16},
    {ValueForm::kSign},
    {ValueForm::kNearest, 8, 1},
    {ValueForm::kNearest, 8, 256},
    {ValueForm::kNearest, 3, 64},
    {ValueForm::kQsgd, 2, 16},
    {ValueForm::kQsgd, 3, 1},
    {ValueForm::kQsgd, 5, 512},
    {ValueForm::kQsgd, 7, 2048},
    {ValueForm::kQsgd, 8, 4},
    {ValueForm::kCodebook, 1},
    {ValueForm::kCodebook, 2},
    {ValueForm::kCodebook, 5},
    {ValueForm::kCodebook, 8},
    {ValueForm::kBounded, 8, 1, 0.01f},
    {ValueForm::kBounded, 8, 1, 0.25f},
    {ValueForm::kBounded, 8, 1, 0x1p-15f},
    {ValueForm::kBfp, 2, 512},
    {ValueForm::kBfp, 5, 1},
    {ValueForm::kBfp, 8, 2048},
};

template <typename T>
std::vector<std::uint8_t> Encoded(const std::vector<T>& values,
                                  const ValueCode& code, std::uint64_t seed,
                                  Parallel& parallel) {
  const auto count = static_cast<std::int64_t>(values.size());
  const auto bytes = ValueCodeBytes(code, count, sizeof(T));
  Buffer<T> input(values, 1);
  Buffer<std::uint8_t> output(
      std::vector<std::uint8_t>(static_cast<std::size_t>(bytes)), 3);
  std::int64_t non_finite = -1;
  const Status status = EncodeValues<T>(input.data(), count, code, seed,
                                        parallel, output.data(), &non_finite);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(non_finite, 0);
  return output.ToVector();
}

template <typename T>
Status Decode(const std::vector<std::uint8_t>& bytes, const ValueCode& code,
              Parallel& parallel, std::vector<T>* values) {
  Buffer<std::uint8_t> input(bytes, 5);
  return DecodeValues<T>(input.data(), static_cast<std::int64_t>(bytes.size()),
                         static_cast<std::int64_t>(values->size()), code,
                         parallel, values->data());
}

TEST(Philox, GivesThePublishedVectors) {
  const Philox::Words zeros = Philox::Draw({0, 0, 0, 0}, {0, 0});
  EXPECT_TRUE((zeros == Philox::Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu,
                                      0x9b00dbd8u}));
  const Philox::Words ones =
      Philox::Draw({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
                   {0xffffffffu, 0xffffffffu});
  EXPECT_TRUE((ones == Philox::Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u,
                                     0x6d5451fdu}));
}

// The checksum of the bytes, and of the values that are decoded from them, of every dtype and of values of
// all kinds.
std::uint32_t ChecksumOf(const ValueCode& code) {
  constexpr Fill kFills[] = {Fill::kFewLevels, Fill::kZeros, Fill::kEqual,
                             Fill::kDenormal, Fill::kAnyFinite};
  std::vector<std::uint8_t> all;
  ForEachDtype([&](auto zero) {
    using T = decltype(zero);
    Random random(1);
    ThreadPool three(3);
    for (const std::int64_t n : {0, 1, 7, 8, 1000, 1024, 1025, 5003}) {
      for (const Fill fill : kFills) {
        auto values = RandomVector<T>(n, fill, random);
        // No distribution of the library, whose numbers differ.
        if (fill == Fill::kEqual) {
          for (T& value : values)
            value = FromFloat<T>(
                static_cast<float>(Below(random, 1 << 20)) / 65536 - 8);
        }
        const auto bytes = Encoded(values, code, random(), three);
        std::vector<T> back(values.size());
        EXPECT_EQ(Decode(bytes, code, three, &back).message(), "");
        all.insert(all.end(), bytes.begin(), bytes.end());
        const auto* const data =
            reinterpret_cast<const std::uint8_t*>(back.data());
        all.insert(all.end(), data, data + back.size() * sizeof(T));
      }
    }
  });
  return Crc32(all.data(), static_cast<std::int64_t>(all.size()));
}

TEST(ValueCode, HasTheSameBytesAndValuesAtEverySimdLevel) {
  constexpr std::uint32_t kChecksums[] = {
      0xd979e86bu, 0x7cccf22bu, 0xa1fd6711u, 0xd028694du, 0x2de3b0eau,
      0x6adba7e2u, 0x82d4729du, 0xb5fc9993u, 0x9c44c627u, 0xb7f6f1ebu,
      0x5b3da8d7u, 0x1fd4bd3bu, 0x9eb4c10du, 0xcc4fb1efu, 0x4b6b3d0cu,
      0xf243cf61u, 0xe9246fa9u, 0x9a23bb98u, 0x10012a7fu, 0x7ca46ae0u,
      0x08db90dau};
  static_assert(std::size(kChecksums) == std::size(kCodes));
  for (std::size_t i = 0; i < std::size(kCodes); ++i) {
    SCOPED_TRACE("code " + std::to_string(i));
    EXPECT_EQ(ChecksumOf(kCodes[i]), kChecksums[i]);
  }
}

TEST(ValueCode, ACodebookKeepsValuesThatAreAllEqual) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    Serial serial;
    for (const float value : {0.3f, -60000.0f, 1e-3f}) {
      const std::vector<T> values(1500, FromFloat<T>(value));
      const ValueCode code{ValueForm::kCodebook, 2};
      std::vector<T> back(values.size());
      EXPECT_TRUE(
          Decode(Encoded(values, code, 0, serial), code, serial, &back).ok());
      EXPECT_EQ(BitsOf(back), BitsOf(values));
    }
  });
}

TEST(ValueCode, StepsReachFromTheLargestNumbersToTheSmallest) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    using Limits = FloatTraits<T>;
    Serial serial;
    for (const ValueCode& code :
         {ValueCode{ValueForm::kBfp, 2, 4}, ValueCode{ValueForm::kBfp, 8, 4}}) {
      for (FloatBitsOf<T> key = 0; key < Limits::kInfinity;
           key = static_cast<FloatBitsOf<T>>(key + Limits::kInfinity / 997)) {
        T value;
        std::memcpy(&value, &key, sizeof(value));
        const std::vector<T> values = {T{}, value, value};
        const auto bytes = Encoded(values, code, 0, serial);
        std::vector<T> back(values.size());
        ASSERT_EQ(Decode(bytes, code, serial, &back).message(), "");
        // Decoded bytes encode to themselves.
        ASSERT_EQ(Encoded(back, code, 0, serial), bytes);
      }
    }
  });
}

TEST(ValueCode, MultiplesThatAreTooLargeBecomeTheLargestNumber) {
  ForEachDtype([](auto zero) {
    using T = decltype(zero);
    Serial serial;
    const ValueCode code = {ValueForm::kBfp, 8, 4};
    auto bytes = Encoded(std::vector<T>{FromFloat<T>(1), FromFloat<T>(-1)},
                         code, 0, serial);
    const std::int16_t highest = sizeof(T) == 8            ? 1023
                                 : std::is_same_v<T, Half> ? 15
                                                           : 127;
    std::memcpy(bytes.data() + 2, &highest, sizeof(highest));
    std::vector<T> back(2);
    EXPECT_EQ(Decode(bytes, code, serial, &back).message(), "");
    const auto largest =
        static_cast<FloatBitsOf<T>>(FloatTraits<T>::kInfinity - 1);
    EXPECT_TRUE(ToBits(back[0]) == largest);
    EXPECT_TRUE(MagnitudeKey(back[1]) == largest);
  });
}

TEST(ValueCode, DoesNotDependOnTheNumberOfThreads) {
  Random random(2);
  const auto values = RandomVector<float>(300001, Fill::kNormal, random);
  for (const ValueCode& code : kCodes) {
    Serial one;
    ThreadPool four(4);
    EXPECT_EQ(Encoded(values, code, 3, one), Encoded(values, code, 3, four));
  }
}

TEST(ValueCode, RefusesOtherLengthsHeadersScalesAndLevels) {
  Serial serial;
  const std::vector<float> values = {1.0f, -2.0f, 0.5f};
  std::vector<float> back(3);
  const auto refused = [&](const ValueCode& code, std::size_t at,
                           std::uint8_t byte) {
    auto bytes = Encoded(values, code, 0, serial);
    bytes[at] = byte;
    return Decode(bytes, code, serial, &back).code() == StatusCode::kDataLoss;
  };
  for (const ValueCode& code : kCodes) {
    auto bytes = Encoded(values, code, 0, serial);
    bytes.push_back(0);
    EXPECT_FALSE(Decode(bytes, code, serial, &back).ok());
    bytes.resize(bytes.size() - 2);
    EXPECT_FALSE(Decode(bytes, code, serial, &back).ok());
  }
  const ValueCode qsgd = {ValueForm::kQsgd, 3, 4};
  EXPECT_TRUE(refused(qsgd, 0, 4));     // other bits
  EXPECT_TRUE(refused(qsgd, 1, 3));     // another block size
  EXPECT_TRUE(refused(qsgd, 5, 0xbf));  // a negative scale
  EXPECT_TRUE(refused(qsgd, 6, 0x07));  // the level 7, beyond 2 * 3
  EXPECT_TRUE(refused(qsgd, 7, 0x02));  // a bit after the last level
  EXPECT_TRUE(refused({ValueForm::kNearest, 8, 4}, 6, 0xff));  // beyond 254
  EXPECT_TRUE(refused({ValueForm::kSign}, 3, 0x7f));  // a scale like no other
  EXPECT_TRUE(refused({ValueForm::kSign}, 4, 0x0f));  // one bit too many
  EXPECT_TRUE(refused({ValueForm::kCodebook, 2}, 0, 3));  // other bits
  auto infinite = Encoded(values, {ValueForm::kCodebook, 2}, 0, serial);
  infinite[3] = 0x80;  // of the first mean
  infinite[4] = 0xff;
  EXPECT_FALSE(Decode(infinite, {ValueForm::kCodebook, 2}, serial, &back).ok());
  EXPECT_TRUE(refused({ValueForm::kCodebook, 2}, 17, 0xc0));  // one bin more
  const ValueCode bounded = {ValueForm::kBounded, 8, 1, 0.01f};
  EXPECT_TRUE(refused(bounded, 0, 0));      // another bound
  EXPECT_TRUE(refused(bounded, 7, 0x40));   // extremes in the wrong order
  EXPECT_TRUE(refused(bounded, 11, 0x7f));  // one that is not finite
  EXPECT_TRUE(refused(bounded, 12, 0xff));  // a level above the last
  EXPECT_TRUE(refused(bounded, 14, 0x80));  // a bit after the last level
  const ValueCode bfp = {ValueForm::kBfp, 3, 4};
  EXPECT_TRUE(refused(bfp, 0, 4));     // other bits
  EXPECT_TRUE(refused(bfp, 1, 3));     // another block size
  EXPECT_TRUE(refused(bfp, 3, 0x7f));  // an exponent beyond the largest
  EXPECT_TRUE(refused(bfp, 3, 0x80));  // and one beyond the smallest
  EXPECT_TRUE(refused(bfp, 4, 0x07));  // the level 7, beyond 2 * 3
  EXPECT_TRUE(refused(bfp, 5, 0x02));  // a bit after the last level
  EXPECT_TRUE(refused({ValueForm::kFloat16}, 1, 0x7c));   // infinity
  EXPECT_TRUE(refused({ValueForm::kBFloat16}, 1, 0xff));  // NaN
}

TEST(ValueCode, RefusesOptionsAndCountsOutOfRange) {
  EXPECT_FALSE(CheckValueCode({ValueForm::kQsgd, 1, 4}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kQsgd, 9, 4}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kBfp, 1, 4}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kBfp, 8, 3}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kCodebook, 0}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kCodebook, 9}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kQsgd, 8, 3}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kNearest, 8, 1 << 21}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kSign}, -1).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kSign}, std::int64_t{1} << 31).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kBounded, 8, 1, 0.26f}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kBounded, 8, 1, 0x1p-16f}).ok());
  EXPECT_FALSE(CheckValueCode({ValueForm::kBounded, 8, 1, NAN}).ok());
  EXPECT_TRUE(CheckValueCode({ValueForm::kSign, 99, 3}, 5).ok());
}

}  // namespace
}  // namespace fedplug::testing
