// The rotated code in the slow and obvious way, as core/rotated_code.h says.
#ifndef FEDPLUG_TESTS_REFERENCE_ROTATED_H_
#define FEDPLUG_TESTS_REFERENCE_ROTATED_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/rotated_code.h"

namespace fedplug::reference {

template <typename T>
std::vector<std::uint8_t> EncodeRotated(const std::vector<T>& values,
                                        const RotatedCode& code);

// Empty if the bytes are refused.
template <typename T>
std::optional<std::vector<T>> DecodeRotated(
    const std::vector<std::uint8_t>& data, std::size_t count,
    const RotatedCode& code);

}  // namespace fedplug::reference

#endif  // FEDPLUG_TESTS_REFERENCE_ROTATED_H_
