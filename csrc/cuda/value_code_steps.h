// The steps that encode values (value_code.h). A thread takes a lot of
// neighbours, which are whole bytes of the code and whole draws of random
// numbers. The arithmetic is the core's (core/codes/values/level.h).
#ifndef FEDPLUG_CUDA_VALUE_CODE_STEPS_H_
#define FEDPLUG_CUDA_VALUE_CODE_STEPS_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/floats.h"
#include "core/base/philox.h"
#include "core/codes/values/layout.h"
#include "core/codes/values/level.h"
#include "core/value_code.h"
#include "cuda/block.h"
#include "cuda/unaligned.h"
#include "cuda/value_code.h"

namespace fedplug::cuda::values {

using value_loops::Wide;
using value_loops::WideOf;

inline constexpr int kThreads = 256;

// The type of keys that AtomicMax raises.
template <typename T>
using KeyOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <typename T>
struct Call {
  ValueVector<T> vector;
  ValueLayout layout;
  int bits;
  KeyOf<T>* largest;     // of every block; zero before the steps
  const double* mean;    // of kSign
  const Philox* random;  // of kQsgd
  std::uint8_t* data;
  NonFiniteCount* report;  // zero before the steps

  FEDPLUG_HOST_DEVICE WideOf<T> Exact(std::int64_t i) const {
    const WideOf<T> wide = Wide(vector.values[i]);
    return vector.residual_in == nullptr ? wide : wide + vector.residual_in[i];
  }

  FEDPLUG_HOST_DEVICE T Value(std::int64_t i) const {
    return vector.residual_in == nullptr ? vector.values[i]
                                         : value_loops::Rounded<T>(Exact(i));
  }
};

// Word i of four bytes of the values, the last word being the last bytes. An
// odd number of 16-bit values has zeros in front.
template <typename T>
struct Words {
  Call<T> call;

  FEDPLUG_HOST_DEVICE std::uint32_t operator()(std::int64_t i) const {
    if constexpr (sizeof(T) == 2) {
      const std::int64_t second = 2 * i + 1 - call.vector.count % 2;
      const std::uint32_t low = second == 0 ? 0 : Bits(second - 1);
      return low | Bits(second) << 16;
    } else if constexpr (sizeof(T) == 4) {
      return Bits(i);
    } else {
      return static_cast<std::uint32_t>(ToBits(call.Value(i / 2)) >>
                                        (i % 2 == 0 ? 0 : 32));
    }
  }

  FEDPLUG_HOST_DEVICE std::uint32_t Bits(std::int64_t i) const {
    return static_cast<std::uint32_t>(ToBits(call.Value(i)));
  }
};

// The largest magnitude of every block, as a key.
template <typename T>
struct Largest {
  static constexpr int kEach = 8;  // values of a thread
  static constexpr std::int64_t kTile = kThreads * kEach;

  struct Shared {
    KeyOf<T> key[kThreads];
  };

  Call<T> call;

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const {
    return (call.vector.count + kTile - 1) / kTile;
  }

  FEDPLUG_HOST_DEVICE KeyOf<T> KeyAt(std::int64_t i) const {
    return i < call.vector.count ? MagnitudeKey(call.Value(i)) : 0;
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    const std::int64_t size = call.layout.block;
    if (size < kEach) return OfSmallBlocks(block, tile);
    block.Each([&](int thread) {
      const std::int64_t first = tile * kTile + thread * kEach;
      KeyOf<T> largest = 0;
      for (int i = 0; i < kEach; ++i) {
        const KeyOf<T> key = KeyAt(first + i);
        largest = key > largest ? key : largest;
      }
      shared.key[thread] = largest;
    });
    // Blocks of values are powers of two. A block larger than a tile is not
    // divided.
    const auto threads =
        static_cast<int>(size > kTile ? kThreads : size / kEach);
    for (int distance = 1; distance < threads; distance *= 2) {
      block.Each([&](int thread) {
        if (thread % (2 * distance) != 0) return;
        const KeyOf<T> other = shared.key[thread + distance];
        if (other > shared.key[thread]) shared.key[thread] = other;
      });
    }
    block.Each([&](int thread) {
      const std::int64_t first = tile * kTile + thread * kEach;
      if (thread % threads != 0 || first >= call.vector.count) return;
      AtomicMax(call.largest + first / size, shared.key[thread]);
    });
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void OfSmallBlocks(const Block& block,
                                         std::int64_t tile) const {
    block.Each([&](int thread) {
      const std::int64_t first = tile * kTile + thread * kEach;
      for (std::int64_t i = first; i < first + kEach; ++i) {
        if (i >= call.vector.count) return;
        AtomicMax(call.largest + i / call.layout.block, KeyAt(i));
      }
    });
  }
};

// Six halvings of a sum (core/codes/values/mean_magnitude.h): a thread adds up
// to 64 terms in the order that the halvings add them.
template <typename T>
struct Halvings {
  static constexpr int kLevels = 6;
  static constexpr std::int64_t kTile = kThreads;

  struct Shared {};

  Call<T> call;
  double share;         // of a value
  const double* terms;  // null for the shares of the values
  double* sums;
  std::int64_t sizes[kLevels + 1];  // before each halving, and after the last

  Halvings(const Call<T>& values, const double* from, std::int64_t count,
           double* to)
      : call(values),
        share(1.0 / static_cast<double>(values.vector.count)),
        terms(from),
        sums(to) {
    for (std::int64_t& size : sizes) {
      size = count;
      count = (count + 1) / 2;
    }
  }

  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const {
    return (sizes[kLevels] + kTile - 1) / kTile;
  }

  // Element i of a halving's result. A sum of magnitudes plus +0 is itself.
  template <int kLevel>
  FEDPLUG_HOST_DEVICE double Sum(std::int64_t i) const {
    if (i >= sizes[kLevel]) return 0;
    if constexpr (kLevel == 0) {
      if (terms != nullptr) return terms[i];
      return value_loops::Share(call.Value(i), share);
    } else {
      return Sum<kLevel - 1>(i) + Sum<kLevel - 1>(i + sizes[kLevel]);
    }
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared&) const {
    block.Each([&](int thread) {
      const std::int64_t i = tile * kTile + thread;
      if (i < sizes[kLevels]) sums[i] = Sum<kLevels>(i);
    });
  }
};

// Header, scales and levels. The report, and the next residual.
template <typename T, ValueForm kForm>
struct Encode {
  static constexpr int kEach = 8;  // values of a thread at a time
  static constexpr std::int64_t kTile = kThreads * kEach;
  static constexpr int kMostBytes = 16;  // of a lot
  static constexpr bool kCast =
      kForm == ValueForm::kFloat16 || kForm == ValueForm::kBFloat16;

  struct Shared {
    std::uint8_t packed[kThreads * kMostBytes];
  };

  Call<T> call;

  // At least one, which writes the header.
  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const {
    const std::int64_t tiles = (call.vector.count + kTile - 1) / kTile;
    return tiles == 0 ? 1 : tiles;
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    block.Each([&](int thread) {
      if (tile == 0 && thread == 0) WriteHead();
      const std::int64_t first = tile * kTile + thread * kEach;
      if (first >= call.vector.count) return;
      std::uint8_t* const packed =
          shared.packed + thread * call.layout.group_bytes;
      if constexpr (kCast) {
        CastLot(first, packed);
      } else {
        QuantizeLot(first, packed);
      }
    });
    const std::int64_t left = call.vector.count - tile * kTile;
    const std::int64_t bytes =
        call.layout.LevelBytes(left < kTile ? left : kTile);
    std::uint8_t* const to = call.data + call.layout.levels_at +
                             call.layout.LevelBytes(tile * kTile);
    block.Each([&](int thread) {
      for (std::int64_t i = thread; i < bytes; i += kThreads) {
        to[i] = shared.packed[i];
      }
    });
  }

  FEDPLUG_HOST_DEVICE void WriteHead() const {
    for (std::int64_t i = 0; i < call.layout.header_bytes; ++i) {
      call.data[i] = call.layout.header[static_cast<std::size_t>(i)];
    }
    if (!kCast && !call.layout.per_block) WriteScale(0);
  }

  // The scale of a block as it is written; kBfp writes the exponent of a step.
  FEDPLUG_HOST_DEVICE T ScaleOf(std::int64_t block) const {
    if constexpr (kForm == ValueForm::kSign) {
      return call.vector.count == 0 ? T{} : value_loops::Rounded<T>(*call.mean);
    } else {
      const auto key = static_cast<FloatBitsOf<T>>(call.largest[block]);
      T scale;
      std::memcpy(&scale, &key, sizeof(scale));
      return scale;
    }
  }

  FEDPLUG_HOST_DEVICE std::int16_t ExponentOf(std::int64_t block) const {
    return static_cast<std::int16_t>(StepExponentOf<T>(
        static_cast<double>(Wide(ScaleOf(block))), call.bits));
  }

  FEDPLUG_HOST_DEVICE void WriteScale(std::int64_t block) const {
    std::uint8_t* const to =
        call.data + call.layout.header_bytes + block * call.layout.scale_bytes;
    if constexpr (kForm == ValueForm::kBfp) {
      StoreNumber(ExponentOf(block), to);
    } else {
      StoreNumber(ScaleOf(block), to);
    }
  }

  // The factor of levels: the scale, or the step.
  FEDPLUG_HOST_DEVICE WideOf<T> FactorOf(std::int64_t block) const {
    if constexpr (kForm == ValueForm::kBfp) {
      return static_cast<WideOf<T>>(PowerOfTwo(ExponentOf(block)));
    } else {
      return Wide(ScaleOf(block));
    }
  }

  FEDPLUG_HOST_DEVICE void CastLot(std::int64_t first,
                                   std::uint8_t* packed) const {
    using Narrow =
        std::conditional_t<kForm == ValueForm::kFloat16, Half, BFloat16>;
    for (std::int64_t i = first; i < first + kEach; ++i) {
      if (i >= call.vector.count) return;
      const WideOf<T> exact = call.Exact(i);
      if (!IsFinite(exact)) Report(i);
      const Narrow sent{value_loops::FiniteBits<Narrow>(
          static_cast<float>(Wide(call.Value(i))))};
      std::memcpy(packed + 2 * (i - first), &sent, sizeof(sent));
      if (call.vector.residual_out != nullptr) {
        const auto received = static_cast<WideOf<T>>(Wide(sent));
        Keep(i, exact, value_loops::Rounded<T>(received));
      }
    }
  }

  FEDPLUG_HOST_DEVICE void QuantizeLot(std::int64_t first,
                                       std::uint8_t* packed) const {
    std::uint8_t levels[kEach] = {};
    std::uint32_t noise[kEach] = {};
    if constexpr (kForm == ValueForm::kQsgd) Draw(first, noise);
    WideOf<T> factor = 1;
    std::int64_t next = first;  // where the factor changes
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t at = first + i;
      if (at >= call.vector.count) continue;
      if (kForm != ValueForm::kSign && at == next) {
        const std::int64_t block = at / call.layout.block;
        next = (block + 1) * call.layout.block;
        factor = FactorOf(block);
        if (call.layout.per_block && next - at == call.layout.block) {
          WriteScale(block);
        }
      }
      const WideOf<T> exact = call.Exact(at);
      if (!IsFinite(exact)) Report(at);
      levels[i] = static_cast<std::uint8_t>(call.layout.top);
      if (!IsFinite(exact) || !IsFinite(factor) || factor == 0) {
        if (call.vector.residual_out != nullptr) Keep(at, exact, T{});
        continue;
      }
      levels[i] = LevelOf(Wide(call.Value(at)), noise[i], factor);
      if (call.vector.residual_out != nullptr) {
        Keep(at, exact, Received(levels[i], factor));
      }
    }
    Pack(levels, packed);
  }

  FEDPLUG_HOST_DEVICE void Draw(std::int64_t first,
                                std::uint32_t* noise) const {
    const Philox random = *call.random;
    for (int i = 0; i < kEach; i += Philox::kWords) {
      const auto draw =
          static_cast<std::uint64_t>((first + i) / Philox::kWords);
      const Philox::Words words = random.WordsOf(draw);
      for (int w = 0; w < Philox::kWords; ++w) {
        noise[i + w] = words[static_cast<std::size_t>(w)];
      }
    }
  }

  FEDPLUG_HOST_DEVICE std::uint8_t LevelOf(WideOf<T> x, std::uint32_t noise,
                                           WideOf<T> factor) const {
    static_cast<void>(noise);
    const int top = call.layout.top;
    if constexpr (kForm == ValueForm::kSign) {
      return value_loops::SignLevel(x);
    } else if constexpr (kForm == ValueForm::kQsgd) {
      return value_loops::LevelAtRandom(x, noise, factor, top);
    } else if constexpr (kForm == ValueForm::kBfp) {
      return value_loops::NearestMultipleLevel(x, 1 / factor, top);
    } else {
      return value_loops::NearestLevel(x, factor, top);
    }
  }

  // The value that a receiver decodes.
  FEDPLUG_HOST_DEVICE T Received(std::uint8_t level, WideOf<T> factor) const {
    const int top = call.layout.top;
    if constexpr (kForm == ValueForm::kSign) {
      const auto sign = static_cast<std::uint8_t>(2 * level);
      return value_loops::Rounded<T>(
          value_loops::TimesScale(sign, 1, Wide(ScaleOf(0))));
    } else if constexpr (kForm == ValueForm::kBfp) {
      return value_loops::Rounded<T>(
          value_loops::TimesStep(level, top, factor));
    } else {
      return value_loops::Rounded<T>(
          value_loops::TimesScale(level, top, factor));
    }
  }

  FEDPLUG_HOST_DEVICE void Pack(const std::uint8_t* levels,
                                std::uint8_t* packed) const {
    std::uint64_t word = 0;
    for (int i = 0; i < kEach; ++i) {
      word |= static_cast<std::uint64_t>(levels[i]) << (8 * i);
    }
    if constexpr (kForm == ValueForm::kSign) {
      packed[0] = value_loops::PushBitsTogether(word);
    } else {
      word = value_loops::PushTogether(word, call.bits);
      for (int i = 0; i < call.bits; ++i) {
        packed[i] = static_cast<std::uint8_t>(word >> (8 * i));
      }
    }
  }

  FEDPLUG_HOST_DEVICE void Keep(std::int64_t i, WideOf<T> exact,
                                T received) const {
    call.vector.residual_out[i] = exact - Wide(received);
  }

  FEDPLUG_HOST_DEVICE void Report(std::int64_t i) const {
    AtomicAdd(&call.report->count, 1);
    AtomicMax(&call.report->first_from_end,
              static_cast<std::uint32_t>(call.vector.count - i));
  }
};

}  // namespace fedplug::cuda::values

#endif  // FEDPLUG_CUDA_VALUE_CODE_STEPS_H_
