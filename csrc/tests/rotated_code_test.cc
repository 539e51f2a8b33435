// The rotated code against the reference, and against damaged bytes.
#include "core/rotated_code.h"

#include <cmath>

#include "core/codes/values/level.h"
#include "tests/kernel_inputs.h"
#include "tests/reference/rotated.h"

namespace fedplug::testing {
namespace {

constexpr Fill kFills[] = {Fill::kNormal, Fill::kFewLevels, Fill::kZeros,
                           Fill::kEqual,  Fill::kDenormal,  Fill::kAnyFinite,
                           Fill::kAnyBits};

RotatedCode CodeOf(std::int64_t block_size, int bits) {
  RotatedCode code{block_size, 7, -3, {}};
  for (int i = 0; i < 1 << (bits - 1); ++i) {
    code.levels.push_back((i + 0.4) * 4 / (1 << bits));
  }
  return code;
}

template <typename T>
std::vector<std::uint8_t> Encoded(const std::vector<T>& values,
                                  const RotatedCode& code, Parallel& parallel) {
  const auto count = static_cast<std::int64_t>(values.size());
  const auto bytes = RotatedCodeBytes(code, count, sizeof(T));
  Buffer<T> input(values, 1);
  Buffer<std::uint8_t> output(
      std::vector<std::uint8_t>(static_cast<std::size_t>(bytes)), 3);
  const Status status =
      EncodeRotated<T>(input.data(), count, code, parallel, output.data());
  EXPECT_EQ(status.message(), "");
  return output.ToVector();
}

template <typename T>
Status Decode(const std::vector<std::uint8_t>& bytes, const RotatedCode& code,
              Parallel& parallel, std::vector<T>* values) {
  Buffer<std::uint8_t> input(bytes, 5);
  return DecodeRotated<T>(input.data(), static_cast<std::int64_t>(bytes.size()),
                          static_cast<std::int64_t>(values->size()), code,
                          parallel, values->data());
}

// There and back.
template <typename T>
void CompareWithReference(const std::vector<T>& values, const RotatedCode& code,
                          Parallel& parallel) {
  const auto bytes = Encoded(values, code, parallel);
  ASSERT_EQ(bytes, reference::EncodeRotated(values, code));
  std::vector<T> back(values.size());
  const Status status = Decode(bytes, code, parallel, &back);
  const auto expected = reference::DecodeRotated<T>(bytes, values.size(), code);
  ASSERT_EQ(status.ok(), expected.has_value());
  double bound = 0;
  const Status checked =
      CheckRotated<T>(bytes.data(), static_cast<std::int64_t>(bytes.size()),
                      static_cast<std::int64_t>(back.size()), code, &bound);
  EXPECT_EQ(checked.message(), status.message());
  if (expected.has_value()) {
    EXPECT_EQ(BitsOf(back), BitsOf(*expected));
    for (const T x : back) {
      EXPECT_TRUE(std::abs(static_cast<double>(value_loops::Wide(x))) <= bound);
    }
  } else {
    EXPECT_EQ(status.message(), "rotated code: a scale is not valid");
  }
}

TEST(RotatedCode, EqualsTheReferenceThereAndBack) {
  ForEachDtype([](auto zero) {
    Random random(1);
    ThreadPool three(3);
    for (const std::int64_t n : {0, 1, 3, 8, 100, 1000}) {
      for (const std::int64_t size : {1, 2, 8, 32, 128, 1024}) {
        if (size < 8 && n > size) continue;
        for (const Fill fill : kFills) {
          SCOPED_TRACE("n " + std::to_string(n) + ", blocks of " +
                       std::to_string(size) + ", fill " +
                       std::to_string(static_cast<int>(fill)));
          const auto values = RandomVector<decltype(zero)>(n, fill, random);
          const int bits = 1 + static_cast<int>(random() % 8);
          CompareWithReference(values, CodeOf(size, bits), three);
        }
      }
    }
  });
}

TEST(RotatedCode, EqualsTheReferenceInBlocksOfManyRows) {
  Random random(2);
  ThreadPool two(2);
  for (const int bits : {1, 2, 3, 4, 5, 8}) {
    const auto values = RandomVector<float>(70001, Fill::kNormal, random);
    CompareWithReference(values, CodeOf(1 << (12 + bits % 5), bits), two);
  }
  CompareWithReference(RandomVector<double>(40000, Fill::kNormal, random),
                       CodeOf(1 << 15, 4), two);
}

TEST(RotatedCode, ANumberInTheMiddleGetsTheLowerLevel) {
  Serial serial;
  // One element, whose sign does not change, over its own magnitude.
  RotatedCode code{1, 0, 0, {0.5, 1.5}};
  for (code.first_seed = 0;; ++code.first_seed) {
    const auto bytes = Encoded<float>({1.0f}, code, serial);
    if (bytes == reference::EncodeRotated<float>({-1.0f}, code)) continue;
    const bool minus = bytes[4] == 0;
    EXPECT_EQ(Encoded<float>({minus ? -1.0f : 1.0f}, code, serial)[4], 2);
    EXPECT_EQ(Encoded<float>({minus ? 1.0f : -1.0f}, code, serial)[4], 0);
    return;
  }
}

TEST(RotatedCode, DoesNotDependOnTheNumberOfThreads) {
  Random random(3);
  const auto values = RandomVector<float>(300001, Fill::kNormal, random);
  Serial one;
  ThreadPool four(4);
  for (const std::int64_t size : {64, 4096, 1 << 14, 1 << 17}) {
    const RotatedCode code = CodeOf(size, 3);
    const auto bytes = Encoded(values, code, one);
    EXPECT_EQ(bytes, Encoded(values, code, four));
    std::vector<float> by_one(values.size());
    std::vector<float> by_four(values.size());
    EXPECT_TRUE(Decode(bytes, code, one, &by_one).ok());
    EXPECT_TRUE(Decode(bytes, code, four, &by_four).ok());
    EXPECT_EQ(BitsOf(by_one), BitsOf(by_four));
  }
}

TEST(RotatedCode, RefusesOtherLengthsScalesAndUnusedBits) {
  Serial serial;
  const RotatedCode code = CodeOf(4, 1);
  const auto written = Encoded<float>({1.0f, -2.0f, 0.5f}, code, serial);
  ASSERT_EQ(written.size(), std::size_t{5});
  std::vector<float> back(3);
  const auto message = [&](std::vector<std::uint8_t> bytes) {
    const Status status = Decode(bytes, code, serial, &back);
    EXPECT_TRUE(status.code() == StatusCode::kDataLoss);
    return status.message();
  };
  auto damaged = written;
  damaged.push_back(0);
  EXPECT_EQ(message(damaged),
            "rotated code: there are 6 bytes, not 5 as for 3 values");
  damaged = written;
  damaged[4] |= 0x10;
  EXPECT_EQ(message(damaged), "rotated code: unused bits are set");
  for (const float scale :
       {-1.0f, -0.0f, std::numeric_limits<float>::infinity()}) {
    damaged = written;
    std::memcpy(damaged.data(), &scale, sizeof(scale));
    EXPECT_EQ(message(damaged), "rotated code: a scale is not valid");
  }
}

}  // namespace
}  // namespace fedplug::testing
