// ScatterDecodeAdd on hostile row splits and indices: a refusal leaves the
// accumulator as it was, and what is accepted adds up as in the reference.
#include "core/parallel.h"
#include "core/reference.h"
#include "core/scatter_decode.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

// Mostly a small step up, sometimes anything.
template <typename T>
std::vector<T> TakeSteps(fedplug::testing::FuzzInput* input,
                         std::size_t count) {
  std::vector<T> values;
  T next{};
  while (values.size() < count) {
    const auto step = input->Take<std::uint8_t>();
    next = step == 255 ? static_cast<T>(input->Take<std::int64_t>())
                       : static_cast<T>(next + step % 8);
    values.push_back(next);
    next = next > 1000000 ? T{} : next;
  }
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using fedplug::testing::Require;
  fedplug::testing::FuzzInput input(data, size);
  const std::size_t n = input.Take<std::uint16_t>() % 4096;
  const std::size_t payloads = input.Take<std::uint8_t>() % 16;
  const std::size_t entries = input.Take<std::uint8_t>();
  auto row_splits = TakeSteps<std::int64_t>(&input, payloads + 1);
  if (input.Take<std::uint8_t>() % 4 != 0) {
    row_splits.front() = 0;
    row_splits.back() = static_cast<std::int64_t>(entries);
  }
  const auto indices = TakeSteps<std::int32_t>(&input, entries);
  std::vector<float> values(entries);
  for (std::size_t j = 0; j < entries; ++j) {
    values[j] = static_cast<float>(j + 1);
  }

  std::vector<float> sum(n, 0.5f);
  fedplug::Serial serial;
  const fedplug::Status status = fedplug::ScatterDecodeAdd(
      sum.data(), static_cast<std::int64_t>(n), values.data(), indices.data(),
      static_cast<std::int64_t>(entries), row_splits.data(),
      static_cast<std::int64_t>(payloads), static_cast<const float*>(nullptr),
      serial);
  std::vector<float> expected(n, 0.5f);
  if (status.ok()) {
    std::vector<std::vector<float>> payload_values;
    std::vector<std::vector<std::int32_t>> payload_indices;
    for (std::size_t p = 0; p < payloads; ++p) {
      payload_values.emplace_back(values.begin() + row_splits[p],
                                  values.begin() + row_splits[p + 1]);
      payload_indices.emplace_back(indices.begin() + row_splits[p],
                                   indices.begin() + row_splits[p + 1]);
    }
    fedplug::reference::ScatterDecodeAdd(&expected, payload_values,
                                         payload_indices, {});
  }
  Require(sum == expected, "all is added, or nothing is written");
  return 0;
}
