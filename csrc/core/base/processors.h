// The number of processors a process may use: those of the machine, limited by
// its CPU affinity and the quota of its control group (container).
#ifndef FEDPLUG_CORE_BASE_PROCESSORS_H_
#define FEDPLUG_CORE_BASE_PROCESSORS_H_

#include <string>

namespace fedplug {

// 1 or more.
int AvailableProcessors();

// The quota of the control group or of a parent group, in processors, rounded
// up. 0 if there is none or it cannot be read. Supports both versions of
// Linux's control groups.
//
// `root` is the folder of /proc and /sys: "" on a machine, another one in
// tests.
int ProcessorQuota(const std::string& root);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_PROCESSORS_H_
