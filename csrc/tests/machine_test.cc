// The processors of this machine: their number, limited by control groups, and their instruction sets.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/base/thread_pool.h"
#include "core/simd/level.h"
#include "tests/test.h"

namespace fedplug::testing {
namespace {

// A temporary folder, removed with the object.
class Root {
 public:
  Root() {
    std::string name =
        (std::filesystem::temp_directory_path() / "fedplug-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Root() { std::filesystem::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  const std::string& path() const { return path_; }

  void Write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = path_ + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

 private:
  std::string path_;
};

TEST(Processors, AreAtLeastOneAndAtMostThoseOfTheMachine) {
  const int processors = AvailableProcessors();
  EXPECT_TRUE(processors >= 1);
  const unsigned all = std::thread::hardware_concurrency();
  EXPECT_TRUE(all == 0 || processors <= static_cast<int>(all));
}

TEST(Processors, NoControlGroupIsNoQuota) {
  const Root root;
  EXPECT_EQ(ProcessorQuota(root.path()), 0);
  root.Write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(ProcessorQuota(root.path()), 0);
}

TEST(Processors, AQuotaIsRoundedUp) {
  const Root root;
  root.Write("/proc/self/cgroup", "0::/\n");
  const std::string file = "/sys/fs/cgroup/cpu.max";
  for (const auto& [text, processors] :
       {std::pair{"max 100000\n", 0}, std::pair{"200000 100000\n", 2},
        std::pair{"200001 100000\n", 3}, std::pair{"50000 100000\n", 1},
        std::pair{"9223372036854775807 1\n", INT32_MAX}}) {
    SCOPED_TRACE(text);
    root.Write(file, text);
    EXPECT_EQ(ProcessorQuota(root.path()), processors);
  }
}

TEST(Processors, AGroupHasNoMoreThanThoseAroundIt) {
  const Root root;
  root.Write("/proc/self/cgroup", "0::/kubepods/pod\n");
  root.Write("/sys/fs/cgroup/kubepods/cpu.max", "400000 100000\n");
  EXPECT_EQ(ProcessorQuota(root.path()), 4);
  root.Write("/sys/fs/cgroup/kubepods/pod/cpu.max", "800000 100000\n");
  EXPECT_EQ(ProcessorQuota(root.path()), 4);
  root.Write("/sys/fs/cgroup/kubepods/pod/cpu.max", "300000 100000\n");
  EXPECT_EQ(ProcessorQuota(root.path()), 3);
}

TEST(Processors, TheFirstVersionHasAFileForQuotaAndOneForPeriod) {
  const Root root;
  root.Write("/proc/self/cgroup",
             "9:cpuset:/docker/1\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/\n");
  const std::string group = "/sys/fs/cgroup/cpu/docker/1";
  root.Write(group + "/cpu.cfs_period_us", "100000\n");
  root.Write(group + "/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(ProcessorQuota(root.path()), 0);
  root.Write(group + "/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(ProcessorQuota(root.path()), 2);
}

TEST(Processors, AnUnreadableFileIsNoQuota) {
  const Root root;
  root.Write("/proc/self/cgroup", "\n:\n0:\n0::/a\nnothing\n");
  for (const char* text : {"", "max", "5", "0 0", "-1 100000", "x y"}) {
    SCOPED_TRACE(text);
    root.Write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(ProcessorQuota(root.path()), 0);
  }
}

// The instruction sets of this processor, against the compiler's own list.

#if FEDPLUG_SIMD_X86
TEST(X86Features, AreThoseThatTheCompilersRuntimeFinds) {
  const simd::X86Features& found = simd::FeaturesOfX86();
  // Clang 14 knows no "f16c", which every processor with AVX2 has.
  EXPECT_EQ(found.avx2, __builtin_cpu_supports("avx2") &&
                            __builtin_cpu_supports("popcnt") &&
                            __builtin_cpu_supports("bmi"));
  EXPECT_EQ(found.avx512f, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(found.pclmul, __builtin_cpu_supports("pclmul") != 0);
  EXPECT_EQ(found.vpclmulqdq, __builtin_cpu_supports("vpclmulqdq") != 0);
}
#endif

}  // namespace
}  // namespace fedplug::testing
