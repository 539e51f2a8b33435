// Tests calls without enough memory: whichever allocation fails, no entry is
// lost, no sum is partial, and the process goes on.
#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>

#include "core/base/block_pool.h"
#include "core/base/scratch.h"
#include "core/base/thread_pool.h"
#include "core/scatter_decode.h"
#include "core/topk_residual.h"
#include "tests/kernel_inputs.h"

namespace {

// The test's own allocations are smaller.
constexpr std::size_t kLarge = 1 << 14;

// Smaller allocations always succeed.
std::atomic<std::size_t> smallest{kLarge};

// The number of allocations before one fails; 0: none fails.
std::atomic<int> requests_left{0};

void* Allocate(std::size_t bytes) {
  if (bytes >= smallest && requests_left > 0 && --requests_left == 0) {
    throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace fedplug::testing {
namespace {

using Floats = std::vector<float>;

Floats Sums(const Floats& delta, const Floats& residual) {
  Floats sums;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    sums.push_back(delta[i] + residual[i]);
  }
  return sums;
}

// Whether `call` failed at the given request of `from` bytes or more.
template <typename Call>
bool FailsAt(int request, const Call& call, std::size_t from = kLarge) {
  smallest = from;
  requests_left = request;
  bool failed = false;
  try {
    call();
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  requests_left = 0;
  return failed;
}

// Larger every time, so that no scratch memory of a call before is enough.
std::int64_t SizeOf(int request) { return 300000 + 20000 * request; }

// Selects a twentieth of each tensor of a list, where the given request fails.
struct Selection {
  std::vector<Floats> deltas, residuals, before;
  bool failed;

  Selection(int request, const std::vector<std::int64_t>& sizes) {
    Random random(1);
    const auto some = RandomVector<float>(10007, Fill::kNormal, random);
    for (const std::int64_t n : sizes) {
      Floats delta(static_cast<std::size_t>(n)), residual(delta.size());
      for (std::size_t i = 0; i < delta.size(); ++i) {
        delta[i] = some[i % some.size()];
        residual[i] = some[3 * i % 9973];
      }
      deltas.push_back(delta);
      residuals.push_back(residual);
    }
    before = residuals;
    std::vector<TensorUpdate<float>> updates;
    std::vector<std::int64_t> ks;
    std::int64_t entries = 0;
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      float* const residual = residuals[t].data();
      updates.push_back({deltas[t].data(), residual, residual, sizes[t]});
      ks.push_back(sizes[t] / 20);
      entries += ks[t];
    }
    Floats values(static_cast<std::size_t>(entries));
    std::vector<std::int32_t> indices(values.size());
    std::vector<std::int64_t> row_splits(ks.size() + 1);
    std::int64_t non_finite;
    Serial serial;
    failed = FailsAt(request, [&] {
      const Status status =
          sizes.size() == 1
              ? TopKResidual(deltas[0].data(), residuals[0].data(),
                             residuals[0].data(), sizes[0], ks[0], serial,
                             values.data(), indices.data(), &non_finite)
              : GroupedTopKResidual(updates, ks, serial, values.data(),
                                    indices.data(), row_splits.data(),
                                    &non_finite);
      EXPECT_TRUE(status.ok());
    });
  }
  bool HasSums(std::size_t t) const {
    return residuals[t] == Sums(deltas[t], before[t]);
  }
};

TEST(NoMemory, AListThatFailsLeavesEachResidualOrItsSums) {
  bool failed = true;
  bool found_sums = false;
  for (int request = 1; failed; ++request) {
    const std::int64_t n = SizeOf(request);
    const Selection selection(request, {n, 2 * n, 4 * n});
    failed = selection.failed;
    for (std::size_t t = 0; failed && t < 3; ++t) {
      const bool sums = selection.HasSums(t);
      EXPECT_TRUE(sums || selection.residuals[t] == selection.before[t]);
      found_sums = found_sums || sums;
    }
  }
  EXPECT_TRUE(found_sums);
}

// The larger one has a log of overwritten values.
TEST(NoMemory, ASelectionThatFailsLeavesTheResidual) {
  for (const std::int64_t n : {1000000, (40 << 20) / 4}) {
    int request = 1;
    for (bool failed = true; failed; ++request) {
      const Selection selection(request, {n + SizeOf(request)});
      failed = selection.failed;
      EXPECT_EQ(failed, selection.residuals == selection.before);
    }
    EXPECT_TRUE(request > 3);
  }
}

// Reports many threads, and runs tasks one after the other.
class FourInTurn final : public Parallel {
 public:
  int MaxThreads() const override { return 4; }
  void Run(int count, const std::function<void(int)>& task) override {
    for (int i = 0; i < count; ++i) task(i);
  }
};

TEST(NoMemory, ASumThatFailsIsNotBegun) {
  Random random(4);
  constexpr std::int64_t kPayloads = 5000;
  constexpr std::int64_t kEach = 200;
  constexpr std::int64_t kSize = 40000;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> row_splits{0};
  for (std::int64_t p = 0; p < kPayloads; ++p) {
    for (std::int64_t j = 0; j < kEach; ++j) {
      indices.push_back(static_cast<std::int32_t>(j * (kSize / kEach)));
    }
    row_splits.push_back(static_cast<std::int64_t>(indices.size()));
  }
  const auto entries = static_cast<std::int64_t>(indices.size());
  const auto values = RandomVector<float>(entries, Fill::kNormal, random);
  const auto before = RandomVector<float>(kSize, Fill::kNormal, random);
  FourInTurn parallel;
  bool failed = true;
  int request = 1;
  for (; failed; ++request) {
    auto sum = before;
    failed = FailsAt(request, [&] {
      EXPECT_TRUE(ScatterDecodeAdd<float>(
                      sum.data(), kSize, values.data(), indices.data(), entries,
                      row_splits.data(), kPayloads, nullptr, parallel)
                      .ok());
    });
    EXPECT_EQ(failed, sum == before);
  }
  EXPECT_TRUE(request > 2);
}

TEST(NoMemory, APoolHasTheThreadsThereWasMemoryFor) {
  bool failed = true;
  bool fewer = false;
  for (int request = 1; failed || fewer; ++request) {
    std::optional<ThreadPool> pool;
    fewer = false;
    failed = FailsAt(request, [&] { pool.emplace(4); }, /*from=*/1);
    if (failed) continue;
    fewer = pool->MaxThreads() < 4;
    std::atomic<int> calls{0};
    pool->Run(7, [&](int) { ++calls; });
    EXPECT_EQ(calls.load(), 7);
    ASSERT_TRUE(request < 100);
  }
}

TEST(NoMemory, ScratchIsGivenBackWithoutAny) {
  std::vector<std::optional<ScratchLease>> leases(100);
  for (auto& lease : leases) lease.emplace();
  smallest = 1;
  requests_left = 1;
  for (auto& lease : leases) lease.reset();
  EXPECT_EQ(requests_left.exchange(0), 1);
}

TEST(NoMemory, ABlockThatCannotBeKeptIsFreed) {
  BlockPool pool({0, std::size_t{1} << 30, 1000});
  void* const block = pool.Take(5000);
  EXPECT_FALSE(FailsAt(1, [&] { pool.GiveBack(block); }, /*from=*/1));
  EXPECT_EQ(pool.IdleBytes(), std::size_t{0});
  pool.GiveBack(pool.Take(5000));
  EXPECT_TRUE(pool.IdleBytes() > 0);
}

}  // namespace
}  // namespace fedplug::testing
