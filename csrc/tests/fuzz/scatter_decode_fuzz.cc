// ScatterDecodeAdd and ScatterDecode on untrusted row splits and indices: a
// refusal leaves the accumulator unchanged, and accepted payloads add up as in
// the reference.
#include "core/base/parallel.h"
#include "core/scatter_decode.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/reference/reference.h"

namespace {

using fedplug::testing::FuzzInput;

// Mostly a step up, sometimes anything.
template <typename T>
std::vector<T> TakeSteps(FuzzInput* input, std::size_t count, int stride) {
  std::vector<T> values;
  T next{};
  while (values.size() < count) {
    const auto step = input->Take<std::uint8_t>();
    next = step == 255 ? static_cast<T>(input->Take<std::int64_t>())
                       : static_cast<T>(next + step % 8 * stride);
    values.push_back(next);
    next = next > 1000000 ? T{} : next;
  }
  return values;
}

// The payloads, one vector for each.
template <typename T>
std::vector<std::vector<T>> Cut(const std::vector<T>& all,
                                const std::vector<std::int64_t>& row_splits) {
  std::vector<std::vector<T>> parts;
  for (std::size_t p = 0; p + 1 < row_splits.size(); ++p) {
    parts.emplace_back(all.begin() + row_splits[p],
                       all.begin() + row_splits[p + 1]);
  }
  return parts;
}

template <typename T>
void AddAs(FuzzInput input) {
  // Up to several tiles of the kernel.
  const std::size_t n =
      input.Take<std::uint16_t>() >> (input.Take<std::uint8_t>() % 12);
  const std::size_t payloads = input.Take<std::uint8_t>() % 16;
  const std::size_t entries = input.Take<std::uint16_t>() % 2048;
  const bool weighted = input.Take<std::uint8_t>() % 2 != 0;
  const int stride = 1 << (input.Take<std::uint8_t>() % 6);
  const bool right_ends = input.Take<std::uint8_t>() % 4 != 0;
  auto row_splits = TakeSteps<std::int64_t>(&input, payloads + 1, stride);
  if (right_ends) {
    row_splits.front() = 0;
    row_splits.back() = static_cast<std::int64_t>(entries);
  }
  const auto indices = TakeSteps<std::int32_t>(&input, entries, stride);
  std::vector<T> values;
  for (std::size_t j = 0; j < entries; ++j) {
    values.push_back(static_cast<T>(j + 1));
  }
  std::vector<T> weights;
  for (std::size_t p = 0; weighted && p < payloads; ++p) {
    weights.push_back(static_cast<T>(p) + T{0.25});
  }

  const std::vector<T> before(n, T{0.5});
  const auto check = [&](auto decode, std::vector<T> start) {
    std::vector<T> sum = before;
    fedplug::Serial serial;
    const fedplug::Status status =
        decode(sum.data(), static_cast<std::int64_t>(n), values.data(),
               indices.data(), static_cast<std::int64_t>(entries),
               row_splits.data(), static_cast<std::int64_t>(payloads),
               weights.empty() ? nullptr : weights.data(), serial);
    if (status.ok()) {
      fedplug::reference::ScatterDecodeAdd(&start, Cut(values, row_splits),
                                           Cut(indices, row_splits), weights);
    }
    fedplug::testing::Require(sum == (status.ok() ? start : before),
                              "all is added, or nothing is written");
  };
  check(fedplug::ScatterDecodeAdd<T>, before);
  check(fedplug::ScatterDecode<T>, std::vector<T>(n));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  FuzzInput input(data, size);
  input.Take<std::uint8_t>() % 2 == 0 ? AddAs<float>(input)
                                      : AddAs<double>(input);
  return 0;
}
