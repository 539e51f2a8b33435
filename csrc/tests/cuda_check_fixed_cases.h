// Test cases of payloads of a fixed size, compared with those of the core for
// the same selection.
#ifndef FEDPLUG_TESTS_CUDA_CHECK_FIXED_CASES_H_
#define FEDPLUG_TESTS_CUDA_CHECK_FIXED_CASES_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/chunked_topk_residual.h"
#include "core/sparse_form.h"
#include "core/value_code.h"
#include "cuda/fixed_payload.h"
#include "tests/cuda_check_device.cuh"
#include "tests/kernel_inputs.h"

namespace fedplug::testing {

struct FixedInput {
  cuda::FixedForm form;
  std::vector<float> delta;
  std::vector<float> residual;
  float decay = 0.9f;
};

struct FixedOutput {
  std::vector<std::uint8_t> payload;
  std::vector<float> residual;
  bool refused;
};

inline FixedInput RandomFixedInput(const cuda::FixedForm& form, Fill fill,
                                   Random& random) {
  return {form, RandomVector<float>(form.n, fill, random),
          RandomVector<float>(form.n, fill, random)};
}

// The chunk, and the offset of each index in its chunk.
inline std::vector<std::uint8_t> OffsetCode(
    const std::vector<std::int32_t>& indices, std::int64_t chunk) {
  int width = 0;
  while (((chunk - 1) >> width) > 0) ++width;
  const auto count = static_cast<std::int64_t>(indices.size());
  std::vector<std::uint8_t> code(
      static_cast<std::size_t>(4 + BytesFor(count * width)));
  for (std::size_t i = 0; i < 4; ++i) {
    code[i] = static_cast<std::uint8_t>(chunk >> (8 * i));
  }
  for (std::int64_t bit = 0; bit < count * width; ++bit) {
    const std::int64_t offset =
        indices[static_cast<std::size_t>(bit / width)] % chunk;
    const auto yes = static_cast<unsigned>((offset >> (bit % width)) & 1);
    code[static_cast<std::size_t>(4 + bit / 8)] |=
        static_cast<std::uint8_t>(yes << (bit % 8));
  }
  return code;
}

// The payload, and in `decoded` the array that a receiver gets.
inline FixedOutput EncodedByTheCore(const FixedInput& input,
                                    std::vector<float>* decoded) {
  const auto& [n, k, chunk, bits, sent] = input.form;
  const FixedOutput refused = {
      std::vector<std::uint8_t>(
          static_cast<std::size_t>(cuda::FixedPayloadBytes(input.form))),
      input.residual, true};
  decoded->assign(input.delta.size(), 0);
  Serial serial;
  const std::int64_t entries = ChunkedEntries(n, k, chunk);
  std::vector<float> values(static_cast<std::size_t>(entries));
  std::vector<std::int32_t> indices(values.size());
  std::vector<float> residual(input.delta.size());
  std::int64_t non_finite = 0;
  const Status selected = ChunkedTopKResidual(
      input.delta.data(), input.residual.data(), residual.data(), n, k, chunk,
      input.decay, serial, values.data(), indices.data(), &non_finite);
  if (!selected.ok()) return refused;
  std::vector<float> received = values;
  std::vector<std::uint8_t> code(values.size() * sizeof(float));
  if (bits > 0) {
    const ValueCode book{ValueForm::kCodebook, bits};
    code.resize(
        static_cast<std::size_t>(ValueCodeBytes(book, entries, sizeof(float))));
    Check(EncodeValues(values.data(), entries, book, 0, serial, code.data(),
                       &non_finite));
    Check(DecodeValues(code.data(), static_cast<std::int64_t>(code.size()),
                       entries, book, serial, received.data()));
  } else if (entries > 0) {
    std::memcpy(code.data(), values.data(), code.size());
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float lost = values[i] - received[i];
    if (!std::isfinite(lost)) return refused;
    residual[static_cast<std::size_t>(indices[i])] += lost;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    (*decoded)[static_cast<std::size_t>(indices[i])] = received[i];
  }
  const auto offsets = OffsetCode(indices, chunk);
  const auto code_bytes = static_cast<std::int64_t>(offsets.size());
  const auto value_bytes = static_cast<std::int64_t>(code.size());
  std::vector<std::uint8_t> body(static_cast<std::size_t>(
      SparseBodyBytes(entries, code_bytes, value_bytes)));
  WriteSparseBody(entries, offsets.data(), code_bytes, code.data(), value_bytes,
                  body.data());
  return {body, residual, false};
}

inline FixedOutput EncodedByTheGpu(const FixedInput& input) {
  const auto n = input.delta.size();
  const DeviceArray<float> delta(input.delta);
  const DeviceArray<float> before(input.residual);
  const DeviceArray<float> after(n);
  const DeviceArray<std::byte> workspace(
      cuda::FixedEncodeWorkspaceBytes(input.form));
  const DeviceArray<std::uint8_t> payload(
      static_cast<std::size_t>(cuda::FixedPayloadBytes(input.form)));
  const DeviceArray<cuda::NonFiniteCount> non_finite(1);
  Check(cuda::QueueFixedEncode(input.form, delta.data(), before.data(),
                               after.data(), input.decay, workspace.data(),
                               payload.data(), non_finite.data(), nullptr));
  return {payload.ToVector(), after.ToVector(),
          non_finite.ToVector()[0].count > 0};
}

// Returns the payload.
inline std::vector<std::uint8_t> ExpectEncodedAsByTheCore(
    const FixedInput& input, std::vector<float>* decoded) {
  const FixedOutput expected = EncodedByTheCore(input, decoded);
  const FixedOutput actual = EncodedByTheGpu(input);
  EXPECT_EQ(actual.payload, expected.payload);
  EXPECT_EQ(BitsOf(actual.residual), BitsOf(expected.residual));
  EXPECT_EQ(actual.refused, expected.refused);
  return expected.payload;
}

inline std::vector<float> MeanOfTheGpu(
    const cuda::FixedForm& form,
    const std::vector<std::vector<std::uint8_t>>& payloads) {
  std::vector<std::uint8_t> all;
  for (const auto& each : payloads) {
    all.insert(all.end(), each.begin(), each.end());
  }
  const auto count = static_cast<std::int64_t>(payloads.size());
  const DeviceArray<std::uint8_t> data(all);
  const DeviceArray<std::byte> workspace(
      cuda::FixedMeanWorkspaceBytes(form, count));
  const DeviceArray<float> mean(static_cast<std::size_t>(form.n));
  Check(cuda::QueueFixedMean(form, data.data(), count, workspace.data(),
                             mean.data(), nullptr));
  return mean.ToVector();
}

// Two tensors of a form with a refused one between them, and then a payload
// whose number of entries is wrong.
inline void ExpectMeanOfTheCore(const FixedInput& one,
                                const FixedInput& other) {
  std::vector<float> a;
  std::vector<float> b;
  const auto first = ExpectEncodedAsByTheCore(one, &a);
  const auto last = ExpectEncodedAsByTheCore(other, &b);
  std::vector<float> mean;
  for (std::size_t i = 0; i < a.size(); ++i) {
    mean.push_back((0.0f + a[i] + b[i]) / 3.0f);
  }
  const std::vector<std::uint8_t> zeros(first.size());
  EXPECT_EQ(BitsOf(MeanOfTheGpu(one.form, {first, zeros, last})), BitsOf(mean));
  auto wrong = last;
  if (wrong[0] <= 1) return;  // zeros count as refused
  wrong[0] ^= 1;
  for (const float each : MeanOfTheGpu(one.form, {first, wrong})) {
    EXPECT_TRUE(std::isnan(each));
  }
}

inline void FixedPayloadsEqualTheCore() {
  constexpr cuda::FixedForm kForms[] = {
      {0, 3, 10, 2},        {1, 1, 2, 0},       {50, 3, 10, 8},
      {9000, 64, 4096, 2},  {8197, 7, 5000, 0}, {20000, 1024, 2048, 3},
      {3000, 3000, 9000, 1}};
  Random random(31);
  for (const cuda::FixedForm& form : kForms) {
    for (const Fill fill : {Fill::kNormal, Fill::kFewLevels, Fill::kZeros,
                            Fill::kDenormal, Fill::kAnyFinite}) {
      SCOPED_TRACE("n " + std::to_string(form.n) + ", bits " +
                   std::to_string(form.bits) + ", fill " +
                   std::to_string(static_cast<int>(fill)));
      FixedInput other = RandomFixedInput(form, fill, random);
      ExpectMeanOfTheCore(RandomFixedInput(form, fill, random), other);
      if (form.n == 0) continue;
      other.delta[static_cast<std::size_t>(form.n / 2)] =
          std::numeric_limits<float>::infinity();
      std::vector<float> decoded;
      ExpectEncodedAsByTheCore(other, &decoded);
    }
  }
}

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_CUDA_CHECK_FIXED_CASES_H_
