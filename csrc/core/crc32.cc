// Slicing-by-8: eight bytes a step through eight tables, table t holding the
// effect of a byte that is followed by t zero bytes. Source: Kounavis & Berry,
// "A systematic approach to building high performance software-based CRC
// generators", ISCC 2005.
#include "core/crc32.h"

#include <array>

namespace fedplug {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320u;
constexpr int kSlices = 8;

using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
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

}  // namespace

std::uint32_t Crc32(const std::uint8_t* data, std::int64_t bytes) {
  std::uint32_t crc = 0xffffffffu;
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
  return ~crc;
}

}  // namespace fedplug
