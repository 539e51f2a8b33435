// Payloads of a fixed size on a GPU: chunked top-k, a codebook or uncompressed
// values, and offsets as indices. The bytes are those of the body that
// `topk(count, chunk) | codebook(bits) | offsets(chunk)` writes. All work is
// queued on a stream. Nothing is allocated and nothing waits for the GPU, so a
// CUDA graph can record it.
#ifndef FEDPLUG_CUDA_FIXED_PAYLOAD_H_
#define FEDPLUG_CUDA_FIXED_PAYLOAD_H_

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"
#include "cuda/scaled_sum.h"
#include "cuda/scatter_decode.h"

namespace fedplug::cuda {

// The type of the values in a payload, as FedplugCudaDtype numbers it. Sums,
// residuals and means are float32. The rounding errors stay in the
// residual.
enum class SentType : std::int32_t {
  kFloat32 = 0,
  kFloat16 = 2,
  kBFloat16 = 3
};

// The form of the payloads of a tensor.
struct FixedForm {
  std::int64_t n;      // elements of the tensor
  std::int64_t k;      // entries of each chunk
  std::int64_t chunk;  // elements of a chunk, at least 2
  std::int32_t bits;   // of the codebook, 1 to 8; 0: values are uncompressed
  SentType sent = SentType::kFloat32;
};

// Refuses sizes, bits and types out of range.
Status CheckFixedForm(const FixedForm& form);

// The size of each payload.
//
// REQUIRES: CheckFixedForm(form) is ok, here and below
std::int64_t FixedPayloadBytes(const FixedForm& form);

std::size_t FixedEncodeWorkspaceBytes(const FixedForm& form);
std::size_t FixedMeanWorkspaceBytes(const FixedForm& form,
                                    std::int64_t payloads);

// Queues the encoding of delta + decay * residual_in. If a sum is NaN or
// infinite, or an entry of the residual would be, the payload is all zeros,
// residual_out is residual_in, and non_finite counts the sums, at least 1.
//
// REQUIRES: 0 <= decay <= 1, residual_out overlaps no input, workspace is
//           aligned to 256 bytes
// SHAPE:    delta, residual_in and residual_out[n];
//           payload[FixedPayloadBytes], non_finite[1],
//           workspace[FixedEncodeWorkspaceBytes]
// THREADS:  the caller's only. The result does not depend on the GPU
// COST:     QueueChunkedTopK, then reads the selected values four times
Status QueueFixedEncode(const FixedForm& form, const float* delta,
                        const float* residual_in, float* residual_out,
                        float decay, void* workspace, std::uint8_t* payload,
                        NonFiniteCount* non_finite, CUstream_st* stream);

// Queues the mean of untrusted payloads in their order. Those of zeros only
// count as zeros. If a payload is not of this form the mean is NaN.
//
// REQUIRES: payloads >= 1, workspace is aligned to 256 bytes
// SHAPE:    data[payloads, FixedPayloadBytes], mean[n],
//           workspace[FixedMeanWorkspaceBytes]
// THREADS:  as QueueFixedEncode
// COST:     reads the payloads once, then ScatterDecode, and one pass over mean
Status QueueFixedMean(const FixedForm& form, const std::uint8_t* data,
                      std::int64_t payloads, void* workspace, float* mean,
                      CUstream_st* stream);

}  // namespace fedplug::cuda

#endif  // FEDPLUG_CUDA_FIXED_PAYLOAD_H_
