// What a forked child must know: that it is one. Threads do not live on in it,
// and what another thread had locked stays locked. Must not know who asks.
#ifndef FEDPLUG_CORE_BASE_FORK_H_
#define FEDPLUG_CORE_BASE_FORK_H_

#include <cstdint>

namespace fedplug {

// How many forks lie between this process and the one that first asked: who
// keeps the number beside what does not survive a fork sees that it is gone.
// Always 0 where there is no fork().
//
// THREADS: any
std::uint64_t ForksSoFar();

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_FORK_H_
