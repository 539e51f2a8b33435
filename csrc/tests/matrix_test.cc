// Products of matrices with a few vectors and of thin matrices: the same bits at every SIMD level and on any
// number of threads. tests/ops compares them with a reference.
#include "core/crc32.h"
#include "core/low_rank.h"
#include "core/matrix_times.h"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {
namespace {

// No distribution of the library, whose numbers differ.
template <typename T>
std::vector<T> Values(std::int64_t n, Random& random) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) {
    value =
        FromFloat<T>(static_cast<float>(Below(random, 1 << 20)) / 65536 - 8);
  }
  return values;
}

// The bits, with one pattern for all NaNs, as a checksum.
template <typename T>
std::uint32_t ChecksumOf(const std::vector<T>& values) {
  std::vector<FloatBitsOf<T>> bits;
  for (const T value : values) {
    const bool nan = MagnitudeKey(value) > FloatTraits<T>::kInfinity;
    bits.push_back(nan ? FloatBitsOf<T>{1} : ToBits(value));
  }
  return Crc32(reinterpret_cast<const std::uint8_t*>(bits.data()),
               static_cast<std::int64_t>(bits.size() * sizeof(T)));
}

// A B, A' B and P Q'.
template <typename T>
void AddProducts(const MatrixShape& shape, const std::vector<T>& rows,
                 const std::vector<T>& columns, Random& random,
                 Parallel& threads, std::vector<std::uint32_t>* sums) {
  const std::vector<T> matrix = Values<T>(shape.rows * shape.columns, random);
  Buffer<T> a(matrix, 1);
  Buffer<T> p(rows, 3);
  Buffer<T> q(columns, 1);
  Buffer<T> of_rows(rows, 1);
  Buffer<T> of_columns(columns, 1);
  Buffer<T> other(matrix, 1);
  EXPECT_TRUE(
      MatrixTimes(a.data(), q.data(), shape, threads, of_rows.data()).ok());
  EXPECT_TRUE(
      TransposedTimes(a.data(), p.data(), shape, threads, of_columns.data())
          .ok());
  EXPECT_TRUE(
      LowRankMatrix(p.data(), q.data(), shape, threads, other.data()).ok());
  sums->push_back(ChecksumOf(of_rows.ToVector()));
  sums->push_back(ChecksumOf(of_columns.ToVector()));
  sums->push_back(ChecksumOf(other.ToVector()));
}

template <typename T>
std::uint32_t ChecksumOfProducts(Parallel& threads) {
  // Leaves of more than one piece, groups of rows, strips of columns; the last is written past the caches.
  std::vector<MatrixShape> shapes = {
      {2500, 70, 3}, {70, 2500, 2}, {300, 700, 9}, {9000, 9, 2},
      {9, 9000, 2},  {40000, 2, 1}, {2, 40000, 1}, {1, 70000, 1},
      {70000, 1, 1}, {3, 5000, 4},  {50000, 3, 5}, {3001, 2801, 2}};
  Random random(1);
  for (const std::int64_t rows : {0, 1, 2, 3, 5, 8, 15, 17, 70}) {
    for (const std::int64_t columns : {0, 1, 2, 7, 9, 16, 31, 65, 130}) {
      shapes.push_back({rows, columns, 1 + Below(random, 10)});
    }
  }
  std::vector<std::uint32_t> sums;
  for (const MatrixShape& shape : shapes) {
    const auto rows = Values<T>(shape.rows * shape.rank, random);
    const auto columns = Values<T>(shape.columns * shape.rank, random);
    AddProducts(shape, rows, columns, random, threads, &sums);
  }
  // Denormal numbers, zeros of both signs, and products that are too large.
  for (const Fill fill : {Fill::kDenormal, Fill::kZeros, Fill::kAnyFinite}) {
    const auto rows = RandomVector<T>(37, fill, random);
    const auto columns = RandomVector<T>(53, Fill::kFewLevels, random);
    AddProducts({37, 53, 1}, rows, columns, random, threads, &sums);
  }
  return Crc32(reinterpret_cast<const std::uint8_t*>(sums.data()),
               static_cast<std::int64_t>(sums.size() * sizeof(sums[0])));
}

TEST(MatrixProducts, HaveTheSameBitsAtEverySimdLevelOnAnyNumberOfThreads) {
  for (const int threads : {1, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(ChecksumOfProducts<float>(pool), 0x4a039677u);
    EXPECT_EQ(ChecksumOfProducts<double>(pool), 0xa4dfbcc8u);
  }
}

}  // namespace
}  // namespace fedplug::testing
