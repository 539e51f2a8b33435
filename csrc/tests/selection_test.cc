// Selections of a tensor, of lists and within chunks, and entries of sums at
// given places, against the sort of reference.h, at every SIMD level.
#include <cmath>

#include "core/chunked_topk_residual.h"
#include "core/take_from_sum.h"
#include "core/topk_residual.h"
#include "tests/kernel_inputs.h"
#include "tests/reference/reference.h"

namespace fedplug::testing {
namespace {

using Sizes = std::vector<std::int64_t>;

// With kWithout there is no residual, which stands for zeros.
enum class Place { kInPlace, kElsewhere, kWithout };

template <typename T>
struct Outcome {
  Status status;
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<T> residual;
  std::int64_t non_finite = -1;
};

// The outcome of call(delta, residual_in, residual_out, values, indices,
// &non_finite) on arrays that end exactly, and begin anywhere.
template <typename T, typename Call>
Outcome<T> Run(const std::vector<T>& delta, const std::vector<T>& residual,
               std::int64_t entries, Place place, const Call& call) {
  const std::size_t shift =
      (delta.size() + static_cast<std::size_t>(place)) % 4;
  const auto count = static_cast<std::size_t>(entries);
  Buffer<T> update(delta, shift);
  Buffer<T> in(residual, shift);
  Buffer<T> other(std::vector<T>(place == Place::kInPlace ? 0 : delta.size()),
                  shift);
  Buffer<T>& out = place == Place::kInPlace ? in : other;
  Buffer<T> values(std::vector<T>(count), shift);
  Buffer<std::int32_t> indices(std::vector<std::int32_t>(count), shift);
  Outcome<T> outcome;
  outcome.status =
      call(update.data(), place == Place::kWithout ? nullptr : in.data(),
           out.data(), values.data(), indices.data(), &outcome.non_finite);
  outcome.values = values.ToVector();
  outcome.indices = indices.ToVector();
  outcome.residual = out.ToVector();
  return outcome;
}

// In place, elsewhere, and of the delta alone. `reference_of` gives the
// expected entries and sums for a residual.
template <typename T, typename Reference, typename Call>
void ExpectReference(const std::vector<T>& delta,
                     const std::vector<T>& residual,
                     const Reference& reference_of, const Call& call) {
  const auto with = reference_of(residual);
  const auto without = reference_of(std::vector<T>(delta.size()));
  for (const Place place :
       {Place::kInPlace, Place::kElsewhere, Place::kWithout}) {
    SCOPED_TRACE("n " + std::to_string(delta.size()) + ", place " +
                 std::to_string(static_cast<int>(place)));
    const auto& expected = place == Place::kWithout ? without : with;
    const Outcome<T> outcome =
        Run(delta, residual, static_cast<std::int64_t>(expected.values.size()),
            place, call);
    EXPECT_EQ(outcome.non_finite, expected.non_finite);
    EXPECT_EQ(outcome.status.ok(), expected.non_finite == 0);
    if (expected.non_finite == 0) {
      EXPECT_EQ(outcome.indices, expected.indices);
      EXPECT_EQ(BitsOf(outcome.values), BitsOf(expected.values));
      EXPECT_EQ(BitsOf(outcome.residual), BitsOf(expected.residual));
    } else if (place != Place::kWithout) {
      EXPECT_EQ(BitsOf(outcome.residual), BitsOf(residual));
    }
  }
}

template <typename T>
auto TopK(std::int64_t n, std::int64_t k, Parallel& parallel) {
  return [=, &parallel](const T* delta, const T* in, T* out, auto... entries) {
    return TopKResidual<T>(delta, in, out, n, k, parallel, entries...);
  };
}

template <typename T>
void ExpectTopK(const std::vector<T>& delta, const std::vector<T>& residual,
                std::int64_t k, Parallel& parallel) {
  SCOPED_TRACE("k " + std::to_string(k));
  ExpectReference(
      delta, residual,
      [&](const std::vector<T>& added) {
        return reference::TopKResidual(delta, added, k);
      },
      TopK<T>(static_cast<std::int64_t>(delta.size()), k, parallel));
}

// Sizes of less than a vector, and from which on a sample is trusted; shares
// from the sparse to the dense.
TEST(TopKResidual, EqualsTheReferenceForEverySizeFillAndK) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(1);
    Serial serial;
    for (const std::int64_t n : {0, 1, 2, 3, 5, 64, 255, 1000, 4096, 60011}) {
      for (const Fill fill : kAllFills) {
        SCOPED_TRACE("fill " + std::to_string(static_cast<int>(fill)));
        const auto delta = RandomVector<T>(n, fill, random);
        const auto residual = RandomVector<T>(n, fill, random);
        for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, n / 1000,
                                     n / 100, n / 10, n / 3, n - 1, n + 7}) {
          if (k >= 0) ExpectTopK(delta, residual, k, serial);
        }
      }
    }
  });
}

TEST(TopKResidual, DoesNotDependOnTheNumberOfThreads) {
  Random random(2);
  ThreadPool three(3);
  const std::int64_t n = 800011;
  for (const Fill fill : {Fill::kNormal, Fill::kFewLevels, Fill::kAnyBits}) {
    const auto delta = RandomVector<float>(n, fill, random);
    const auto residual = RandomVector<float>(n, fill, random);
    ExpectTopK(delta, residual, n / 100, three);
    if (fill == Fill::kAnyBits) continue;
    ExpectTopK(delta, residual, n - 1, three);
  }
}

// Whole cache lines are large or small, so that a sample of lines says much
// less than its size promises: some of these ranges are too high, some too low.
TEST(TopKResidual, EqualsTheReferenceWhereTheSampleMisleads) {
  Random random(8);
  Serial serial;
  const std::int64_t n = 20000;
  const std::vector<float> zeros(static_cast<std::size_t>(n));
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    auto delta = RandomVector<float>(n, Fill::kNormal, random);
    for (std::size_t line = 0; line < delta.size() / 16; ++line) {
      if (Below(random, 25) > 0) continue;
      for (std::size_t i = 0; i < 16; ++i) delta[16 * line + i] *= 1000.0f;
    }
    if (round % 9 == 0) delta[static_cast<std::size_t>(round)] = NAN;
    ExpectTopK(delta, zeros, n / 25, serial);
  }
}

// Most elements share one key, and k needs some of them, none or all.
TEST(TopKResidual, EqualsTheReferenceWhereOneKeyFillsTheTensor) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(9);
    Serial serial;
    const std::int64_t n = 100003;
    const std::vector<T> minus_zeros(static_cast<std::size_t>(n), T{-0.0f});
    for (const float common : {0.0f, -0.0f, 0.5f}) {
      std::vector<T> delta(static_cast<std::size_t>(n), FromFloat<T>(common));
      for (int j = 0; j < 2000; ++j) {
        delta[static_cast<std::size_t>(Below(random, n))] =
            RandomValue<T>(Fill::kNormal, random);
      }
      for (const std::int64_t k : {200, 1500, 3000, 70000, 99000}) {
        ExpectTopK(delta, minus_zeros, k, serial);
      }
    }
  });
}

// Lists are laid end to end, and their indices count from the first tensor.
// `ks` is one k, or one for each tensor.
template <typename T, typename Ks>
auto Grouped(const Sizes& sizes, const Ks& ks, Parallel& parallel) {
  return [&](const T* delta, const T* in, T* out, T* values,
             std::int32_t* indices, std::int64_t* non_finite) {
    std::vector<TensorUpdate<T>> tensors;
    std::int64_t begin = 0;
    for (const std::int64_t n : sizes) {
      tensors.push_back({delta + begin, in == nullptr ? nullptr : in + begin,
                         out + begin, n});
      begin += n;
    }
    Sizes row_splits(sizes.size() + 1);
    Status status = GroupedTopKResidual(tensors, ks, parallel, values, indices,
                                        row_splits.data(), non_finite);
    begin = 0;
    for (std::size_t t = 0; status.ok() && t < sizes.size(); ++t) {
      for (std::int64_t j = row_splits[t]; j < row_splits[t + 1]; ++j) {
        indices[j] += static_cast<std::int32_t>(begin);
      }
      begin += sizes[t];
    }
    return status;
  };
}

TEST(GroupedTopKResidual, EqualsTheReferenceOfAllAndOfEachTensor) {
  const Sizes sizes = {300, 0, 1, 70000, 64, 5000, 16};
  const Sizes of_each = {3, 4, 1, 700, 0, 4999, 99};
  ForEachWideDtype([&](auto zero) {
    using T = decltype(zero);
    Random random(1);
    ThreadPool two(2);
    for (const Fill fill : kAllFills) {
      SCOPED_TRACE("fill " + std::to_string(static_cast<int>(fill)));
      const auto delta = RandomVector<T>(75381, fill, random);
      const auto residual = RandomVector<T>(75381, fill, random);
      for (const std::int64_t k : {0, 700, 40000, 80000}) {
        SCOPED_TRACE("k " + std::to_string(k));
        ExpectReference(
            delta, residual,
            [&](const std::vector<T>& added) {
              return reference::TopKResidual(delta, added, k);
            },
            Grouped<T>(sizes, k, two));
      }
      ExpectReference(
          delta, residual,
          [&](const std::vector<T>& added) {
            return reference::TopKOfEach(delta, added, sizes, of_each);
          },
          Grouped<T>(sizes, of_each, two));
    }
  });
}

// With residuals that are far from their sums in places, and many zeros.
template <typename T>
std::vector<T> LargeVector(std::size_t n, std::size_t stride) {
  Random random(6);
  const auto some = RandomVector<T>(10007, Fill::kNormal, random);
  const auto odd = RandomVector<T>(997, Fill::kAnyFinite, random);
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (i > n / 3 && i < n / 2 && i % 50 != 0) continue;
    values[i] = stride > 1 && i % 503 == 0 ? odd[i % odd.size()]
                                           : some[stride * i % 9973];
  }
  return values;
}

// `call` selects the same `entries` of a large update in place and elsewhere.
template <typename T, typename Call>
void ExpectAll(const std::vector<T>& delta, const std::vector<T>& residual,
               std::int64_t entries, const Call& call) {
  const auto here = Run(delta, residual, entries, Place::kInPlace, call);
  const auto there = Run(delta, residual, entries, Place::kElsewhere, call);
  EXPECT_TRUE(here.status.ok());
  EXPECT_TRUE(here.indices == there.indices);
  EXPECT_TRUE(SameBits(here.values, there.values));
  EXPECT_TRUE(SameBits(here.residual, there.residual));
}

// The same, and nothing if the last sums are bad.
template <typename T, typename Call>
void ExpectAllOrNothing(const std::vector<T>& delta,
                        const std::vector<T>& residual, std::int64_t entries,
                        const Call& call) {
  ExpectAll(delta, residual, entries, call);
  auto bad_delta = delta;
  auto bad_residual = residual;
  bad_delta[delta.size() - 7] = std::numeric_limits<T>::infinity();
  bad_residual[delta.size() - 5] = -std::numeric_limits<T>::quiet_NaN();
  const auto bad = Run(bad_delta, bad_residual, entries, Place::kInPlace, call);
  EXPECT_TRUE(bad.status.code() == StatusCode::kNonFinite);
  EXPECT_EQ(bad.non_finite, 2);
  EXPECT_TRUE(SameBits(bad.residual, bad_residual));
}

// Large enough for a log of overwritten values in place, and for stores past
// the caches elsewhere. Of the list, some tensors are written at once, and one
// is looked at first (many zeros, a large k).
TEST(Selections, OfLargeUpdatesAreMadeAsAWholeInPlaceAndElsewhere) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    constexpr std::size_t kSize = (std::size_t{32} << 20) / sizeof(T) + 40000;
    const auto delta = LargeVector<T>(kSize, 1);
    const auto residual = LargeVector<T>(kSize, 3);
    const auto n = static_cast<std::int64_t>(kSize);
    ThreadPool three(3);
    ExpectAllOrNothing(delta, residual, n / 100, TopK<T>(n, n / 100, three));
    ExpectAll(delta, residual, n / 10, TopK<T>(n, n / 10, three));
    const Sizes sizes = {n / 3, n / 4, n - 5000 - n / 3 - n / 4, 5000};
    const Sizes of_each = {n / 300, n / 40, n / 9, 50};
    ExpectAll(delta, residual, 50000,
              Grouped<T>(sizes, std::int64_t{50000}, three));
    ExpectAllOrNothing(delta, residual, n / 300 + n / 40 + n / 9 + 50,
                       Grouped<T>(sizes, of_each, three));

    const std::int64_t count = n / 7;
    ExpectAll(delta, residual, count,
              [&](const T* update, const T* in, T* out, T* values,
                  std::int32_t* places, std::int64_t* non_finite) {
                for (std::int64_t j = 0; j < count; ++j) {
                  places[j] = static_cast<std::int32_t>(7 * j);
                }
                return TakeFromSum(update, in, out, n, places, count, three,
                                   values, non_finite);
              });
  });
}

struct Way {
  std::int64_t k;
  std::int64_t chunk;
  float decay;
};

template <typename T>
void ExpectChunks(const std::vector<T>& delta, const std::vector<T>& residual,
                  const Way& way, Parallel& parallel) {
  SCOPED_TRACE("k " + std::to_string(way.k) + ", chunk " +
               std::to_string(way.chunk));
  const auto n = static_cast<std::int64_t>(delta.size());
  const T decay = FromFloat<T>(way.decay);
  ExpectReference(
      delta, residual,
      [&](std::vector<T> added) {
        Sizes sizes;
        for (std::int64_t at = 0; at < n; at += way.chunk) {
          sizes.push_back(std::min(way.chunk, n - at));
        }
        for (T& value : added) value = decay * value;
        return reference::TopKOfEach(delta, added, sizes,
                                     Sizes(sizes.size(), way.k));
      },
      [&](const T* update, const T* in, T* out, auto... entries) {
        return ChunkedTopKResidual<T>(update, in, out, n, way.k, way.chunk,
                                      decay, parallel, entries...);
      });
}

constexpr Way kWays[] = {{0, 16, 1},     {1, 1, 0.5f},      {3, 10, 0.95f},
                         {64, 4096, 1},  {64, 4096, 0.95f}, {700, 1000, 0.5f},
                         {5, 100000, 1}, {1000, 64, 0.95f}, {2, 7, 0}};

TEST(ChunkedTopKResidual, EqualsTheReference) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(1);
    Serial serial;
    for (const std::int64_t n : {0, 1, 9, 4097, 9001}) {
      for (const Fill fill :
           {Fill::kNormal, Fill::kFewLevels, Fill::kZeros, Fill::kDenormal}) {
        const auto delta = RandomVector<T>(n, fill, random);
        const auto residual = RandomVector<T>(n, fill, random);
        for (const Way& way : kWays) {
          ExpectChunks(delta, residual, way, serial);
        }
      }
    }
  });
}

// If neighbouring chunks differ by orders of magnitude, every guess is far off,
// in both directions.
TEST(ChunkedTopKResidual, NeedsNoSimilarChunks) {
  Random random(2);
  Serial serial;
  auto delta = RandomVector<float>(20 * 500, Fill::kNormal, random);
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const float scales[] = {1, 1e-20f, 1e20f, 0, 1e-30f};
    delta[i] *= scales[i / 500 % 5];
  }
  const std::vector<float> residual(delta.size());
  for (const Way& way : {Way{10, 500, 1}, Way{400, 500, 0.5f}}) {
    ExpectChunks(delta, residual, way, serial);
  }
}

TEST(ChunkedTopKResidual, DoesNotDependOnTheNumberOfThreads) {
  Random random(3);
  ThreadPool three(3);
  const auto delta = RandomVector<float>(800011, Fill::kNormal, random);
  const auto residual = RandomVector<float>(800011, Fill::kNormal, random);
  ExpectChunks(delta, residual, {64, 4096, 0.95f}, three);
}

TEST(ChunkedTopKResidual, AcceptsADecayedResidualThatFits) {
  Serial serial;
  const std::vector<float> half(3, std::numeric_limits<float>::max() / 2);
  ExpectChunks(half, half, {1, 3, 0.5f}, serial);
}

// Every `stride`th entry, against sums made one by one.
template <typename T>
void ExpectTaken(const std::vector<T>& delta, const std::vector<T>& residual,
                 std::size_t stride, Parallel& threads) {
  SCOPED_TRACE("stride " + std::to_string(stride));
  const auto n = static_cast<std::int64_t>(delta.size());
  std::vector<T> alone;
  std::vector<std::int32_t> indices;
  for (std::size_t i = stride / 2; i < delta.size(); i += stride) {
    alone.push_back(delta[i]);
    indices.push_back(static_cast<std::int32_t>(i));
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  std::vector<T> gathered(alone.size());
  EXPECT_TRUE(
      Gather(delta.data(), n, indices.data(), count, threads, gathered.data())
          .ok());
  EXPECT_TRUE(SameBits(gathered, alone));
  ExpectReference(
      delta, residual,
      [&](const std::vector<T>& added) {
        reference::TopK<T> expected;
        for (std::size_t i = 0; i < delta.size(); ++i) {
          expected.residual.push_back(delta[i] + added[i]);
        }
        expected.indices = indices;
        for (const std::int32_t index : indices) {
          T& sum = expected.residual[static_cast<std::size_t>(index)];
          expected.values.push_back(std::exchange(sum, T{}));
        }
        return expected;
      },
      [&](const T* update, const T* in, T* out, T* values, std::int32_t* places,
          std::int64_t* non_finite) {
        std::copy(indices.begin(), indices.end(), places);
        return TakeFromSum(update, in, out, n, places, count, threads, values,
                           non_finite);
      });
}

TEST(TakeFromSum, TakesTheSumsOnAnyNumberOfThreads) {
  ForEachWideDtype([](auto zero) {
    using T = decltype(zero);
    Random random(4);
    Serial serial;
    ThreadPool three(3);
    for (const std::int64_t n : {0, 1, 2047, 2049, 60011, 1048577}) {
      const bool is_large = n > 100000;
      if (is_large && std::is_same_v<T, double>) continue;
      const auto delta = RandomVector<T>(n, Fill::kNormal, random);
      const auto residual = RandomVector<T>(n, Fill::kNormal, random);
      for (const std::size_t stride : {1, 7, 3000}) {
        if (is_large && stride == 3000) continue;
        ExpectTaken(delta, residual, stride,
                    is_large ? static_cast<Parallel&>(three) : serial);
      }
    }
  });
}

}  // namespace
}  // namespace fedplug::testing
