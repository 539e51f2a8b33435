// The pool of the memory of results, both tensors and arrays.
#ifndef FEDPLUG_CORE_BASE_RESULT_POOL_H_
#define FEDPLUG_CORE_BASE_RESULT_POOL_H_

#include <cstddef>

#include "core/base/block_pool.h"

namespace fedplug {

// Below this size malloc keeps freed blocks and their pages. It gives back the
// pages of larger ones that are freed together, as a payload's entries are.
constexpr std::size_t kPooledFrom = std::size_t{64} << 10;

// Never destroyed, because results may outlive other statics. Holds the results
// of an update of 10^8 parameters. A process that changes sizes soon frees the
// old blocks.
//
// THREADS: any
inline BlockPool& ResultPool() {
  constexpr BlockPool::Limits kLimits = {kPooledFrom, std::size_t{512} << 20,
                                         1024};
  static auto* const pool = new BlockPool(kLimits);
  return *pool;
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_RESULT_POOL_H_
