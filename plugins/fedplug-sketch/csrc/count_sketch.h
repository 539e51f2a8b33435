// Count-sketch on plain arrays: adds a vector to a table, and estimates the
// vector's elements from the table.
//
// In one row, element i is in column
//   (hash >> 32) * columns >> 32, negated if hash & 1, hash = Mix(i + key)
// where Mix is the finalizer of SplitMix64: every bit of the result depends on
// every bit of its argument. T is float or double.
//
// Sources: Charikar, Chen, Farach-Colton, "Finding frequent items in data
// streams", ICALP 2002; Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", OOPSLA 2014.
#ifndef FEDPLUG_SKETCH_COUNT_SKETCH_H_
#define FEDPLUG_SKETCH_COUNT_SKETCH_H_

#include <cstdint>

namespace fedplug_sketch {

// Number of parts into which to cut the columns of a row. It is 1 for few
// elements, for doubles, and without AVX-512. Every part hashes all elements,
// so more than four parts would gain little.
template <typename T>
int ColumnParts(std::int64_t n, int threads);

// row[column of i] += sign of i * x[i], for i ascending, in one row of a table:
// for those i whose column is in [begin, end).
// REQUIRES: row zeroed by the caller; columns in [1, 2^31), or any if n is 0;
//           all columns where ColumnParts is 1.
// SHAPE: x[n], row[columns].
// THREADS: rows, and parts of their columns, may run in parallel. One thread
//          computes each number of the table, so the order of its additions
//          is fixed, and with it every bit.
// COST: reads n elements and hashes them, 0.3 ns each on an EPYC with AVX-512;
//       adds them to the row in random order, 1.2 ns each if the row fits into
//       the L3 cache. Selecting a part of them costs 0.2 ns each.
template <typename T>
void SketchColumns(const T* x, std::int64_t n, std::uint64_t key,
                   std::int64_t columns, std::int64_t begin, std::int64_t end,
                   T* row);

// estimates[i] = the median over rows of sign of i * table[row][column of i],
// for begin <= i < end; of an even number of rows the mean of the two in the
// middle. Of zeros that differ in sign, the one of the earlier row comes first.
// REQUIRES: at least one row; columns as above; no NaN where there are several
//           rows.
// SHAPE: keys[rows], table[rows * columns], estimates[>= end].
// THREADS: ranges may run in parallel.
// COST: reads rows elements in random order and writes one, for each i; sorts
//       them with rows * log2(rows)^2 / 4 exchanges, a vector at a time.
//       May throw std::bad_alloc for 512 bytes a row.
template <typename T>
void EstimateRange(const T* table, const std::uint64_t* keys, std::int64_t rows,
                   std::int64_t columns, std::int64_t begin, std::int64_t end,
                   T* estimates);

}  // namespace fedplug_sketch

#endif  // FEDPLUG_SKETCH_COUNT_SKETCH_H_
