// What code that newer compilers made refers to, and libraries before glibc
// 2.32 and GCC 12 lack; see FedplugOldLibraries.cmake.
#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <new>

#define FEDPLUG_NAMED(name) __asm__(name) __attribute__((visibility("hidden")))

extern "C" {

// std::__throw_bad_array_new_length().
[[noreturn]] void FedplugThrowBadArrayNewLength()
    FEDPLUG_NAMED("_ZSt28__throw_bad_array_new_lengthv");
void FedplugThrowBadArrayNewLength() { throw std::bad_array_new_length(); }

// std::condition_variable::wait, which got a new version without `noexcept`.
void FedplugWait(std::condition_variable* condition,
                 std::unique_lock<std::mutex>& lock)
    FEDPLUG_NAMED("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
void FedplugWait(std::condition_variable* condition,
                 std::unique_lock<std::mutex>& lock) {
  pthread_cond_wait(condition->native_handle(), lock.mutex()->native_handle());
}

// std::exception_ptr's count of references, which the copies of GCC 11 and older
// change outside headers.
void CopyExceptionPointer(void* to, const void* from) __asm__(
    "_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void DestroyExceptionPointer(void* pointer) __asm__(
    "_ZNSt15__exception_ptr13exception_ptrD1Ev");
void FedplugAddReference(void** pointer)
    FEDPLUG_NAMED("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void FedplugAddReference(void** pointer) {
  void* never_destroyed = nullptr;
  CopyExceptionPointer(&never_destroyed, pointer);
}
void FedplugRelease(void** pointer)
    FEDPLUG_NAMED("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
void FedplugRelease(void** pointer) {
  DestroyExceptionPointer(pointer);
  *pointer = nullptr;
}

// Whether reference counts may be changed without atomic instructions: never.
extern char fedplug_single_threaded FEDPLUG_NAMED("__libc_single_threaded");
char fedplug_single_threaded = 0;

}  // extern "C"
