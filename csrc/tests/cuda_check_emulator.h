// A CPU that plays the GPU: a Machine of cuda_check_cases.h that runs the steps
// of the CUDA kernels block after block, or several blocks at a time, and the
// threads of a block one after the other, all in an arbitrary order, on shared
// memory, workspace and outputs that begin as garbage. Must not know what is
// checked.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_EMULATOR_H_
#define FEDPLUG_TESTS_CUDA_CHECK_EMULATOR_H_

#include <cstring>
#include <memory>
#include <numeric>
#include <type_traits>

#include "core/base/thread_pool.h"
#include "cuda/scatter_decode_steps.h"
#include "cuda/topk_residual_banded.h"
#include "cuda/topk_residual_groups.h"
#include "cuda/topk_residual_resident.h"
#include "cuda/topk_residual_steps.h"
#include "cuda/topk_residual_together.h"
#include "tests/cuda_check_cases.h"
#include "tests/cuda_check_list_cases.h"
#include "tests/cuda_check_scatter_cases.h"

namespace fedplug::testing {

// The numbers below `size`, each once, in an order that changes from one object
// to the next.
class ArbitraryOrder {
 public:
  ArbitraryOrder(std::int64_t size, Random& random)
      : size_(size), start_(Below(random, size)), step_(Below(random, size)) {
    while (std::gcd(step_, size_) != 1) ++step_;
  }
  std::int64_t operator[](std::int64_t i) const {
    return (start_ + i * step_) % size_;
  }

 private:
  std::int64_t size_;
  std::int64_t start_;
  std::int64_t step_;
};

struct EmulatedWarp {
  template <typename Get, typename Set>
  std::uint32_t ExclusiveSums(const Get& get, const Set& set) const {
    std::uint32_t values[cuda::kWarp];
    for (int lane = 0; lane < cuda::kWarp; ++lane) values[lane] = get(lane);
    std::uint32_t sum = 0;
    for (int lane = 0; lane < cuda::kWarp; ++lane) {
      set(lane, sum);
      sum += values[lane];
    }
    return sum;
  }

  template <typename Body>
  void Once(const Body& body) const {
    body();
  }
};

class EmulatedBlock {
 public:
  EmulatedBlock(int threads, Random& random)
      : threads_(threads), random_(random) {}

  template <typename Body>
  void Each(const Body& body) const {
    const ArbitraryOrder order(threads_, random_);
    for (int i = 0; i < threads_; ++i) body(static_cast<int>(order[i]));
  }

  template <typename Body>
  void EachWarp(const Body& body) const {
    const int warps = threads_ / cuda::kWarp;
    const ArbitraryOrder order(warps, random_);
    for (int i = 0; i < warps; ++i) {
      body(EmulatedWarp{}, static_cast<int>(order[i]));
    }
  }

  template <typename Decide>
  bool Agree(const Decide& decide) const {
    return decide();
  }

 private:
  int threads_;
  Random& random_;
};

inline constexpr int kGarbage = 0xa5;

template <typename Shared>
std::unique_ptr<Shared> GarbageShared() {
  static_assert(std::is_trivial_v<Shared>);
  auto shared = std::make_unique<Shared>();
  std::memset(shared.get(), kGarbage, sizeof(Shared));
  return shared;
}

// Runs the blocks of a launch, as many at a time as there are threads.
class EmulatedGrid {
 public:
  explicit EmulatedGrid(int threads) : pool_(threads) {}

  // body(block number, block) for all of them.
  template <typename Body>
  void ForEachBlock(std::int64_t blocks, int threads_of_block,
                    const Body& body) {
    if (blocks == 0) return;
    const ArbitraryOrder order(blocks, random_);
    const std::uint64_t seed = random_();
    pool_.Run(static_cast<int>(blocks), [&](int i) {
      Random random(seed + static_cast<std::uint64_t>(i));
      body(order[i], EmulatedBlock(threads_of_block, random));
    });
  }

 private:
  ThreadPool pool_;
  Random random_{42};
};

template <typename T>
class EmulatedTopK {
 public:
  EmulatedTopK(
      const std::vector<cuda::topk::Group<T, cuda::topk::kFew>>& groups,
      EmulatedGrid& grid)
      : groups_(groups), grid_(grid) {}

  template <typename Part, typename Step>
  void Each(const Step& step) {
    for (const auto& group : groups_) {
      grid_.ForEachBlock(
          group.template Parts<Part>(), cuda::topk::kThreads,
          [&](std::int64_t number, const EmulatedBlock& block) {
            group.template With<Part>(
                static_cast<std::uint32_t>(number),
                [&](const cuda::topk::Job<T>& job, const Part& part) {
                  const auto shared = GarbageShared<typename Step::Shared>();
                  step(block, job, part, *shared);
                });
          });
    }
  }

 private:
  const std::vector<cuda::topk::Group<T, cuda::topk::kFew>>& groups_;
  EmulatedGrid& grid_;
};

// Has the blocks of one launch take their steps together, each in memory of its
// own. Memory is a kind of TogetherMemory, part_of(number, memory) the part of
// the tensor that a block takes.
template <typename T, typename Memory, typename PartOf>
class EmulatedTogether {
 public:
  EmulatedTogether(const cuda::topk::Job<T>& job, std::int64_t blocks,
                   std::int64_t shared_bytes, PartOf part_of,
                   EmulatedGrid& grid)
      : part_of_(std::move(part_of)),
        grid_(grid),
        memories_(static_cast<std::size_t>(blocks),
                  std::vector<std::byte>(static_cast<std::size_t>(shared_bytes),
                                         std::byte{kGarbage})) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      jobs_.emplace_back(job, &MemoryOf(i).decisions());
    }
  }

  void Begin(const cuda::topk::ZeroedMemory& zeroed) {
    ForEachBlock([&](std::int64_t number, const EmulatedBlock& block) {
      zeroed.Zero(block, number, Blocks());
    });
  }

  template <typename OfBlock, typename OfScope>
  void Each(const cuda::topk::Then<OfBlock, OfScope>& step) {
    if (std::is_same_v<OfBlock, cuda::topk::ListAgain<T>>) ++lists_again_;
    ForEachBlock([&](std::int64_t number, const EmulatedBlock& block) {
      jobs_[static_cast<std::size_t>(number)].BeginStep(block, number,
                                                        Blocks());
      Take(step.of_block, number, block);
    });
    Last(step.of_scope);
  }

  template <typename Step>
  void Last(const Step& step) {
    ForEachBlock([&](std::int64_t number, const EmulatedBlock& block) {
      Take(step, number, block);
    });
  }

  const cuda::topk::Decisions& decisions() { return MemoryOf(0).decisions(); }

  // How often the entries were listed again.
  int lists_again() const { return lists_again_; }

 private:
  std::int64_t Blocks() const {
    return static_cast<std::int64_t>(memories_.size());
  }
  Memory MemoryOf(std::int64_t number) {
    return Memory(memories_[static_cast<std::size_t>(number)].data());
  }

  template <typename Body>
  void ForEachBlock(const Body& body) {
    grid_.ForEachBlock(Blocks(), cuda::topk::kThreads, body);
  }

  template <typename Step>
  void Take(const Step& step, std::int64_t number, const EmulatedBlock& block) {
    static_assert(std::is_trivial_v<typename Step::Shared>);
    const Memory memory = MemoryOf(number);
    typename Step::Shared& shared = memory.Of(step);
    std::memset(static_cast<void*>(&shared), kGarbage, sizeof(shared));
    step(block, jobs_[static_cast<std::size_t>(number)].job(),
         part_of_(number, memory), shared);
  }

  PartOf part_of_;
  EmulatedGrid& grid_;
  std::vector<std::vector<std::byte>> memories_;
  std::vector<cuda::topk::JobOfBlock<T>> jobs_;
  int lists_again_ = 0;
};

template <typename Memory, typename T, typename PartOf>
EmulatedTogether<T, Memory, PartOf> MakeTogether(const cuda::topk::Job<T>& job,
                                                 std::int64_t blocks,
                                                 std::int64_t shared_bytes,
                                                 PartOf part_of,
                                                 EmulatedGrid& grid) {
  return {job, blocks, shared_bytes, std::move(part_of), grid};
}

template <typename T>
class EmulatedScatter {
 public:
  EmulatedScatter(const cuda::scatter::Call<T>& call, EmulatedGrid& grid)
      : call_(call), grid_(grid) {}

  template <typename Step>
  void Each(const Step& step) {
    grid_.ForEachBlock(Step::Tiles(call_), cuda::scatter::kThreads,
                       [&](std::int64_t tile, const EmulatedBlock& block) {
                         const auto shared =
                             GarbageShared<typename Step::Shared>();
                         step(block, call_, tile, *shared);
                       });
  }

 private:
  cuda::scatter::Call<T> call_;
  EmulatedGrid& grid_;
};

template <typename Element>
std::vector<Element> Garbage(std::size_t size) {
  std::vector<Element> garbage(size);
  if (size > 0) {
    std::memset(static_cast<void*>(garbage.data()), kGarbage,
                size * sizeof(Element));
  }
  return garbage;
}

// The buffers of one tensor.
template <typename T>
class TensorBuffers {
 public:
  explicit TensorBuffers(const TopKInput<T>& input)
      : in_place_(input.in_place),
        delta_(input.delta, input.shift),
        residual_in_(input.residual, input.shift),
        residual_out_(Garbage<T>(input.residual.size()), input.shift),
        values_(Garbage<T>(input.chosen()), input.shift),
        indices_(Garbage<std::int32_t>(input.chosen()), input.shift),
        n_(input.n()),
        k_(input.k) {}

  cuda::TopKTensor<T> Tensor() {
    return {delta_.data(),  residual_in_.data(), ResidualOut().data(), n_, k_,
            values_.data(), indices_.data()};
  }
  std::vector<T> Values() { return values_.ToVector(); }
  std::vector<std::int32_t> Indices() { return indices_.ToVector(); }
  std::vector<T> Residual() { return ResidualOut().ToVector(); }

 private:
  Buffer<T>& ResidualOut() { return in_place_ ? residual_in_ : residual_out_; }

  bool in_place_;
  Buffer<T> delta_;
  Buffer<T> residual_in_;
  Buffer<T> residual_out_;
  Buffer<T> values_;
  Buffer<std::int32_t> indices_;
  std::int64_t n_;
  std::int64_t k_;
};

class EmulatedMachine {
 public:
  // With one thread, the arbitrary order is the same one in every run. Single
  // tensors go the way asked for; the limits are those of the device.
  explicit EmulatedMachine(int threads = 1,
                           cuda::TopKWay way = cuda::TopKWay::kPasses,
                           const cuda::DeviceLimits& limits = {})
      : grid_(threads), way_(way), limits_(limits) {}

  // Of the last banded selection.
  int lists_again() const { return lists_again_; }
  bool held_back() const { return held_back_; }

  template <typename T>
  std::vector<TopKOutput<T>> TopK(const std::vector<TopKInput<T>>& inputs,
                                  NonFinitePolicy policy) {
    std::vector<TensorBuffers<T>> buffers(inputs.begin(), inputs.end());
    std::vector<cuda::TopKTensor<T>> tensors;
    for (auto& buffer : buffers) tensors.push_back(buffer.Tensor());
    const auto reports =
        Run<T>({tensors.data(), static_cast<std::int64_t>(tensors.size()),
                cuda::topk::Sharing::kOneForEach, nullptr},
               policy);
    std::vector<TopKOutput<T>> outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      outputs.push_back({buffers[i].Values(), buffers[i].Indices(),
                         buffers[i].Residual(), reports[i]});
    }
    return outputs;
  }

  template <typename T>
  GroupedTopKOutput<T> GroupedTopK(const std::vector<TopKInput<T>>& inputs,
                                   std::int64_t k, NonFinitePolicy policy) {
    GroupedTopKOutput<T> output;
    output.values = Garbage<T>(ChosenOfGroup(inputs, k));
    output.indices = Garbage<std::int32_t>(output.values.size());
    output.row_splits = Garbage<std::int64_t>(inputs.size() + 1);
    std::vector<TensorBuffers<T>> buffers(inputs.begin(), inputs.end());
    std::vector<cuda::TopKTensor<T>> tensors;
    for (auto& buffer : buffers) {
      tensors.push_back(buffer.Tensor());
      tensors.back().k = k;
      tensors.back().values = output.values.data();
      tensors.back().indices = output.indices.data();
    }
    if (inputs.empty())
      output.row_splits[0] = 0;  // as GroupedTopKResidual does
    output.reports =
        Run<T>({tensors.data(), static_cast<std::int64_t>(tensors.size()),
                cuda::topk::Sharing::kOneForAll, output.row_splits.data()},
               policy);
    for (auto& buffer : buffers) output.residuals.push_back(buffer.Residual());
    return output;
  }

  template <typename T>
  ScatterOutput<T> Scatter(const ScatterInput<T>& input) {
    ScatterOutput<T> output = {input.accumulator, {}};
    cuda::scatter::Mistakes mistakes = {};
    cuda::ScatterReport report = {};
    EmulatedScatter<T> launcher(
        {output.accumulator.data(),
         static_cast<std::int64_t>(output.accumulator.size()),
         input.values.data(), input.indices.data(),
         static_cast<std::int64_t>(input.values.size()),
         input.row_splits.data(), input.payloads(),
         input.weights.empty() ? nullptr : input.weights.data(), &mistakes,
         &report},
        grid_);
    cuda::scatter::RunSteps<T>(launcher);
    output.status = cuda::ToStatus(report);
    return output;
  }

  template <typename T>
  ScatterOutput<T> Decode(ScatterInput<T> input) {
    std::fill(input.accumulator.begin(), input.accumulator.end(), T{});
    return Scatter(input);
  }

 private:
  template <typename T>
  std::vector<cuda::TopKReport> Run(const cuda::topk::Request<T>& request,
                                    NonFinitePolicy policy) {
    using cuda::TopKWay;
    auto memory =
        Garbage<std::byte>(cuda::topk::LayOut(request, way_, nullptr).bytes);
    const auto workspace = cuda::topk::LayOut(request, way_, memory.data());
    auto reports =
        Garbage<cuda::TopKReport>(static_cast<std::size_t>(request.count));
    const auto zeroed = cuda::topk::ZeroedMemory::Of(workspace);
    if (way_ == TopKWay::kResident && request.count == 1) {
      using Memory = cuda::topk::ResidentMemory<T>;
      const std::int64_t n = request.tensors[0].n;
      const auto shares = cuda::topk::SharesOf<T>(n, limits_);
      EXPECT_TRUE(shares.count > 0);
      auto launcher = MakeTogether<Memory>(
          cuda::topk::OnlyJob(request, workspace, reports.data()), shares.count,
          Memory::BytesFor(shares.elements),
          [=](std::int64_t number, const Memory& shared) {
            return shared.ShareAt(number, n, shares.elements);
          },
          grid_);
      launcher.Begin(zeroed);
      cuda::topk::RunResidentSteps<T>(policy, launcher);
      return reports;
    }
    if (way_ == TopKWay::kBanded && request.Scopes() == 1 &&
        request.count > 0 && request.count <= cuda::topk::kMany) {
      using Memory = cuda::topk::TogetherMemory;
      const auto call = cuda::topk::MakeBandedCall<cuda::topk::kMany>(
          request, policy, workspace, reports.data());
      const std::int64_t blocks = limits_.multiprocessors;
      auto launcher = MakeTogether<Memory>(
          call.list.jobs[0], blocks, Memory::kBytes,
          [&call, blocks](std::int64_t number, const Memory&) {
            return call.SpanOf(number, blocks);
          },
          grid_);
      launcher.Begin(zeroed);
      cuda::topk::RunBandedSteps(call, launcher);
      lists_again_ = launcher.lists_again();
      held_back_ = call.list.jobs[0].scope.state->held_back != 0;
      return reports;
    }
    std::memset(memory.data(), 0, workspace.zeroed_bytes);
    const auto groups = cuda::topk::MakeGroups<cuda::topk::kFew>(
        request, workspace, reports.data());
    EmulatedTopK<T> launcher(groups, grid_);
    cuda::topk::RunSteps<T>(policy, launcher);
    return reports;
  }

  EmulatedGrid grid_;
  cuda::TopKWay way_;
  cuda::DeviceLimits limits_;
  int lists_again_ = 0;
  bool held_back_ = false;
};

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_EMULATOR_H_
