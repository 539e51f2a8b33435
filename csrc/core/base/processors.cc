#include "core/base/processors.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>

namespace fedplug {
namespace {

// Rounded up; 0 is none.
int Quota(std::int64_t microseconds, std::int64_t period) {
  if (microseconds <= 0 || period <= 0) return 0;
  const std::int64_t processors =
      microseconds / period + (microseconds % period > 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(processors, INT32_MAX));
}

int SmallerQuota(int a, int b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

// cpu.max is "max 100000" or "50000 100000".
int QuotaOfVersion2(const std::string& group) {
  std::ifstream file(group + "/cpu.max");
  std::int64_t microseconds = 0;
  std::int64_t period = 0;
  return file >> microseconds >> period ? Quota(microseconds, period) : 0;
}

// The quota is -1 where there is none.
int QuotaOfVersion1(const std::string& group) {
  std::ifstream quota_file(group + "/cpu.cfs_quota_us");
  std::ifstream period_file(group + "/cpu.cfs_period_us");
  std::int64_t microseconds = 0;
  std::int64_t period = 0;
  return quota_file >> microseconds && period_file >> period
             ? Quota(microseconds, period)
             : 0;
}

// The smallest quota of a group and all those around it. A container often sees
// its own group as the outermost one, and not the path to it.
template <typename QuotaOf>
int SmallestQuota(const std::string& mount, std::string path,
                  const QuotaOf& quota_of) {
  int quota = quota_of(mount);
  while (path.size() > 1) {
    quota = SmallerQuota(quota, quota_of(mount + path));
    path.resize(path.rfind('/'));
  }
  return quota;
}

bool NamesController(const std::string& controllers, const std::string& name) {
  const std::string list = "," + controllers + ",";
  return list.find("," + name + ",") != std::string::npos;
}

}  // namespace

int ProcessorQuota(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  int quota = 0;
  // Lines "0::/path" (version 2) and "4:cpu,cpuacct:/path" (version 1).
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(":/", first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      quota = SmallerQuota(quota, SmallestQuota(mount, path, QuotaOfVersion2));
    } else if (NamesController(controllers, "cpu")) {
      quota = SmallerQuota(
          quota, SmallestQuota(mount + "/cpu", path, QuotaOfVersion1));
    }
  }
  return quota;
}

int AvailableProcessors() {
  // Follows the CPU affinity, where there is one; 0 is "not known".
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, SmallerQuota(processors, ProcessorQuota("")));
}

}  // namespace fedplug
