#include "core/base/fork.h"

#include <atomic>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace fedplug {
namespace {

std::atomic<std::uint64_t> forks{0};

bool Count() {
#if defined(__unix__) || defined(__APPLE__)
  // Asking for the process id would cost a system call each time.
  pthread_atfork(nullptr, nullptr, [] { ++forks; });
#endif
  return true;
}

}  // namespace

std::uint64_t ForksSoFar() {
  static const bool counting = Count();
  static_cast<void>(counting);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace fedplug
