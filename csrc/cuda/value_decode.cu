// A thread for each value at a time, so that neighbours write neighbours.
#include <cuda_runtime.h>

#include <type_traits>

#include "core/base/float16.h"
#include "core/base/host_device.h"
#include "core/codes/values/layout.h"
#include "core/codes/values/level.h"
#include "core/codes/values/power_of_two.h"
#include "cuda/launch.cuh"
#include "cuda/packed_bits.h"
#include "cuda/unaligned.h"
#include "cuda/value_code.h"
#include "cuda/value_decode.h"

namespace fedplug::cuda {
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
