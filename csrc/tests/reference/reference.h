// Slow and simple versions of the kernels, line by line as the contracts in
// core/*.h. Tests compare every implementation with them. They accept
// valid input only, use one thread and allocate.
#ifndef FEDPLUG_TESTS_REFERENCE_REFERENCE_H_
#define FEDPLUG_TESTS_REFERENCE_REFERENCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/float16.h"
#include "core/value_code.h"

namespace fedplug::reference {

template <typename T>
struct TopK {
  std::vector<T> values;
  std::vector<std::int32_t> indices;
  std::vector<T> residual;
  std::int64_t non_finite = 0;
};

// A stable sort of all |a|. Sums that are not finite count as zero
// (NonFinitePolicy::kDrop). COST: O(n log n)
template <typename T>
TopK<T> TopKResidual(const std::vector<T>& delta,
                     const std::vector<T>& residual, std::int64_t k);

// TopKResidual of each chunk of `chunk` elements by itself, of the residual
// times `decay`.
template <typename T>
TopK<T> ChunkedTopKResidual(const std::vector<T>& delta,
                            const std::vector<T>& residual, std::int64_t k,
                            std::int64_t chunk, T decay);

// One payload after the other, one entry after the other.
// SHAPE: values and indices hold one vector per payload; weights[payloads], or
// empty for none
template <typename T>
void ScatterDecodeAdd(std::vector<T>* accumulator,
                      const std::vector<std::vector<T>>& values,
                      const std::vector<std::vector<std::int32_t>>& indices,
                      const std::vector<T>& weights);

// Encodes bit by bit, with the best of all parameters.
std::vector<std::uint8_t> EncodeIndices(
    const std::vector<std::int32_t>& indices);

// The indices of a code, bit by bit. Empty if the code is invalid.
std::optional<std::vector<std::int32_t>> DecodeIndices(
    const std::vector<std::uint8_t>& code, std::int64_t count,
    std::int64_t size);

// One value after the other, one bit after the other.
template <typename T>
std::vector<std::uint8_t> EncodeValues(const std::vector<T>& values,
                                       const ValueCode& code,
                                       std::uint64_t seed);

// The decoded values of EncodeValues(values, ...): each value rounded to its
// level.
template <typename T>
std::vector<T> QuantizedValues(const std::vector<T>& values,
                               const ValueCode& code, std::uint64_t seed);

// One symbol after the other, with divisions, and one bit after the other where
// they are packed. The symbols are not packed.
std::vector<std::uint8_t> EncodeSymbols(
    const std::vector<std::uint8_t>& symbols, int bits);

// The symbols of a code. Empty if the code is invalid.
std::optional<std::vector<std::uint8_t>> DecodeSymbols(
    const std::vector<std::uint8_t>& code, std::int64_t count, int bits);

// The values of a code, one value and one bit after the other. Empty if the
// bytes are invalid. REQUIRES: the code is valid
template <typename T>
std::optional<std::vector<T>> DecodeValues(
    const std::vector<std::uint8_t>& bytes, std::size_t count,
    const ValueCode& code);

// Bit by bit.
std::uint32_t Crc32(const std::vector<std::uint8_t>& data);

}  // namespace fedplug::reference

#endif  // FEDPLUG_TESTS_REFERENCE_REFERENCE_H_
