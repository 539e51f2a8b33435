// Runs the cases of cuda_check_cases.h on fibers, and tests the launches of the
// CUDA kernels (csrc/cuda/*.cu) on a device that refuses or delays them, and on
// streams of the caller.
#include "cuda/runtime.h"
#include "cuda/topk/lists.h"
#include "tests/cuda_check_cases.h"
#include "tests/fake_cuda/device.h"

namespace fedplug::testing {
namespace {

using fake_cuda::FakeDevice;
using fake_cuda::Operation;
using fake_cuda::ScopedDevice;
using fake_cuda::ScopedFailure;

// Since the log was last taken.
std::size_t LaunchesLogged() {
  const auto log = fake_cuda::TakeLog();
  return static_cast<std::size_t>(
      std::count_if(log.begin(), log.end(), [](const fake_cuda::Queued& each) {
        return each.operation == Operation::kLaunch;
      }));
}

// A list of one tensor takes one launch, with its row splits. A longer one a
// second, and an older driver one for every 19 tensors.
TEST(CudaDevice, ListsTakeFewLaunchesAndEqualTheCore) {
  Random random(7);
  struct Row {
    FakeDevice device;
    std::size_t tensors;
    std::size_t launches;
  };
  for (const Row& row :
       {Row{FakeDevice::kFibers, 1, 1}, Row{FakeDevice::kFibers, 3, 2},
        Row{FakeDevice::kFibers, 60, 2}, Row{FakeDevice::kOldDriver, 3, 2},
        Row{FakeDevice::kOldDriver, 60, 5}}) {
    SCOPED_TRACE("tensors " + std::to_string(row.tensors));
    const ScopedDevice scoped(row.device);
    std::vector<std::int64_t> sizes(row.tensors, 300);
    sizes.back() = 9000;
    const auto inputs = ListOf<float>(sizes, Fill::kFewLevels, random);
    fake_cuda::TakeLog();
    ExpectSameAsCore(inputs, 3000);
    EXPECT_EQ(LaunchesLogged(), row.launches);
  }
}

// A call for one tensor, on memory of its own.
class TopKCall {
 public:
  explicit TopKCall(const TopKInput<float>& input)
      : device(input),
        workspace(cuda::TopKResidualWorkspaceBytes(&device.tensor, 1)),
        report(1) {}

  Status Queue(cudaStream_t stream) {
    cuda::TopKTensor<float> tensor = device.tensor;
    const Status status = cuda::TopKResidual(
        &tensor, 1, workspace.data(), workspace.Bytes(), report.data(), stream);
    tensor = {};  // was read, and is the caller's again
    return status;
  }

  // Waits for the call.
  void ExpectCoreOf(const TopKInput<float>& input) const {
    ExpectSameAsCore(input,
                     {device.values.ToVector(), device.indices.ToVector(),
                      device.Residual(input), report.ToVector()[0]});
  }

  DeviceTensor<float> device;
  DeviceArray<std::byte> workspace;
  DeviceArray<cuda::TopKReport> report;
};

TopKInput<float> Input() {
  Random random(4);
  return RandomInput<float>(9000, 100, Fill::kNormal, random);
}

class Stream {
 public:
  Stream() { Check(cudaStreamCreate(&stream_)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

TEST(CudaDevice, NothingRunsBeforeTheStreamOfTheCallerComesToIt) {
  const TopKInput<float> input = Input();
  TopKCall call(input);
  const auto garbage = call.report.ToVector();
  const Stream stream;
  fake_cuda::TakeLog();
  EXPECT_TRUE(call.Queue(stream).ok());
  for (const fake_cuda::Queued& queued : fake_cuda::TakeLog()) {
    EXPECT_TRUE(queued.stream == stream);
  }
  EXPECT_EQ(fake_cuda::Waiting(stream), std::size_t{1});
  EXPECT_EQ(fake_cuda::Waiting(nullptr), std::size_t{0});
  cuda::TopKReport report = garbage[0];
  EXPECT_TRUE(
      cuda::Fetch(&report, call.report.data(), sizeof(report), stream).ok());
  EXPECT_EQ(fake_cuda::Waiting(stream), std::size_t{0});
  EXPECT_EQ(report.non_finite, std::int64_t{0});
  call.ExpectCoreOf(input);
}

TEST(CudaDevice, ACopyOnTheSameStreamComesFirst) {
  TopKInput<float> input = Input();
  input.in_place = true;
  const DeviceArray<float> residual(input.residual);
  TopKCall call(input);
  const Stream stream;
  EXPECT_TRUE(cuda::QueueCopy(call.device.residual_in.data(), residual.data(),
                              residual.Bytes(), stream)
                  .ok());
  EXPECT_TRUE(call.Queue(stream).ok());
  const Stream other;
  EXPECT_EQ(fake_cuda::Waiting(stream), std::size_t{2});
  Check(cudaStreamSynchronize(other));
  EXPECT_EQ(fake_cuda::Waiting(stream), std::size_t{2});
  Check(cudaStreamSynchronize(stream));
  call.ExpectCoreOf(input);
}

// Checks that `queue` reports every refusal of the runtime, and that nothing is
// queued after it.
template <typename Queue>
void ExpectStopsAtTheFirstRefusal(int sets, int launches, const Queue& queue) {
  for (const auto& [operation, count] :
       {std::pair{Operation::kSet, sets},
        std::pair{Operation::kLaunch, launches}}) {
    for (int at = 0; at < count; ++at) {
      SCOPED_TRACE("call " + std::to_string(at));
      Check(cudaDeviceSynchronize());
      fake_cuda::TakeLog();
      const ScopedFailure failure(operation, at,
                                  cudaErrorNoKernelImageForDevice);
      const Status status = queue();
      EXPECT_TRUE(status.code() == StatusCode::kDevice);
      EXPECT_TRUE(status.message().find("cudaErrorNoKernelImageForDevice") !=
                  std::string::npos);
      EXPECT_TRUE(status.message().find("sm_80") != std::string::npos);
      const int before = operation == Operation::kSet ? 0 : sets;
      EXPECT_EQ(fake_cuda::TakeLog().size(),
                static_cast<std::size_t>(before + at));
      EXPECT_TRUE(cudaGetLastError() == cudaSuccess);  // it was told
    }
  }
  EXPECT_TRUE(queue().ok());
}

TEST(CudaDevice, ReportsRefusedSelections) {
  TopKCall call(Input());
  ExpectStopsAtTheFirstRefusal(0, 1, [&] { return call.Queue(nullptr); });
}

TEST(CudaDevice, ReportsRefusedListsAndQueuesNothing) {
  const DeviceSelection<float> selection(InputsOfTeams());
  ExpectStopsAtTheFirstRefusal(0, 2, [&] { return selection.Queue(); });
}

TEST(CudaDevice, ReportsAMissingCapacity) {
  TopKCall call(Input());
  fake_cuda::TakeLog();
  const ScopedFailure failure(Operation::kAskForRoom, 0,
                              cudaErrorNoKernelImageForDevice);
  EXPECT_TRUE(call.Queue(nullptr).code() == StatusCode::kDevice);
  EXPECT_TRUE(fake_cuda::TakeLog().empty());
  EXPECT_TRUE(cudaGetLastError() == cudaSuccess);
}

TEST(CudaDevice, ReportsMissingCooperativeLaunches) {
  const ScopedDevice scoped(FakeDevice::kNotCooperative);
  TopKCall call(Input());
  fake_cuda::TakeLog();
  const Status status = call.Queue(nullptr);
  EXPECT_TRUE(status.code() == StatusCode::kDevice);
  EXPECT_TRUE(status.message().find("TooLarge") != std::string::npos);
  EXPECT_TRUE(fake_cuda::TakeLog().empty());
}

// A device in use has room for two blocks.
TEST(CudaDevice, NeedsOneLaunchForAnyCapacity) {
  for (const auto device :
       {FakeDevice::kFibers, FakeDevice::kInUse, FakeDevice::kOldDriver}) {
    const ScopedDevice scoped(device);
    for (const std::int64_t n : {700, 9000, 40000}) {
      SCOPED_TRACE("device " + std::to_string(static_cast<int>(device)) +
                   ", n " + std::to_string(n));
      Random random(6);
      const TopKInput<float> input =
          RandomInput<float>(n, 100, Fill::kNormal, random);
      TopKCall call(input);
      fake_cuda::TakeLog();
      EXPECT_TRUE(call.Queue(nullptr).ok());
      EXPECT_TRUE(cudaGetLastError() == cudaSuccess);
      EXPECT_EQ(LaunchesLogged(), std::size_t{1});
      call.ExpectCoreOf(input);
    }
  }
}

TEST(CudaDevice, ReportsRefusedSumsAndQueuesNothing) {
  Random random(5);
  const auto input =
      RandomPayloads<float>(9000, 3, 500, true, Fill::kNormal, random);
  const DeviceSum<float> sum(input);
  ExpectStopsAtTheFirstRefusal(
      1, 2, [&] { return sum.Queue(cuda::ScatterDecodeAdd<float>); });
  ExpectStopsAtTheFirstRefusal(
      2, 2, [&] { return sum.Queue(cuda::ScatterDecode<float>); });
}

TEST(CudaDevice, ReportsRefusedEncodingsAndQueuesNothing) {
  constexpr std::int64_t kCount = 9000;
  const ValueCode qsgd{ValueForm::kQsgd, 8, 512};
  const DeviceArray<float> values(kCount);
  const DeviceArray<std::uint8_t> data(
      static_cast<std::size_t>(ValueCodeBytes(qsgd, kCount, sizeof(float))));
  const DeviceArray<std::byte> workspace(
      cuda::EncodeValuesWorkspaceBytes(qsgd, kCount, sizeof(float)));
  const DeviceArray<cuda::NonFiniteCount> report(1);
  const auto queue = [&](const ValueCode& code, std::size_t bytes) {
    return cuda::EncodeValues<float>({values.data(), nullptr, nullptr, kCount},
                                     code, 1, workspace.data(), bytes,
                                     data.data(), report.data(), nullptr);
  };
  ExpectStopsAtTheFirstRefusal(2, 3,
                               [&] { return queue(qsgd, workspace.Bytes()); });
  fake_cuda::TakeLog();
  EXPECT_TRUE(queue(qsgd, workspace.Bytes() - 1).code() ==
              StatusCode::kInvalidArgument);
  for (const ValueCode& code :
       {ValueCode{ValueForm::kCodebook}, ValueCode{ValueForm::kQsgd, 9, 512}}) {
    EXPECT_TRUE(queue(code, workspace.Bytes()).code() ==
                StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(fake_cuda::TakeLog().empty());
}

TEST(CudaDevice, ReportsKernelErrorsAtTheNextWait) {
  TopKCall call(Input());
  EXPECT_TRUE(call.Queue(nullptr).ok());
  const ScopedFailure failure(Operation::kSynchronize, 0,
                              cudaErrorIllegalAddress);
  cuda::TopKReport report;
  const Status status =
      cuda::Fetch(&report, call.report.data(), sizeof(report), nullptr);
  EXPECT_TRUE(status.code() == StatusCode::kDevice);
  EXPECT_TRUE(status.message().find("cudaErrorIllegalAddress") !=
              std::string::npos);
}

TEST(CudaDevice, RefusesCopiesOfOtherMemory) {
  const DeviceArray<float> there(10);
  std::vector<float> here(10);
  EXPECT_FALSE(
      cuda::QueueCopy(there.data(), here.data(), there.Bytes(), nullptr).ok());
  EXPECT_FALSE(
      cuda::Fetch(here.data(), here.data(), there.Bytes(), nullptr).ok());
  EXPECT_TRUE(
      cuda::Fetch(here.data(), there.data(), there.Bytes(), nullptr).ok());
}

TEST(CudaDevice, SizesThatDoNotFitAreRefusedBeforeAnythingIsQueued) {
  TopKCall call(Input());
  fake_cuda::TakeLog();
  cuda::TopKTensor<float> tensor = call.device.tensor;
  const auto queue = [&](std::size_t bytes) {
    return cuda::TopKResidual(&tensor, 1, call.workspace.data(), bytes,
                              call.report.data(), nullptr);
  };
  EXPECT_TRUE(queue(call.workspace.Bytes() - 1).code() ==
              StatusCode::kInvalidArgument);
  tensor.k = -1;
  EXPECT_TRUE(queue(call.workspace.Bytes()).code() ==
              StatusCode::kInvalidArgument);
  tensor.n = std::int64_t{1} << 31;
  EXPECT_TRUE(queue(call.workspace.Bytes()).code() ==
              StatusCode::kInvalidArgument);
  EXPECT_TRUE(fake_cuda::TakeLog().empty());
}

// Tests how a list with a k for each tensor divides the blocks of a grid.

TEST(CudaTeams, HaveEveryBlockAndEveryTensorWithoutWaitingInACircle) {
  Random random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto tensors = static_cast<int>(2 + Below(random, 40));
    std::vector<std::uint32_t> first_tile = {0};
    for (int i = 0; i < tensors; ++i) {
      const std::int64_t most = Below(random, 3) == 0 ? 500 : 3;
      first_tile.push_back(first_tile.back() + 1 +
                           static_cast<std::uint32_t>(Below(random, most)));
    }
    const cuda::topk::List<float> list = {nullptr, first_tile.data(), nullptr,
                                          tensors, first_tile.back(), 0};
    const auto blocks = static_cast<unsigned>(
        1 + Below(random, std::min<std::int64_t>(list.tiles, 300)));
    unsigned next = 0;  // the first block without a team
    for (int i = 0; i < tensors; ++i) {
      unsigned first = 0;
      const unsigned team = list.TeamOf(i, blocks, &first);
      EXPECT_TRUE(team <= first_tile[i + 1] - first_tile[i]);
      // Blocks come to their teams in the order of the tensors: a team consists
      // of new blocks, or is the last block of the one before.
      EXPECT_TRUE(first == next || (team == 1 && first + 1 == next));
      next = std::max(next, first + team);
    }
    EXPECT_EQ(next, blocks);
  }
}

}  // namespace
}  // namespace fedplug::testing
