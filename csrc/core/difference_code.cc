#include "core/difference_code.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "core/codes/difference/parts.h"

namespace fedplug {
namespace {

using differences::ByteVector;
using differences::Corrupt;
using differences::ExponentField;
using differences::Part;

constexpr std::int64_t kSegment = std::int64_t{1} << 23;
constexpr std::uint8_t kPlanes = 0;
constexpr std::uint8_t kChanges = 1;
constexpr int kMostExponentBits = 8;  // the lowest ones

bool HasExponent(ElementLayout layout) {
  return layout.mantissa < 8 * layout.bytes - 1;
}

ExponentField FieldOf(ElementLayout layout) {
  return {static_cast<int>(layout.mantissa),
          1 << std::min<std::int64_t>(kMostExponentBits,
                                      8 * layout.bytes - 1 - layout.mantissa)};
}

// Calls body(Word{}) with the unsigned integer of an element's width.
template <typename Body>
auto WithWord(std::int64_t bytes, const Body& body) {
  if (bytes == 1) return body(std::uint8_t{});
  if (bytes == 2) return body(std::uint16_t{});
  if (bytes == 4) return body(std::uint32_t{});
  return body(std::uint64_t{});
}

// The elements [begin, begin + size) of segment s.
struct Segment {
  std::int64_t offset;  // in bytes
  std::int64_t size;
};

Segment SegmentAt(std::int64_t s, std::int64_t count, ElementLayout layout) {
  return {s * kSegment * layout.bytes,
          std::min(kSegment, count - s * kSegment)};
}

ByteVector EncodeSegment(const std::uint8_t* before, const std::uint8_t* after,
                         std::int64_t size, ElementLayout layout) {
  ByteVector changes;
  if (before != nullptr) {
    changes = WithWord(layout.bytes, [&](auto zero) {
      return differences::EncodeChanges<decltype(zero)>(before, after, size,
                                                        FieldOf(layout));
    });
    // Planes of a model in training are no shorter than half of it.
    if (2 * static_cast<std::int64_t>(changes.size()) < size * layout.bytes) {
      changes.insert(changes.begin(), kChanges);
      return changes;
    }
  }
  ByteVector planes = WithWord(layout.bytes, [&](auto zero) {
    return differences::EncodePlanes<decltype(zero)>(after, size,
                                                     HasExponent(layout));
  });
  const bool is_changes = before != nullptr && changes.size() <= planes.size();
  ByteVector& shorter = is_changes ? changes : planes;
  shorter.insert(shorter.begin(), is_changes ? kChanges : kPlanes);
  return std::move(shorter);
}

Status DecodeSegment(Part code, const std::uint8_t* before, std::int64_t size,
                     ElementLayout layout, std::uint8_t* after) {
  if (code.bytes < 1) return Corrupt("a segment is empty");
  const Part rest{code.data + 1, code.bytes - 1};
  if (code.data[0] == kPlanes) {
    return WithWord(layout.bytes, [&](auto zero) {
      return differences::DecodePlanes<decltype(zero)>(
          rest, size, HasExponent(layout), after);
    });
  }
  if (code.data[0] != kChanges || before == nullptr) {
    return Corrupt("a segment is of kind " + std::to_string(code.data[0]));
  }
  return WithWord(layout.bytes, [&](auto zero) {
    return differences::DecodeChanges<decltype(zero)>(rest, before, size,
                                                      FieldOf(layout), after);
  });
}

}  // namespace

Status CheckElements(ElementLayout layout, std::int64_t count) {
  const auto& [bytes, mantissa] = layout;
  const bool is_word = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  if (!is_word || mantissa < 0 || mantissa > 8 * bytes - 1) {
    return {StatusCode::kInvalidArgument,
            "elements of " + std::to_string(bytes) + " bytes with " +
                std::to_string(mantissa) +
                " bits below their exponent have no difference code"};
  }
  if (count < 0 || count > INT64_MAX / 16) {
    return {StatusCode::kInvalidArgument,
            "count is " + std::to_string(count) + "; no array is as large"};
  }
  return {};
}

Status EncodeDifference(const std::uint8_t* before, const std::uint8_t* after,
                        std::int64_t count, ElementLayout layout,
                        Parallel& threads, std::vector<std::uint8_t>* code) {
  if (Status status = CheckElements(layout, count); !status.ok()) return status;
  const std::int64_t segments = (count + kSegment - 1) / kSegment;
  std::vector<ByteVector> codes(static_cast<std::size_t>(segments));
  threads.Run(static_cast<int>(segments), [&](int s) {
    const auto [offset, size] = SegmentAt(s, count, layout);
    codes[static_cast<std::size_t>(s)] =
        EncodeSegment(before == nullptr ? nullptr : before + offset,
                      after + offset, size, layout);
  });
  code->clear();
  for (const ByteVector& each : codes) differences::AppendPart(each, code);
  return {};
}

Status DecodeDifference(const std::uint8_t* code, std::int64_t bytes,
                        const std::uint8_t* before, std::int64_t count,
                        ElementLayout layout, Parallel& threads,
                        std::uint8_t* after) {
  if (Status status = CheckElements(layout, count); !status.ok()) return status;
  differences::PartReader reader({code, bytes});
  std::vector<Part> parts;
  for (std::int64_t at = 0; at < count; at += kSegment) {
    Part part;
    if (!reader.Next(&part)) return Corrupt("it ends before its segments");
    parts.push_back(part);
  }
  if (!reader.IsAtEnd()) return Corrupt("bytes follow its segments");
  std::vector<Status> statuses(parts.size());
  threads.Run(static_cast<int>(parts.size()), [&](int s) {
    const auto [offset, size] = SegmentAt(s, count, layout);
    const auto i = static_cast<std::size_t>(s);
    statuses[i] =
        DecodeSegment(parts[i], before == nullptr ? nullptr : before + offset,
                      size, layout, after + offset);
  });
  const auto refused =
      std::find_if(statuses.begin(), statuses.end(),
                   [](const Status& status) { return !status.ok(); });
  return refused == statuses.end() ? Status() : *refused;
}

}  // namespace fedplug
