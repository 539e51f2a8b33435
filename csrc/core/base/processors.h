// How many processors a process may keep busy: those of the machine, less what
// its CPU affinity and the quota of its control group (a container's) deny it.
// Must not know who asks.
#ifndef FEDPLUG_CORE_BASE_PROCESSORS_H_
#define FEDPLUG_CORE_BASE_PROCESSORS_H_

#include <string>

namespace fedplug {

// 1 or more.
int AvailableProcessors();

// The quota of the control group, or of one around it, in processors, rounded
// up; 0 where there is none, or none that can be read. Both versions of Linux's
// control groups are understood.
//
// `root` is where /proc and /sys are found: "" on a machine, a folder in tests.
int ProcessorQuota(const std::string& root);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_PROCESSORS_H_
