// Both sides know the old words. So places are counted among the elements whose
// old exponents are of one class, which change about equally often.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/scratch.h"
#include "core/codes/difference/blocks.h"
#include "core/codes/difference/parts.h"
#include "core/codes/difference/steps.h"

namespace fedplug::differences {
namespace {

// Of a large segment the exponents of every sixteenth block are counted.
constexpr std::int64_t kSampled = 16;
constexpr std::int64_t kLarge = 1 << 16;

// A class and its message. Its changed elements are [first, first +
// changed) of those of the segment, sorted by class.
struct Class {
  std::int64_t exponents = 0;
  std::int64_t members = 0;
  std::int64_t changed = 0;
  std::int64_t first = 0;
};

ClassBounds BoundsOf(const std::vector<Class>& classes) {
  ClassBounds bounds;
  std::int64_t first = 0;
  for (const Class& each : classes) {
    const auto c = static_cast<std::size_t>(bounds.classes++);
    bounds.first[c] = static_cast<std::uint8_t>(first);
    first += each.exponents;
  }
  return bounds;
}

template <typename Word>
const std::uint8_t* From(const std::uint8_t* words, std::int64_t begin) {
  return words + begin * static_cast<std::int64_t>(sizeof(Word));
}

// The classes of one block of words after the other.
template <typename Word>
class BlockSorter {
 public:
  BlockSorter(ExponentField field, const ClassBounds& bounds)
      : field_(field), bounds_(bounds) {
    SimdLevel level = SimdLevel::kBaseline;
    // A refused FEDPLUG_SIMD leaves the baseline, and equal results.
    static_cast<void>(FindSimdLevel(&level));
    loop_ = ClassLoopFor(level);
  }

  // SHAPE: words[n], n <= kBlock; valid until the next call
  const BlockClasses& Sort(const std::uint8_t* words, std::int64_t n) {
    if (n == kBlock) {
      for (int i = 0; i < kBlock; ++i) SetExponent(words, i);
      loop_(exponents_.data(), bounds_, ~std::uint64_t{0}, &classes_);
    } else {
      for (int i = 0; i < n; ++i) SetExponent(words, i);
      loop_(exponents_.data(), bounds_, (std::uint64_t{1} << n) - 1, &classes_);
    }
    return classes_;
  }

 private:
  void SetExponent(const std::uint8_t* words, int i) {
    exponents_[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(
        ExponentOf(LoadWordAt<Word>(words, i), field_));
  }

  const ExponentField field_;
  const ClassBounds bounds_;
  ClassLoop* loop_;
  std::array<std::uint8_t, kBlock> exponents_{};
  BlockClasses classes_;
};

// Calls body(i) for every bit that is set.
template <typename Body>
void ForEachBit(std::uint64_t bits, const Body& body) {
  for (; bits != 0; bits &= bits - 1) body(__builtin_ctzll(bits));
}

// A bit for each of n words that differs; n <= kBlock.
template <typename Word>
std::uint64_t ChangedOf(const std::uint8_t* before, const std::uint8_t* after,
                        std::int64_t n) {
  std::array<std::uint8_t, kBlock> differs;
  const auto compare = [&](int i) {
    differs[static_cast<std::size_t>(i)] =
        LoadWordAt<Word>(before, i) != LoadWordAt<Word>(after, i);
  };
  if (n == kBlock) {
    for (int i = 0; i < kBlock; ++i) compare(i);
  } else {
    differs.fill(0);
    for (int i = 0; i < n; ++i) compare(i);
  }
  return GatheredFlags(differs.data());
}

// Sets a bit for every element that changed, flags[ceil(n / kBlock)], and
// returns the classes, without their members.
template <typename Word>
std::vector<Class> FindClasses(const std::uint8_t* before,
                               const std::uint8_t* after, std::int64_t n,
                               ExponentField field, std::uint64_t* flags) {
  std::vector<Group> groups(static_cast<std::size_t>(field.values));
  std::vector<std::uint32_t> members(groups.size());
  std::vector<std::array<std::uint32_t, Group::kSymbols>> symbols(
      groups.size());
  const std::int64_t sampled = n < kLarge ? 1 : kSampled;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::uint8_t* const old = From<Word>(before, begin);
    const std::uint8_t* const updated = From<Word>(after, begin);
    const std::int64_t size = std::min<std::int64_t>(kBlock, n - begin);
    if (begin / kBlock % sampled == 0) {
      for (std::int64_t i = 0; i < size; ++i) {
        ++members[ExponentOf(LoadWordAt<Word>(old, i), field)];
      }
    }
    flags[begin / kBlock] = ChangedOf<Word>(old, updated, size);
    ForEachBit(flags[begin / kBlock], [&](int i) {
      const Word word = LoadWordAt<Word>(old, i);
      const auto step = static_cast<Word>(LoadWordAt<Word>(updated, i) - word);
      ++symbols[ExponentOf(word, field)][std::min<std::size_t>(
          CodeStep(step).symbol, Group::kSymbols - 1)];
    });
  }
  for (std::size_t e = 0; e < groups.size(); ++e) {
    groups[e].exponents = 1;
    groups[e].members = static_cast<double>(sampled * members[e]);
    for (std::size_t i = 0; i < symbols[e].size(); ++i) {
      groups[e].symbols[i] = symbols[e][i];
      groups[e].changed += symbols[e][i];
    }
  }
  std::vector<Class> classes;
  std::int64_t first = 0;
  for (const Group& group : MergedGroups(groups)) {
    const auto its = static_cast<std::int64_t>(group.changed);
    classes.push_back({group.exponents, 0, its, first});
    first += its;
  }
  return classes;
}

Status ReadClasses(PartReader* reader, std::int64_t n, ExponentField field,
                   std::vector<Class>* classes) {
  std::int64_t count;
  if (!reader->Number(kMostClasses + 1, &count)) {
    return Corrupt("it has no valid number of classes");
  }
  std::int64_t exponents = field.values;
  std::int64_t members = n;
  std::int64_t first = 0;
  for (std::int64_t c = 0; c < count; ++c) {
    Class next;
    if (!reader->Number(exponents + 1, &next.exponents) ||
        next.exponents == 0 || !reader->Number(members + 1, &next.members) ||
        !reader->Number(next.members + 1, &next.changed)) {
      return Corrupt("class " + std::to_string(c) + " is impossible");
    }
    next.first = first;
    exponents -= next.exponents;
    members -= next.members;
    first += next.changed;
    classes->push_back(next);
  }
  if (count > 0 && (exponents != 0 || members != 0)) {
    return Corrupt("its classes are not those of all elements");
  }
  return {};
}

}  // namespace

template <typename Word>
ByteVector EncodeChanges(const std::uint8_t* before, const std::uint8_t* after,
                         std::int64_t n, ExponentField field) {
  ScratchLease scratch;
  auto* const flags =
      scratch->indices.Reserve<std::uint64_t>((n + kBlock - 1) / kBlock);
  auto classes = FindClasses<Word>(before, after, n, field, flags);
  const std::int64_t changed = classes.back().first + classes.back().changed;
  if (changed == 0) return {0};
  auto* const ranks = scratch->ranked.Reserve<std::int32_t>(changed);
  auto* const steps = scratch->values.Reserve<Word>(changed);
  std::array<std::int64_t, kMostClasses> next{};
  for (std::size_t c = 0; c < classes.size(); ++c) next[c] = classes[c].first;
  BlockSorter<Word> sorter(field, BoundsOf(classes));
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::uint8_t* const old = From<Word>(before, begin);
    const auto& block =
        sorter.Sort(old, std::min<std::int64_t>(kBlock, n - begin));
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const std::uint64_t members = block.members[c];
      ForEachBit(members & flags[begin / kBlock], [&](int i) {
        const std::uint64_t before_it = (std::uint64_t{1} << i) - 1;
        const std::int64_t to = next[c]++;
        ranks[to] = static_cast<std::int32_t>(classes[c].members +
                                              CountBits(members & before_it));
        steps[to] = static_cast<Word>(LoadWordAt<Word>(after, begin + i) -
                                      LoadWordAt<Word>(old, i));
      });
      classes[c].members += block.counts[c];
    }
  }

  ByteVector code;
  AppendNumber(static_cast<std::int64_t>(classes.size()), &code);
  for (const Class& each : classes) {
    AppendNumber(each.exponents, &code);
    AppendNumber(each.members, &code);
    AppendNumber(each.changed, &code);
  }
  for (const Class& each : classes) {
    if (each.changed == 0) continue;
    AppendRanks(ranks + each.first, each.changed, each.members, &code);
    AppendSteps(steps + each.first, each.changed, &code);
  }
  return code;
}

template <typename Word>
Status DecodeChanges(Part code, const std::uint8_t* before, std::int64_t n,
                     ExponentField field, std::uint8_t* after) {
  PartReader reader(code);
  std::vector<Class> classes;
  if (Status status = ReadClasses(&reader, n, field, &classes); !status.ok()) {
    return status;
  }
  const std::int64_t changed =
      classes.empty() ? 0 : classes.back().first + classes.back().changed;
  ScratchLease scratch;
  auto* const ranks = scratch->ranked.Reserve<std::int32_t>(changed);
  auto* const steps = scratch->values.Reserve<Word>(changed);
  for (const Class& each : classes) {
    if (each.changed == 0) continue;
    Status status =
        ReadRanks(&reader, each.changed, each.members, ranks + each.first);
    if (status.ok()) {
      status = ReadSteps(&reader, each.changed, steps + each.first);
    }
    if (!status.ok()) return status;
  }
  if (!reader.IsAtEnd()) return Corrupt("bytes follow its classes");
  std::memcpy(after, before, static_cast<std::size_t>(n) * sizeof(Word));
  if (classes.empty()) return {};

  // Of every class, the number of members before its next changed one.
  std::array<std::int64_t, kMostClasses> until{};
  std::array<std::int64_t, kMostClasses> next{};
  const auto find_next = [&](std::size_t c, std::int64_t members) {
    const bool is_last = next[c] == classes[c].first + classes[c].changed;
    until[c] = is_last ? n : ranks[next[c]] - members;
  };
  std::array<std::int64_t, kMostClasses> seen{};
  for (std::size_t c = 0; c < classes.size(); ++c) {
    next[c] = classes[c].first;
    find_next(c, 0);
  }
  BlockSorter<Word> sorter(field, BoundsOf(classes));
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const auto& block = sorter.Sort(From<Word>(before, begin),
                                    std::min<std::int64_t>(kBlock, n - begin));
    for (std::size_t c = 0; c < classes.size(); ++c) {
      while (until[c] < block.counts[c]) {
        const std::int64_t place =
            begin + SelectBit(block.members[c], static_cast<int>(until[c]));
        StoreWordAt(
            after, place,
            static_cast<Word>(LoadWordAt<Word>(after, place) + steps[next[c]]));
        ++next[c];
        find_next(c, seen[c]);
      }
      until[c] -= block.counts[c];
      seen[c] += block.counts[c];
    }
  }
  for (std::size_t c = 0; c < classes.size(); ++c) {
    if (seen[c] != classes[c].members) {
      return Corrupt("class " + std::to_string(c) + " has " +
                     std::to_string(seen[c]) + " elements, not " +
                     std::to_string(classes[c].members));
    }
  }
  return {};
}

#define FEDPLUG_INSTANTIATE(Word)                                              \
  template ByteVector EncodeChanges<Word>(                                     \
      const std::uint8_t*, const std::uint8_t*, std::int64_t, ExponentField);  \
  template Status DecodeChanges<Word>(Part, const std::uint8_t*, std::int64_t, \
                                      ExponentField, std::uint8_t*)
FEDPLUG_INSTANTIATE(std::uint8_t);
FEDPLUG_INSTANTIATE(std::uint16_t);
FEDPLUG_INSTANTIATE(std::uint32_t);
FEDPLUG_INSTANTIATE(std::uint64_t);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug::differences
