// Means against the plain halving of the header, bit for bit, at sizes with odd
// levels and strips that end early.
#include <cmath>

#include "core/base/thread_pool.h"
#include "core/codes/values/forms.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

double Expected(const std::vector<double>& values) {
  const double share = 1.0 / static_cast<double>(values.size());
  std::vector<double> terms;
  for (const double value : values) {
    terms.push_back(std::abs(value) * share);
  }
  while (terms.size() > 1) {
    const std::size_t half = (terms.size() + 1) / 2;
    for (std::size_t i = half; i < terms.size(); ++i) {
      terms[i - half] += terms[i];
    }
    terms.resize(half);
  }
  return terms[0];
}

// Zeros, but for the four terms that become one after two halvings: among many
// others, a wrong order of theirs would be rounded away.
std::vector<double> FourOf(std::size_t n, std::size_t first, Random& random) {
  std::normal_distribution<double> normal;
  const std::size_t near = (n + 1) / 2;
  const std::size_t far = (near + 1) / 2;
  std::vector<double> values(n);
  for (const std::size_t at : {first, first + near, first + far}) {
    if (at < n) values[at] = normal(random);
  }
  if (first + far + near < n) values[first + far + near] = normal(random);
  return values;
}

TEST(MeanMagnitude, AddsHalvesToHalvesOnAnyNumberOfThreads) {
  Random random(1);
  Serial serial;
  ThreadPool three(3);
  for (const std::size_t n : std::vector<std::size_t>{
           1, 16384, 16385, 32769, 49157, 65537, 98307, 300001}) {
    for (int trial = 0; trial < 12; ++trial) {
      const std::size_t first = random() % ((n + 3) / 4);
      const std::vector<double> x = FourOf(n, first, random);
      const double mean = Expected(x);
      SCOPED_TRACE("n " + std::to_string(n));
      const auto size = static_cast<std::int64_t>(n);
      for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2}) {
        if (!IsSupported(level)) continue;
        for (Parallel* const threads : {static_cast<Parallel*>(&serial),
                                        static_cast<Parallel*>(&three)}) {
          EXPECT_TRUE(MeanMagnitude(x.data(), size, level, *threads) == mean);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
