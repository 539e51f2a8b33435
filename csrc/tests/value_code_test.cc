// The value codes: their bytes at every SIMD level. tests/ops compares them, also damaged, with a reference.
#include "core/value_code.h"

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

TEST(ValueCode, DoesNotDependOnTheNumberOfThreads) {
  Random random(2);
  const auto values = RandomVector<float>(300001, Fill::kNormal, random);
  for (const ValueCode& code : kCodes) {
    Serial one;
    ThreadPool four(4);
    EXPECT_EQ(Encoded(values, code, 3, one), Encoded(values, code, 3, four));
  }
}

}  // namespace
}  // namespace fedplug::testing
