// Packs a few levels, which lie in the bytes of a word, the first in the lowest
// byte.
#ifndef FEDPLUG_CORE_CODES_VALUES_PACK_GROUP_H_
#define FEDPLUG_CORE_CODES_VALUES_PACK_GROUP_H_

#include <cstdint>

#include "core/base/always_inline.h"
#include "core/base/host_device.h"

namespace fedplug::value_loops {

// Makes of eight levels of `bits` bits, 2 to 8, the lowest `bits` bytes of each
// word: neighbours are moved together, first pairs, then pairs of pairs.
//
// REQUIRES: Words is std::uint64_t or a vector of it
template <typename Words>
FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE void PushEachTogether(int bits,
                                                                Words* words) {
  Words x = *words;
  x = (x & 0x00ff00ff00ff00ffu) | ((x & 0xff00ff00ff00ff00u) >> (8 - bits));
  x = (x & 0x0000ffff0000ffffu) |
      ((x & 0xffff0000ffff0000u) >> (16 - 2 * bits));
  *words = (x & 0x00000000ffffffffu) |
           ((x & 0xffffffff00000000u) >> (32 - 4 * bits));
}

FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE std::uint64_t PushTogether(
    std::uint64_t word, int bits) {
  PushEachTogether(bits, &word);
  return word;
}

// The lowest bits of eight bytes in one: the product moves byte i's to place
// 56 + i, and no two meet.
FEDPLUG_HOST_DEVICE FEDPLUG_ALWAYS_INLINE std::uint8_t PushBitsTogether(
    std::uint64_t x) {
  return static_cast<std::uint8_t>((x * 0x0102040810204080u) >> 56);
}

}  // namespace fedplug::value_loops

#endif  // FEDPLUG_CORE_CODES_VALUES_PACK_GROUP_H_
