// The layout of a body, the kernels that write its parts from a selection, and
// those that read them.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/base/bytes.h"
#include "core/base/floats.h"
#include "core/chunked_topk_residual.h"
#include "core/codes/values/bins.h"
#include "core/codes/values/level.h"
#include "core/sparse_form.h"
#include "cuda/device_block.cuh"
#include "cuda/fixed_payload.h"
#include "cuda/launch.cuh"
#include "cuda/runtime.h"
#include "cuda/topk_residual.h"
#include "cuda/unaligned.h"

namespace fedplug::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kTerms = 1024;  // of a sum of a codebook
constexpr int kMostBins = kThreads;    // a thread for each
constexpr int kMostPrefix = 14;

__host__ __device__ constexpr int BytesOf(SentType type) {
  return type == SentType::kFloat32 ? 4 : 2;
}

// The bits of the number of this type that is sent for a value. Rounds to
// nearest, ties to even. Too large a value becomes the largest number.
__device__ std::uint32_t SentBits(float value, SentType type) {
  switch (type) {
    case SentType::kFloat16:
      return value_loops::FiniteBits<Half>(value);
    case SentType::kBFloat16:
      return value_loops::FiniteBits<BFloat16>(value);
    default:
      return internal::FloatBits(value);
  }
}

__device__ float ValueOf(std::uint32_t bits, SentType type) {
  const auto narrow = static_cast<std::uint16_t>(bits);
  switch (type) {
    case SentType::kFloat16:
      return ToFloat(Half{narrow});
    case SentType::kBFloat16:
      return ToFloat(BFloat16{narrow});
    default:
      return internal::FloatFromBits(bits);
  }
}

// The parts of a payload, in the order of its bytes.
struct Layout {
  FixedForm form;
  std::int64_t entries;
  std::int64_t of_chunk;             // entries of each chunk but the last
  int width;                         // bits of an offset
  std::uint8_t prefix[kMostPrefix];  // both lengths, and the chunk
  std::int64_t offsets_at;
  std::int64_t offset_bytes;
  std::int64_t means_at;  // one more than the codebook's header; or the values
  std::int64_t bins_at;
  std::int64_t bytes;

  explicit Layout(const FixedForm& given)
      : form(given),
        entries(ChunkedEntries(given.n, given.k, given.chunk)),
        of_chunk(std::min(given.k, std::min(given.chunk, given.n))),
        width(0) {
    while (((given.chunk - 1) >> width) > 0) ++width;
    offset_bytes = BytesFor(entries * width);
    const std::int64_t code = 4 + offset_bytes;
    const std::int64_t lengths = SparseBodyBytes(entries, 0, 0) - 1 +
                                 SparseBodyBytes(0, code, 0) - 1 - code;
    std::uint8_t* at = PutNumber(code, PutNumber(entries, prefix));
    for (int i = 0; i < 4; ++i) {
      *at++ = static_cast<std::uint8_t>(given.chunk >> (8 * i));
    }
    offsets_at = lengths + 4;
    means_at = lengths + code + (given.bits > 0 ? 1 : 0);
    const int number = BytesOf(given.sent);
    bins_at = means_at + number * (std::int64_t{given.bits > 0} << given.bits);
    bytes = bins_at + (given.bits > 0 ? BytesFor(entries * given.bits)
                                      : number * entries);
  }

 private:
  // A varint of docs/wire-format.md.
  static std::uint8_t* PutNumber(std::int64_t number, std::uint8_t* at) {
    for (; number >= 128; number >>= 7) {
      *at++ = static_cast<std::uint8_t>(number | 128);
    }
    *at++ = static_cast<std::uint8_t>(number);
    return at;
  }
};

// The shared results of the steps of a codebook.
struct Book {
  std::uint64_t sum[kMostBins];  // of whole numbers, modulo 2^64
  std::uint32_t count[kMostBins];
  float mean[kMostBins];
  std::uint32_t largest;  // key
};

struct Encode {
  Layout layout;
  float* residual;
  float* values;  // the entries of the sums
  std::int32_t* indices;
  Book* book;
  double* sum;      // of all scaled values
  double* squares;  // of their distances from the mean
  std::uint8_t* payload;
  NonFiniteCount* non_finite;

  // Entry `i` as an uncompressed payload has it.
  __device__ float Sent(std::int64_t i) const {
    const SentType type = layout.form.sent;
    return ValueOf(SentBits(values[i], type), type);
  }

  // Adds to the residual the error of entry `i` at a receiver of `received`.
  __device__ void Keep(std::int64_t i, float received) const {
    const float lost = values[i] - received;
    if (!IsFinite(lost)) AtomicAdd(&non_finite->count, 1u);
    float* const kept = residual + indices[i];
    *kept = *kept + lost;
  }

  __host__ __device__ double Scale() const {
    float largest;
    std::memcpy(&largest, &book->largest, sizeof(largest));
    return ScaleOf(static_cast<double>(largest));
  }

  __host__ __device__ Bins BinsBeforeWidth() const {
    const auto count = static_cast<double>(layout.entries);
    const int middle = 1 << (layout.form.bits - 1);
    return {Scale(), *sum * (1 / count), 0, middle, 2 * middle - 1};
  }

  __host__ __device__ Bins AllBins() const {
    Bins bins = BinsBeforeWidth();
    bins.SetWidth(*squares, layout.entries);
    return bins;
  }
};

__device__ std::int64_t ThreadOfGrid() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

unsigned BlocksFor(std::int64_t items) {
  return static_cast<unsigned>((items + kThreads - 1) / kThreads);
}

// body(i) for the entries of this block, 1024 of them.
template <typename Body>
__device__ void EachOfBlock(int thread, std::int64_t entries,
                            const Body& body) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kTerms;
  const std::int64_t end = begin + kTerms < entries ? begin + kTerms : entries;
  for (std::int64_t i = begin + thread; i < end; i += kThreads) body(i);
}

__global__ void __launch_bounds__(kThreads)
    LargestKernel(const __grid_constant__ Encode call) {
  __shared__ std::uint32_t largest;
  const DeviceBlock block;
  block.Each([&](int thread) {
    if (thread == 0) largest = 0;
  });
  block.Each([&](int thread) {
    EachOfBlock(thread, call.layout.entries, [&](std::int64_t i) {
      AtomicMax(&largest, MagnitudeKey(call.Sent(i)));
    });
  });
  block.Each([&](int thread) {
    if (thread == 0) AtomicMax(&call.book->largest, largest);
  });
}

enum class Terms { kScaled, kSquares, kPartials };

// A block adds up 1024 terms: the upper half to the lower half, until one is
// left.
template <Terms kTermsOf>
__global__ void __launch_bounds__(kThreads)
    HalveKernel(const __grid_constant__ Encode call, const double* partials,
                std::int64_t count, double* sums) {
  __shared__ double terms[kTerms];
  const DeviceBlock block;
  block.Each([&](int thread) {
    for (std::int64_t i = thread; i < kTerms; i += kThreads) {
      const std::int64_t at =
          static_cast<std::int64_t>(blockIdx.x) * kTerms + i;
      double term = 0;
      if (at < count) {
        if (kTermsOf == Terms::kPartials) {
          term = partials[at];
        } else {
          term = call.Scale() * static_cast<double>(call.Sent(at));
        }
        if (kTermsOf == Terms::kSquares) {
          const double centred = term - call.BinsBeforeWidth().mean;
          term = centred * centred;
        }
      }
      terms[i] = term;
    }
  });
  for (std::int64_t half = kTerms / 2; half > 0; half /= 2) {
    block.Each([&](int thread) {
      for (std::int64_t i = thread; i < half; i += kThreads) {
        terms[i] += terms[half + i];
      }
    });
  }
  block.Each([&](int thread) {
    if (thread == 0) sums[blockIdx.x] = terms[0];
  });
}

// Adds the values of each bin. Integers, so that their order is free. A block
// adds them in parts of 16, 16 and 32 bits, because atomic additions of 64 bits
// in shared memory are loops, and many values have the same bin.
__global__ void __launch_bounds__(kThreads)
    BinsKernel(const __grid_constant__ Encode call) {
  __shared__ std::uint32_t low[kMostBins];
  __shared__ std::uint32_t middle[kMostBins];
  __shared__ std::uint32_t high[kMostBins];
  __shared__ std::uint32_t count[kMostBins];
  static_assert(kTerms < 1 << 16);
  const DeviceBlock block;
  block.Each([&](int thread) {
    low[thread] = 0;
    middle[thread] = 0;
    high[thread] = 0;
    count[thread] = 0;
  });
  const Bins bins = call.AllBins();
  const double to_whole = PowerOfTwo(BinFractionBits(call.layout.entries));
  block.Each([&](int thread) {
    EachOfBlock(thread, call.layout.entries, [&](std::int64_t i) {
      const auto value = static_cast<double>(call.Sent(i));
      const int bin = bins.Of(value);
      const auto whole = static_cast<std::uint64_t>(
          static_cast<std::int64_t>(bins.scale * value * to_whole));
      AtomicAdd(&low[bin], static_cast<std::uint32_t>(whole & 0xffff));
      AtomicAdd(&middle[bin], static_cast<std::uint32_t>(whole >> 16 & 0xffff));
      AtomicAdd(&high[bin], static_cast<std::uint32_t>(whole >> 32));
      AtomicAdd(&count[bin], 1u);
    });
  });
  block.Each([&](int thread) {
    if (count[thread] == 0) return;
    AtomicAdd(&call.book->sum[thread],
              low[thread] + (std::uint64_t{middle[thread]} << 16) +
                  (std::uint64_t{high[thread]} << 32));
    AtomicAdd(&call.book->count[thread], count[thread]);
  });
}

__global__ void __launch_bounds__(kThreads)
    MeansKernel(const __grid_constant__ Encode call) {
  const int bin = static_cast<int>(threadIdx.x);
  if (bin >= 1 << call.layout.form.bits) return;
  Book& book = *call.book;
  const auto mean = static_cast<float>(
      BinMean(static_cast<std::int64_t>(book.sum[bin]), book.count[bin],
              call.Scale(), BinFractionBits(call.layout.entries)));
  const SentType type = call.layout.form.sent;
  book.mean[bin] = ValueOf(SentBits(mean, type), type);
}

// Byte `at` of numbers of `bits` bits one after the other, the lowest first.
template <typename NumberOf>
__device__ std::uint8_t PackedByte(std::int64_t at, int bits,
                                   std::int64_t count,
                                   const NumberOf& number_of) {
  unsigned byte = 0;
  std::int64_t i = 8 * at / bits;
  for (; i < count && i * bits < 8 * at + 8; ++i) {
    const std::int64_t shift = i * bits - 8 * at;
    const auto number = static_cast<std::uint32_t>(number_of(i));
    byte |= shift >= 0 ? number << shift : number >> -shift;
  }
  return static_cast<std::uint8_t>(byte);
}

// Writes byte number `i` of each part of the payload, and leaves the
// error of entry `i` to the residual.
__global__ void __launch_bounds__(kThreads)
    WriteKernel(const __grid_constant__ Encode call) {
  const std::int64_t i = ThreadOfGrid();
  const Layout& layout = call.layout;
  std::uint8_t* const payload = call.payload;
  const int bits = layout.form.bits;
  if (i < layout.offsets_at) payload[i] = layout.prefix[i];
  if (i < layout.offset_bytes) {
    payload[layout.offsets_at + i] =
        PackedByte(i, layout.width, layout.entries, [&](std::int64_t entry) {
          return call.indices[entry] -
                 entry / layout.of_chunk * layout.form.chunk;
        });
  }
  const SentType type = layout.form.sent;
  const float* const numbers = bits > 0 ? call.book->mean : call.values;
  if (i < (bits > 0 ? layout.bins_at : layout.bytes) - layout.means_at) {
    const std::uint32_t number = SentBits(numbers[i / BytesOf(type)], type);
    payload[layout.means_at + i] =
        static_cast<std::uint8_t>(number >> (8 * (i % BytesOf(type))));
  }
  if (bits == 0) {
    if (type != SentType::kFloat32 && i < layout.entries) {
      call.Keep(i, call.Sent(i));
    }
    return;
  }
  const Bins bins = call.AllBins();
  if (i == 0) payload[layout.means_at - 1] = static_cast<std::uint8_t>(bits);
  if (i < layout.bytes - layout.bins_at) {
    payload[layout.bins_at + i] =
        PackedByte(i, bits, layout.entries, [&](std::int64_t entry) {
          return bins.Of(static_cast<double>(call.Sent(entry)));
        });
  }
  if (i >= layout.entries) return;
  call.Keep(i, call.book->mean[bins.Of(static_cast<double>(call.Sent(i)))]);
}

// Puts everything back if a number is not finite.
__global__ void __launch_bounds__(kThreads)
    RefuseKernel(const __grid_constant__ Encode call, const float* before) {
  if (call.non_finite->count == 0) return;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = ThreadOfGrid(); i < call.layout.form.n; i += stride) {
    call.residual[i] = before[i];
  }
  for (std::int64_t i = ThreadOfGrid(); i < call.layout.bytes; i += stride) {
    call.payload[i] = 0;
  }
}

// The sum of `count` terms, in `levels` that each add up 1024 of the one
// before.
template <Terms kTermsOf>
void QueueSum(const Encode& call, double* partials, double* sum,
              LaunchQueue* queue) {
  std::int64_t count = call.layout.entries;
  std::int64_t left = (count + kTerms - 1) / kTerms;
  double* to = left == 1 ? sum : partials;
  queue->Launch(HalveKernel<kTermsOf>, static_cast<unsigned>(left), kThreads,
                call, nullptr, count, to);
  while (left > 1) {
    const double* const from = to;
    count = left;
    left = (count + kTerms - 1) / kTerms;
    to = left == 1 ? sum : to + count;
    queue->Launch(HalveKernel<Terms::kPartials>, static_cast<unsigned>(left),
                  kThreads, call, from, count, to);
  }
}

std::int64_t PartialsOf(std::int64_t entries) {
  return entries / kTerms * 2 + 4;  // more than all levels have
}

struct EncodeSpace {
  std::size_t bytes;
  float* values;
  std::int32_t* indices;
  Book* book;
  double* sums;  // of values and of squares, then partials
  EncodeSpace(const Layout& layout, void* workspace) {
    Cutter cutter(workspace);
    values = cutter.Take<float>(layout.entries);
    indices = cutter.Take<std::int32_t>(layout.entries);
    book = cutter.Take<Book>(1);
    sums = cutter.Take<double>(2 + PartialsOf(layout.entries));
    bytes = cutter.bytes();
  }
};

struct MeanSpace {
  std::size_t bytes;
  float* values;
  std::int32_t* indices;
  std::int64_t* row_splits;
  void* scatter;
  ScatterReport* report;
  MeanSpace(const Layout& layout, std::int64_t payloads, void* workspace) {
    Cutter cutter(workspace);
    values = cutter.Take<float>(layout.entries * payloads);
    indices = cutter.Take<std::int32_t>(layout.entries * payloads);
    row_splits = cutter.Take<std::int64_t>(payloads + 1);
    scatter = cutter.Take<std::uint8_t>(
        static_cast<std::int64_t>(ScatterDecodeWorkspaceBytes()));
    report = cutter.Take<ScatterReport>(1);
    bytes = cutter.bytes();
  }
};

// Whether the bytes before the offsets, the codebook's header and the unused
// bits are those of this form.
__device__ bool IsOfForm(const Layout& layout, const std::uint8_t* payload) {
  bool same = true;
  for (std::int64_t i = 0; i < layout.offsets_at; ++i) {
    same = same && payload[i] == layout.prefix[i];
  }
  const auto unused = [&](std::int64_t end, std::int64_t bits) {
    return bits % 8 == 0 ? 0 : payload[end - 1] >> (bits % 8);
  };
  const int bits = layout.form.bits;
  same = same && unused(layout.means_at - (bits > 0),
                        layout.entries * layout.width) == 0;
  if (bits == 0) return same;
  return same && payload[layout.means_at - 1] == bits &&
         unused(layout.bytes, layout.entries * bits) == 0;
}

// Entry `i` of a payload: its index, or -1 if the payload is not valid, and its
// value.
__global__ void __launch_bounds__(kThreads)
    ReadKernel(const __grid_constant__ Layout layout, const std::uint8_t* data,
               std::int64_t payloads, const __grid_constant__ MeanSpace space) {
  const std::int64_t i = ThreadOfGrid();
  if (i <= payloads) space.row_splits[i] = i * layout.entries;
  if (i >= payloads * layout.entries) return;
  const std::uint8_t* const payload = data + i / layout.entries * layout.bytes;
  const std::int64_t entry = i % layout.entries;
  const std::int64_t chunk = entry / layout.of_chunk * layout.form.chunk;
  if (payload[0] == 0) {  // refused by its sender: zeros, anywhere
    space.indices[i] =
        static_cast<std::int32_t>(chunk + entry % layout.of_chunk);
    space.values[i] = 0;
    return;
  }
  const std::int64_t offset =
      Unpacked(payload + layout.offsets_at, entry, layout.width);
  const int bits = layout.form.bits;
  const std::int64_t number =
      bits > 0 ? Unpacked(payload + layout.bins_at, entry, bits) : entry;
  const SentType type = layout.form.sent;
  const std::uint8_t* const at =
      payload + layout.means_at + BytesOf(type) * number;
  const float value =
      ValueOf(type == SentType::kFloat32 ? LoadNumber<std::uint32_t>(at)
                                         : LoadNumber<std::uint16_t>(at),
              type);
  const bool valid = offset < layout.form.chunk && IsFinite(value) &&
                     IsOfForm(layout, payload);
  space.indices[i] = valid ? static_cast<std::int32_t>(chunk + offset) : -1;
  space.values[i] = value;
}

__global__ void __launch_bounds__(kThreads)
    DivideKernel(float* mean, std::int64_t n, std::int64_t payloads,
                 const ScatterReport* report) {
  const std::int64_t i = ThreadOfGrid();
  if (i >= n) return;
  const bool valid = report->flaw == ScatterFlaw::kNone;
  mean[i] =
      valid ? mean[i] / static_cast<float>(payloads) : static_cast<float>(NAN);
}

}  // namespace

Status CheckFixedForm(const FixedForm& form) {
  if (Status status = CheckChunks(form.n, form.k, form.chunk); !status.ok()) {
    return status;
  }
  if (form.chunk < 2 || form.chunk > INT32_MAX || form.k < 1 || form.bits < 0 ||
      form.bits > 8) {
    return {StatusCode::kInvalidArgument,
            "a payload of a fixed size has chunks of 2 elements or more, 1 or "
            "more entries of each, and 0 to 8 bits for a value, not " +
                std::to_string(form.chunk) + ", " + std::to_string(form.k) +
                " and " + std::to_string(form.bits)};
  }
  if (form.sent != SentType::kFloat32 && form.sent != SentType::kFloat16 &&
      form.sent != SentType::kBFloat16) {
    return {StatusCode::kInvalidArgument,
            "values of dtype " + std::to_string(static_cast<int>(form.sent)) +
                " have no payload of a fixed size; it must be float32, float16 "
                "or bfloat16"};
  }
  return {};
}

std::int64_t FixedPayloadBytes(const FixedForm& form) {
  return Layout(form).bytes;
}

std::size_t FixedEncodeWorkspaceBytes(const FixedForm& form) {
  return EncodeSpace(Layout(form), nullptr).bytes;
}

std::size_t FixedMeanWorkspaceBytes(const FixedForm& form,
                                    std::int64_t payloads) {
  return MeanSpace(Layout(form), payloads, nullptr).bytes;
}

Status QueueFixedEncode(const FixedForm& form, const float* delta,
                        const float* residual_in, float* residual_out,
                        float decay, void* workspace, std::uint8_t* payload,
                        NonFiniteCount* non_finite, cudaStream_t stream) {
  if (Status status = CheckFixedForm(form); !status.ok()) return status;
  const Layout layout(form);
  const EncodeSpace space(layout, workspace);
  if (Status status = QueueChunkedTopK<float>(
          {delta, residual_in, residual_out, form.n, decay}, form.k, form.chunk,
          space.values, space.indices, non_finite, stream);
      !status.ok()) {
    return status;
  }
  const Encode call{layout,         residual_out, space.values,
                    space.indices,  space.book,   space.sums,
                    space.sums + 1, payload,      non_finite};
  LaunchQueue queue(stream);
  queue.Zero(space.book, sizeof(Book));
  queue.Zero(space.sums, 2 * sizeof(double));
  if (form.bits > 0 && layout.entries > 0) {
    const auto blocks =
        static_cast<unsigned>((layout.entries + kTerms - 1) / kTerms);
    double* const partials = space.sums + 2;
    queue.Launch(LargestKernel, blocks, kThreads, call);
    QueueSum<Terms::kScaled>(call, partials, call.sum, &queue);
    QueueSum<Terms::kSquares>(call, partials, call.squares, &queue);
    queue.Launch(BinsKernel, blocks, kThreads, call);
    queue.Launch(MeansKernel, 1u, kThreads, call);
  }
  const std::int64_t largest_part =
      std::max({layout.entries, layout.bytes - layout.bins_at,
                layout.bins_at - layout.offsets_at, std::int64_t{kMostPrefix}});
  queue.Launch(WriteKernel, BlocksFor(largest_part), kThreads, call);
  queue.Launch(RefuseKernel,
               BlocksFor(std::min(std::max(form.n, layout.bytes),
                                  std::int64_t{1} << 20)),
               kThreads, call, residual_in);
  return queue.status("fixed_encode");
}

Status QueueFixedMean(const FixedForm& form, const std::uint8_t* data,
                      std::int64_t payloads, void* workspace, float* mean,
                      cudaStream_t stream) {
  if (Status status = CheckFixedForm(form); !status.ok()) return status;
  if (payloads < 1) {
    return {StatusCode::kInvalidArgument, "there are no payloads to average"};
  }
  if (form.n == 0) return {};
  const Layout layout(form);
  const MeanSpace space(layout, payloads, workspace);
  LaunchQueue queue(stream);
  queue.Launch(ReadKernel, BlocksFor(payloads * layout.entries + 1), kThreads,
               layout, data, payloads, space);
  if (Status status = queue.status("fixed_mean"); !status.ok()) return status;
  if (Status status = ScatterDecode<float>(
          mean, form.n, space.values, space.indices, payloads * layout.entries,
          space.row_splits, payloads, nullptr, space.scatter,
          ScatterDecodeWorkspaceBytes(), space.report, stream);
      !status.ok()) {
    return status;
  }
  queue.Launch(DivideKernel, BlocksFor(form.n), kThreads, mean, form.n,
               payloads, space.report);
  return queue.status("fixed_mean");
}

}  // namespace fedplug::cuda
