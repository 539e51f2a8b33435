// For a loop that is compiled with the instruction set of its caller.
#ifndef FEDPLUG_CORE_BASE_ALWAYS_INLINE_H_
#define FEDPLUG_CORE_BASE_ALWAYS_INLINE_H_

#define FEDPLUG_ALWAYS_INLINE inline __attribute__((always_inline))

#endif  // FEDPLUG_CORE_BASE_ALWAYS_INLINE_H_
