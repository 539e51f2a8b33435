// The code of one class: the ranks of its changed members, and their steps.
#ifndef FEDPLUG_CORE_CODES_DIFFERENCE_CLASS_CODE_H_
#define FEDPLUG_CORE_CODES_DIFFERENCE_CLASS_CODE_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/codes/difference/parts.h"

namespace fedplug::differences {

// Ranks ascend strictly and are below `members`. Nothing is appended for all of
// them or for none.
//
// REQUIRES: 0 <= count <= members < 2^31
// SHAPE:    ranks[count]
void AppendRanks(const std::int32_t* ranks, std::int64_t count,
                 std::int64_t members, ByteVector* code);
Status ReadRanks(PartReader* code, std::int64_t count, std::int64_t members,
                 std::int32_t* ranks);

// No step is 0.
//
// SHAPE: steps[count]
template <typename Word>
void AppendSteps(const Word* steps, std::int64_t count, ByteVector* code);
template <typename Word>
Status ReadSteps(PartReader* code, std::int64_t count, Word* steps);

}  // namespace fedplug::differences

#endif  // FEDPLUG_CORE_CODES_DIFFERENCE_CLASS_CODE_H_
