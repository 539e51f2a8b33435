// The other forms of the selection (lists of tensors, 16-bit deltas),
// each against plain loops around the reference.
#include <cmath>

#include "core/topk_residual.h"
#include "tests/kernel_inputs.h"
#include "tests/reference/reference.h"

namespace fedplug::testing {
namespace {

const std::vector<std::int64_t> kSizes = {300, 0, 1, 70000, 64, 5000, 16};

template <typename T>
struct Tensors {
  std::vector<std::vector<T>> deltas;
  std::vector<std::vector<T>> residuals;

  Tensors(Fill fill, Random& random) {
    for (const std::int64_t n : kSizes) {
      deltas.push_back(RandomVector<T>(n, fill, random));
      residuals.push_back(RandomVector<T>(n, fill, random));
    }
  }
  // In place if `outs` are the residuals.
  std::vector<TensorUpdate<T>> Updates(std::vector<std::vector<T>>* outs) {
    std::vector<TensorUpdate<T>> updates;
    for (std::size_t t = 0; t < deltas.size(); ++t) {
      updates.push_back({deltas[t].data(), residuals[t].data(),
                         (*outs)[t].data(),
                         static_cast<std::int64_t>(deltas[t].size())});
    }
    return updates;
  }
};

template <typename T>
std::vector<T> Joined(const std::vector<std::vector<T>>& parts) {
  std::vector<T> joined;
  for (const auto& part : parts) {
    joined.insert(joined.end(), part.begin(), part.end());
  }
  return joined;
}

// `ks` is one k, or one for each tensor. The indices of `expected` are those in
// the tensors laid end to end.
template <typename T, typename Ks>
void ExpectSelection(Tensors<T> tensors, const Ks& ks, bool in_place,
                     const reference::TopK<T>& expected) {
  ThreadPool two(2);
  const auto before_all = Joined(tensors.residuals);
  auto elsewhere = tensors.residuals;
  auto& outs = in_place ? tensors.residuals : elsewhere;
  std::vector<T> values(expected.values.size());
  std::vector<std::int32_t> indices(values.size());
  std::vector<std::int64_t> row_splits(kSizes.size() + 1);
  std::int64_t non_finite = -1;
  const Status status =
      GroupedTopKResidual(tensors.Updates(&outs), ks, two, values.data(),
                          indices.data(), row_splits.data(), &non_finite);
  EXPECT_EQ(non_finite, expected.non_finite);
  EXPECT_EQ(status.ok(), expected.non_finite == 0);
  if (expected.non_finite > 0) {
    EXPECT_EQ(BitsOf(Joined(outs)), BitsOf(before_all));
    return;
  }
  EXPECT_EQ(BitsOf(values), BitsOf(expected.values));
  EXPECT_EQ(BitsOf(Joined(outs)), BitsOf(expected.residual));
  EXPECT_EQ(row_splits.back(), static_cast<std::int64_t>(values.size()));
  std::int64_t before = 0;
  for (std::size_t t = 0; t < kSizes.size(); before += kSizes[t++]) {
    for (std::int64_t j = row_splits[t]; j < row_splits[t + 1]; ++j) {
      indices[static_cast<std::size_t>(j)] += static_cast<std::int32_t>(before);
    }
  }
  EXPECT_EQ(indices, expected.indices);
}

TEST(GroupedTopKResidual, IsTheSelectionFromTheTensorsLaidEndToEnd) {
  ForEachWideDtype([](auto zero) {
    Random random(1);
    for (const Fill fill : kAllFills) {
      for (const std::int64_t k : {0, 1, 700, 7000, 40000, 75381, 80000}) {
        SCOPED_TRACE("fill " + std::to_string(static_cast<int>(fill)) + ", k " +
                     std::to_string(k));
        Tensors<decltype(zero)> tensors(fill, random);
        const auto expected = reference::TopKResidual(
            Joined(tensors.deltas), Joined(tensors.residuals), k);
        for (const bool in_place : {true, false}) {
          ExpectSelection(tensors, k, in_place, expected);
        }
      }
    }
  });
}

TEST(GroupedTopKResidual, IsTheSelectionFromEachTensor) {
  ForEachWideDtype([](auto zero) {
    Random random(2);
    const std::vector<std::int64_t> ks = {3, 4, 1, 700, 0, 4999, 99};
    for (const Fill fill : kAllFills) {
      Tensors<decltype(zero)> tensors(fill, random);
      reference::TopK<decltype(zero)> expected;
      for (std::size_t t = 0; t < kSizes.size(); ++t) {
        const auto before = static_cast<std::int32_t>(expected.residual.size());
        const auto one = reference::TopKResidual(tensors.deltas[t],
                                                 tensors.residuals[t], ks[t]);
        expected.values.insert(expected.values.end(), one.values.begin(),
                               one.values.end());
        expected.residual.insert(expected.residual.end(), one.residual.begin(),
                                 one.residual.end());
        for (const std::int32_t index : one.indices) {
          expected.indices.push_back(before + index);
        }
        expected.non_finite += one.non_finite;
      }
      for (const bool in_place : {true, false}) {
        ExpectSelection(tensors, ks, in_place, expected);
      }
    }
  });
}

// Large enough together for logs of overwritten values: tensors that are
// written at once, that are looked at first (many zeros, a large k) and a bad
// one, one after the other.
TEST(GroupedTopKResidual, OneBadTensorLeavesLargeOnesAsTheyWere) {
  constexpr std::size_t n = (std::size_t{32} << 20) / sizeof(float) / 3;
  Random random(6);
  const auto some = RandomVector<float>(10007, Fill::kNormal, random);
  std::vector<std::vector<float>> deltas(4, std::vector<float>(n + 1));
  deltas[3].resize(5000);
  auto residuals = deltas;
  for (std::size_t t = 0; t < deltas.size(); ++t) {
    for (std::size_t i = 0; i < deltas[t].size(); ++i) {
      if (t == 1 && i % 50 != 0) continue;
      deltas[t][i] = some[(i + t) % some.size()];
      residuals[t][i] = some[(3 * i + t) % 9973];
    }
  }
  ThreadPool two(2);
  for (const bool each : {true, false}) {
    for (const bool good : {true, false}) {
      auto bad = deltas;
      if (!good) bad[3][4990] = NAN;
      auto left = residuals;
      std::vector<TensorUpdate<float>> updates;
      std::vector<std::int64_t> ks;
      for (std::size_t t = 0; t < bad.size(); ++t) {
        const auto size = static_cast<std::int64_t>(bad[t].size());
        updates.push_back(
            {bad[t].data(), left[t].data(), left[t].data(), size});
        ks.push_back(t == 1 ? size / 10 : t == 2 ? size / 3 : size / 100);
      }
      std::vector<float> values(n);
      std::vector<std::int32_t> indices(n);
      std::vector<std::int64_t> row_splits(ks.size() + 1);
      std::int64_t non_finite = -1;
      const auto run = [&] {
        return each ? GroupedTopKResidual(updates, ks, two, values.data(),
                                          indices.data(), row_splits.data(),
                                          &non_finite)
                    : GroupedTopKResidual(updates, 50000, two, values.data(),
                                          indices.data(), row_splits.data(),
                                          &non_finite);
      };
      const Status status = run();
      EXPECT_EQ(status.ok(), good);
      if (!good) {
        EXPECT_EQ(non_finite, 1);
        for (std::size_t t = 0; t < left.size(); ++t) {
          EXPECT_TRUE(SameBits(left[t], residuals[t]));
        }
        continue;
      }
      const auto values_before = values;
      const auto indices_before = indices;
      auto elsewhere = residuals;
      for (std::size_t t = 0; t < left.size(); ++t) {
        updates[t].residual_in = residuals[t].data();
        updates[t].residual_out = elsewhere[t].data();
      }
      EXPECT_TRUE(run().ok());
      EXPECT_TRUE(values == values_before && indices == indices_before);
      for (std::size_t t = 0; t < left.size(); ++t) {
        EXPECT_TRUE(SameBits(elsewhere[t], left[t]));
      }
    }
  }
}

}  // namespace
}  // namespace fedplug::testing
