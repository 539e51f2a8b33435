// CRC-32 on a GPU.
//
// A message is a polynomial whose coefficients are its words, and its checksum
// the remainder (core/crc32.h). A block adds up the words of a tile:
// each thread every 256th, times the power of x that it is moved by, and then
// the threads their sums. The last block to arrive does the same with the sums
// of the tiles. Zeros in front do not change a remainder, so tiles end with the
// message and the first one is filled up.
#ifndef FEDPLUG_CUDA_CHECKSUM_STEPS_H_
#define FEDPLUG_CUDA_CHECKSUM_STEPS_H_

#include <cstdint>

#include "core/base/floats.h"
#include "core/crc32.h"
#include "cuda/block.h"

namespace fedplug::cuda::checksum {

inline constexpr int kThreads = 256;
inline constexpr int kLog2Threads = 8;
inline constexpr std::int64_t kRows = 64;  // words of a thread in a tile
inline constexpr std::int64_t kTile = kRows * kThreads;

// Powers of x, of the bits of one unit: a word or a tile.
struct Powers {
  std::uint32_t row;                  // of kThreads units
  std::uint32_t units[kLog2Threads];  // of 1, 2, 4 ... units
};

inline Powers PowersOf(std::int64_t unit_bytes) {
  Powers powers;
  for (int i = 0; i < kLog2Threads; ++i) {
    powers.units[i] = crc32::MovedOver(unit_bytes << i, crc32::kOne);
  }
  powers.row = crc32::MovedOver(unit_bytes * kThreads, crc32::kOne);
  return powers;
}

struct Shared {
  std::uint32_t multiples[8][16];  // of `row`, for each digit of 4 bits
  std::uint32_t sum[kThreads];
};

// shared.sum[0] = the sum of word(i) times x^(bits of a unit * (units - 1 - i))
// for the units i = 0 to rows * kThreads - 1.
template <typename Block, typename Word>
FEDPLUG_HOST_DEVICE void Sum(const Block& block, const Powers& powers,
                             std::int64_t rows, const Word& word,
                             Shared& shared) {
  block.Each([&](int thread) {
    if (thread >= 8 * 16) return;
    const auto digit = static_cast<std::uint32_t>(thread % 16);
    shared.multiples[thread / 16][digit] =
        crc32::Product(powers.row, digit << (4 * (thread / 16)));
  });
  block.Each([&](int thread) {
    std::uint32_t sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::uint32_t moved = 0;
      for (int digit = 0; digit < 8; ++digit) {
        moved ^= shared.multiples[digit][(sum >> (4 * digit)) & 15];
      }
      sum = moved ^ word(row * kThreads + thread);
    }
    shared.sum[thread] = sum;
  });
  for (int i = 0; i < kLog2Threads; ++i) {
    block.Each([&](int thread) {
      const int distance = 1 << i;
      if (thread % (2 * distance) != 0) return;
      shared.sum[thread] = crc32::Product(powers.units[i], shared.sum[thread]) ^
                           shared.sum[thread + distance];
    });
  }
}

// Hands the checksum of the words 0 to words - 1 that `word` returns to one
// call of `take`.
template <typename Words, typename Take>
struct Checksum {
  using Shared = checksum::Shared;

  Words word;
  std::int64_t words;
  std::uint32_t start;  // of the register, moved over the message
  Powers of_words;
  Powers of_tiles;
  std::uint32_t* sums;     // of each tile
  std::uint32_t* arrived;  // tiles; begins at zero
  Take take;

  Checksum(const Words& each, std::int64_t bytes, std::uint32_t* tile_sums,
           std::uint32_t* arrivals, const Take& taker)
      : word(each),
        words((bytes + 3) / 4),
        start(crc32::MovedOver(bytes, ~std::uint32_t{0})),
        of_words(PowersOf(4)),
        of_tiles(PowersOf(4 * kTile)),
        sums(tile_sums),
        arrived(arrivals),
        take(taker) {}

  // At least one, whose checksum is taken.
  FEDPLUG_HOST_DEVICE std::int64_t Tiles() const {
    return words == 0 ? 1 : (words + kTile - 1) / kTile;
  }

  template <typename Block>
  FEDPLUG_HOST_DEVICE void operator()(const Block& block, std::int64_t tile,
                                      Shared& shared) const {
    const std::int64_t tiles = Tiles();
    const std::int64_t first = words - (tiles - tile) * kTile;
    Sum(
        block, of_words, kRows,
        [&](std::int64_t i) { return first + i < 0 ? 0 : word(first + i); },
        shared);
    block.Each([&](int thread) {
      if (thread == 0) sums[tile] = shared.sum[0];
    });
    const bool last = block.Agree([&] {
      return IsLastToArrive(arrived, static_cast<std::uint32_t>(tiles));
    });
    if (!last) return;
    const std::int64_t rows = (tiles + kThreads - 1) / kThreads;
    const std::int64_t before = rows * kThreads - tiles;
    Sum(
        block, of_tiles, rows,
        [&](std::int64_t i) {
          return i < before ? 0 : LoadArrived(sums + (i - before));
        },
        shared);
    block.Each([&](int thread) {
      if (thread != 0) return;
      // A checksum is the remainder of the message times x^32.
      const std::uint32_t remainder =
          crc32::Product(crc32::kPolynomial, shared.sum[0]);
      take(~(remainder ^ start));
    });
  }
};

}  // namespace fedplug::cuda::checksum

#endif  // FEDPLUG_CUDA_CHECKSUM_STEPS_H_
