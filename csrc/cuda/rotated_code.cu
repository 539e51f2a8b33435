// Queues the steps of rotated_code_steps.h as kernels.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "cuda/checksum_steps.h"
#include "cuda/rotated_code.h"
#include "cuda/rotated_code_steps.h"
#include "cuda/step_kernel.cuh"
#include "cuda/workspace.h"

namespace fedplug::cuda {
namespace {

static_assert(rotated::kThreads == kStepThreads &&
              checksum::kThreads == kStepThreads);

// Parts of a workspace, one after the other.
class Parts {
 public:
  // Returns the offset.
  std::int64_t Add(std::int64_t count, std::size_t bytes_of_each) {
    const std::int64_t at = end_;
    const std::int64_t bytes = count * static_cast<std::int64_t>(bytes_of_each);
    end_ += AlignedBytes(bytes);
    return at;
  }
  std::int64_t end() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

std::size_t WideBytes(std::int64_t value_bytes) {
  return value_bytes == 8 ? 8 : 4;
}

std::int64_t PaddedCount(const RotatedCode& code, std::int64_t count) {
  return BlocksOf(code, count) * code.block_size;
}

// Offsets in the workspace of an encoding. What begins at zero comes first.
struct EncodeWorkspace {
  EncodeWorkspace(const RotatedCode& code, std::int64_t count,
                  std::int64_t value_bytes) {
    const std::size_t wide = WideBytes(value_bytes);
    const std::int64_t blocks = BlocksOf(code, count);
    const std::int64_t columns =
        std::min(code.block_size, std::int64_t{1} << rotated::kLog2Row);
    Parts parts;
    arrived = parts.Add(1, sizeof(std::uint32_t));
    largest = parts.Add(blocks, wide);
    zeros = parts.end();
    random = parts.Add(1, sizeof(Philox));
    tiles = parts.Add(count * value_bytes / 4 / checksum::kTile + 1,
                      sizeof(std::uint32_t));
    squares = parts.Add(blocks, wide);
    sums = parts.Add(blocks * columns, wide);
    rotated = parts.Add(PaddedCount(code, count), wide);
    bytes = static_cast<std::size_t>(parts.end());
  }

  std::int64_t arrived;
  std::int64_t largest;
  std::int64_t zeros;  // bytes
  std::int64_t random;
  std::int64_t tiles;  // sums of the checksum
  std::int64_t squares;
  std::int64_t sums;
  std::int64_t rotated;
  std::size_t bytes;
};

// The random numbers of the signs, by the checksum, which is kept.
struct SeedSigns {
  std::int64_t first_seed;
  std::int64_t second_seed;
  Philox* random;
  std::uint32_t* kept;

  FEDPLUG_HOST_DEVICE void operator()(std::uint32_t checksum) const {
    *kept = checksum;
    *random =
        Philox(static_cast<std::uint64_t>(RotatedSeed(first_seed, checksum)),
               static_cast<std::uint64_t>(second_seed));
  }
};

// The vector as the steps of value_code_steps.h take it.
template <typename T>
values::Call<T> VectorOf(const T* numbers, std::int64_t count,
                         const RotatedCode& code, values::KeyOf<T>* largest) {
  values::Call<T> call = {};
  call.vector.values = numbers;
  call.vector.count = count;
  call.layout.per_block = true;
  call.layout.block = code.block_size;
  call.largest = largest;
  return call;
}

}  // namespace

std::size_t EncodeRotatedWorkspaceBytes(const RotatedCode& code,
                                        std::int64_t count,
                                        std::int64_t value_bytes) {
  return EncodeWorkspace(code, count, value_bytes).bytes;
}

std::size_t DecodeRotatedWorkspaceBytes(const RotatedCode& code,
                                        std::int64_t count,
                                        std::int64_t value_bytes) {
  return static_cast<std::size_t>(PaddedCount(code, count)) *
         WideBytes(value_bytes);
}

template <typename T>
Status EncodeRotated(const T* values, std::int64_t count,
                     const RotatedCode& code, void* workspace,
                     std::size_t workspace_bytes, std::uint8_t* data,
                     std::uint32_t* checksum, cudaStream_t stream) {
  using W = value_loops::WideOf<T>;
  if (Status status = CheckRotatedCode(code, count); !status.ok()) {
    return status;
  }
  const EncodeWorkspace plan(code, count, sizeof(T));
  if (Status status = CheckWorkspace(workspace_bytes, plan.bytes);
      !status.ok()) {
    return status;
  }
  auto* const base = static_cast<std::byte*>(workspace);
  auto* const largest =
      reinterpret_cast<values::KeyOf<T>*>(base + plan.largest);
  auto* const random = reinterpret_cast<Philox*>(base + plan.random);
  const auto vector = VectorOf(values, count, code, largest);
  const rotated::Call<T> call = {values,
                                 count,
                                 rotated::ShapeOf<W>(code, count),
                                 largest,
                                 random,
                                 reinterpret_cast<W*>(base + plan.rotated),
                                 reinterpret_cast<W*>(base + plan.sums),
                                 reinterpret_cast<W*>(base + plan.squares)};
  const std::int64_t scale_bytes =
      call.shape.blocks * static_cast<std::int64_t>(sizeof(W));
  LaunchQueue queue(stream);
  queue.Zero(base, static_cast<std::size_t>(plan.zeros));
  QueueStep(checksum::Checksum<values::Words<T>, SeedSigns>(
                {vector}, count * static_cast<std::int64_t>(sizeof(T)),
                reinterpret_cast<std::uint32_t*>(base + plan.tiles),
                reinterpret_cast<std::uint32_t*>(base + plan.arrived),
                {code.first_seed, code.second_seed, random, checksum}),
            &queue);
  QueueStep(values::Largest<T>{vector}, &queue);
  QueueStep(rotated::Squares<T>{call}, &queue);
  QueueStep(rotated::BlockSum<T>{call}, &queue);
  QueueStep(rotated::RotateRow<T>{call}, &queue);
  QueueStep(rotated::Quantize<T>{call, BitsOf(code), LevelsOf<W>(code),
                                 data + scale_bytes},
            &queue);
  QueueStep(rotated::WriteScale<T>{{call}, data}, &queue);
  return queue.status("encode_rotated");
}

template <typename T, typename Out>
Status DecodeRotated(const std::uint8_t* data, std::int64_t count,
                     const RotatedCode& code, double factor, void* workspace,
                     std::size_t workspace_bytes, Out* out,
                     cudaStream_t stream) {
  using W = value_loops::WideOf<T>;
  if (Status status = CheckRotatedCode(code, count); !status.ok()) {
    return status;
  }
  if (Status status = CheckWorkspace(
          workspace_bytes, DecodeRotatedWorkspaceBytes(code, count, sizeof(T)));
      !status.ok()) {
    return status;
  }
  const rotated::Shape shape = rotated::ShapeOf<W>(code, count);
  const std::int64_t scale_bytes =
      shape.blocks * static_cast<std::int64_t>(sizeof(W));
  const int bits = BitsOf(code);
  auto* const levels = static_cast<W*>(workspace);
  LaunchQueue queue(stream);
  QueueStep(rotated::LookUpRow<W>{shape, data + scale_bytes, bits,
                                  TableOf(LevelsOf<W>(code), bits), levels},
            &queue);
  QueueStep(
      rotated::RotateBack<T, Out>{
          shape,
          Philox(static_cast<std::uint64_t>(code.first_seed),
                 static_cast<std::uint64_t>(code.second_seed)),
          levels, data, count, static_cast<value_loops::WideOf<Out>>(factor),
          out},
      &queue);
  return queue.status("decode_rotated");
}

#define FEDPLUG_INSTANTIATE_ENCODE(T)                                          \
  template Status EncodeRotated<T>(const T*, std::int64_t, const RotatedCode&, \
                                   void*, std::size_t, std::uint8_t*,          \
                                   std::uint32_t*, cudaStream_t)
#define FEDPLUG_INSTANTIATE_DECODE(T, Out)                                 \
  template Status DecodeRotated<T, Out>(const std::uint8_t*, std::int64_t, \
                                        const RotatedCode&, double, void*, \
                                        std::size_t, Out*, cudaStream_t)
FEDPLUG_INSTANTIATE_ENCODE(float);
FEDPLUG_INSTANTIATE_ENCODE(double);
FEDPLUG_INSTANTIATE_ENCODE(Half);
FEDPLUG_INSTANTIATE_ENCODE(BFloat16);
FEDPLUG_INSTANTIATE_DECODE(float, float);
FEDPLUG_INSTANTIATE_DECODE(float, double);
FEDPLUG_INSTANTIATE_DECODE(double, double);
FEDPLUG_INSTANTIATE_DECODE(Half, Half);
FEDPLUG_INSTANTIATE_DECODE(Half, float);
FEDPLUG_INSTANTIATE_DECODE(Half, double);
FEDPLUG_INSTANTIATE_DECODE(BFloat16, BFloat16);
FEDPLUG_INSTANTIATE_DECODE(BFloat16, float);
FEDPLUG_INSTANTIATE_DECODE(BFloat16, double);
#undef FEDPLUG_INSTANTIATE_ENCODE
#undef FEDPLUG_INSTANTIATE_DECODE

}  // namespace fedplug::cuda
