// The refusal of a call with sums that are not finite: their number, the
// position of the first, and restored residuals.
#ifndef FEDPLUG_CORE_TOPK_REFUSAL_H_
#define FEDPLUG_CORE_TOPK_REFUSAL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/topk/chunks.h"

namespace fedplug::topk {

// The number of sums of each tensor that are not finite.
template <typename T>
std::vector<std::int64_t> CountNonFiniteIn(
    const std::vector<Update<T>>& updates, SimdLevel level,
    Parallel& parallel) {
  constexpr auto kInfinity = FloatTraits<T>::kInfinity;
  const BlockKernels<T> kernels = BlockKernelsFor<T>(level);
  ChunkStates states(CutIntoChunks(updates), parallel);
  const DefaultFloatEnvironment environment;
  states.ForEach([&](ChunkState& state) {
    std::array<FloatBitsOf<T>, kSlack> no_keys;
    CountCursor<T> cursor{no_keys.data()};
    const Update<T>& update = updates[state.chunk.tensor];
    ForEachBlock(update, state.chunk.begin, state.chunk.end,
                 [&](std::int64_t begin, std::int64_t count) {
                   kernels.count_pass(update.delta.From(begin),
                                      update.residual_in + begin, count,
                                      {kInfinity, kInfinity}, &cursor);
                 });
    state.above = cursor.above;
  });
  std::vector<std::int64_t> counts(updates.size());
  for (const ChunkState& state : states) {
    counts[state.chunk.tensor] += state.above;
  }
  return counts;
}

// Runs only after a refusal.
template <typename T>
std::int64_t FirstNonFinite(const Update<T>& update) {
  const DefaultFloatEnvironment environment;
  std::int64_t i = 0;
  while (i < update.n &&
         IsFinite(*update.delta.From(i) + update.residual_in[i])) {
    ++i;
  }
  return i;
}

// `of_tensor` names the tensor of a list, or is empty.
template <typename T>
Status NonFiniteStatus(const Update<T>& update, std::int64_t count,
                       const std::string& of_tensor) {
  return {StatusCode::kNonFinite,
          std::to_string(count) + " of " + std::to_string(update.n) +
              " sums of delta and residual" + of_tensor +
              " are NaN or infinite, the first at index " +
              std::to_string(FirstNonFinite(update)) +
              "; nothing was changed. Leave this update out"};
}

// The message and the restoration after a refusal.
// REQUIRES: the residuals and the sources are as they were
// SHAPE:    counts[updates], how many such sums each tensor has
template <typename T>
Status Refuse(const std::vector<Update<T>>& updates,
              const std::vector<std::int64_t>& counts,
              std::int64_t* non_finite) {
  Status first;
  for (std::size_t t = 0; t < updates.size(); ++t) {
    const Update<T>& update = updates[t];
    *non_finite += counts[t];
    if (counts[t] > 0 && first.ok()) {
      first = NonFiniteStatus(
          update, counts[t],
          updates.size() == 1 ? "" : " of tensor " + std::to_string(t));
    }
    if (update.residual_out != update.residual_in) {
      std::copy_n(update.residual_in, update.n, update.residual_out);
    }
  }
  return first;
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_REFUSAL_H_
