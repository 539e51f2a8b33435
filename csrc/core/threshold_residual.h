// Threshold sparsification fused with the error-feedback update: the entries
// that are large enough leave, however many they are. Arithmetic and order are
// those of topk_residual.h.
#ifndef FEDPLUG_CORE_THRESHOLD_RESIDUAL_H_
#define FEDPLUG_CORE_THRESHOLD_RESIDUAL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/scratch.h"
#include "core/base/status.h"

namespace fedplug {

// How many entries leave is known only when they have been found, so that there
// are two steps: `Run` finds them, `Write` hands them over.
template <typename T>
class ThresholdSelection {
 public:
  // a = delta + residual_in; the entries with |a| >= threshold leave, zeros
  // never, and the rest stays in residual_out, with +0 where they were. A sum
  // that is NaN or infinite is refused (kNonFinite, and *non_finite is their
  // number); in place, everything is then as it was; elsewhere, residual_out
  // holds anything. residual_in may be null, which is as zeros and one read
  // less.
  //
  // REQUIRES: 0 <= n < 2^31 and threshold >= 0 (checked); residual_in ==
  //           residual_out (in place) or the two do not overlap; delta does not
  //           overlap residual_out. T is float or double.
  // SHAPE:    delta[n], residual_in[n], residual_out[n]
  // THREADS:  uses `parallel` from 2^19 elements on; the result does not depend
  //           on the number of threads, nor on the SIMD level
  // COST:     reads 2 * sizeof(T) bytes per element and writes sizeof(T), and
  //           writes the entries; in place, reads everything once more or, from
  //           32 MiB on, writes 2 bytes per element of a log. Scratch memory is
  //           kept for the next call.
  //
  // `before_writing`, if given, is called with the number of entries for an
  // update in place, so that their memory can be allocated. If it throws, Run
  // rethrows and nothing has changed.
  Status Run(const T* delta, const T* residual_in, T* residual_out,
             std::int64_t n, T threshold, Parallel& parallel,
             std::int64_t* non_finite,
             const std::function<void(std::int64_t)>& before_writing = nullptr);

  // The number of selected entries.
  std::int64_t count() const;

  // The entries, in ascending order of their indices.
  //
  // REQUIRES: Run was called, and its status was ok
  // SHAPE:    values[count()], indices[count()]
  void Write(Parallel& parallel, T* values, std::int32_t* indices) const;

 private:
  // The entries that a thread found in its contiguous share.
  struct Found {
    const T* values;
    const std::int32_t* indices;
    std::int64_t count;
  };

  const ScratchLease scratch_;
  std::vector<Found> found_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_THRESHOLD_RESIDUAL_H_
