// Gaps in an adaptive code. What was decoded last must have been encoded first,
// so the encoder first walks through the gaps and notes how likely everything
// was that it met, and then goes back.
#include <cstdint>
#include <string>
#include <vector>

#include "core/codes/gap_model.h"
#include "core/codes/index_code_bits.h"
#include "core/codes/index_code_forms.h"

namespace fedplug::index_codes {
namespace {

constexpr std::uint32_t kLowest = 1u << 16;  // of a state; all are below 2^24
constexpr int kStateBytes = 3;
constexpr int kMostRawBits = 8;  // that are coded at once

// A share of all that could have come: `frequency` of GapModel::kScale, after
// `start` others.
struct Share {
  std::uint32_t start;
  std::uint32_t frequency;
};

Share ShareOf(std::uint32_t one, int bit) {
  return bit != 0 ? Share{0, one} : Share{one, GapModel::kScale - one};
}

// Notes the shares of all bits of gaps.
class ShareWriter {
 public:
  int Bit(GapModel* model, int context, int bit) {
    shares.push_back(ShareOf(model->ProbabilityOfOne(context), bit));
    model->Learn(context, bit);
    return bit;
  }

  std::uint32_t Raw(int bits, std::uint32_t value) {
    const std::uint32_t each = GapModel::kScale >> bits;
    shares.push_back({value * each, each});
    return value;
  }

  std::vector<Share> shares;
};

// Takes bits out of a state; where bytes are missing, zeros.
class StateReader {
 public:
  // REQUIRES: bytes >= kStateBytes
  StateReader(const std::uint8_t* code, std::int64_t bytes)
      : next_(code + kStateBytes), end_(code + bytes) {
    state_ = static_cast<std::uint32_t>(code[0] | code[1] << 8 | code[2] << 16);
  }

  bool IsValid() const { return state_ >= kLowest; }
  bool IsAtEnd() const {
    return state_ == kLowest && next_ == end_ && !missed_;
  }
  bool Missed() const { return missed_; }

  int Bit(GapModel* model, int context, int) {
    const std::uint32_t one = model->ProbabilityOfOne(context);
    const int bit = state_ % GapModel::kScale < one ? 1 : 0;
    Take(ShareOf(one, bit));
    model->Learn(context, bit);
    return bit;
  }

  std::uint32_t Raw(int bits, std::uint32_t) {
    const std::uint32_t each = GapModel::kScale >> bits;
    const std::uint32_t value = state_ % GapModel::kScale / each;
    Take({value * each, each});
    return value;
  }

 private:
  void Take(Share share) {
    state_ = share.frequency * (state_ >> GapModel::kScaleBits) +
             state_ % GapModel::kScale - share.start;
    while (state_ < kLowest) {
      missed_ |= next_ == end_;
      state_ = state_ << 8 | (next_ == end_ ? 0u : *next_++);
    }
  }

  std::uint32_t state_;
  const std::uint8_t* next_;
  const std::uint8_t* end_;
  bool missed_ = false;
};

int ClassOf(std::int64_t number) {
  int e = 0;
  while (number >> (e + 1) > 0) ++e;
  return e;
}

// Codes one gap: `number` is the gap and 1, which a reader does not look at.
// Returns it.
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
  if (count == 0) return;
  GapModel model(count, size);
  ShareWriter writer;
  std::int64_t previous = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    CodeNumber(indices[i] - previous, &model, &writer);
    previous = indices[i];
  }
  std::uint32_t state = kLowest;
  std::vector<std::uint8_t> backwards;
  for (auto share = writer.shares.rbegin(); share != writer.shares.rend();
       ++share) {
    while (state >= share->frequency << 12) {
      backwards.push_back(static_cast<std::uint8_t>(state));
      state >>= 8;
    }
    state = (state / share->frequency << GapModel::kScaleBits) +
            state % share->frequency + share->start;
  }
  for (int byte = 0; byte < kStateBytes; ++byte) {
    code->push_back(static_cast<std::uint8_t>(state >> (8 * byte)));
  }
  code->insert(code->end(), backwards.rbegin(), backwards.rend());
}

Status DecodeGaps(const std::uint8_t* code, std::int64_t bytes,
                  std::int64_t count, std::int64_t size,
                  std::int32_t* indices) {
  if (count == 0) {
    return bytes == 0 ? Status()
                      : Corrupt(std::to_string(bytes) +
                                " bytes where no index was announced");
  }
  if (bytes < kStateBytes) return Corrupt("it is too short for its state");
  StateReader reader(code, bytes);
  if (!reader.IsValid()) return Corrupt("its state is below 2^16");
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
