// Drawn indices against the formula of the header, on any number of threads.
#include "core/random_indices.h"

#include <algorithm>
#include <cmath>

#include "core/base/thread_pool.h"
#include "core/random_numbers.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using Indices = std::vector<std::int32_t>;

Indices Expected(std::uint64_t seed, std::int64_t count, std::int64_t size) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  Serial serial;
  DrawNumbers(seed, 0, count, serial, numbers.data());
  Indices indices;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i * size / count;
    const std::int64_t length = (i + 1) * size / count - begin;
    const double number = numbers[static_cast<std::size_t>(i)];
    EXPECT_TRUE(0 <= number && number < 1);
    const auto offset = static_cast<std::int64_t>(
        std::floor(number * static_cast<double>(length)));
    indices.push_back(
        static_cast<std::int32_t>(begin + std::min(offset, length - 1)));
  }
  return indices;
}

TEST(DrawIndices, TakesOneOfEachRunOnAnyNumberOfThreads) {
  Serial serial;
  ThreadPool three(3);
  for (const std::int64_t size : {1, 2, 1000, 70001, INT32_MAX}) {
    for (const std::int64_t count : {0, 1, 255, 256, 257, 70001}) {
      if (count > size) continue;
      SCOPED_TRACE("count " + std::to_string(count) + ", size " +
                   std::to_string(size));
      const Indices expected = Expected(7, count, size);
      for (Parallel* const threads :
           {static_cast<Parallel*>(&serial), static_cast<Parallel*>(&three)}) {
        Indices indices(expected.size(), -1);
        EXPECT_TRUE(DrawIndices(7, count, size, *threads, indices.data()).ok());
        EXPECT_TRUE(indices == expected);
      }
    }
  }
}

TEST(DrawIndices, RefusesMoreIndicesThanThereArePlaces) {
  Serial serial;
  Indices indices(9);
  for (const auto& [count, size] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{
           {3, 2}, {-1, 2}, {0, -1}, {0, std::int64_t{1} << 31}}) {
    EXPECT_TRUE(DrawIndices(0, count, size, serial, indices.data()).code() ==
                StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace fedplug::testing
