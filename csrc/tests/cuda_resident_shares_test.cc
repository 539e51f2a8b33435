// Tests which tensors the resident selection accepts, and how it cuts them.
#include "cuda/topk/resident.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

using cuda::DeviceLimits;
using cuda::topk::Shares;
using cuda::topk::SharesOf;

constexpr DeviceLimits kH100 = {132, 227 * 1024, true};
constexpr DeviceLimits kA100 = {108, 163 * 1024, true};

// n elements fit, and one more does not.
template <typename T>
void ExpectRoomFor(std::int64_t n, const DeviceLimits& limits) {
  EXPECT_EQ(SharesOf<T>(n, limits).count,
            static_cast<std::uint32_t>(limits.multiprocessors));
  EXPECT_EQ(SharesOf<T>(n + 1, limits).count, 0u);
}

TEST(CudaResidentShares, FillTheSharedMemoryOfAllMultiprocessors) {
  ExpectRoomFor<float>(7315968, kH100);
  ExpectRoomFor<double>(3657984, kH100);
  ExpectRoomFor<float>(4216320, kA100);
}

TEST(CudaResidentShares, AreNoneWhereBlocksCannotWaitOrHaveNoRoom) {
  EXPECT_EQ(SharesOf<float>(100, {}).count, 0u);
  EXPECT_EQ(SharesOf<float>(100, {132, 227 * 1024, false}).count, 0u);
  EXPECT_EQ(SharesOf<float>(100, {0, 227 * 1024, true}).count, 0u);
  EXPECT_EQ(SharesOf<float>(100, {132, 8 * 1024, true}).count, 0u);
  EXPECT_EQ(SharesOf<float>(INT32_MAX, kH100).count, 0u);
}

TEST(CudaResidentShares, HoldEveryElementOnce) {
  Random random(1);
  ForEachWideDtype([&](auto zero) {
    using T = decltype(zero);
    for (int trial = 0; trial < 2000; ++trial) {
      const DeviceLimits limits = {static_cast<int>(1 + Below(random, 2000)),
                                   9000 + Below(random, 227 * 1024 - 9000),
                                   true};
      const std::int64_t n =
          Below(random, std::int64_t{1} << Below(random, 25));
      const Shares shares = SharesOf<T>(n, limits);
      if (shares.count == 0) continue;
      EXPECT_TRUE(cuda::topk::ResidentMemory<T>::BytesFor(shares.elements) <=
                  limits.shared_bytes);
      EXPECT_TRUE(shares.count <=
                  static_cast<std::uint32_t>(limits.multiprocessors));
      EXPECT_TRUE(shares.count <= cuda::topk::MostSharesOf(n));
      EXPECT_EQ(shares.elements % cuda::kWarp, 0u);
      std::byte memory[1 << 14];
      std::int64_t next = 0;
      for (std::uint32_t i = 0; i < shares.count; ++i) {
        const auto share = cuda::topk::ResidentMemory<T>(memory).ShareAt(
            i, n, shares.elements);
        EXPECT_EQ(share.begin, next);
        EXPECT_TRUE(share.size > 0 || n == 0);
        next += share.size;
      }
      EXPECT_EQ(next, n);
    }
  });
}

}  // namespace
}  // namespace fedplug::testing
