// Count-sketch on plain arrays: adding a vector into a table, and reading
// estimates of its elements back. Must not know TensorFlow or Python.
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

// Into how many parts to cut the columns of a row, for so many threads: 1 for
// few elements, for doubles, and where the processor has no AVX-512. Every part
// hashes all elements, so that more than four would gain little.
template <typename T>
int ColumnParts(std::int64_t n, int threads);

// row[column of i] += sign of i * x[i], for i ascending, in one row of a table:
// for those i whose column is in [begin, end).
// REQUIRES: row zeroed by the caller; columns in [1, 2^31), or any if n is 0;
//           all columns where ColumnParts is 1.
// SHAPE: x[n], row[columns].
// THREADS: rows, and parts of their columns, may be done in parallel; a number
//          of the table is one thread's, so that the order of its additions,
//          and with it every bit, is fixed.
// COST: reads n elements and hashes them, 0.3 ns each on an EPYC with AVX-512;
//       adds them to the row in no order, 1.2 ns each as long as the row fits
//       in the third-level cache. To take a part of them out, 0.2 ns each.
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
// THREADS: ranges may be done in parallel.
// COST: reads rows elements in no order and writes one, for each i; sorts them
//       with rows * log2(rows)^2 / 4 exchanges, a vector of elements at a time.
//       May throw std::bad_alloc for 512 bytes a row.
template <typename T>
void EstimateRange(const T* table, const std::uint64_t* keys, std::int64_t rows,
                   std::int64_t columns, std::int64_t begin, std::int64_t end,
                   T* estimates);

}  // namespace fedplug_sketch

#endif  // FEDPLUG_SKETCH_COUNT_SKETCH_H_
