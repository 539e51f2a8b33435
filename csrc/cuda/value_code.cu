// Queues the steps of value_code_steps.h and checksum_steps.h as kernels.
#include <cuda_runtime.h>

#include <string>

#include "cuda/checksum_steps.h"
#include "cuda/step_kernel.cuh"
#include "cuda/value_code.h"
#include "cuda/value_code_steps.h"
#include "cuda/workspace.h"

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
                    ValueReport* report, cudaStream_t stream) {
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

#define FEDPLUG_INSTANTIATE(T)                                             \
  template Status EncodeValues<T>(const ValueVector<T>&, const ValueCode&, \
                                  std::uint64_t, void*, std::size_t,       \
                                  std::uint8_t*, ValueReport*, cudaStream_t)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
FEDPLUG_INSTANTIATE(Half);
FEDPLUG_INSTANTIATE(BFloat16);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::cuda
