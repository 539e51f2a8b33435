// TopKResidual against the stable sort of reference.h, and the promises of the
// contract one by one.
#include "core/topk_residual.h"

#include <cmath>

#include "tests/kernel_inputs.h"
#include "tests/reference/reference.h"

namespace fedplug::testing {
namespace {

template <typename T>
struct Outcome {
  Status status;
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<T> residual;
  std::int64_t non_finite = -1;
};

// With kWithout there is no residual, which stands for zeros.
enum class Place { kInPlace, kOutOfPlace, kWithout };

template <typename T>
Outcome<T> Run(const std::vector<T>& delta, const std::vector<T>& residual,
               std::int64_t k, Parallel& parallel,
               Place place = Place::kInPlace, std::size_t shift = 0) {
  const auto n = static_cast<std::int64_t>(delta.size());
  const auto chosen =
      static_cast<std::size_t>(std::max<std::int64_t>(0, std::min(k, n)));
  Buffer<T> d(delta, shift);
  Buffer<T> in(residual, shift);
  Buffer<T> other(std::vector<T>(residual.size()), shift);
  Buffer<T>& out = place == Place::kInPlace ? in : other;
  Buffer<T> values(std::vector<T>(chosen), shift);
  Buffer<std::int32_t> indices(std::vector<std::int32_t>(chosen), shift);
  Outcome<T> outcome;
  outcome.status = TopKResidual<T>(
      d.data(), place == Place::kWithout ? nullptr : in.data(), out.data(), n,
      k, parallel, values.data(), indices.data(), &outcome.non_finite);
  outcome.values = values.ToVector();
  outcome.indices = indices.ToVector();
  outcome.residual = out.ToVector();
  return outcome;
}

template <typename T>
void ExpectReference(const std::vector<T>& delta,
                     const std::vector<T>& residual, std::int64_t k,
                     const Outcome<T>& outcome) {
  const reference::TopK<T> expected =
      reference::TopKResidual(delta, residual, k);
  EXPECT_EQ(outcome.non_finite, expected.non_finite);
  EXPECT_EQ(outcome.status.ok(), expected.non_finite == 0);
  if (expected.non_finite > 0) {
    EXPECT_EQ(BitsOf(outcome.residual), BitsOf(residual));
    return;
  }
  EXPECT_EQ(outcome.indices, expected.indices);
  EXPECT_EQ(BitsOf(outcome.values), BitsOf(expected.values));
  EXPECT_EQ(BitsOf(outcome.residual), BitsOf(expected.residual));
}

std::vector<std::int64_t> InterestingKs(std::int64_t n) {
  return {0, 1, n / 100, n / 2, n - 1, n, n + 7};
}

TEST(TopKResidual, EqualsTheReferenceForEverySizeFillKAndAlignment) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(1);
    Serial serial;
    for (const std::int64_t n : {0, 1, 2, 3, 5, 64, 255, 1000, 4096}) {
      for (const Fill fill : kAllFills) {
        const auto delta = RandomVector<T>(n, fill, random);
        const auto residual = RandomVector<T>(n, fill, random);
        for (const std::int64_t k : InterestingKs(n)) {
          if (k < 0) continue;
          SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                       std::to_string(static_cast<int>(fill)) + ", k " +
                       std::to_string(k));
          for (const Place place : {Place::kInPlace, Place::kOutOfPlace}) {
            const std::size_t shift = place == Place::kInPlace ? 0 : 1;
            ExpectReference(delta, residual, k,
                            Run(delta, residual, k, serial, place, shift));
          }
          if (fill == Fill::kAnyBits) continue;
          ExpectReference(delta, std::vector<T>(delta.size()), k,
                          Run(delta, residual, k, serial, Place::kWithout));
        }
      }
    }
  });
}

TEST(TopKResidual, DoesNotDependOnTheNumberOfThreads) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(2);
    ThreadPool three(3);
    for (const std::int64_t n : {65536, 100003, 131071}) {
      for (const Fill fill :
           {Fill::kNormal, Fill::kFewLevels, Fill::kZeros, Fill::kAnyBits}) {
        const auto delta = RandomVector<T>(n, fill, random);
        const auto residual = RandomVector<T>(n, fill, random);
        for (const std::int64_t k : {std::int64_t{0}, n / 100, n - 1}) {
          SCOPED_TRACE("n " + std::to_string(n) + ", fill " +
                       std::to_string(static_cast<int>(fill)) + ", k " +
                       std::to_string(k));
          ExpectReference(delta, residual, k, Run(delta, residual, k, three));
          if (fill == Fill::kAnyBits) continue;
          ExpectReference(delta, std::vector<T>(delta.size()), k,
                          Run(delta, residual, k, three, Place::kWithout));
        }
      }
    }
  });
}

// Sizes from which on a sample is trusted, and shares from the sparse to the
// dense.
TEST(TopKResidual, EqualsTheReferenceWhereASampleGuidesIt) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(7);
    Serial serial;
    const std::int64_t n = 60011;
    for (const Fill fill : kAllFills) {
      const auto delta = RandomVector<T>(n, fill, random);
      const auto residual = RandomVector<T>(n, fill, random);
      for (const std::int64_t k : {n / 1000, n / 100, n / 10, n / 3, n - 9}) {
        SCOPED_TRACE("fill " + std::to_string(static_cast<int>(fill)) + ", k " +
                     std::to_string(k));
        for (const Place place : {Place::kInPlace, Place::kOutOfPlace}) {
          ExpectReference(delta, residual, k,
                          Run(delta, residual, k, serial, place, 1));
        }
      }
    }
  });
}

// Whole cache lines are large or small, so that a sample of lines says much
// less than its size promises: some of these ranges are too high, some too low.
TEST(TopKResidual, EqualsTheReferenceWhereTheSampleMisleads) {
  Random random(8);
  Serial serial;
  const std::int64_t n = 20000;
  const std::int64_t k = n / 25;
  const std::vector<float> zeros(static_cast<std::size_t>(n));
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    auto delta = RandomVector<float>(n, Fill::kNormal, random);
    for (std::size_t line = 0; line < delta.size() / 16; ++line) {
      if (Below(random, 25) > 0) continue;
      for (std::size_t i = 0; i < 16; ++i) delta[16 * line + i] *= 1000.0f;
    }
    if (round % 9 == 0) delta[static_cast<std::size_t>(round)] = NAN;
    for (const Place place : {Place::kInPlace, Place::kOutOfPlace}) {
      ExpectReference(delta, zeros, k, Run(delta, zeros, k, serial, place));
    }
  }
}

// Most elements share one key, and k needs some of them, none or all.
TEST(TopKResidual, EqualsTheReferenceWhereOneKeyFillsTheTensor) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(9);
    ThreadPool two(2);
    const std::int64_t n = 200003;
    for (const float common : {0.0f, -0.0f, 0.5f}) {
      std::vector<T> delta(static_cast<std::size_t>(n), FromFloat<T>(common));
      for (int j = 0; j < 2000; ++j) {
        delta[static_cast<std::size_t>(Below(random, n))] =
            RandomValue<T>(Fill::kNormal, random);
      }
      const std::vector<T> minus_zeros(static_cast<std::size_t>(n),
                                       FromBits<T>(static_cast<FloatBitsOf<T>>(
                                           FloatBitsOf<T>{1} << kKeyBits<T>)));
      for (const std::int64_t k : {200, 1500, 3000, 70000, 199000}) {
        SCOPED_TRACE("k " + std::to_string(k));
        for (const Place place : {Place::kInPlace, Place::kOutOfPlace}) {
          ExpectReference(delta, minus_zeros, k,
                          Run(delta, minus_zeros, k, two, place));
        }
      }
    }
  });
}

// The residual is so large that it is written past the caches, where it is new.
TEST(TopKResidual, ALargeResidualIsTheSameInPlaceAndElsewhere) {
  Random random(11);
  ThreadPool two(2);
  const std::int64_t n = (std::int64_t{1} << 23) + 7;
  const auto x = RandomVector<float>(n, Fill::kNormal, random);
  for (const std::int64_t k : {n / 100, n / 10}) {
    const auto run = [&](Place place) { return Run(x, x, k, two, place, 3); };
    const auto here = run(Place::kInPlace);
    const auto elsewhere = run(Place::kOutOfPlace);
    EXPECT_EQ(elsewhere.indices, here.indices);
    EXPECT_TRUE(BitsOf(elsewhere.values) == BitsOf(here.values));
    EXPECT_TRUE(BitsOf(elsewhere.residual) == BitsOf(here.residual));
  }
}

// Large enough for a log of overwritten values, with a residual that is far
// from its sum in places, NaN or not, and a bad sum where the last chunk is.
TEST(TopKResidual, ALargeResidualIsAsItWasWhenTheLastSumIsBad) {
  constexpr std::size_t n = (std::size_t{32} << 20) / sizeof(float) + 40000;
  Random random(9);
  const auto some = RandomVector<float>(10007, Fill::kNormal, random);
  const auto odd = RandomVector<float>(997, Fill::kAnyFinite, random);
  std::vector<float> delta(n), residual(n);
  for (std::size_t i = 0; i < n; ++i) {
    delta[i] = some[i % some.size()];
    residual[i] = i % 503 == 0 ? odd[i % odd.size()] : some[3 * i % 9973];
  }
  ThreadPool three(3);
  for (const std::size_t k : {n / 100, n / 10}) {
    const auto chosen = static_cast<std::int64_t>(k);
    const auto good = Run(delta, residual, chosen, three);
    const auto elsewhere =
        Run(delta, residual, chosen, three, Place::kOutOfPlace);
    EXPECT_TRUE(good.status.ok());
    EXPECT_TRUE(good.indices == elsewhere.indices);
    EXPECT_TRUE(SameBits(good.values, elsewhere.values));
    EXPECT_TRUE(SameBits(good.residual, elsewhere.residual));

    auto bad_delta = delta;
    auto bad_residual = residual;
    bad_delta[n - 7] = std::numeric_limits<float>::infinity();
    bad_residual[n - 5] = FromBits<float>(0xffc12345);
    const auto bad = Run(bad_delta, bad_residual, chosen, three);
    EXPECT_TRUE(bad.status.code() == StatusCode::kNonFinite);
    EXPECT_EQ(bad.non_finite, 2);
    EXPECT_TRUE(SameBits(bad.residual, bad_residual));
  }
}

TEST(CountNonFinite, CountsTheSumsAndNotTheTerms) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(5);
    ThreadPool two(2);
    for (const std::int64_t n : {0, 1, 100, 70001}) {
      const auto delta = RandomVector<T>(n, Fill::kAnyBits, random);
      const auto residual = RandomVector<T>(n, Fill::kAnyBits, random);
      EXPECT_EQ(CountNonFinite(delta.data(), residual.data(), n, two),
                reference::TopKResidual(delta, residual, 0).non_finite);
      EXPECT_EQ(CountNonFinite<T>(delta.data(), nullptr, n, two),
                reference::TopKResidual(delta, std::vector<T>(delta.size()), 0)
                    .non_finite);
    }
  });
}

}  // namespace
}  // namespace fedplug::testing
