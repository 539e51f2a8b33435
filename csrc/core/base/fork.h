// Detects that this process is a forked child, in which other threads do not
// exist and their locks stay locked.
#ifndef FEDPLUG_CORE_BASE_FORK_H_
#define FEDPLUG_CORE_BASE_FORK_H_

#include <cstdint>

namespace fedplug {

// The number of forks between this process and the first caller. Code that
// stores the number beside state that does not survive a fork can detect the
// loss. Always 0 without fork().
//
// THREADS: any
std::uint64_t ForksSoFar();

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_FORK_H_
