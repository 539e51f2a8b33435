// Gaps in an adaptive code.
#include <cstdint>
#include <string>
#include <vector>

#include "core/codes/indices/bits.h"
#include "core/codes/indices/forms.h"
#include "core/codes/indices/gap_model.h"

namespace fedplug::index_codes {
namespace {

constexpr int kMostRawBits = 8;  // that are coded at once

int ClassOf(std::int64_t number) {
  int e = 0;
  while (number >> (e + 1) > 0) ++e;
  return e;
}

// Codes one gap: `number` is the gap plus 1, which a reader ignores. Returns
// it.
template <typename Coder>
std::int64_t CodeNumber(std::int64_t number, GapModel* model, Coder* coder) {
  const int wanted = ClassOf(number);
  int node = 1;
  int e = 0;
  for (int width = 16; width > 0; width /= 2) {
    const int above = model->MayBe(e + width)
                          ? coder->Bit(model, node, (wanted & width) != 0)
                          : 0;
    node = 2 * node + above;
    e += above * width;
  }
  const auto bit_of = [number](int place) {
    return place < 0 ? 0 : static_cast<int>(number >> place & 1);
  };
  std::int64_t read = 1;
  int left = e;
  if (left > 0) {
    const int half = coder->Bit(model, GapModel::HalfOf(e), bit_of(--left));
    read = 2 * read + half;
    if (left > 0) {
      read = 2 * read +
             coder->Bit(model, GapModel::QuarterOf(e, half), bit_of(--left));
    }
  }
  while (left > 0) {
    const int bits = left < kMostRawBits ? left : kMostRawBits;
    left -= bits;
    read = read << bits |
           coder->Raw(bits, static_cast<std::uint32_t>(number >> left) &
                                ((1u << bits) - 1));
  }
  return read;
}

}  // namespace

void EncodeGaps(const std::int32_t* indices, std::int64_t count,
                std::int64_t size, std::vector<std::uint8_t>* code) {
  GapModel model(count, size);
  adaptive_bits::Writer writer;
  std::int64_t previous = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    CodeNumber(indices[i] - previous, &model, &writer);
    previous = indices[i];
  }
  writer.AppendTo(code);
}

Status DecodeGaps(const std::uint8_t* code, std::int64_t bytes,
                  std::int64_t count, std::int64_t size,
                  std::int32_t* indices) {
  if (bytes < adaptive_bits::kStateBytes) {
    return Corrupt("it is too short for its state");
  }
  adaptive_bits::Reader reader(code, bytes);
  if (!reader.Begin()) return Corrupt("its state is below 2^16");
  GapModel model(count, size);
  std::int64_t previous = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = previous + CodeNumber(1, &model, &reader);
    if (reader.Missed()) {
      return Corrupt("it ends after " + std::to_string(i) + " of " +
                     std::to_string(count) + " indices");
    }
    if (index >= size) {
      return Corrupt("index " + std::to_string(i) + " is not below " +
                     std::to_string(size));
    }
    indices[i] = static_cast<std::int32_t>(index);
    previous = index;
  }
  if (!reader.IsAtEnd()) return Corrupt("it does not end with its indices");
  return {};
}

}  // namespace fedplug::index_codes
