#include "core/philox/words.h"

namespace fedplug::philox {
namespace {

// Independent draws, which a compiler may vectorise.
void PlainWords(const Philox& philox, std::int64_t first_draw,
                std::int64_t draws, std::uint32_t* words) {
  for (std::int64_t done = 0; done < draws; done += kGroup) {
    std::uint32_t lanes[Philox::kWords][kGroup];
    auto& [w0, w1, w2, w3] = lanes;
    for (int lane = 0; lane < kGroup; ++lane) {
      const auto draw = static_cast<std::uint64_t>(first_draw + done + lane);
      w0[lane] = static_cast<std::uint32_t>(draw);
      w1[lane] = static_cast<std::uint32_t>(draw >> 32);
      w2[lane] = philox.stream()[0];
      w3[lane] = philox.stream()[1];
    }
    Philox::Key key = philox.key();
    for (int round = 0; round < Philox::kRounds; ++round) {
      for (int lane = 0; lane < kGroup; ++lane) {
        Philox::Round(key, &w0[lane], &w1[lane], &w2[lane], &w3[lane]);
      }
      key = Philox::NextKey(key);
    }
    std::uint32_t* const to = words + Philox::kWords * done;
    for (int lane = 0; lane < kGroup; ++lane) {
      for (int w = 0; w < Philox::kWords; ++w) {
        to[Philox::kWords * lane + w] = lanes[w][lane];
      }
    }
  }
}

}  // namespace

WordsLoop* WordsLoopFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level == SimdLevel::kAvx512) return VectorWordsLoop<SimdLevel::kAvx512>();
  if (level == SimdLevel::kAvx2) return VectorWordsLoop<SimdLevel::kAvx2>();
#endif
  static_cast<void>(level);
  return PlainWords;
}

}  // namespace fedplug::philox

namespace fedplug::value_loops {

DitherLoops DitherLoopsFor(SimdLevel level) {
#if FEDPLUG_SIMD_X86
  if (level == SimdLevel::kAvx512)
    return VectorDitherLoops<SimdLevel::kAvx512>();
  if (level == SimdLevel::kAvx2) return VectorDitherLoops<SimdLevel::kAvx2>();
#endif
  static_cast<void>(level);
  return {};
}

}  // namespace fedplug::value_loops
