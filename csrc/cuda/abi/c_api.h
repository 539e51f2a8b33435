// The C ABI of the CUDA kernels: the exports of libfedplug_cuda.so, for callers
// in any language. Pointers are to memory of the given device, unless they are
// called `host`. plugins/fedplug-cuda calls it from Python.
//
// Every function returns 0, or the StatusCode of its failure. The message is
// then fedplug_cuda_last_error(). Kernels are queued on the caller's stream
// (null: the legacy default stream), allocate nothing and wait for nothing.
//
// THREADS: any number. The current device of the caller's thread is restored
#ifndef FEDPLUG_CUDA_ABI_C_API_H_
#define FEDPLUG_CUDA_ABI_C_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FEDPLUG_CUDA_API __attribute__((visibility("default")))

// Changes with every change of a signature or of a struct.
#define FEDPLUG_CUDA_ABI_VERSION 9

enum FedplugCudaDtype {
  FEDPLUG_CUDA_FLOAT32 = 0,
  FEDPLUG_CUDA_FLOAT64 = 1,
  FEDPLUG_CUDA_FLOAT16 = 2,
  FEDPLUG_CUDA_BFLOAT16 = 3,
};

// One tensor of a selection. See cuda/topk_residual.h.
typedef struct FedplugCudaUpdate {
  const void* delta;        // [n]
  const void* residual_in;  // [n]
  void* residual_out;       // [n]; residual_in for an update in place
  int64_t n;
} FedplugCudaUpdate;

// The sums of one tensor that are not finite.
typedef struct FedplugCudaTopKReport {
  int64_t non_finite;
  int64_t first_non_finite;
} FedplugCudaTopKReport;

// The first invalid payload. See cuda/scatter_decode.h.
typedef struct FedplugCudaScatterReport {
  int64_t words[7];
} FedplugCudaScatterReport;

FEDPLUG_CUDA_API int32_t fedplug_cuda_abi_version(void);

// The message of the calling thread's last failure; valid until its next call.
FEDPLUG_CUDA_API const char* fedplug_cuda_last_error(void);

// The number of CUDA devices. Fails where there is no driver, or too old a one.
FEDPLUG_CUDA_API int32_t fedplug_cuda_device_count(int32_t* count);

// Bytes of workspace that fedplug_cuda_topk and, with `each`,
// fedplug_cuda_topk_each need. Reads only `n` of updates.
FEDPLUG_CUDA_API int32_t fedplug_cuda_topk_workspace_bytes(
    int32_t dtype, const FedplugCudaUpdate* updates, int64_t count,
    int32_t each, uint64_t* bytes);

// Queues the selection of the ks[i] largest sums of every tensor i.
//
// REQUIRES: as for fedplug_cuda_topk
// SHAPE:    updates[count]; ks[count], on the host; values and
//           indices[sum of min(ks[i], n)], tensor after tensor; reports[count]
FEDPLUG_CUDA_API int32_t fedplug_cuda_topk_each(
    int32_t device, int32_t dtype, const FedplugCudaUpdate* updates,
    const int64_t* ks, int64_t count, void* workspace, uint64_t workspace_bytes,
    void* values, int32_t* indices, FedplugCudaTopKReport* reports,
    void* stream);

// Queues one selection of the k largest sums of all tensors together.
//
// REQUIRES: dtype is FLOAT32 or FLOAT64; workspace is aligned to 256 bytes,
//           reports to 8
// SHAPE:    updates[count], values and indices[min(k, sum of n)],
//           row_splits[count + 1], reports[count]
FEDPLUG_CUDA_API int32_t fedplug_cuda_topk(
    int32_t device, int32_t dtype, const FedplugCudaUpdate* updates,
    int64_t count, int64_t k, void* workspace, uint64_t workspace_bytes,
    void* values, int32_t* indices, int64_t* row_splits,
    FedplugCudaTopKReport* reports, void* stream);

// The Status that fetched reports stand for.
FEDPLUG_CUDA_API int32_t
fedplug_cuda_topk_judge(const FedplugCudaTopKReport* host_reports,
                        const FedplugCudaUpdate* updates, int64_t count);

FEDPLUG_CUDA_API uint64_t fedplug_cuda_scatter_workspace_bytes(void);

// Queues the addition of sparse payloads to accumulator[n], all or none.
//
// SHAPE: values and indices[entries], row_splits[payloads + 1],
//        weights[payloads] or null; report[1]
FEDPLUG_CUDA_API int32_t fedplug_cuda_scatter_add(
    int32_t device, int32_t dtype, void* accumulator, int64_t n,
    const void* values, const int32_t* indices, int64_t entries,
    const int64_t* row_splits, int64_t payloads, const void* weights,
    void* workspace, uint64_t workspace_bytes, FedplugCudaScatterReport* report,
    void* stream);

// The Status that a fetched report stands for.
FEDPLUG_CUDA_API int32_t
fedplug_cuda_scatter_judge(const FedplugCudaScatterReport* host_report);

// The entries of one tensor in a list. See cuda/entries.h.
typedef struct FedplugCudaEntries {
  void* tensor;
  const int32_t* indices;  // null: entry i is element i
  void* values;
  int64_t first;
  int64_t is_double;  // else tensor and values are of float
} FedplugCudaEntries;

enum FedplugCudaEntriesWork {
  FEDPLUG_CUDA_ADD = 0,        // element += value
  FEDPLUG_CUDA_READ = 1,       // value = element
  FEDPLUG_CUDA_TAKE = 2,       // value = element, if there are values; then 0
  FEDPLUG_CUDA_DIVIDE_BY = 3,  // element /= values[0]
  FEDPLUG_CUDA_LARGEST = 4,    // values[0] = max(values[0], |element|), finite
};

// Queues work on entries of all tensors of a list, all of it or none.
//
// REQUIRES: trusted indices, such as those of fedplug_cuda_topk
// SHAPE:    lists[count], in device memory; `entries` is of all together
FEDPLUG_CUDA_API int32_t fedplug_cuda_entries(int32_t device, int32_t work,
                                              const FedplugCudaEntries* lists,
                                              int64_t count, int64_t entries,
                                              void* stream);

// sum = delta + factor * residual. See cuda/scaled_sum.h for null pointers.
typedef struct FedplugCudaScaledSum {
  const void* delta;     // [n]
  const void* residual;  // [n]
  void* sum;             // [n]
  int64_t n;
  double factor;  // of the dtype
} FedplugCudaScaledSum;

// The elements of an array that are NaN or infinite.
typedef struct FedplugCudaNonFiniteCount {
  uint32_t count;
  uint32_t first_from_end;  // n - the index of the first; 0 for none
} FedplugCudaNonFiniteCount;

// Queues a sum.
//
// REQUIRES: dtype is FLOAT32 or FLOAT64
// SHAPE:    sum is on the host; non_finite[1] or null
FEDPLUG_CUDA_API int32_t fedplug_cuda_scaled_sum(
    int32_t device, int32_t dtype, const FedplugCudaScaledSum* sum,
    FedplugCudaNonFiniteCount* non_finite, void* stream);

// Queues the selection of the k largest elements of every chunk of a sum.
//
// REQUIRES: as fedplug_cuda_scaled_sum, sum->sum is not sum->residual
// SHAPE:    values and indices[sum of min(k, length) of all chunks]
FEDPLUG_CUDA_API int32_t fedplug_cuda_chunked_topk(
    int32_t device, int32_t dtype, const FedplugCudaScaledSum* sum, int64_t k,
    int64_t chunk, void* values, int32_t* indices,
    FedplugCudaNonFiniteCount* non_finite, void* stream);

// The form of payloads of a fixed size. See cuda/fixed_payload.h.
typedef struct FedplugCudaFixedForm {
  int64_t n;
  int64_t k;
  int64_t chunk;
  int32_t bits;
  int32_t dtype;  // of the values: FEDPLUG_CUDA_FLOAT32, _FLOAT16, _BFLOAT16
} FedplugCudaFixedForm;

// The size of each payload, and the bytes of workspace that encoding one and
// averaging `payloads` of them need.
FEDPLUG_CUDA_API int32_t fedplug_cuda_fixed_sizes(
    const FedplugCudaFixedForm* form, int64_t payloads, int64_t* payload_bytes,
    uint64_t* encode_workspace_bytes, uint64_t* mean_workspace_bytes);

// Queues the encoding of a tensor, which has been widened to float32.
//
// REQUIRES: workspace is aligned to 256 bytes, residual_out overlaps no input
// SHAPE:    delta, residual_in and residual_out[n]; payload[payload_bytes];
//           non_finite[1]
FEDPLUG_CUDA_API int32_t fedplug_cuda_fixed_encode(
    int32_t device, const FedplugCudaFixedForm* form, const float* delta,
    const float* residual_in, float* residual_out, float decay, void* workspace,
    uint8_t* payload, FedplugCudaNonFiniteCount* non_finite, void* stream);

// Queues the mean of untrusted payloads: NaN if one of them is not valid.
//
// SHAPE: data[payloads, payload_bytes], mean[n]
FEDPLUG_CUDA_API int32_t fedplug_cuda_fixed_mean(
    int32_t device, const FedplugCudaFixedForm* form, const uint8_t* data,
    int64_t payloads, void* workspace, float* mean, void* stream);

// The values of one vector, or sums with a residual. See cuda/value_code.h.
typedef struct FedplugCudaVector {
  const void* values;       // [count]
  const void* residual_in;  // [count], float32 for 16-bit values; or null
  void* residual_out;       // the same; residual_in for an update in place
  int64_t count;
} FedplugCudaVector;

// A ValueCode of core/value_code.h.
typedef struct FedplugCudaValueCode {
  const char* host_form;
  int64_t block_size;
  int32_t bits;
} FedplugCudaValueCode;

// The bytes of the code of `count` values, and of its workspace. Refuses codes
// without a kernel.
FEDPLUG_CUDA_API int32_t fedplug_cuda_value_sizes(
    int32_t dtype, const FedplugCudaValueCode* code, int64_t count,
    uint64_t* code_bytes, uint64_t* workspace_bytes);

// Queues the quantization and packing of a vector.
//
// REQUIRES: workspace is aligned to 256 bytes, report to 4
// SHAPE:    vector and code are on the host, data[code_bytes], report[1]
FEDPLUG_CUDA_API int32_t fedplug_cuda_encode_values(
    int32_t device, int32_t dtype, const FedplugCudaVector* vector,
    const FedplugCudaValueCode* code, uint64_t seed, void* workspace,
    uint64_t workspace_bytes, uint8_t* data, FedplugCudaNonFiniteCount* report,
    void* stream);

// The Status that a fetched report stands for.
FEDPLUG_CUDA_API int32_t fedplug_cuda_values_judge(
    const FedplugCudaNonFiniteCount* host_report, int64_t count);

// Queues the decoding of a code that the core has accepted: out = factor *
// values.
//
// REQUIRES: out_dtype is dtype, or a wider one of FLOAT32 and FLOAT64
// SHAPE:    code is on the host, data[code_bytes], out[count] of out_dtype
FEDPLUG_CUDA_API int32_t fedplug_cuda_decode_values(
    int32_t device, int32_t dtype, int32_t out_dtype,
    const FedplugCudaValueCode* code, const uint8_t* data, int64_t count,
    double factor, void* out, void* stream);

// Copies to host memory after all earlier work of the stream, and waits for it.
FEDPLUG_CUDA_API int32_t fedplug_cuda_fetch(int32_t device, void* host,
                                            const void* memory, uint64_t bytes,
                                            void* stream);

// Copies from host memory after all earlier work of the stream, and waits.
FEDPLUG_CUDA_API int32_t fedplug_cuda_send(int32_t device, void* memory,
                                           const void* host, uint64_t bytes,
                                           void* stream);

// Queues a copy from device memory to device memory that do not overlap.
FEDPLUG_CUDA_API int32_t fedplug_cuda_copy(int32_t device, void* to,
                                           const void* from, uint64_t bytes,
                                           void* stream);

// Queues zeros.
FEDPLUG_CUDA_API int32_t fedplug_cuda_zero(int32_t device, void* memory,
                                           uint64_t bytes, void* stream);

// Device memory for callers whose framework does not allocate, in the order of
// the stream.
FEDPLUG_CUDA_API int32_t fedplug_cuda_allocate(int32_t device, void** memory,
                                               uint64_t bytes, void* stream);
FEDPLUG_CUDA_API int32_t fedplug_cuda_release(int32_t device, void* memory,
                                              void* stream);

// Pinned host memory, which copies to and from every device at full speed.
FEDPLUG_CUDA_API int32_t fedplug_cuda_allocate_host(void** host,
                                                    uint64_t bytes);
FEDPLUG_CUDA_API int32_t fedplug_cuda_release_host(void* host);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // FEDPLUG_CUDA_ABI_C_API_H_
