// Codes of strictly ascending indices. docs/wire-format.md specifies the bytes:
// kRice writes "rice/1", kGaps writes "gaps/1".
//
// With the parameter 0 a Rice code is a bitmap up to the last index. Therefore
// no code exceeds size / 8 + 3 bytes.
#ifndef FEDPLUG_CORE_INDEX_CODE_H_
#define FEDPLUG_CORE_INDEX_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace fedplug {

enum class IndexForm { kRice, kGaps };

// Finds a form by its name, "rice" or "gaps". False if there is no such form.
bool FindIndexForm(const std::string& name, IndexForm* form);

// Refuses (kInvalidArgument) indices that do not ascend strictly in [0, size),
// and sizes outside [0, 2^31).
//
// SHAPE: indices[count]
Status CheckIndices(const std::int32_t* indices, std::int64_t count,
                    std::int64_t size);

// Refuses as CheckIndices does, and *code is then unchanged.
//
// SHAPE:    indices[count], *code is replaced
// THREADS:  the caller's only
// COST:     O(count)
Status EncodeIndices(const std::int32_t* indices, std::int64_t count,
                     std::int64_t size, IndexForm form,
                     std::vector<std::uint8_t>* code);

// Refuses counts that are not in [0, size] (kInvalidArgument) and lengths of a
// code that cannot hold `count` indices (kDataLoss). Call it before allocating
// the indices: there are at most 8 per byte, and 256 per byte with kGaps.
Status CheckIndexCode(std::int64_t bytes, std::int64_t count, std::int64_t size,
                      IndexForm form);

// The inverse of EncodeIndices. Untrusted bytes: a code that is not the layout
// of `count` indices (length, padding, an index at or beyond `size` or not
// above its predecessor) is kDataLoss, and nothing outside indices[0, count) is
// written. Only the bytes of EncodeIndices are accepted.
//
// REQUIRES: 0 <= count <= size < 2^31 (checked)
// SHAPE:    code[bytes], indices[count]
// THREADS:  the caller's only
// COST:     O(count + bytes)
Status DecodeIndices(const std::uint8_t* code, std::int64_t bytes,
                     std::int64_t count, std::int64_t size, IndexForm form,
                     std::int32_t* indices);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_INDEX_CODE_H_
