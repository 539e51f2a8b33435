// Test cases of the CUDA rotated code. A Machine (cuda_check_cases.h) has
//   EncodeRotated(values, code, &checksum)  ->  data of cuda::EncodeRotated
//   DecodeRotated<T, Out>(data, count, code, factor)  ->  out of DecodeRotated
#ifndef FEDPLUG_TESTS_CUDA_CHECK_ROTATED_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_ROTATED_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/crc32.h"
#include "core/rotated_code.h"
#include "cuda/rotated_code.h"
#include "tests/cuda_check_value_cases.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {

inline RotatedCode RotatedCodeOf(std::int64_t block_size, int bits) {
  RotatedCode code{block_size, -7, 1 << 30, {}};
  for (int i = 0; i < 1 << (bits - 1); ++i) {
    code.levels.push_back((i + 0.4) * 4 / (1 << bits));
  }
  return code;
}

// Both ways; a code with an element that is not finite is only encoded.
template <typename T, typename Machine>
void ExpectSameRotatedAsCore(const std::vector<T>& values,
                             const RotatedCode& given, Machine& machine) {
  Serial serial;
  const auto count = static_cast<std::int64_t>(values.size());
  RotatedCode code = given;
  const std::uint32_t expected_checksum =
      Crc32(reinterpret_cast<const std::uint8_t*>(values.data()),
            count * static_cast<std::int64_t>(sizeof(T)));
  code.first_seed = cuda::RotatedSeed(given.first_seed, expected_checksum);
  std::vector<std::uint8_t> expected(
      static_cast<std::size_t>(RotatedCodeBytes(code, count, sizeof(T))));
  // Variables, because nvcc takes an assignment of a template's result for an
  // ignored one.
  const Status encoded =
      EncodeRotated(values.data(), count, code, serial, expected.data());
  EXPECT_EQ(encoded.message(), "");
  std::uint32_t checksum = 0;
  EXPECT_EQ(machine.EncodeRotated(values, given, &checksum), expected);
  EXPECT_EQ(checksum, expected_checksum);
  std::vector<T> decoded(values.size());
  const Status status =
      DecodeRotated(expected.data(), static_cast<std::int64_t>(expected.size()),
                    count, code, serial, decoded.data());
  if (!status.ok()) return;
  ExpectProducts(decoded, [&](auto out, double factor) {
    return machine.template DecodeRotated<T, decltype(out)>(expected, count,
                                                            code, factor);
  });
}

template <typename T, typename Machine, typename Blocks>
void RotatedCodesEqualTheCore(Machine& machine, const Blocks& blocks) {
  Random random(31);
  for (const std::int64_t block : blocks) {
    for (const Fill fill : {Fill::kNormal, Fill::kFewLevels, Fill::kAnyFinite,
                            Fill::kDenormal, Fill::kZeros, Fill::kAnyBits}) {
      const int bits = 1 + static_cast<int>(Below(random, 8));
      const std::int64_t most = block < 8 ? block : 2 * block + block / 2;
      const std::int64_t count = Below(random, most + 1);
      SCOPED_TRACE("blocks of " + std::to_string(block) + ", count " +
                   std::to_string(count) + ", fill " +
                   std::to_string(static_cast<int>(fill)) + ", bits " +
                   std::to_string(bits));
      ExpectSameRotatedAsCore(RandomVector<T>(count, fill, random),
                              RotatedCodeOf(block, bits), machine);
    }
  }
}

template <typename T, typename Machine>
void ABlockThatIsNotFiniteLeavesTheOthers(Machine& machine) {
  Random random(32);
  auto values = RandomVector<T>(300, Fill::kNormal, random);
  values[70] = values[255] = FromBits<T>(FloatTraits<T>::kInfinity);
  ExpectSameRotatedAsCore(values, RotatedCodeOf(64, 3), machine);
}

// Quotients in the middle between two levels, of both signs.
template <typename T, typename Machine>
void NumbersInTheMiddleGetTheLevelsOfTheCore(Machine& machine) {
  Random random(33);
  const RotatedCode code{1, 5, 6, {0.5, 1.5}};
  for (int i = 0; i < 8; ++i) {
    const auto values = RandomVector<T>(1, Fill::kNormal, random);
    ExpectSameRotatedAsCore(values, code, machine);
  }
}

template <typename Machine, typename Blocks>
void RotatedCodesOfAllDtypesEqualTheCore(Machine& machine,
                                         const Blocks& blocks) {
  ForEachDtype([&](auto zero) {
    using T = decltype(zero);
    RotatedCodesEqualTheCore<T>(machine, blocks);
    ABlockThatIsNotFiniteLeavesTheOthers<T>(machine);
    NumbersInTheMiddleGetTheLevelsOfTheCore<T>(machine);
  });
}

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_ROTATED_CASES_H_
