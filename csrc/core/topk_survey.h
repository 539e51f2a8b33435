// The walk that looks only: counts what is above a band and collects the keys
// in it. Must not know what the band is for.
#ifndef FEDPLUG_CORE_TOPK_SURVEY_H_
#define FEDPLUG_CORE_TOPK_SURVEY_H_

#include <array>
#include <cstdint>

#include "core/topk_chunks.h"

namespace fedplug::topk {

// Counts in `state`, and collects from `band_keys` on. Where a sum is not
// finite, it counts as zero, and in state->dropped; or, if it must not `drop`,
// the survey ends and is false.
//
// SHAPE: band_keys[elements of the chunk + kSlack]
// COST:  reads 2 * sizeof(T) bytes per element
template <typename T>
bool SurveyChunk(const Update<T>& update, const BlockKernels<T>& kernels,
                 bool drop, const Band<T>& band, FloatBitsOf<T>* band_keys,
                 ChunkState* state) {
  std::array<T, kBlock> staging;
  SurveyCursor<T> cursor{band_keys};
  state->dropped = 0;
  bool finite = true;
  const auto survey = [&](std::int64_t begin, std::int64_t count) {
    if (!finite) return;
    const T* const delta = update.delta->Read(begin, count, staging.data());
    const T* const residual = update.residual_in + begin;
    const SurveyCursor<T> before = cursor;
    if (kernels.survey(delta, residual, count, band, &cursor) <
        FloatTraits<T>::kInfinity) {
      return;
    }
    if (!drop) {
      finite = false;
      return;
    }
    cursor = before;
    for (std::int64_t i = 0; i < count; ++i) {
      const T a = delta[i] + residual[i];
      state->dropped += !IsFinite(a);
      staging[static_cast<std::size_t>(i)] = IsFinite(a) ? a : T{};
    }
    kernels.survey(staging.data(), MinusZeros<T>(), count, band, &cursor);
  };
  ForEachBlock(update, state->chunk.begin, state->chunk.end, survey);
  state->above = cursor.above;
  state->in_band = cursor.in_band;
  state->at_edge = cursor.at_edge;
  return finite;
}

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_SURVEY_H_
