// Signs with error feedback against the value code of the sum, and what is left
// of it.
#include "core/sign_residual.h"

#include <limits>

#include "core/base/thread_pool.h"
#include "core/value_code.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

constexpr ValueCode kSigns{ValueForm::kSign};

struct Coded {
  std::vector<std::uint8_t> code;
  std::vector<float> residual;
};

// The slow way: add, encode, decode, subtract.
Coded Expected(const std::vector<float>& delta,
               const std::vector<float>& residual) {
  const auto n = static_cast<std::int64_t>(delta.size());
  std::vector<float> sum;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    sum.push_back(delta[i] + residual[i]);
  }
  Serial serial;
  Coded coded;
  const std::int64_t bytes = ValueCodeBytes(kSigns, n, sizeof(float));
  coded.code.resize(static_cast<std::size_t>(bytes));
  std::int64_t non_finite;
  EXPECT_TRUE(EncodeValues(sum.data(), n, kSigns, 0, serial, coded.code.data(),
                           &non_finite)
                  .ok());
  std::vector<float> decoded(delta.size());
  EXPECT_TRUE(
      DecodeValues(coded.code.data(), bytes, n, kSigns, serial, decoded.data())
          .ok());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    coded.residual.push_back(sum[i] - decoded[i]);
  }
  return coded;
}

TEST(SignResidual, IsTheValueCodeOfTheSumAndTheRest) {
  Random random(1);
  std::normal_distribution<float> normal;
  for (const std::size_t n : std::vector<std::size_t>{0, 1, 7, 1025, 300001}) {
    SCOPED_TRACE("n " + std::to_string(n));
    std::vector<float> delta(n), residual(n);
    for (float& value : delta) value = normal(random);
    for (float& value : residual) value = normal(random);
    const Coded expected = Expected(delta, residual);
    Serial serial;
    ThreadPool three(3);
    for (Parallel* const threads :
         {static_cast<Parallel*>(&serial), static_cast<Parallel*>(&three)}) {
      for (const bool in_place : {false, true}) {
        Coded coded{std::vector<std::uint8_t>(expected.code.size()), residual};
        std::int64_t non_finite;
        EXPECT_TRUE(
            SignResidual(delta.data(),
                         in_place ? coded.residual.data() : residual.data(),
                         coded.residual.data(), static_cast<std::int64_t>(n),
                         *threads, coded.code.data(), &non_finite)
                .ok());
        EXPECT_TRUE(coded.code == expected.code);
        EXPECT_TRUE(coded.residual == expected.residual);
      }
    }
  }
}

TEST(SignResidual, RefusesWhatIsNotFiniteBeforeItWrites) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> delta(5000, 1.0f);
    delta[17] = delta[4999] = bad;
    std::vector<float> residual(5000, 2.0f);
    std::vector<std::uint8_t> code(4 + 625, 0xaa);
    Serial serial;
    std::int64_t non_finite;
    const Status status =
        SignResidual(delta.data(), residual.data(), residual.data(), 5000,
                     serial, code.data(), &non_finite);
    EXPECT_TRUE(status.code() == StatusCode::kNonFinite);
    EXPECT_EQ(non_finite, 2);
    EXPECT_TRUE(residual == std::vector<float>(5000, 2.0f));
    EXPECT_TRUE(code == std::vector<std::uint8_t>(4 + 625, 0xaa));
  }
}

TEST(SignResidual, TakesSumsAsLargeAsThereAre) {
  const std::vector<float> delta(3, std::numeric_limits<float>::max());
  std::vector<float> residual(3, 0.0f);
  std::vector<std::uint8_t> code(5);
  Serial serial;
  std::int64_t non_finite;
  EXPECT_TRUE(SignResidual(delta.data(), residual.data(), residual.data(), 3,
                           serial, code.data(), &non_finite)
                  .ok());
  EXPECT_TRUE(residual == std::vector<float>(3, 0.0f));
}

}  // namespace
}  // namespace fedplug::testing
