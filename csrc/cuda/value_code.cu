// Queues the steps of value_code_steps.h and checksum_steps.h as kernels.
#include <cuda_runtime.h>

#include <string>
#include <type_traits>

#include "core/base/floats.h"
#include "core/codes/values/layout.h"
#include "core/codes/values/level.h"
#include "cuda/checksum_steps.h"
#include "cuda/launch.cuh"
#include "cuda/runtime.h"
#include "cuda/unaligned.h"
#include "cuda/value_code.h"
#include "cuda/value_code_steps.h"

namespace fedplug::cuda {
namespace {

using values::Call;

static_assert(values::kThreads == kStepThreads &&
              checksum::kThreads == kStepThreads);

constexpr std::int64_t kHeadBytes = 256;  // arrived, and random at 64

// Offsets in the workspace. Those that begin at zero come first.
struct Workspace {
  Workspace(const ValueCode& code, std::int64_t count, std::int64_t value_bytes)
      : layout(LayoutOf(code, count, value_bytes)) {
    const std::int64_t keys = layout.per_block ? layout.scales : 0;
    zeros = AlignedBytes(kHeadBytes + keys * (value_bytes == 8 ? 8 : 4));
    bytes = zeros;
    if (code.form == ValueForm::kQsgd) {
      const std::int64_t words = (count * value_bytes + 3) / 4;
      bytes += AlignedBytes(4 * (words / checksum::kTile + 1));
    }
    if (code.form == ValueForm::kSign) {
      sums = count / 64 + 1;
      bytes += AlignedBytes(16 * sums);
    }
  }

  ValueLayout layout;
  std::int64_t zeros;     // bytes
  std::int64_t sums = 0;  // of kSign, in each of two arrays
  std::int64_t bytes;
};

// The random numbers, with the checksum as the second half of their seed.
struct SeedRandom {
  Philox* random;
  std::uint64_t seed;

  FEDPLUG_HOST_DEVICE void operator()(std::uint32_t checksum) const {
    *random = Philox(seed, checksum);
  }
};

// Adds up the shares of all values. The sum is where the call expects it.
template <typename T>
void QueueMean(Call<T>* call, double* sums, std::int64_t size,
               LaunchQueue* queue) {
  const double* terms = nullptr;
  std::int64_t left = call->vector.count;
  while (left > 0 && (left > 1 || terms == nullptr)) {
    const values::Halvings<T> halvings(*call, terms, left, sums);
    QueueStep(halvings, queue);
    left = halvings.sizes[values::Halvings<T>::kLevels];
    const double* const written = sums;
    sums = terms == nullptr || terms > sums ? sums + size : sums - size;
    terms = written;
  }
  call->mean = terms;
}

template <typename T>
void QueueEncode(const Call<T>& call, ValueForm form, LaunchQueue* queue) {
  switch (form) {
    case ValueForm::kFloat16:
      return QueueStep(values::Encode<T, ValueForm::kFloat16>{call}, queue);
    case ValueForm::kBFloat16:
      return QueueStep(values::Encode<T, ValueForm::kBFloat16>{call}, queue);
    case ValueForm::kQsgd:
      return QueueStep(values::Encode<T, ValueForm::kQsgd>{call}, queue);
    case ValueForm::kNearest:
      return QueueStep(values::Encode<T, ValueForm::kNearest>{call}, queue);
    case ValueForm::kSign:
      return QueueStep(values::Encode<T, ValueForm::kSign>{call}, queue);
    case ValueForm::kBfp:
      return QueueStep(values::Encode<T, ValueForm::kBfp>{call}, queue);
    case ValueForm::kCodebook:
    case ValueForm::kBounded:
      return;  // refused before
  }
}

}  // namespace

Status CheckDeviceValueCode(const ValueCode& code, std::int64_t count) {
  if (code.form == ValueForm::kCodebook || code.form == ValueForm::kBounded) {
    return {StatusCode::kInvalidArgument,
            "the value codes codebook and bounded have no CUDA kernel; copy "
            "the values to the host"};
  }
  return CheckValueCode(code, count);
}

std::size_t EncodeValuesWorkspaceBytes(const ValueCode& code,
                                       std::int64_t count,
                                       std::int64_t value_bytes) {
  return static_cast<std::size_t>(Workspace(code, count, value_bytes).bytes);
}

template <typename T>
Status EncodeValues(const ValueVector<T>& vector, const ValueCode& code,
                    std::uint64_t seed, void* workspace,
                    std::size_t workspace_bytes, std::uint8_t* data,
                    NonFiniteCount* report, cudaStream_t stream) {
  if (Status status = CheckDeviceValueCode(code, vector.count); !status.ok()) {
    return status;
  }
  const Workspace plan(code, vector.count, sizeof(T));
  if (Status status =
          CheckWorkspace(workspace_bytes, static_cast<std::size_t>(plan.bytes));
      !status.ok()) {
    return status;
  }
  auto* const base = static_cast<std::byte*>(workspace);
  auto* const random = reinterpret_cast<Philox*>(base + 64);
  Call<T> call = {
      vector,    plan.layout,
      code.bits, reinterpret_cast<values::KeyOf<T>*>(base + kHeadBytes),
      nullptr,   random,
      data,      report};
  LaunchQueue queue(stream);
  queue.Zero(base, static_cast<std::size_t>(plan.zeros));
  queue.Zero(report, sizeof(*report));
  if (code.form == ValueForm::kQsgd) {
    const values::Words<T> words{call};
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    QueueStep(checksum::Checksum<values::Words<T>, SeedRandom>(
                  words, vector.count * kBytes,
                  reinterpret_cast<std::uint32_t*>(base + plan.zeros),
                  reinterpret_cast<std::uint32_t*>(base), {random, seed}),
              &queue);
  }
  if (plan.layout.per_block) QueueStep(values::Largest<T>{call}, &queue);
  if (code.form == ValueForm::kSign) {
    QueueMean(&call, reinterpret_cast<double*>(base + plan.zeros), plan.sums,
              &queue);
  }
  QueueEncode(call, code.form, &queue);
  return queue.status("encode_values");
}

#define FEDPLUG_INSTANTIATE(T)                                       \
  template Status EncodeValues<T>(                                   \
      const ValueVector<T>&, const ValueCode&, std::uint64_t, void*, \
      std::size_t, std::uint8_t*, NonFiniteCount*, cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

// A thread for each value at a time, so that neighbours write neighbours.

namespace {

using value_loops::Rounded;
using value_loops::Wide;
using value_loops::WideOf;

constexpr int kThreads = 256;
constexpr std::int64_t kEach = 8;  // values of a thread

template <typename T>
struct Code {
  const std::uint8_t* data;
  ValueLayout layout;
  ValueForm form;
  int log2_block;  // 31, more than values have, if all share a scale

  __device__ T Value(std::int64_t i) const {
    if (form == ValueForm::kFloat16) return Cast<Half>(i);
    if (form == ValueForm::kBFloat16) return Cast<BFloat16>(i);
    const std::uint8_t* const scale =
        data + layout.header_bytes + (i >> log2_block) * layout.scale_bytes;
    if (form == ValueForm::kBfp) {
      const auto step =
          static_cast<WideOf<T>>(PowerOfTwo(LoadNumber<std::int16_t>(scale)));
      return Rounded<T>(value_loops::TimesStep(Level(i), layout.top, step));
    }
    return Rounded<T>(value_loops::TimesScale(Level(i), layout.top,
                                              Wide(LoadNumber<T>(scale))));
  }

  template <typename Narrow>
  __device__ T Cast(std::int64_t i) const {
    const float wide = Wide(LoadNumber<Narrow>(data + 2 * i));
    return Rounded<T>(static_cast<WideOf<T>>(wide));
  }

  __device__ std::uint8_t Level(std::int64_t i) const {
    const std::uint8_t* const levels = data + layout.levels_at;
    const auto bits = static_cast<int>(layout.group_bytes);
    const std::uint32_t level = Unpacked(levels, i, bits);
    return static_cast<std::uint8_t>(form == ValueForm::kSign ? 2 * level
                                                              : level);
  }
};

template <typename T, typename Out>
__global__ void __launch_bounds__(kThreads)
    DecodeKernel(const __grid_constant__ Code<T> code, std::int64_t count,
                 WideOf<Out> factor, Out* out) {
  std::int64_t i = kThreads * kEach * blockIdx.x + threadIdx.x;
  for (int k = 0; k < kEach && i < count; ++k, i += kThreads) {
    out[i] = Multiplied<Out>(factor, code.Value(i));
  }
}

}  // namespace

template <typename T, typename Out>
Status DecodeValues(const std::uint8_t* data, std::int64_t count,
                    const ValueCode& code, double factor, Out* out,
                    cudaStream_t stream) {
  if (Status status = CheckDeviceValueCode(code, count); !status.ok()) {
    return status;
  }
  if (count == 0) return {};
  Code<T> call{data, LayoutOf(code, count, sizeof(T)), code.form, 31};
  if (call.layout.per_block) {
    for (call.log2_block = 0; code.block_size >> call.log2_block > 1;) {
      ++call.log2_block;
    }
  }
  LaunchQueue queue(stream);
  const std::int64_t blocks =
      (count + kThreads * kEach - 1) / (kThreads * kEach);
  queue.Launch(DecodeKernel<T, Out>, static_cast<unsigned>(blocks), kThreads,
               call, count, static_cast<WideOf<Out>>(factor), out);
  return queue.status("decode_values");
}

#define FEDPLUG_INSTANTIATE(T, Out)                                       \
  template Status DecodeValues<T, Out>(const std::uint8_t*, std::int64_t, \
                                       const ValueCode&, double, Out*,    \
                                       cudaStream_t)
FEDPLUG_INSTANTIATE(float, float);
FEDPLUG_INSTANTIATE(float, double);
FEDPLUG_INSTANTIATE(double, double);
FEDPLUG_INSTANTIATE(Half, Half);
FEDPLUG_INSTANTIATE(Half, float);
FEDPLUG_INSTANTIATE(Half, double);
FEDPLUG_INSTANTIATE(BFloat16, BFloat16);
FEDPLUG_INSTANTIATE(BFloat16, float);
FEDPLUG_INSTANTIATE(BFloat16, double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
