// Count-sketch on plain arrays: adding a vector into a table, and reading
// estimates of its elements back. Must not know TensorFlow.
//
// Source: Charikar, Chen, Farach-Colton, "Finding frequent items in data
// streams", ICALP 2002.
#ifndef FEDPLUG_SKETCH_COUNT_SKETCH_H_
#define FEDPLUG_SKETCH_COUNT_SKETCH_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fedplug_sketch {

// The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014): every bit of the result
// depends on every bit of x.
inline std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Where element i of a vector is in one row of the table, and with which sign.
struct Place {
  std::int64_t column;
  bool negative;
};

// REQUIRES: columns in [1, 2^31), or 0 if it is not asked for any element.
inline Place PlaceOf(std::uint64_t i, std::uint64_t key, std::int64_t columns) {
  const std::uint64_t hash = Mix(i + key);
  const std::uint64_t high = hash >> 32;
  return {static_cast<std::int64_t>(
              (high * static_cast<std::uint64_t>(columns)) >> 32),
          (hash & 1u) != 0};
}

// row[column of i] += sign of i * x[i], for i ascending: one row of a table.
// REQUIRES: row zeroed by the caller; PlaceOf's requirement.
// SHAPE: x[n], row[columns].
// THREADS: rows may be done in parallel; one row is one thread's, so that the
//          order of its additions, and with it every bit, is fixed.
// COST: reads n elements, updates n in no order.
template <typename T>
void SketchRow(const T* x, std::int64_t n, std::uint64_t key,
               std::int64_t columns, T* row) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Place place = PlaceOf(static_cast<std::uint64_t>(i), key, columns);
    row[place.column] += place.negative ? -x[i] : x[i];
  }
}

// estimates[i] = the median over rows of sign of i * table[row][column of i],
// for begin <= i < end; of an even number of rows the mean of the two in the
// middle.
// REQUIRES: at least one row; PlaceOf's requirement.
// SHAPE: keys[rows], table[rows * columns], estimates[>= end].
// THREADS: ranges may be done in parallel.
// COST: reads rows elements in no order and writes one, for each i.
template <typename T>
void EstimateRange(const T* table, const std::uint64_t* keys, std::int64_t rows,
                   std::int64_t columns, std::int64_t begin, std::int64_t end,
                   T* estimates) {
  std::vector<T> of_rows(static_cast<std::size_t>(rows));
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const Place place =
          PlaceOf(static_cast<std::uint64_t>(i), keys[r], columns);
      const T value = table[r * columns + place.column];
      // After its equals: zeros that differ in sign stay in the order of rows.
      const auto filled = of_rows.begin() + r;
      *filled = place.negative ? -value : value;
      std::rotate(std::upper_bound(of_rows.begin(), filled, *filled), filled,
                  filled + 1);
    }
    const std::size_t middle = of_rows.size() / 2;
    // Halved before they are added, which cannot overflow.
    estimates[i] = rows % 2 != 0
                       ? of_rows[middle]
                       : of_rows[middle - 1] / 2 + of_rows[middle] / 2;
  }
}

}  // namespace fedplug_sketch

#endif  // FEDPLUG_SKETCH_COUNT_SKETCH_H_
