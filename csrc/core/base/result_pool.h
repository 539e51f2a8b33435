// The pool that results come from, be they tensors or arrays. Must not know
// what they are.
#ifndef FEDPLUG_CORE_BASE_RESULT_POOL_H_
#define FEDPLUG_CORE_BASE_RESULT_POOL_H_

#include <cstddef>

#include "core/base/block_pool.h"

namespace fedplug {

// Below this malloc keeps what is freed, and its pages, to itself.
constexpr std::size_t kPooledFrom = std::size_t{256} << 10;

// Never destroyed: results may be gone later than anything else. It keeps
// enough for the results of an update of 10^8 parameters, and a block not for
// long in a process that has gone on to other sizes.
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
