// Two methods compute the same register.
//
// Slicing-by-8: eight bytes a step through eight tables, table t holding the
// effect of a byte that is followed by t zero bytes. Source: Kounavis & Berry,
// "A systematic approach to building high performance software-based CRC
// generators", ISCC 2005.
//
// Folding, where the processor multiplies polynomials: 64 bytes a step, as four
// remainders of 128 bits that are moved over the bytes between them. Source:
// Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction", Intel 2009. With registers of 512 bits, 256 bytes a step first,
// in the same remainders, four of them to a register.
//
// Threads take a tile each. The checksum of two pieces is that of the first,
// moved over the second, and that of the second.
#include "core/crc32.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/parallel.h"
#include "core/simd/vector.h"

namespace fedplug {
namespace {

constexpr int kSlices = 8;

using crc32::MovedOver;
using crc32::TimesX;

using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = TimesX(crc);
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[slice - 1][byte];
      tables[slice][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

std::uint32_t UpdateBySlicing(std::uint32_t crc, const std::uint8_t* data,
                              std::int64_t bytes) {
  for (; bytes >= kSlices; bytes -= kSlices, data += kSlices) {
    crc = kTables[7][data[0] ^ (crc & 0xff)] ^
          kTables[6][data[1] ^ ((crc >> 8) & 0xff)] ^
          kTables[5][data[2] ^ ((crc >> 16) & 0xff)] ^
          kTables[4][data[3] ^ (crc >> 24)] ^ kTables[3][data[4]] ^
          kTables[2][data[5]] ^ kTables[1][data[6]] ^ kTables[0][data[7]];
  }
  for (; bytes > 0; --bytes, ++data) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 0xff];
  }
  return crc;
}

// Below this size, waking a thread takes longer than its work.
constexpr std::int64_t kSmallestTile = std::int64_t{1} << 19;

#if FEDPLUG_SIMD_X86

#define FEDPLUG_TARGET_PCLMUL __attribute__((target("pclmul,sse4.1")))

constexpr std::int64_t kFolded = 64;

// x^power modulo the polynomial, in the mirrored order of bits that the
// checksum uses, one place up as the product of two mirrored numbers is one
// place short.
constexpr long long MirroredPower(int power) {
  std::uint32_t remainder = 0x80000000u;
  for (int i = 0; i < power; ++i) remainder = TimesX(remainder);
  return static_cast<long long>(std::uint64_t{remainder} << 1);
}

// Moves a remainder of 128 bits over `kBits` bits of message: its two halves
// times x^kBits, the earlier half being 64 bits further away.
template <int kBits>
FEDPLUG_TARGET_PCLMUL __m128i Fold(__m128i remainder, __m128i message) {
  const __m128i powers =
      _mm_set_epi64x(MirroredPower(kBits - 32), MirroredPower(kBits + 32));
  const __m128i earlier = _mm_clmulepi64_si128(remainder, powers, 0x00);
  const __m128i later = _mm_clmulepi64_si128(remainder, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(earlier, later), message);
}

FEDPLUG_TARGET_PCLMUL __m128i Load(const std::uint8_t* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

#define FEDPLUG_TARGET_VPCLMUL \
  __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))

constexpr std::int64_t kWideFolded = 256;

// As above, four remainders at a time.
template <int kBits>
FEDPLUG_TARGET_VPCLMUL __m512i Fold(__m512i remainders, __m512i message) {
  const __m512i powers = _mm512_broadcast_i32x4(
      _mm_set_epi64x(MirroredPower(kBits - 32), MirroredPower(kBits + 32)));
  const __m512i earlier = _mm512_clmulepi64_epi128(remainders, powers, 0x00);
  const __m512i later = _mm512_clmulepi64_epi128(remainders, powers, 0x11);
  constexpr int kXor = 0x96;
  return _mm512_ternarylogic_epi64(earlier, later, message, kXor);
}

FEDPLUG_TARGET_VPCLMUL __m512i LoadWide(const void* data) {
  return _mm512_loadu_si512(data);
}

// The remainders of the bytes before `data`, moved over as many as are whole
// steps. Returns the end of these.
// REQUIRES: bytes >= kWideFolded - kFolded
FEDPLUG_TARGET_VPCLMUL const std::uint8_t* FoldWide(const std::uint8_t* data,
                                                    std::int64_t bytes,
                                                    __m128i remainders[4]) {
  __m512i first = LoadWide(remainders);
  __m512i second = LoadWide(data);
  __m512i third = LoadWide(data + 64);
  __m512i fourth = LoadWide(data + 128);
  for (data += 192, bytes -= 192; bytes >= kWideFolded;
       data += kWideFolded, bytes -= kWideFolded) {
    first = Fold<2048>(first, LoadWide(data));
    second = Fold<2048>(second, LoadWide(data + 64));
    third = Fold<2048>(third, LoadWide(data + 128));
    fourth = Fold<2048>(fourth, LoadWide(data + 192));
  }
  _mm512_storeu_si512(
      remainders,
      Fold<512>(Fold<512>(Fold<512>(first, second), third), fourth));
  return data;
}

bool Supports(SimdLevel least) {
  SimdLevel level;
  return FindSimdLevel(&level).ok() && level >= least;
}

// REQUIRES: bytes >= kFolded
FEDPLUG_TARGET_PCLMUL std::uint32_t UpdateByFolding(std::uint32_t crc,
                                                    const std::uint8_t* data,
                                                    std::int64_t bytes) {
  const std::uint8_t* const end = data + bytes;
  // Adding the register to the first bytes is the same as beginning with it.
  __m128i remainders[4] = {
      _mm_xor_si128(Load(data), _mm_cvtsi32_si128(static_cast<int>(crc))),
      Load(data + 16), Load(data + 32), Load(data + 48)};
  data += kFolded;
  static const bool wide =
      Supports(SimdLevel::kAvx512) && simd::FeaturesOfX86().vpclmulqdq;
  if (wide && end - data >= kWideFolded) {
    data = FoldWide(data, end - data, remainders);
  }
  auto [first, second, third, fourth] = remainders;
  for (; end - data >= kFolded; data += kFolded) {
    first = Fold<512>(first, Load(data));
    second = Fold<512>(second, Load(data + 16));
    third = Fold<512>(third, Load(data + 32));
    fourth = Fold<512>(fourth, Load(data + 48));
  }
  const __m128i all =
      Fold<128>(Fold<128>(Fold<128>(first, second), third), fourth);
  std::array<std::uint8_t, 16> rest;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest.data()), all);
  return UpdateBySlicing(UpdateBySlicing(0, rest.data(), 16), data, end - data);
}

bool CanFold() {
  static const bool can =
      Supports(SimdLevel::kAvx2) && simd::FeaturesOfX86().pclmul;
  return can;
}

#endif

// The register after `bytes` more bytes.
std::uint32_t Update(std::uint32_t crc, const std::uint8_t* data,
                     std::int64_t bytes) {
#if FEDPLUG_SIMD_X86
  if (bytes >= kFolded && CanFold()) return UpdateByFolding(crc, data, bytes);
#endif
  return UpdateBySlicing(crc, data, bytes);
}

}  // namespace

std::uint32_t Crc32(const std::uint8_t* data, std::int64_t bytes) {
  return ~Update(0xffffffffu, data, bytes);
}

std::uint32_t Crc32(const std::uint8_t* data, std::int64_t bytes,
                    Parallel& parallel) {
  const int tiles = TileCount(bytes, kSmallestTile, parallel);
  std::vector<std::uint32_t> checksums(static_cast<std::size_t>(tiles));
  parallel.Run(tiles, [&](int t) {
    const Range mine = TileOf(bytes, tiles, t);
    checksums[static_cast<std::size_t>(t)] =
        Crc32(data + mine.begin, mine.end - mine.begin);
  });
  std::uint32_t crc = 0;
  for (int t = 0; t < tiles; ++t) {
    const Range mine = TileOf(bytes, tiles, t);
    crc = MovedOver(mine.end - mine.begin, crc) ^
          checksums[static_cast<std::size_t>(t)];
  }
  return crc;
}

}  // namespace fedplug
