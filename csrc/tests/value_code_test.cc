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

// Appends the bytes of the values, and the values that are decoded from them.
template <typename T>
void Append(const std::vector<T>& values, const ValueCode& code,
            std::uint64_t seed, Parallel& parallel,
            std::vector<std::uint8_t>* all) {
  const auto count = static_cast<std::int64_t>(values.size());
  const auto bytes = ValueCodeBytes(code, count, sizeof(T));
  Buffer<T> input(values, 1);
  Buffer<std::uint8_t> output(
      std::vector<std::uint8_t>(static_cast<std::size_t>(bytes)), 3);
  Buffer<T> back(values, 1);
  std::int64_t non_finite = -1;
  EXPECT_TRUE(EncodeValues<T>(input.data(), count, code, seed, parallel,
                              output.data(), &non_finite)
                  .ok());
  EXPECT_EQ(non_finite, 0);
  EXPECT_TRUE(
      DecodeValues<T>(output.data(), bytes, count, code, parallel, back.data())
          .ok());
  const auto* const decoded = reinterpret_cast<std::uint8_t*>(back.data());
  all->insert(all->end(), output.data(), output.data() + bytes);
  all->insert(all->end(), decoded, decoded + values.size() * sizeof(T));
}

// Values of all kinds, and a seed for each. The largest size has a mean of
// several strips.
template <typename T>
std::vector<std::pair<std::vector<T>, std::uint64_t>> MakeInputs() {
  constexpr Fill kFills[] = {Fill::kFewLevels, Fill::kZeros, Fill::kEqual,
                             Fill::kDenormal, Fill::kAnyFinite};
  std::vector<std::pair<std::vector<T>, std::uint64_t>> inputs;
  Random random(1);
  for (const std::int64_t n : {0, 1, 7, 8, 1000, 1024, 1025, 5003, 98307}) {
    for (const Fill fill : kFills) {
      auto values = RandomVector<T>(n, fill, random);
      // No distribution of the library, whose numbers differ.
      if (fill == Fill::kEqual) {
        for (T& value : values)
          value = FromFloat<T>(
              static_cast<float>(Below(random, 1 << 20)) / 65536 - 8);
      }
      inputs.emplace_back(std::move(values), random());
    }
  }
  return inputs;
}

// The checksum of the bytes and decoded values of every dtype.
std::uint32_t ChecksumOf(const ValueCode& code, Parallel& threads) {
  std::vector<std::uint8_t> all;
  ForEachDtype([&](auto zero) {
    using T = decltype(zero);
    static const auto inputs = MakeInputs<T>();
    for (const auto& [values, seed] : inputs) {
      Append(values, code, seed, threads, &all);
    }
  });
  return Crc32(all.data(), static_cast<std::int64_t>(all.size()));
}

TEST(ValueCode, HasTheSameBytesAtEverySimdLevelOnAnyNumberOfThreads) {
  constexpr std::uint32_t kChecksums[] = {
      0x6ef85032u, 0xe8bbe578u, 0x0940a0c5u, 0x77f1c719u, 0x5f207186u,
      0x521ac35cu, 0xbbf1ed81u, 0xc8c71519u, 0x8c717b86u, 0x1cc8a204u,
      0xadd95ef8u, 0x8555938fu, 0x17dd78cdu, 0x0b577701u, 0x5ae89728u,
      0x3fcec617u, 0x8c1f7811u, 0x597ccd13u, 0xaa1ff106u, 0x3f601c39u,
      0x1d6fc7f5u};
  static_assert(std::size(kChecksums) == std::size(kCodes));
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (std::size_t i = 0; i < std::size(kCodes); ++i) {
      SCOPED_TRACE("code " + std::to_string(i));
      EXPECT_EQ(ChecksumOf(kCodes[i], pool), kChecksums[i]);
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
